"""Continuous time: vector fields, the inputs that drive them, and the clocks these run on."""

from ctrnn.neighbours import refuse_others as _refuse_others

_refuse_others()

from ctrnn.lazy import public_names as _public_names  # noqa: E402

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
