"""Real tables, one file each."""
