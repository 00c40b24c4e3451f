"""Run fields over whole sequences: cells, unroll and sequence modules, ragged batches and time stamps."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
