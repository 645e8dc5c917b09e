"""What an audit has, does and says."""
