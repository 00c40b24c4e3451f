"""Continuous time: vector fields, the inputs that drive them, and the clocks these run on."""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from ctrnn.candidates import ResetCandidate as ResetCandidate
    from ctrnn.candidates import TanhCandidate as TanhCandidate
    from ctrnn.cells import gated as gated
    from ctrnn.cells import gru as gru
    from ctrnn.cells import leaky as leaky
    from ctrnn.cells import lstm as lstm
    from ctrnn.cells import plain as plain
    from ctrnn.convert import from_torch as from_torch
    from ctrnn.convert import to_torch as to_torch
    from ctrnn.decays import Decay as Decay
    from ctrnn.decays import LinearDecay as LinearDecay
    from ctrnn.decays import PowerDecay as PowerDecay
    from ctrnn.driven import Driven as Driven
    from ctrnn.field import VectorField as VectorField
    from ctrnn.forgetting import timescales as timescales
    from ctrnn.function_path import FunctionPath as FunctionPath
    from ctrnn.hermite import HermitePath as HermitePath
    from ctrnn.lstm_field import LSTMField as LSTMField
    from ctrnn.missing import hold_missing as hold_missing
    from ctrnn.network_gated import NetworkGated as NetworkGated
    from ctrnn.parts import Affine as Affine
    from ctrnn.parts import Part as Part
    from ctrnn.paths import HeldPath as HeldPath
    from ctrnn.paths import LinearPath as LinearPath
    from ctrnn.paths import Path as Path
    from ctrnn.positive_rates import ExponentialRate as ExponentialRate
    from ctrnn.positive_rates import GlobalExponentialRate as GlobalExponentialRate
    from ctrnn.positive_rates import GlobalSoftplusRate as GlobalSoftplusRate
    from ctrnn.positive_rates import SoftplusConstantRate as SoftplusConstantRate
    from ctrnn.positive_rates import SoftplusRate as SoftplusRate
    from ctrnn.positive_rates import softplus_clock as softplus_clock
    from ctrnn.rates import ConstantRate as ConstantRate
    from ctrnn.rates import FixedRate as FixedRate
    from ctrnn.rates import GateRate as GateRate
    from ctrnn.rates import GlobalGateRate as GlobalGateRate
    from ctrnn.rates import SigmoidConstantRate as SigmoidConstantRate
    from ctrnn.relaxation import Relaxation as Relaxation
    from ctrnn.stacked import Stack as Stack
    from ctrnn.warped import WarpedPath as WarpedPath
    from ctrnn.warps import AffineWarp as AffineWarp
    from ctrnn.warps import PiecewiseWarp as PiecewiseWarp
    from ctrnn.warps import SmoothWarp as SmoothWarp
    from ctrnn.warps import Warp as Warp

# The public names in the order one would learn them, by the file they live in.
_HOMES = {
    "cells": (
        "plain",
        "leaky",
        "gated",
        "gru",
        "lstm",
    ),
    "convert": (
        "from_torch",
        "to_torch",
    ),
    "field": ("VectorField",),
    "relaxation": ("Relaxation",),
    "stacked": ("Stack",),
    "candidates": (
        "TanhCandidate",
        "ResetCandidate",
    ),
    "rates": (
        "FixedRate",
        "ConstantRate",
        "SigmoidConstantRate",
        "GateRate",
        "GlobalGateRate",
    ),
    "positive_rates": (
        "SoftplusRate",
        "GlobalSoftplusRate",
        "ExponentialRate",
        "GlobalExponentialRate",
        "SoftplusConstantRate",
        "softplus_clock",
    ),
    "decays": (
        "LinearDecay",
        "PowerDecay",
        "Decay",
    ),
    "parts": (
        "Part",
        "Affine",
    ),
    "lstm_field": ("LSTMField",),
    "network_gated": ("NetworkGated",),
    "paths": (
        "HeldPath",
        "LinearPath",
        "Path",
    ),
    "hermite": ("HermitePath",),
    "function_path": ("FunctionPath",),
    "missing": ("hold_missing",),
    "warps": (
        "AffineWarp",
        "PiecewiseWarp",
        "SmoothWarp",
        "Warp",
    ),
    "warped": ("WarpedPath",),
    "driven": ("Driven",),
    "forgetting": ("timescales",),
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
