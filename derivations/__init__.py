"""The papers' equations checked by SymPy, and the torch code proved equal to them."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from derivations.agreement import UnknownOperation as UnknownOperation
    from derivations.agreement import agreement_identities as agreement_identities
    from derivations.agreement import symbolic as symbolic
    from derivations.agreement import verify as verify
    from derivations.argument.clocks import Clock as Clock
    from derivations.argument.clocks import change_of_time as change_of_time
    from derivations.argument.clocks import clock as clock
    from derivations.argument.core import check_all as check_all
    from derivations.argument.core import core_identities as core_identities
    from derivations.argument.power_decay import misprints as misprints
    from derivations.argument.taylor import dropped as dropped
    from derivations.argument.taylor import euler_step as euler_step
    from derivations.book import ledger as ledger
    from derivations.claim import Claim as Claim
    from derivations.closure import Closure as Closure
    from derivations.closure import UnknownRate as UnknownRate
    from derivations.closure import closed_under as closed_under
    from derivations.prover.identity import Identity as Identity
    from derivations.prover.identity import Verdict as Verdict
    from derivations.prover.identity import check as check
    from derivations.twins.fields import SymbolicField as SymbolicField

# The public names in the order one would learn them, by the file they live in. None may be a file's name: once imported,
# derivations.argument.leaky is the file.
_HOMES = {
    "book": ("ledger",),
    "claim": ("Claim",),
    "closure": ("closed_under", "Closure", "UnknownRate"),
    "argument.core": ("core_identities", "check_all"),
    "prover.identity": ("Identity", "check", "Verdict"),
    "twins.fields": ("SymbolicField",),
    "argument.clocks": ("change_of_time", "clock", "Clock"),
    "argument.taylor": ("euler_step", "dropped"),
    "agreement": ("symbolic", "verify", "UnknownOperation", "agreement_identities"),
    "argument.power_decay": ("misprints",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
