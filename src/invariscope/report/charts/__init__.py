"""Charts of the page: each draws the numbers of one part. Only here is Altair imported."""
