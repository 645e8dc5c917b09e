"""What others compare environments by: two-sample and independence tests, classifiers of the environment."""
