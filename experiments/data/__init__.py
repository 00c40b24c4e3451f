"""Recorded sequences of natural lengths and times, read from a folder that the user names; a data set a file."""
