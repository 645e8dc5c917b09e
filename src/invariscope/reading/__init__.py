"""From a user's file or table to numbers with names: types, categories, missing values, groups of environments."""
