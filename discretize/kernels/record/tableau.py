r"""Write an explicit tableau as the program that recording its attempt would give, without running torch.

    state k = h + dt sum_j a_kj slope j        h_1 = h + dt sum_j b_j slope j        error = dt sum_j e_j slope j

and for cotangents q_k of these states, and q of h_1:

    to h: q + sum_k q_k        to slope j: dt (b_j q + sum_k a_kj q_k)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from discretize.kernels.record.attempt import FieldCalls
from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.values import Value, ValuePool, is_zero
from discretize.solvers.tableaus import EmbeddedMethod, EmbeddedRungeKutta

__all__ = ["Tableau", "tableau_of", "tableau_values"]


class Tableau(NamedTuple):
    """The numbers of an explicit pair: `rows` of the stages after the first, `weights` of the state that it leads to, those of
    its error, and nodes; `last_is_next`: whether the last row leads to that state, too."""

    rows: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    error: tuple[float, ...]
    nodes: tuple[float, ...]
    last_is_next: bool

    @property
    def calls(self) -> FieldCalls:
        """Those of its attempt, as `calls_of` finds them of code."""
        stages = len(self.nodes)
        return FieldCalls(tuple(range(1, stages + 1)), (0.0, *self.nodes), stages if self.last_is_next else None, scales=True)


def tableau_of(method: EmbeddedMethod) -> Tableau | None:
    """Return the numbers of a method whose attempt is that of an explicit tableau, None for others."""
    if not method.has_tableau:
        return None
    assert isinstance(method, EmbeddedRungeKutta)
    rows, weights, error = tuple(map(tuple, method.a)), tuple(method.weights), tuple(method.e)
    return Tableau(rows, weights, error, tuple(method.nodes), method.last_is_next)


def tableau_values(pair: Tableau, width: int) -> ProgramValues:
    """Return the program of a pair's attempt for states of so many units, as that of an `AttemptModule`."""
    pool = ValuePool()
    h, dt, stages = pool.given("h", width), pool.given("dt", 1), len(pair.rows) + 1
    slopes = [pool.given(f"slope {k}", width) for k in range(stages)]
    states = [h, *(_sum(pool, [h, _times(pool, dt, _weighted(pool, row, slopes))]) for row in pair.rows)]
    following = states[-1] if pair.last_is_next else _sum(pool, [h, _times(pool, dt, _weighted(pool, pair.weights, slopes))])
    error = _times(pool, dt, _weighted(pool, pair.error, slopes))
    cotangent = pool.given("cotangent", (stages + 2) * width)
    *to_states, to_following = (pool.slice(cotangent, k * width, width) for k in range(stages + 1))
    gradients = {"h": _sum(pool, [to_following, *to_states])}
    for j in range(stages):
        column = [*(row[j] for row in pair.rows[j:]), (*pair.weights, 0.0)[j]]
        gradients[f"slope {j}"] = _times(pool, dt, _weighted(pool, column, [*to_states[j + 1 :], to_following]))
    return ProgramValues(pool.cat([*states, following, error]), gradients, [])


def _weighted(pool: ValuePool, weights: Iterable[float], values: Sequence[Value]) -> Value:
    """The sum of values by their weights, of those that are not 0."""
    terms = [pool.make("mul", [value, pool.number(w)], value.width) for w, value in zip(weights, values, strict=False) if w]
    return _sum(pool, terms) if terms else _nothing(pool, values[0].width)


def _times(pool: ValuePool, dt: Value, value: Value) -> Value:
    return value if is_zero(value) else pool.make("mul", [dt, value], value.width)


def _sum(pool: ValuePool, values: Sequence[Value]) -> Value:
    return reduce(lambda total, value: pool.make("add", [total, value], total.width), values)


def _nothing(pool: ValuePool, width: int) -> Value:
    return pool.make("spread", [pool.number(0.0)], width)
