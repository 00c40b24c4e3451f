"""Run whole sequences and whole solves in one call, by kernels that are written for the code of a field."""
