"""Random numbers in fields, and dropout with masks that stay for a solve."""
