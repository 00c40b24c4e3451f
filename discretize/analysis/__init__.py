"""Analysis of discretized models: stability regions, a monitor of step sizes, refinement towards the exact solution."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
