"""Inputs as functions of time: samples and their times, and the paths through them."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
