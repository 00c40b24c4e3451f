"""Code that is its equations but for rounding, and what is not; assumptions on letters."""

import math

import pytest
import torch
from sympy import E, Float, Max, Min, Piecewise, Rational, Symbol, exp, log, pi, sign, sin, sqrt, symbols, tanh
from torch import nn
from torch.nn import functional

from derivations import verify
from derivations.prover.verdict import BUT_FOR_ROUNDING, FAILS, HOLDS, HOLDS_ASSUMING
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data, replay

x1, h1, k = symbols("x_1 h_1 k", real=True)


class Coded(nn.Module):
    input_size = hidden_size = 1

    def __init__(self, function):
        super().__init__()
        self.function, self.k = function, nn.Parameter(torch.tensor(0.7))

    def forward(self, x, h):
        return self.function(self, x, h)


ROUNDED = {
    "pi": (lambda s, x, h: math.pi * h, pi * h1, "pi stands for the float 3.141592653589793, less than 1.3e-16 away"),
    "a product": (lambda s, x, h: torch.sin(2 * math.pi * h), sin(2 * pi * h1), "2*pi stands for the float 6.283185307179586"),
    "a root": (lambda s, x, h: h * 3**-0.5, h1 / sqrt(3), "sqrt(3)/3 stands for the float 0.57735026918962"),
    "a root of a product": (lambda s, x, h: h / math.sqrt(2 * math.pi), h1 / sqrt(2 * pi), "sqrt(2)*sqrt(pi) stands for"),
    "a third": (lambda s, x, h: h * (1 / 3), h1 / 3, "1/3 stands for"),
    "two decimals": (lambda s, x, h: 0.1 * h * 0.7, 7 * h1 / 100, "7/10 stands for the float 0.7"),
    "a product that the equation has rounded": (lambda s, x, h: 0.1 * (0.3 * h), Float(0.1 * 0.3) * h1, "1/10 stands for"),
    "single": (
        lambda s, x, h: h * torch.tensor(math.pi, dtype=torch.float32),
        pi * h1,
        "pi stands for the float32 3.1415927410125732",
    ),
    "a slope of torch's": (
        lambda s, x, h: functional.leaky_relu(h),
        Max(h1, 0) + Min(h1, 0) / 100,
        "1/100 stands for the float 0.01",
    ),
    "softplus": (
        lambda s, x, h: functional.softplus(h),
        log(1 + exp(h1)),
        "log(1 + e^u) stands for torch's softplus, which is u where",
    ),
    "softplus, beta": (lambda s, x, h: functional.softplus(h, beta=2), log(1 + exp(2 * h1)) / 2, "less than 1.0e-09 away"),
    "a slope of torch's, of a number times": (
        lambda s, x, h: functional.leaky_relu(math.pi * h, 0.5),
        Max(pi * h1, 0) + Min(pi * h1, 0) / 2,
        "pi stands for",
    ),
    "e": (lambda s, x, h: torch.tanh(math.e * h + x), tanh(E * h1 + x1), "E stands for the float 2.718281828459045"),
    "both": (lambda s, x, h: math.pi * functional.softplus(h) * x, pi * log(1 + exp(h1)) * x1, "pi stands for the float"),
    "a step of Mamba": (
        lambda s, x, h: torch.exp(-functional.softplus(s.k * x)) * h + functional.softplus(s.k * x) * x,
        exp(-log(1 + exp(k * x1))) * h1 + log(1 + exp(k * x1)) * x1,
        "torch's softplus",
    ),
}


@pytest.mark.by_default(4)
@pytest.mark.parametrize("what", ROUNDED)
def test_numbers_and_thresholds_that_are_so_but_for_rounding_are_exchanged_and_the_difference_is_said(what):
    code, equation, words = ROUNDED[what]
    found = verify(Coded(code), [equation])
    assert found.verdict == BUT_FOR_ROUNDING
    assert words in found.evidence
    assert not found
    assert found.holds is None
    steps = from_data(as_data(found.certificate))
    assert [replay(step) for step in steps]
    bounds = [step for step in steps if step["rule"] in ("rounds", "less")]
    assert bounds
    for step in bounds:  # a thousandth of the bound is too little
        closer = {"low": "high"} if step["rule"] == "rounds" else {"upper": "lower"}
        with pytest.raises(NotShown):
            replay({**step, **{key: step[other] for key, other in closer.items()}})


