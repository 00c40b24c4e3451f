"""One table of methods by name: what `step=` and `method=` take, and what they say of anything else.

dopri5 ... rodas5p          embedded pairs, which choose their steps as a method, and take one of length dt as a step
euler ... rk4               fixed steps; as a method they read the input where it is at each stage
exponential-euler ...       every step map by its dashed name, which as its object holds the input over a step
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable

import discretize.steps
from discretize.solvers.adaptive import ADAPTIVE_METHODS
from discretize.solvers.fixed import FIXED_METHODS
from discretize.steps.catalog import dashed, step_names, stochastic_step_names
from discretize.steps.step import Step

__all__ = ["checked_method", "method_names", "unknown"]

# What SciPy, MATLAB and Julia call the same method, or the nearest.
SYNONYMS = {
    **dict.fromkeys(("rk45", "ode45", "dp5", "rkf45"), "dopri5"),
    **dict.fromkeys(("rk23", "ode23", "bs3"), "bosh3"),
    **dict.fromkeys(("dop853", "dp8", "dopri853"), "dopri8"),
    **dict.fromkeys(("radau", "bdf", "lsoda", "ode15s", "ode23s", "rodas4", "rodas5", "kvaerno5", "stiff"), "rodas5p"),
}


@functools.cache
def method_names() -> dict[str, str | Step]:
    """Return what each name means: a pair, a fixed step, or the name of a step map's class, which is not loaded for it."""
    names: dict[str, str | Step] = {**ADAPTIVE_METHODS, **FIXED_METHODS}
    for kind in [*step_names(), *stochastic_step_names()]:
        names.setdefault(dashed(kind), kind)
    return names


def checked_method(value: object, name: str = "method", why: str | None = None) -> Step:
    """Return the step that a name means, or an object is; `name`: of the argument; why: such a name is not offered.

    Raises:  TypeError, ValueError for what is no method, with the names that there are.
    """
    if isinstance(value, Step):
        return value
    if isinstance(value, str) and (found := method_names().get(value)):
        return found if isinstance(found, Step) else _made(found)
    if isinstance(value, type) and issubclass(value, Step):
        raise TypeError(f"`{name}` must be an instance of a step map: `{value.__name__}()`, not the class.")
    kinds = f"{', '.join(method_names())}, or an object, such as discretize.Euler() or an embedded pair of your own"
    if not isinstance(value, str):
        raise TypeError(f"`{name}` must be the name of a method or a step map, got {value!r}. Methods: {kinds}.")
    raise ValueError(f"`{name}` {value!r} {why or unknown(value, method_names())} Methods: {kinds}.")


def unknown(value: str, known: Iterable[str]) -> str:
    """Say that a name is not known, and which it may mean."""
    near = [SYNONYMS[low]] if (low := value.lower()) in SYNONYMS else difflib.get_close_matches(low, known, n=1)
    return f"is not known; did you mean {near[0]!r}?" if near else "is not known."


@functools.cache
def _made(kind: str) -> Step:
    made: Step = getattr(discretize.steps, kind)()
    return made
