"""One-step maps from (input, state, dt) to the next state: explicit, exponential, implicit and split, a file a family."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
