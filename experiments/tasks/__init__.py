"""Defines tasks to be learned: made sequences and recorded ones, with their losses and baselines."""