OTHERS = {
    "3.1416": (lambda s, x, h: 3.1416 * h, pi * h1),
    "ten digits": (lambda s, x, h: 3.141592654 * h, pi * h1),
    "the next float": (lambda s, x, h: math.nextafter(math.pi, 4) * h, pi * h1),
    "a third in digits": (lambda s, x, h: h * 0.33333333333333, h1 / 3),
    "a small number more": (lambda s, x, h: math.pi * h + 1e-12, pi * h1),
    "digits of a rest": (lambda s, x, h: (1 - (1 - 1e-12)) * h, h1 / 10**12),
    "dropped": (lambda s, x, h: h / (1 + x * x + 1e-8), h1 / (1 + x1**2)),
    "another threshold": (lambda s, x, h: functional.softplus(h, threshold=10), log(1 + exp(h1))),
    "a threshold by hand": (lambda s, x, h: torch.where(h > 20, h, torch.log(1 + torch.exp(h))), log(1 + exp(h1))),
    "another softplus": (lambda s, x, h: functional.softplus(h), log(2 + exp(h1))),
    "a softplus under a jump": (
        lambda s, x, h: torch.sign(functional.softplus(h) - h),
        sign(log(1 + exp(h1)) - h1),
    ),
    "a softplus blown up": (
        lambda s, x, h: 1e12 * torch.relu(functional.softplus(h) - h),
        10**12 * Max(log(1 + exp(h1)) - h1, 0),
    ),
    "a number under a jump": (lambda s, x, h: torch.sign(0.1 * h * 3 - 0.3 * h), 0 * h1),
    "another function": (lambda s, x, h: math.pi * torch.tanh(h), pi * h1),
}


@pytest.mark.by_default(4)
@pytest.mark.parametrize("what", OTHERS)
def test_any_other_number_refutes(what):
    code, equation = OTHERS[what]
    assert verify(Coded(code), [equation]).verdict == FAILS


def test_what_is_exactly_so_holds_as_before():
    assert verify(Coded(lambda s, x, h: h / 2 + x), [h1 / 2 + x1]).verdict == HOLDS
    threshold = Piecewise((h1, h1 > 20), (log(1 + exp(h1)), True))
    assert verify(Coded(lambda s, x, h: functional.softplus(h)), [threshold]).verdict == HOLDS


def of_root(s, x, h):
    return torch.sqrt(s.k**2) * torch.tanh(h)


def test_assumptions_on_letters_are_given_or_carried_by_the_letters_of_the_equations():
    assert verify(Coded(of_root), [k * tanh(h1)]).verdict == FAILS
    for found in (
        verify(Coded(of_root), [k * tanh(h1)], assumptions=[k > 0]),
        verify(Coded(of_root), [Symbol("k", positive=True) * tanh(h1)]),
    ):
        assert found.verdict == HOLDS_ASSUMING
        assert found.defined_on == (k > 0,)
    found = verify(Coded(of_root), [2 * Symbol("k", positive=True) * tanh(h1)])
    assert found.verdict == FAILS
    assert found.counterexample[k] > 0
    assert verify(Coded(lambda s, x, h: s.k * h), [Symbol("k", positive=True) * h1]).verdict == HOLDS  # needs none
    assert verify(Coded(lambda s, x, h: h), [x1], assumptions=[k > 0, k < 0]).holds is None  # of nothing anything is true


@pytest.mark.parametrize(
    ("assumption", "words"),
    [(Symbol("k", positive=True) > 0, "True by itself"), (k, "relations as tau > 0"), (Symbol("z") > 0, "use z, which")],
)
def test_what_is_no_assumption_on_a_letter_of_the_module_is_refused(assumption, words):
    with pytest.raises(ValueError, match=words):
        verify(Coded(of_root), [k * h1], assumptions=[assumption])


def test_a_decimal_is_the_fraction_it_shows_and_not_one_beside():
    assert verify(Coded(lambda s, x, h: 0.3 * h), [Rational(3000001, 10**7) * h1]).verdict == FAILS


FAR = {
    "a clamp at 100": (lambda s, x, h: (h + x).clamp(-100, 100), h1 + x1),
    "a clamp within a function": (lambda s, x, h: torch.exp((h + x).clamp(max=80)), exp(h1 + x1)),
    "a narrow bump of two letters": (lambda s, x, h: torch.relu(1e-9 - (x - 0.771).abs() - (h - 0.31).abs()) + h, h1),
    "a bump far away": (lambda s, x, h: torch.relu(x - 1e5) + h, h1),
    "a steep step": (lambda s, x, h: torch.tanh(10000 * h) + x, sign(h1) + x1),
}


@pytest.mark.by_default(2)
@pytest.mark.parametrize("what", FAR)
def test_what_differs_far_away_or_in_a_narrow_place_is_refuted_there(what):
    code, equation = FAR[what]
    found = verify(Coded(code), [equation])
    assert found.verdict == FAILS
    assert found.replay().units


def test_a_replay_shows_nan_where_another_unit_is_not_defined():
    class Two(Coded):
        hidden_size = 2

    h2 = Symbol("h_2", real=True)
    found = verify(Two(lambda s, x, h: (1 / (h + x)).clamp(0, 1)), [1 / (h1 + x1), 1 / (h2 + x1)])
    assert found.verdict == FAILS
    assert any(map(math.isnan, found.replay().equations))
