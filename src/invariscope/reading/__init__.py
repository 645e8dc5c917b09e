"""From a user's file or table to numbers with names: types, categories, missing values, groups of environments."""

from invariscope.reading.dataset import Dataset
from invariscope.reading.options import ReadOptions
from invariscope.reading.read import read

__all__ = ["Dataset", "ReadOptions", "read"]
