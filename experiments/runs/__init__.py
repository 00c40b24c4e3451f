"""Carries out one run: its configuration, the training loop, and the folder that survives a kill."""
