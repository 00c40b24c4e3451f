"""Analysis of discretized models: stability regions, a monitor of step sizes, refinement towards the exact solution."""
