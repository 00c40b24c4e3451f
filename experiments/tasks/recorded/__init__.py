"""Defines tasks on recorded sequences, from a folder that the user names."""
