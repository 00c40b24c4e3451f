"""The papers' equations checked by SymPy, and the torch code proved equal to them."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
