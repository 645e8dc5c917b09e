"""Many models on the same rows: which of them passes, and why the others do not."""
