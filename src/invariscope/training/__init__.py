"""Training: networks in two halves, one loop for all objectives, many models at once."""

from invariscope.training.loop import Settings
from invariscope.training.replicates import Replicates, train_replicates
from invariscope.training.rows import Rows
from invariscope.training.schedule import Schedule
from invariscope.training.train import Trained, train

__all__ = ["Replicates", "Rows", "Schedule", "Settings", "Trained", "train", "train_replicates"]
