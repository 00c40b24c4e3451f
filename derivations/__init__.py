"""The papers' equations proved or refuted, and the torch code proved equal to equations."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
