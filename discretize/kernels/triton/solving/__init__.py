"""Adaptive solves by kernels in Triton: their text, by explicit methods and by a Rosenbrock pair, and how they are run."""
