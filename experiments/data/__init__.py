"""Readers of recorded data sets, a file each, from a folder that the user names."""
