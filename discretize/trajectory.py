"""Hold the result of a run: times, states, statistics, status, and the states in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from discretize.analysis.drawing import DrawnCurve

__all__ = ["Trajectory"]

Between = Callable[[Tensor], Tensor]
FINE = 400  # times of a line that is drawn


@dataclass(frozen=True, eq=False)
class Trajectory:
    r"""States at times, and, of a solve, at any time between them: `trajectory(t)`.

    `stats` counts what the run did: "method", "nfe" (calls of the field), "nfe_samples" (samples it was called with, all
    calls together), "nfe_backward" (calls made again for gradients, counted as they happen), "num_steps" (attempted),
    "num_accepted_steps", "num_rejected_steps" (of the sample that took most), "num_forced_steps" (accepted at `min_step`),
    "steps_of_samples" and of these "accepted_steps_of_samples" and "rejected_steps_of_samples", "status_of_samples" (where some
    failed and the others were kept), "ends_of_samples" (with events: when a terminal one ended each, inf for none),
    "smallest_step"
    (the smallest one taken, in units of time; None without steps), "smallest_step_at"
    (where it began), "hint" (what would have been easier, or None), "engine" ("compiled", "triton", "torch" or "steps":
    docs/speed.md) and "engine_why" (why nothing faster ran, or None). Samples in a compiled solve do not wait for one another,
    and "nfe" is that of the one that took most.

    Shape:   ts (n,), or (n, batch) where every sequence was asked for at times of its own, float64; hs (n, batch, state),
             hs[0] the initial state. trajectory(t): t () -> (batch, state); (m,) or (m, batch) -> (m, batch, state).
    """

    ts: Tensor
    hs: Tensor
    stats: dict[str, Any] = field(default_factory=dict)
    status: str = "completed"
    between: Between | None = field(default=None)  # times (m,) or (m, batch) -> the states at them
    events: tuple[Any, ...] = ()  # what each of the events that were asked for crossed: `EventTimes`
    shapes: tuple[torch.Size, ...] | None = None  # of the parts of the state, where it was given as several tensors

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """`hs` as the tensors that the state was given as: (n, batch, *shape) each; one if it was one."""
        return self.split(self.hs)

    def split(self, states: Tensor) -> tuple[Tensor, ...]:
        """States (..., state), as `trajectory(t)` gives them, as the tensors that the state was given as."""
        if self.shapes is None:
            return (states,)
        parts = states.split([shape.numel() for shape in self.shapes], -1)
        return tuple(part.unflatten(-1, shape) for part, shape in zip(parts, self.shapes, strict=True))

    def __len__(self) -> int:
        return len(self.ts)

    def __repr__(self) -> str:
        return f"Trajectory({len(self.ts)} times, hs {tuple(self.hs.shape)}, status={self.status!r}, stats={self.stats})"

    def to_pandas(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        r"""Return a pandas.DataFrame with a row for each sample and time, the index, and a column for each unit.

            >>> import discretize
            >>> solved = discretize.integrate(lambda t, h: 0 * h, None, torch.ones(1, 2), torch.tensor([0.0, 1.0]))
            >>> solved.to_pandas(["v", "w"]).loc[0]
                    v    w
            time
            0.0   1.0  1.0
            1.0   1.0  1.0

        A sequence that ends before others of its batch has no rows beyond, nor has a sample after an event that ends it; states
        of a sample that failed are nan. Where events were asked for, a column `event` has the number of the event in rows of
        the states before its resets, which stand before the states at that time, and <NA> elsewhere.

        Args:    names: of the units, else h[0], h[1], ...; of a state of several tensors those of the tensors, else h0, h1, ...
        Raises:  ValueError for names that are not as many; `MissingPackageError` without pandas.
        """
        with needed_by("trajectory.to_pandas"):
            from discretize.tables import frame_of  # noqa: PLC0415 - pandas

            return frame_of(self, names)

    def to_xarray(self, names: Sequence[str] | None = None) -> xr.Dataset:
        r"""Return an xarray.Dataset with the variable `h`, or one for each tensor that the state was given as.

        Its dimensions are time, sample and unit; where every sequence has times of its own step, sample and unit, with the
        coordinate time (step, sample). It is nan beyond the end of a sequence, after an event that ends a sample, and of
        samples that failed. Events have the dimension crossing: event, its number, event_sample, event_time and h_at_event, the
        state before a reset. Attributes are the status and the numbers and words of `stats`.

        Args, Raises: as `to_pandas`, of xarray.
        """
        with needed_by("trajectory.to_xarray"):
            from discretize.tables import dataset_of  # noqa: PLC0415 - xarray

            return dataset_of(self, names)

    def plot(self, panels: str | Sequence[str] = "states", *, sample: int = 0, units: Sequence[int] | None = None) -> Figure:
        """A figure of one sample, as `discretize.plot`, which draws several trajectories beside one another."""
        with needed_by("trajectory.plot"):
            from discretize.analysis.drawing import drawn  # noqa: PLC0415 - Matplotlib, which only figures need
        return drawn({"": self.curve(sample)}, panels, units)

    @torch.no_grad()
    def curve(self, sample: int) -> DrawnCurve:
        """One sample's trajectory as arrays, to be drawn."""
        from discretize.analysis.drawing import DrawnCurve  # noqa: PLC0415

        batch = self.hs.shape[1]
        if type(sample) is not int or not 0 <= sample < batch:
            raise ValueError(f"`sample` must be one of 0 to {batch - 1}, got {sample!r}.")
        times = (self.ts if self.ts.dim() == 1 else self.ts[:, sample]).detach()
        hs = self.hs[:, sample]
        crossed = [(event.times[event.samples == sample], event.states[event.samples == sample]) for event in self.events]
        events = [torch.cat(each) for each in zip((times[:0], hs[:0]), *crossed, strict=True)]
        ends = self._step_ends(sample, times)
        line_times = times
        if self.between is not None and (self.events or self._continuation() is not None):
            between = torch.linspace(float(times[0]), float(times[-1]), FINE, dtype=torch.float64, device="cpu")
            line_times = torch.cat([between, times, events[0], times[:0] if ends is None else ends]).unique()
            hs = self._at_some(line_times)[:, sample]
        every, order = torch.cat([events[0], line_times]).sort(stable=True)  # before a reset, and then after it
        line = (every, torch.cat([events[1], hs])[order])
        return DrawnCurve(
            *(_array(times), _array(self.hs[:, sample]), (_array(line[0]), _array(line[1]))),
            None if ends is None else _array(ends),
            (_array(events[0]), _array(events[1])),
            method=str(self.stats.get("method", "")),
            sample=f"sample {sample} of {batch}" if batch > 1 else "",
        )

    def _continuation(self) -> Any:
        """The steps of the solve, where they were kept."""
        find = getattr(self.between, "continuation", None)
        return None if find is None else find()

    def _step_ends(self, sample: int, times: Tensor) -> Tensor | None:
        """The ends of the steps that a sample took, in order; None where they were not kept."""
        if (steps := self._continuation()) is not None:
            begins = torch.from_numpy(steps.begins_of(sample))
            return torch.cat([begins[begins < times[-1]], times[-1:]])
        if pieces := getattr(self.between, "pieces", ()):  # whose times may be these negative
            ends = [piece._step_ends(sample, piece.ts[:, sample].detach()) for piece in pieces]
            known = [each for each in ends if each is not None]
            return (getattr(self.between, "direction", 1) * torch.cat(known)).unique() if len(known) == len(ends) else None
        taken = self.stats.get("accepted_steps_of_samples", [None])
        one_each = not self.events and taken[sample if len(taken) > 1 else 0] == len(times) - 1  # a step to each requested time
        return times.sort().values if one_each else None

    def _at_some(self, t: Tensor) -> Tensor:
        """The states at times of one sample, which the others may not have."""
        if self.ts.dim() == 1:
            return self(t)
        return self(t[:, None].clamp(*self.ts.detach()[[0, -1]]))

    def _repr_html_(self) -> str:
        """The facts of it as a table, for notebooks."""
        times, batch, width = self.hs.shape
        start, end = self.ts.detach()[0].min(), self.ts.detach()[-1].max()
        count = self.stats.get
        rows = {
            "method": count("method"),
            "status": self.status,
            "times": f"{times} on [{start:g}, {end:g}]",
            "states": f"{width} units of {batch} sample{'s' * (batch != 1)}",
            "steps": f"{count('num_accepted_steps')} accepted, {count('num_rejected_steps')} rejected",
            "smallest step": count("smallest_step"),
            "calls of the field": count("nfe"),
            "engine": count("engine"),
            "events": ", ".join(str(len(event.times)) for event in self.events),
            "hint": count("hint"),
        }
        lines = (
            f"<tr><th>{name}</th><td>{escape(f'{value:.3g}' if isinstance(value, float) else str(value))}</td></tr>"
            for name, value in rows.items()
            if value not in (None, "")
        )
        return f'<table class="ctrnn"><caption>Trajectory</caption><tbody>{"".join(lines)}</tbody></table>'

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"between": None}  # what answers between the times does not travel

    def __call__(self, t: float | Tensor) -> Tensor:
        """The state at t, with the weights of the solve, whatever has become of them since.

        Where the steps were kept, by one step of the method from the step that t is in: of the order of the method. Of fixed
        steps without events, of solves of more than 64 MiB of states, and for gradients that the steps do not have: solved on
        from the last known state, with the same settings. At `ts` it is `hs`; where an event has reset it, the state after that.
        Gradients are those of `hs`, and flow where it has one.

        Raises:  ValueError for times outside [ts[0], ts[-1]], and where the solve is not at hand: for runs of discrete cells,
                 and copies from other processes; RuntimeError for gradients after weights were written into.
        """
        if self.between is None:
            raise ValueError("This trajectory has states at its own times only (`ts`): it is not a solve, or a copy of one.")
        times = checks.evaluation_times("t", t, 2)
        if self.ts.dim() == 1 and times.dim() < 2:
            start, end = sorted(self.ts.detach()[[0, -1]].tolist())
            states = self.between(checks.within("t", times.reshape(-1), start, end))
        else:
            states = self.between(self._of_each(times))
        return states if times.dim() else states[0]

    def _of_each(self, times: Tensor) -> Tensor:
        """Every sequence's own times, (m, batch)."""
        batch = self.hs.shape[1]
        if times.dim() < 2:
            times = times.reshape(-1, 1).expand(-1, batch)
        if times.shape[1] != batch:
            raise ValueError(f"`t` has times for {times.shape[1]} sequences, the trajectory has {batch}.")
        known = (self.ts if self.ts.dim() > 1 else self.ts[:, None].expand(-1, batch)).detach()
        return checks.within("t", times, *known[[0, -1]].sort(0).values)


def _array(x: Tensor) -> np.ndarray:
    return x.detach().double().cpu().numpy()
