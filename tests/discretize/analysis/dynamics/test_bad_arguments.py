"""What flows, maps and their analyses refuse, in the user's words."""

from functools import partial

import pytest
import torch

import ctrnn
from discretize import Euler, Flow, Map, basins, continuation, fixed_points, lyapunov, periodic_orbits, phase_plane

# What every test has as its default dtype is not yet set here.
zeros, ones = partial(torch.zeros, dtype=torch.float64), partial(torch.ones, dtype=torch.float64)
FIELD = ctrnn.plain(2, 3, dtype=torch.float64)
FLOW, STARTS, H, TWO = Flow(FIELD, zeros(2)), zeros(4, 3), zeros(3), zeros(1, 2)
PLANE = Flow(lambda _, h: -h)
LOGISTIC, UNIT = Map(lambda r, h: r * h * (1 - h)), 0.3 * ones(2, 1)
XS, SQUARE = zeros(20, 4, 2), ((-1, 1), (-1, 1))


def moved(weights):
    return fixed_points(Flow(FIELD, zeros(2), weights), STARTS)


def followed(h=UNIT[0], p=1.5, limits=(1.2, 3.5), **settings):
    return continuation(LOGISTIC, h, p, limits, **settings)


def ended(attractors=(H,), length=1, **settings):
    return basins(FLOW.stepped(Euler()), STARTS, attractors, length=length, **settings)


# What is called, the error, and what its words hold.
REFUSED = [
    (lambda: Flow(FIELD, zeros(3)), ValueError, "`x` has shape (3,), the field reads 2 input features"),
    (lambda: Flow(FIELD, zeros(4, 2)), ValueError, "`x` must be one input (input,); of a parameter"),
    (lambda: fixed_points(Flow(FIELD, lambda p: zeros(3, 2)), STARTS), ValueError, "one for each of (4,); got shape (3, 2)"),
    (lambda: moved({}), TypeError, "`weights` must be a function of the parameter, p -> {name: value}, got dict"),
    (lambda: moved(lambda p: {"no": p}), ValueError, "`weights` gives 'no', and the field has candidate."),
    (lambda: moved(lambda p: {"candidate.bias": p}), ValueError, "'candidate.bias' as (), in the field it is (3,)"),
    (lambda: Map(LOGISTIC.field, dt=-1.0), ValueError, "`dt` must be positive, got -1.0"),
    (lambda: fixed_points(LOGISTIC, UNIT, "3"), TypeError, "`p` must be a number, or a tensor of numbers, got '3'"),
    (lambda: fixed_points(LOGISTIC, UNIT[:0]), ValueError, "`starts` must be states (n, state), one or more, in floating point"),
    (lambda: fixed_points(FLOW, TWO), ValueError, "`starts` has 2 units on its last axis (shape (1, 2)), the field keeps 3"),
    (lambda: followed(UNIT), ValueError, "`h` must be one state (state,) in floating point, got torch.float64 (2, 1)"),
    (lambda: followed(p=9.0), ValueError, "`p` must be within `limits`, and `direction` 1 or -1; got 9.0"),
    (lambda: followed(limits=3.5), ValueError, "`limits` must be (low, high), with low < high, got 3.5"),
    (lambda: lyapunov(FLOW, STARTS, xs=XS[:, :3]), ValueError, "(time, 4, input) or (time, 1, input), got shape (20, 3, 2)"),
    (lambda: lyapunov(FLOW, STARTS, xs=XS[..., :1]), ValueError, "`xs` has shape (20, 4, 1), the field reads 2 input features"),
    (lambda: lyapunov(LOGISTIC, UNIT, ones(3), intervals=20), ValueError, "each of the states (2,), got shape (3,)"),
    (lambda: ended(0.0), TypeError, "`attractors` must be a list, got float; of fixed points found, `list(found.h)`"),
    (lambda: ended([H, 1.0]), ValueError, "`attractors[1]` must be an orbit, a state (3,) or several (k, 3), got float"),
    (lambda: ended(length=2.7), ValueError, "`length` of a map is how often it is applied, a whole number, got 2.7"),
    (lambda: phase_plane(PLANE, "all"), ValueError, "(low, high) of each of two units, with low < high, got 'all'"),
    (lambda: phase_plane(PLANE, SQUARE, starts=STARTS), ValueError, "`starts` must be (n, 2), for a phase plane is of two units"),
    (lambda: phase_plane(FLOW, SQUARE), ValueError, "A phase plane is of two units, and the field keeps 3"),
    (lambda: Flow(ctrnn.gru(2, 3)), ValueError, "give the input that is held"),
    (lambda: Flow(PLANE.field, weights=lambda p: {}), TypeError, "its parameter as its input"),
    (lambda: Map(FIELD, x=zeros(2)), ValueError, "a field is no map"),
    (lambda: fixed_points(FIELD, STARTS), TypeError, "`system` must be a discretize.analysis.Flow"),
    (lambda: fixed_points(FIELD, STARTS), TypeError, "take `discretize.Flow(field, x)`, its input held at x"),
    (lambda: periodic_orbits(PLANE, 2, TWO), TypeError, "is a flow"),
    (lambda: continuation(Flow(lambda p, h: p + h**2), ones(1), 1.0, (0, 2)), ValueError, "no fixed point near"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_what_does_not_fit_is_refused_in_words(call, error, words):
    with pytest.raises(error) as refused:
        call()
    assert words in str(refused.value)
