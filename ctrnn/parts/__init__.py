"""What fields are made of: candidates, rates, decays, constraints of weights, masks, and the interface of parts."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
