r"""Solves each segment by one call of torchdiffeq's `odeint`: method="torchdiffeq:NAME", NAME any that torchdiffeq has.

    dh/dtau = segment(tau, h),  tau from 0 to the segment's length                 where all samples have the same times
    dh/ds = length * segment(s length, h),  s from 0 to 1, length (batch, 1)       where every sequence has times of its own

All samples take the same steps, chosen by torchdiffeq's norm over the whole batch; the last of a segment ends at its end.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.errors import Failure
from discretize.solvers.adjoint import SETTING, checked_segments
from discretize.solvers.detached import ParameterSnapshot, check_same_states, detached_chain, refuse_captured
from discretize.solvers.engine import Engine, SolverState, SolverStats
from discretize.solvers.segments import Chain, RightHandSide, Segment

__all__ = ["PREFIX", "TorchdiffeqEngine", "chooses_steps", "options_of", "read_by", "torchdiffeq_methods"]

PREFIX = "torchdiffeq:"
# torchdiffeq's assertions, as what went wrong.
FAILURES = {
    "underflow in dt": (
        "torchdiffeq's {name} found no step that meets rtol={rtol:g}, atol={atol}, down to {dt:.3g}",
        "Loosen the tolerances, use float64, put jumps at knots, or take a method of ours, whose samples step on their own: "
        "'dopri5', or 'rodas5p' for stiff fields.",
    ),
    "non-finite values in state": (
        "the state became {value}",
        "Look at the field and the input there: they must be finite.",
    ),
    "max_num_steps exceeded": (
        "torchdiffeq's {name} took more than `max_num_steps`={most} steps between two knots or requested times",
        "Loosen the tolerances, raise `max_num_steps`, or take 'rodas5p' if the field is stiff.",
    ),
}


@cache
def torchdiffeq_methods() -> Mapping[str, type]:
    """Return the solvers of the installed torchdiffeq by name. Raises: ValueError if it is not installed."""
    try:
        with needed_by("it"):
            return dict(importlib.import_module("torchdiffeq._impl.odeint").SOLVERS)  # its own list, shown in no other way
    except (ImportError, AttributeError) as error:
        raise ValueError(f"`method` names one of torchdiffeq's, which cannot be used here: {error}.") from error


@cache
def options_of(name: str) -> frozenset[str]:
    """Return the names of the options that a method of torchdiffeq takes."""
    made = (vars(kind)["__init__"] for kind in torchdiffeq_methods()[name].__mro__ if "__init__" in vars(kind))
    return frozenset(option for each in made if each is not object.__init__ for option in inspect.signature(each).parameters)


def chooses_steps(name: str) -> bool:
    """Return whether a method of torchdiffeq chooses its steps by the tolerances."""
    return "step_size" not in options_of(name)


def read_by(name: str) -> frozenset[str]:
    """Return the names of the tolerances and bounds that a method of torchdiffeq reads, of those that it takes."""
    return frozenset() if name == "explicit_adams" else options_of(name)  # the base of that has a corrector, which is off


class TorchdiffeqEngine(Engine):
    r"""Solves by a method of torchdiffeq, segment by segment, so that knots are exact.

    Args:    method: torchdiffeq's name of it; rtol, atol: numbers, or (state,); options: of torchdiffeq, by its names, lengths in
             units of time; adjoint: gradients by its `odeint_adjoint`; stats: where evaluations in its backward pass are counted.
    Raises:  Failure where torchdiffeq gives up.
    Source:  Chen, torchdiffeq, https://github.com/rtqichen/torchdiffeq.
    """

    method: str
    rtol: float
    atol: float | Tensor
    options: dict[str, float]
    adjoint: bool
    stats: dict[str, Any]
    most: float

    name = "torchdiffeq"

    def __init__(
        self,
        method: str,
        rtol: float,
        atol: float | Tensor,
        options: Mapping[str, float],
        adjoint: bool,
        stats: dict[str, Any],
    ) -> None:
        super().__init__()
        self.method, self.rtol, self.atol, self.options = method, rtol, atol, dict(options)
        self.adjoint, self.stats, self.most = adjoint, stats, self.options.get("max_num_steps", math.inf)
        self.callbacks: set[str] = torchdiffeq_methods()[method].valid_callbacks()  # type: ignore[attr-defined]
        self.snapshot: ParameterSnapshot | None = None

    def start(self, chain: Chain, batch: int) -> SolverState:
        state, self.snapshot = super().start(chain, batch), None
        self.counts: SolverStats = SolverStats()  # of one: torchdiffeq steps a batch as one, whatever its times
        return state

    def segment(self, segment: RightHandSide, state: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        assert isinstance(segment, Segment)
        self.tried = 1
        if max(segment.lengths.tolist()) > 0:
            h = self._by_adjoint(segment, h) if self.adjoint and torch.is_grad_enabled() else self._solved(segment, h)
        return h, self.tried

    def leaves(self, segment: RightHandSide, state: SolverState) -> bool:
        return True  # after one call

    def _solved(self, segment: Segment, h: Tensor) -> Tensor:
        from torchdiffeq import odeint  # noqa: PLC0415 - loads SciPy

        end = self._end(odeint, flow := _TorchdiffeqFlow(self, segment, h))
        if (
            torch.is_grad_enabled()
            and not end.requires_grad
            and flow.slope(torch.zeros_like(end[0, 0]).double(), h).requires_grad
        ):
            raise ValueError(
                f"torchdiffeq's {self.method} leaves autograd, so that nothing before its result would be trained; take "
                "gradient=discretize.Adjoint(), torch.no_grad(), or another method."
            )
        return end

    def _by_adjoint(self, segment: Segment, h: Tensor) -> Tensor:
        from torchdiffeq import odeint_adjoint  # noqa: PLC0415

        if self.snapshot is None:
            self.snapshot = ParameterSnapshot(segment.chain.field)
            refuse_captured(segment.chain, self.snapshot.learned, h, SETTING)
        learned = self.snapshot.learned
        # Detached: projected samples depend on weights that the flow may read too, which would be counted twice.
        chain, path = detached_chain(segment.chain)
        path.whole(segment.number)
        start = h.detach().requires_grad_()
        targets = (start, *learned, *path.leaves[segment.number])
        filled = tuple(each for each in targets[1:] if each.numel())  # torchdiffeq makes views of each, which empty ones have not
        flow = _TorchdiffeqFlow(self, chain.segment(segment.number), start)
        end = self._end(odeint_adjoint, flow, adjoint_params=filled)

        def gradients(cotangents: Sequence[Tensor], *_: Sequence[Tensor]) -> Sequence[Tensor | None]:
            if segment.number in checked_segments(len(chain)):
                flow.check_first_slope()
            return torch.autograd.grad(end, targets, cotangents, retain_graph=True, allow_unused=True)

        # `odeint_adjoint` would give wrong second derivatives without a word.
        read = segment.chain.path.learned(segment.number)
        return self.snapshot.with_gradients(SETTING, gradients, [end.detach()], [h, *learned, *read])[0]

    def _end(self, solve: Callable[..., Any], flow: _TorchdiffeqFlow, **how: Any) -> Tensor:
        segment, h = flow.segment, flow.start
        ends = _ends(flow.span, h.device)
        lengths = ("first_step", "max_step", "min_step", "step_size")
        options: dict[str, Any] = {name: value / flow.scale if name in lengths else value for name, value in self.options.items()}
        if "step_t" in options_of(self.method):  # else the last step goes beyond the knot and is interpolated back
            how |= {"adjoint_options": options | {"step_t": ends[:1]}} if how else {}
            options["step_t"] = ends[1:]
        try:
            hs = solve(flow, h, ends, rtol=self.rtol, atol=self.atol, method=self.method, options=options, **how)
        except AssertionError as error:
            if failure := self._failure(str(error), flow):
                raise failure from error
            raise  # one of the field's own
        finally:
            flow.count()
        if len(hs) < 2:
            raise Failure(f"{self.method} of torchdiffeq gave up", "Take another method.", segment.when(0.0, 0), None, None)
        end: Tensor = hs[-1]
        if not math.isfinite(end.detach().sum().item()) and len(bad := torch.nonzero(~torch.isfinite(end.detach()))):
            sample, unit = bad[0].tolist()
            cause, hint = f"the state became {float(end[sample, unit])}", "Take shorter steps (`max_step`)."
            raise Failure(cause, hint, segment.when(float(segment.lengths.max()), sample), sample, unit)
        return end

    def _failure(self, said: str, flow: _TorchdiffeqFlow) -> Failure | None:
        known = next((words for start, words in FAILURES.items() if said.startswith(start)), None)
        if known is None:
            return None
        t, h, step = flow.last or (torch.zeros((), device="cpu"), flow.start, torch.zeros((), device="cpu"))
        h, tau, dt = h.detach(), t.item(), step.item() * flow.scale
        with torch.no_grad():
            slope = flow.slope(checks.time_on(t, h.device), h)
        off = next((bad for t in (h, slope) if len(bad := torch.nonzero(~torch.isfinite(t)))), None)
        sample, unit = off[0].tolist() if off is not None else divmod(int(slope.abs().argmax()), slope.shape[-1])
        value = float(h[sample, unit])
        numbers = {"name": self.method, "rtol": self.rtol, "atol": self.atol, "dt": dt, "value": value, "most": self.most}
        cause, hint = (words.format(**numbers) for words in known)
        return Failure(cause, hint, flow.segment.when(flow.since(tau, sample), sample), sample, unit)


@lru_cache
def _ends(span: float, device: torch.device) -> Tensor:
    return torch.tensor([0.0, span], dtype=checks.time_dtype(device), device=device)


class _TorchdiffeqFlow:
    """Evaluates dh/dt on a segment as torchdiffeq calls it, with the callbacks that its method has."""

    def __init__(self, engine: TorchdiffeqEngine, segment: Segment, h: Tensor) -> None:
        self.engine, self.segment, self.start, self.over = engine, segment, h, False
        self.calls = self.accepted = self.rejected = 0  # numbers of Python, which cost less than those of the solve
        self.smallest, self.smallest_at = math.inf, 0.0
        self.first: tuple[Tensor, Tensor] | None = None  # the time and slope of the first evaluation
        self.last: tuple[Tensor, Tensor, Tensor] | None = None  # where it was before the last step tried, and that
        # Lengths of each sequence, or with a gradient, multiply the slope; others bound the time.
        self.shares = segment.chain.own or segment.differentiable
        self.times_on = segment.times_on(h.device)
        self.length = segment.length(self.times_on).to(device=h.device, dtype=h.dtype) if self.shares else None
        # A held input is read once, not at each evaluation.
        self.held = segment.input_at(segment.ends(h.device)[0]) if segment.steady else None
        longest: float = max(segment.lengths.tolist())
        self.span, self.scale = (1.0, longest) if self.shares else (longest, 1.0)
        self.counts_steps = "callback_accept_step" not in engine.callbacks

    def __getattr__(self, name: str) -> Any:
        # Not attributes: bound methods would keep all of this until a collection of cycles.
        if name in self.engine.callbacks:
            return getattr(self, f"_{name.removeprefix('callback_')}")
        raise AttributeError(name)

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:
        slope = self.slope(t, h) if self.held is None or self.shares else self.segment.chain.field.flow(self.held, h)
        if self.over:
            self.engine.stats["nfe_backward"] += 1
        else:
            self.calls += 1
            if self.first is None:
                self.first = t, slope.detach()
        return slope

    def check_first_slope(self) -> None:
        """Raise RuntimeError if the field no longer gives the slope that the solve began with."""
        if self.first is not None:
            t, before = self.first
            self.engine.stats["nfe_backward"] += 1
            h = self.start.detach()
            check_same_states(h + self.span * self.slope(t, h).detach(), h + self.span * before, SETTING)

    def slope(self, t: Tensor, h: Tensor) -> Tensor:
        if self.held is not None:
            slope = self.segment.chain.field.flow(self.held, h)
        elif self.length is None:
            slope = self.segment(t.to(self.times_on), h)
        else:
            slope = self.segment(self.segment.length(self.times_on) * t.to(self.times_on), h)
        return slope if self.length is None else self.length * slope

    def since(self, tau: float, sample: int) -> float:
        lengths = self.segment.lengths
        return tau * float(lengths[sample % len(lengths)]) if self.shares else tau

    def count(self) -> None:
        """Add what was counted to the counts of the solve; the solve itself is over."""
        counts, self.over = self.engine.counts, True
        counts.call(self.calls, len(self.start))
        self.engine.tried = max(1, self.accepted + self.rejected)
        counts.accepted[0] += self.accepted  # numbers again: a sum of arrays takes 40 us between two solves of torch
        counts.rejected[0] += self.rejected
        if (step := self.smallest * self.scale) < (math.inf if counts.smallest is None else counts.smallest):
            counts.smaller(step, self.segment.when(self.since(self.smallest_at, 0), 0))

    def _step(self, t: Tensor, h: Tensor, dt: Tensor) -> None:
        self.last, begin, step = (t, h, dt), t.item(), dt.item()
        # torchdiffeq's own guards are assertions, which `python -O` leaves out.
        if not begin + step > begin:
            raise AssertionError("underflow in dt")
        if self.accepted + self.rejected >= self.engine.most:
            raise AssertionError("max_num_steps exceeded")
        if self.counts_steps:
            self._accept_step(t, h, dt)

    def _accept_step(self, t: Tensor, h: Tensor, dt: Tensor) -> None:
        self.accepted += 1
        if (step := dt.item()) < self.smallest:
            self.smallest, self.smallest_at = step, t.item()

    def _reject_step(self, t: Tensor, h: Tensor, dt: Tensor) -> None:
        self.rejected += 1
