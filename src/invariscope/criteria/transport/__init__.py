"""Transport gap: the mean outcome of one environment, predicted by another's relation."""
