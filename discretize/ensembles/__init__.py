"""Many networks of one code, their weights stacked, in one call."""
