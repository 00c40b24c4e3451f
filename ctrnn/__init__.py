"""Continuous time: vector fields, the inputs that drive them, and the clocks these run on."""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from ctrnn.clocks.warped_path import WarpedPath as WarpedPath
    from ctrnn.clocks.warps import AffineWarp as AffineWarp
    from ctrnn.clocks.warps import PiecewiseWarp as PiecewiseWarp
    from ctrnn.clocks.warps import SmoothWarp as SmoothWarp
    from ctrnn.clocks.warps import Warp as Warp
    from ctrnn.driven import Driven as Driven
    from ctrnn.fields.candidates import ResetCandidate as ResetCandidate
    from ctrnn.fields.candidates import TanhCandidate as TanhCandidate
    from ctrnn.fields.conversion import from_torch as from_torch
    from ctrnn.fields.conversion import to_torch as to_torch
    from ctrnn.fields.decays import Decay as Decay
    from ctrnn.fields.decays import LinearDecay as LinearDecay
    from ctrnn.fields.decays import PowerDecay as PowerDecay
    from ctrnn.fields.field import VectorField as VectorField
    from ctrnn.fields.lstm import LSTMField as LSTMField
    from ctrnn.fields.named import gated as gated
    from ctrnn.fields.named import gru as gru
    from ctrnn.fields.named import leaky as leaky
    from ctrnn.fields.named import lstm as lstm
    from ctrnn.fields.named import plain as plain
    from ctrnn.fields.network_gate import NetworkGated as NetworkGated
    from ctrnn.fields.parts import Affine as Affine
    from ctrnn.fields.parts import Part as Part
    from ctrnn.fields.positive_rates import ExponentialRate as ExponentialRate
    from ctrnn.fields.positive_rates import GlobalExponentialRate as GlobalExponentialRate
    from ctrnn.fields.positive_rates import GlobalSoftplusRate as GlobalSoftplusRate
    from ctrnn.fields.positive_rates import SoftplusConstantRate as SoftplusConstantRate
    from ctrnn.fields.positive_rates import SoftplusRate as SoftplusRate
    from ctrnn.fields.positive_rates import softplus_clock as softplus_clock
    from ctrnn.fields.rates import ConstantRate as ConstantRate
    from ctrnn.fields.rates import FixedRate as FixedRate
    from ctrnn.fields.rates import GateRate as GateRate
    from ctrnn.fields.rates import GlobalGateRate as GlobalGateRate
    from ctrnn.fields.rates import SigmoidConstantRate as SigmoidConstantRate
    from ctrnn.fields.relaxation import Relaxation as Relaxation
    from ctrnn.fields.stack import Stack as Stack
    from ctrnn.fields.timescales import timescales as timescales
    from ctrnn.inputs.function import FunctionPath as FunctionPath
    from ctrnn.inputs.hermite import HermitePath as HermitePath
    from ctrnn.inputs.missing import hold_missing as hold_missing
    from ctrnn.inputs.paths import HeldPath as HeldPath
    from ctrnn.inputs.paths import LinearPath as LinearPath
    from ctrnn.inputs.paths import Path as Path

# The public names in the order one would learn them, by the file they live in.
_HOMES = {
    "fields.named": (
        "plain",
        "leaky",
        "gated",
        "gru",
        "lstm",
    ),
    "fields.conversion": (
        "from_torch",
        "to_torch",
    ),
    "fields.field": ("VectorField",),
    "fields.relaxation": ("Relaxation",),
    "fields.stack": ("Stack",),
    "fields.candidates": (
        "TanhCandidate",
        "ResetCandidate",
    ),
    "fields.rates": (
        "FixedRate",
        "ConstantRate",
        "SigmoidConstantRate",
        "GateRate",
        "GlobalGateRate",
    ),
    "fields.positive_rates": (
        "SoftplusRate",
        "GlobalSoftplusRate",
        "ExponentialRate",
        "GlobalExponentialRate",
        "SoftplusConstantRate",
        "softplus_clock",
    ),
    "fields.decays": (
        "LinearDecay",
        "PowerDecay",
        "Decay",
    ),
    "fields.parts": (
        "Part",
        "Affine",
    ),
    "fields.lstm": ("LSTMField",),
    "fields.network_gate": ("NetworkGated",),
    "inputs.paths": (
        "HeldPath",
        "LinearPath",
        "Path",
    ),
    "inputs.hermite": ("HermitePath",),
    "inputs.function": ("FunctionPath",),
    "inputs.missing": ("hold_missing",),
    "clocks.warps": (
        "AffineWarp",
        "PiecewiseWarp",
        "SmoothWarp",
        "Warp",
    ),
    "clocks.warped_path": ("WarpedPath",),
    "driven": ("Driven",),
    "fields.timescales": ("timescales",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)

# A module, as in torch.nn: ctrnn.init.chrono_.
init: _ModuleType


def __getattr__(name: str) -> object:
    if name == "init":
        return _import_module(f"{__name__}.init")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "init"])
