"""Continuous time: vector fields, the inputs that drive them, and the clocks these run on."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
