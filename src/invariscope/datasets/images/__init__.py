"""Images with environments, as flat tables of pixels."""
