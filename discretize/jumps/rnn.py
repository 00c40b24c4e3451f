r"""Between observations the field runs on its own; at each one the state jumps.

    h(t_k-) :  dh/dt = F(h) from h(t_k-1)          h(t_k) = jump(x_k, observed_k, h(t_k-))

`JumpRNN` is read right after a jump, `HeldJumpRNN` before the next one, when the sample has acted.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

import ctrnn
from ctrnn import VectorField, checks
from ctrnn.calls import answered
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import check_field
from ctrnn.fields.noise import check_no_noise
from ctrnn.inputs.held import Hold
from discretize.graphs import whole
from discretize.jumps.between import SolveBetween, StepBetween
from discretize.jumps.jump import CellJump, GRUBayes, Jump
from discretize.loop.checking import check_start
from discretize.sequences.cell import DiscreteCell
from discretize.sequences.module import Lengths, RaggedCall, SequenceModule, Start
from discretize.sequences.ragged import Ragged, gone_by
from discretize.sequences.stamps import number_of_times, sample_edges, sample_stamps
from discretize.settings import Gradient, Settings
from discretize.steps.euler import Euler
from discretize.steps.step import Step

__all__ = ["HeldJumpRNN", "JumpRNN", "JumpSettings", "Jumps", "gru_ode_bayes", "ode_rnn"]


class Jumps(NamedTuple):
    """Holds the states before and after each observation, (time, batch, state), or (batch, time, state) if batch-first."""

    before: Tensor
    after: Tensor


class JumpSettings(TypedDict, total=False):
    """Keywords of a `JumpRNN`."""

    method: str | Step
    rtol: float
    atol: float | Tensor
    max_step: float | None
    gradient: Gradient
    batch_first: bool
    dt: float | None


class JumpRNN(SequenceModule):
    r"""Runs a field without input, and jumps at each observation: output k is the state after observation k.

    Nothing depends on what comes later. An observation of which no value was seen does not move the state.

    Args:    field: F, a `VectorField` of `input_size=0`, solved exactly, or by steps; jump: a `Jump` on its state; method, rtol,
             atol, max_step, gradient as for `integrate`; batch_first: axes of x, output, observed and ts, as in torch.nn; dt: the
             time between observations where no `ts` says it, 1 if not given.
    Call:    rnn(x, h_0=None, ts=None, lengths=None, reset=None, observed=None), as for `DiscreteRNN`. ts: the times of the
             observations, the first of them that of h_0; or one more, in front, for h_0: of a chunk of a longer sequence the time
             of the observation before it. Without ts they are 0, dt, 2 dt, .... An observation that is `reset` is the first one
             of its own sequence.
             observed: booleans like x, False where a value is missing, which then may be nan; all by default, or x has twice as
             many features, [values, 1 where seen, else 0], as cells without jumps read them.
             rnn.jumps(...) gives the states before and after; `rnn.stats` is what the last call did, from the first observation
             to the last, as `Trajectory.stats`.
    Shape:   as for `DiscreteRNN`.
    Raises:  TypeError, ValueError for what does not fit; SolverError for a solve that fails.
    Source:  Rubanova, Chen and Duvenaud 2019; De Brouwer, Simm, Arany and Moreau 2019.
    """

    field: VectorField
    jump: Jump

    reads_at_the_end = True

    def __init__(
        self,
        field: VectorField,
        jump: Jump,
        method: str | Step = "dopri5",
        rtol: float = 1e-5,
        atol: float | Tensor = 1e-7,
        max_step: float | None = None,
        gradient: Gradient = None,
        *,
        batch_first: bool = False,
        dt: float | None = None,
    ) -> None:
        super().__init__("forward", None, batch_first)
        self._last_for(dt)
        if check_field(field).input_size:
            raise ValueError(
                f"`field` has {field.input_size} inputs, and nothing to read between observations; take input_size=0."
            )
        if not isinstance(jump, Jump):
            raise TypeError(
                f"`jump` must be a discretize.jumps.Jump, got {type(jump).__name__}; `CellJump(cell)` makes one of a cell."
            )
        if jump.state_size not in (None, field.state_size):
            raise ValueError(
                f"`jump` maps {jump.state_size} units, `field` keeps {field.state_size}; make one as wide as the other."
            )
        checks.same_settings([("field", field), ("jump", jump)])
        check_no_noise(field, "jumps", "JumpRNN")
        self.field, self.jump = field, jump
        self.settings: Settings = Settings(method, rtol, atol, max_step, gradient)
        self.settings.say_unread()
        self.settings.check_noise(field)
        self.stats: dict[str, Any] = {}

    @answered
    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        h_0: Start = None,
        ts: Tensor | None = None,
        lengths: Lengths = None,
        reset: Tensor | None = None,
        observed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        return super().forward(self._masked(x, observed), h_0, ts, lengths, reset)

    @answered
    def jumps(
        self,
        x: Tensor,
        h_0: Start = None,
        ts: Tensor | None = None,
        lengths: Lengths = None,
        observed: Tensor | None = None,
    ) -> Jumps:
        """Return the states before and after each observation; one sequence is a batch of one. See `forward`."""
        (xs, h0, edges, ragged), _ = self._read(self._masked(x, observed), h_0, ts, lengths)
        found = self._jumps(xs, h0[0], edges, ragged)
        return Jumps(*(states.transpose(0, 1) for states in found)) if self.batch_first else found

    def live_step(  # type: ignore[override]
        self,
        x: Tensor,
        state: Start = None,
        dt: float | Tensor | None = None,
        *,
        reset: Tensor | bool | None = None,
        observed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Read one observation of a stream, as `DiscreteRNN.live_step`; dt: how long after the one before, by default 1, and none
        for the first one, `state=None` or reset; observed: booleans like x."""
        return super().live_step(self._masked(x, observed), state, dt, reset=reset)

    def _masked(self, x: Tensor, observed: Tensor | None) -> Tensor:
        """Return [x, observed], with 0 for what was not seen."""
        if isinstance(x, PackedSequence):
            raise TypeError("`x` is a PackedSequence; give the padded batch and its `lengths`, beside `observed`.")
        values = self.jump.input_size
        if observed is None and checks.is_tensor("x", x).dim() and x.shape[-1] == 2 * values:
            x, seen = x.chunk(2, -1)
            observed = seen > 0
            if bool((observed.to(seen) != seen).any()):
                raise ValueError(f"`x` has {2 * values} features, of which the last {values} say what was seen: 1, or else 0.")
        if checks.is_tensor("x", x).dim() == 0 or x.shape[-1] != values:
            raise ValueError(f"`x` has shape {tuple(x.shape)}, the jump reads {values} values on the last axis.")
        if observed is None:
            return torch.cat([x, torch.ones_like(x)], -1)
        if checks.is_tensor("observed", observed).dtype != torch.bool or observed.shape != x.shape:
            came = f"{observed.dtype} of shape {tuple(observed.shape)}"
            raise ValueError(f"`observed` must hold booleans like `x`, {tuple(x.shape)}, got {came}.")
        return torch.cat([torch.where(observed, x, torch.zeros_like(x)), observed.to(x.dtype)], -1)

    @property
    def _reader(self) -> VectorField:
        return _Reader(self.field, self.jump)

    def _edges(self, ts: Tensor, xs: Tensor, ragged: Ragged | None, batched: bool) -> Tensor:
        if number_of_times(ts, self.batch_first) == len(xs) + 1:
            return sample_edges(ts, xs, ragged, batched, self.batch_first, self.hold, self)
        stamps = sample_stamps(ts, xs, ragged, batched, self.batch_first)
        return torch.cat([stamps[:1], stamps])

    def _counted(self, xs: Tensor, ragged: Ragged | None) -> Tensor:
        return self.dt * (gone_by(xs, ragged) - 1).clamp(min=0)

    def _settings(self) -> dict[str, Any]:
        return {name: value for name, value in super()._settings().items() if name not in ("hold", "open_interval")}

    def _as_solved(self, settings: dict[str, Any]) -> JumpRNN:
        own = {name: getattr(self.settings, name) for name in ("method", "rtol", "atol", "max_step", "gradient")}
        return type(self)(self.field, self.jump, **self._settings() | own | settings)

    def _as_stepped(self, settings: dict[str, Any]) -> JumpRNN:
        rest = {name: value for name, value in settings.items() if name != "step"}
        method = settings.get("step", Euler() if self.settings.fixed is None else self.settings.method)
        usual = Settings()  # tolerances are not for steps
        return self._as_solved({"method": method, "max_step": None, "rtol": usual.rtol, "atol": usual.atol, **rest})

    def _taken(self, ts: object, xs: Tensor) -> tuple[bool, bool]:
        return number_of_times(ts, self.batch_first) == len(xs), False

    def _read(self, x: Tensor, h_0: Start, ts: Tensor | None, lengths: Lengths) -> tuple[RaggedCall, bool]:
        given, batched = super()._read(x, h_0, ts, lengths)
        if h_0 is not None and given.edges is not None and len(given.xs) == 1 and self._taken(ts, given.xs)[0]:
            raise ValueError(
                "`ts` has one stamp for one observation, and nothing says how long before it the state was `h_0`; give 2 times, "
                "that of `h_0` in front: in a stream that of the observation before, `ts[k - 1 : k + 1]`."
            )
        return given, batched

    def _run(self, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> tuple[Tensor, Tensor]:
        states = self._jumps(xs, h0[0], edges, ragged).after
        return self.field.visible(states), states[-1:].clone() if ragged is None else ragged.final(states)

    def _jumps(self, xs: Tensor, h: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Jumps:
        edges = self._counted(xs, ragged) if edges is None else edges
        # Dropout's masks are drawn once for the whole sequence.
        field, before, after = masked(with_computed_weights(self.field), (len(h),)), [], []
        values, observed = xs.chunk(2, -1)
        seen = observed.any(-1, keepdim=True)
        seen = seen if ragged is None else seen & ragged.read[..., None]
        if not self.jump.reads_gaps and not checks.holds(observed.all(-1, keepdim=True) | ~seen):
            raise ValueError(
                f"`observed` has samples of which some values were seen and others not, and a {type(self.jump).__name__} would "
                "read these as 0. Fill them in, say by `ctrnn.inputs.hold_missing`, or let it read what was seen as values like "
                "others: `torch.cat([values, seen], -1)`, of one with twice the `input_size`."
            )
        steps = self._between(field, h, edges)
        for k, (x, mask, any_seen) in enumerate(zip(values, observed, seen, strict=True)):
            h = steps.over(k, h)
            before.append(h)
            h = torch.where(any_seen, self._jumped(x, mask, h), h)
            after.append(h)
        found = Jumps(torch.stack(before), torch.stack(after))
        self.stats = steps.finish(torch.cat(found))
        return found

    def _jumped(self, x: Tensor, observed: Tensor, h: Tensor) -> Tensor:
        following: Tensor = self.jump(x, observed, h)
        if following.shape != h.shape:
            raise ValueError(f"The jump gives {tuple(following.shape)} for a state of shape {tuple(h.shape)}; it must be like h.")
        return following

    def _between(self, field: VectorField, h: Tensor, edges: Tensor) -> StepBetween | SolveBetween:
        step = self.settings.fixed
        if not len(h):
            return StepBetween(field, h, edges, Euler())
        if step is not None and self.settings.max_step is None and self.settings.gradient is None:
            check_start(self.field, field, h[None, :, :0], h, edges, self.settings)
            return StepBetween(field, h, edges, step)
        return whole(SolveBetween)(field, h, edges, self.settings)

    def extra_repr(self) -> str:
        dt = "" if self._counts_samples else f"dt={self.dt:g}, "
        return f"method={self.settings.method!r}, {dt}{super().extra_repr()}"


class HeldJumpRNN(JumpRNN):
    r"""Reads a `JumpRNN` when a sample has acted: output k is the state before the next one.

    Args:    field, jump as for `JumpRNN`; hold, open_interval as for `DiscreteRNN`; the rest as for `JumpRNN`, by name.
    Call:    as for `JumpRNN`, with ts as for `DiscreteRNN`: edges, or stamps from which, or up to which, a sample acts; without
             ts each acts for dt. rnn.jumps(...) gives the states after each jump, and before the next one.
    Shape:   as for `DiscreteRNN`.
    Raises:  as `JumpRNN`.
    """

    reads_at_the_end = False

    def __init__(
        self,
        field: VectorField,
        jump: Jump,
        *,
        hold: str = "forward",
        open_interval: float | None = None,
        **settings: Unpack[JumpSettings],
    ) -> None:
        super().__init__(field, jump, **settings)
        self.hold: Hold = Hold(hold, open_interval)

    _edges = SequenceModule._edges
    _counted = SequenceModule._counted
    _settings = SequenceModule._settings
    _taken = SequenceModule._taken

    def _run(self, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> tuple[Tensor, Tensor]:
        states = self._jumps(xs, h0[0], edges, ragged).before
        return self.field.visible(states), states[-1:].clone() if ragged is None else ragged.final(states)

    def _jumps(self, xs: Tensor, h: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Jumps:
        """Jump as a `JumpRNN` does, up to a last observation of nothing, which moves no state."""
        edges = self._counted(xs, ragged) if edges is None else edges
        read = xs if ragged is None else xs * ragged.read.to(xs)[..., None]
        found = super()._jumps(torch.cat([read, torch.zeros_like(xs[:1])]), h, torch.cat([edges[:1], edges]), None)
        return Jumps(found.before[1:], found.after[:-1])


class _Reader(VectorField):
    """Tells the widths of what a jump reads and of the state, and the dtype and device of both."""

    def __init__(self, field: VectorField, jump: Jump) -> None:
        super().__init__(2 * jump.input_size, field.hidden_size, field.state_size)
        self.field, self.jump = field, jump

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(projected[..., :0], h)


def ode_rnn(input_size: int, hidden_size: int, units: int = 50, **settings: Unpack[JumpSettings]) -> JumpRNN:
    r"""Return an ODE-RNN: a network between observations, a GRU at each.

    Args:    input_size: values that may be seen; hidden_size; units: of the network's one hidden layer, tanh; the rest as for
             `JumpRNN`.
    Source:  Rubanova, Chen and Duvenaud 2019, algorithm 1.
    """
    checks.positive_size("input_size", input_size)
    checks.positive_size("hidden_size", hidden_size)
    checks.positive_size("units", units)
    net = nn.Sequential(nn.Linear(hidden_size, units), nn.Tanh(), nn.Linear(units, hidden_size))
    jump = CellJump(DiscreteCell(ctrnn.gru(2 * input_size, hidden_size)))
    return JumpRNN(ctrnn.NetworkField(net, hidden_size), jump, **settings)


def gru_ode_bayes(
    input_size: int, hidden_size: int, prep: int = 4, observer: int = 25, **settings: Unpack[JumpSettings]
) -> JumpRNN:
    r"""Return GRU-ODE-Bayes: a GRU's field between observations, and `GRUBayes` at each.

    The reset is after the product, as in torch.nn.GRU; the paper's is before it. `rnn.jump.expected(before)` is what the state
    before an observation expects of it: `observed_log_prob` is the likelihood of that, `bayes_divergence` the rest of its loss.

    Args:    input_size: values that may be seen; hidden_size; prep, observer as for `GRUBayes`; the rest as for `JumpRNN`.
    Source:  De Brouwer, Simm, Arany and Moreau 2019, eqs. (3) and (7).
    """
    return JumpRNN(ctrnn.gru(0, hidden_size), GRUBayes(input_size, hidden_size, prep, observer), **settings)
