r"""Write an explicit tableau, or a Rosenbrock one, as the program that recording its attempt would give, without running torch.

    state k = h + dt sum_j a_kj slope j        h_1 = h + dt sum_j b_j slope j        error = dt sum_j e_j slope j

and for cotangents q_k of these states, and q of h_1:

    to h: q + sum_k q_k        to slope j: dt (b_j q + sum_k a_kj q_k)

Of a Rosenbrock pair, as in discretize/solvers/rodas.py, M = 1 - gamma dt J:

    state k = h + sum_j a_kj u_j        M u_k = gamma (dt (slope k + dt d_k df/dt) + sum_j C_kj u_j)
    h_1 = state n + u_n                 error = u_n, n the last

and for cotangents q_k of these states, that of h_1 in q_n, and q of h_1, from the last to the first:

    r_n = gamma M^-T q        r_k = gamma M^-T (sum_i a_ik q_i + sum_i C_ik r_i)
    to slope k: dt r_k        to df/dt: dt^2 sum_k d_k r_k        to J: sum_k dt r_k u_k^T
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from discretize.kernels.record.attempt import FieldCalls
from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.values import Value, ValuePool, is_zero
from discretize.solvers import rodas
from discretize.solvers.rodas import Rodas5P
from discretize.solvers.tableaus import EmbeddedMethod, EmbeddedRungeKutta

__all__ = ["ExplicitTableau", "RosenbrockTableau", "tableau_of"]

Row = tuple[float, ...]


class ExplicitTableau(NamedTuple):
    """The numbers of an explicit pair: `rows` of the stages after the first, `weights` of the state that it leads to, those of
    its error, and nodes; `last_is_next`: whether the last row leads to that state, too."""

    rows: tuple[Row, ...]
    weights: Row
    error: Row
    nodes: Row
    last_is_next: bool

    @property
    def calls(self) -> FieldCalls:
        """Those of its attempt, as `calls_of` finds them of code."""
        stages = len(self.nodes)
        return FieldCalls(tuple(range(1, stages + 1)), (0.0, *self.nodes), stages if self.last_is_next else None, scales=True)

    def values(self, width: int) -> ProgramValues:
        """Return the program of its attempt for states of so many units, as that of an `AttemptModule`."""
        pool = ValuePool()
        h, dt, stages = pool.given("h", width), pool.given("dt", 1), len(self.rows) + 1
        slopes = [pool.given(f"slope {k}", width) for k in range(stages)]
        states = [h, *(_sum(pool, [h, _times(pool, dt, _weighted(pool, row, slopes))]) for row in self.rows)]
        end = states[-1] if self.last_is_next else _sum(pool, [h, _times(pool, dt, _weighted(pool, self.weights, slopes))])
        error = _times(pool, dt, _weighted(pool, self.error, slopes))
        *to_states, to_end = _cotangents(pool, width, stages + 1)
        gradients = {"h": _sum(pool, [to_end, *to_states])}
        for j in range(stages):
            column = [*(row[j] for row in self.rows[j:]), (*self.weights, 0.0)[j]]
            gradients[f"slope {j}"] = _times(pool, dt, _weighted(pool, column, [*to_states[j + 1 :], to_end]))
        return ProgramValues(pool.cat([*states, end, error]), gradients, [])


class RosenbrockTableau(NamedTuple):
    """The numbers of a Rosenbrock pair, by stages: a, C, c, d and gamma."""

    rows: tuple[Row, ...]
    couplings: tuple[Row, ...]
    nodes: Row
    from_time: Row
    gamma: float

    @property
    def calls(self) -> FieldCalls:
        """Those of its attempt, as `calls_of` finds them of code."""
        return FieldCalls(tuple(range(1, len(self.nodes))), self.nodes, None, scales=True, derivatives=("jacobian", "drift"))

    def values(self, width: int) -> ProgramValues:
        """Return the program of its attempt for states of so many units, as that of an `AttemptModule`."""
        pool, stages = ValuePool(), len(self.nodes)
        h, dt, drift = pool.given("h", width), pool.given("dt", 1), pool.given("drift", width)
        gamma, moved = pool.number(self.gamma), _times(pool, dt, drift)
        factored = pool.make("factored", [pool.number(1.0), pool.make("mul", [dt, pool.number(-self.gamma)])])

        def solved(right: Value, turned: bool) -> Value:
            return pool.make("jacobian_solve", [factored, right], width, (turned,))

        states, us = list[Value](), list[Value]()
        for k, (row, couplings, of_time) in enumerate(zip(self.rows, self.couplings, self.from_time, strict=True)):
            states.append(_sum(pool, [h, _weighted(pool, row, us)]) if us else h)
            value = _sum(pool, [pool.given(f"slope {k}", width), _weighted(pool, [of_time], [moved])])
            right = _times(pool, dt, value)
            right = pool.make("weighted_sum", [right, *us], width, (1.0, *couplings)) if us else right
            us.append(solved(pool.make("mul", [gamma, right], width), False))
        *to_states, to_end = _cotangents(pool, width, stages + 1)
        gradients = {"h": _sum(pool, [to_end, *to_states])}
        to_states[-1] = _sum(pool, [to_states[-1], to_end])
        rights = list[Value]()  # from the last to the first
        for k in reversed(range(stages)):
            parts = [to_end] if k == stages - 1 else []
            for rows, cotangents in ((self.rows, to_states[k + 1 :]), (self.couplings, rights[::-1])):
                parts += [_weighted(pool, [row[k] for row in rows[k + 1 :]], cotangents)] if cotangents else []
            rights.append(pool.make("mul", [gamma, solved(_sum(pool, parts), True)], width))
        rights.reverse()
        to_slopes = [_times(pool, dt, right) for right in rights]
        gradients |= {f"slope {k}": to_slope for k, to_slope in enumerate(to_slopes)}
        gradients["drift"] = _times(pool, dt, _weighted(pool, self.from_time, to_slopes))
        gradients["jacobian"] = _sum(pool, [pool.make("jacobian_outer", pair, width) for pair in zip(to_slopes, us, strict=True)])
        return ProgramValues(pool.cat([*states, _sum(pool, [states[-1], us[-1]]), us[-1]]), gradients, [])


def tableau_of(method: EmbeddedMethod) -> ExplicitTableau | RosenbrockTableau | None:
    """Return the numbers of a method whose attempt is that of a tableau, None for others."""
    if type(method) is Rodas5P:
        return RosenbrockTableau(rodas.STAGES, rodas.COUPLINGS, rodas.NODES, rodas.FROM_TIME, rodas.GAMMA)
    if not method.has_tableau:
        return None
    assert isinstance(method, EmbeddedRungeKutta)
    rows, weights, error = tuple(map(tuple, method.a)), tuple(method.weights), tuple(method.e)
    return ExplicitTableau(rows, weights, error, tuple(method.nodes), method.last_is_next)


def _cotangents(pool: ValuePool, width: int, count: int) -> list[Value]:
    """Those of the states at which slopes are taken, and of the one that the step leads to; none goes back from the error."""
    cotangent = pool.given("cotangent", (count + 1) * width)
    return [pool.slice(cotangent, k * width, width) for k in range(count)]


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
