"""Sequences observed at times of their own: between observations the state runs by its field, at each one it jumps."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
