"""From vector fields to sequences of states: one-step maps, sequence modules, exact integration."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
