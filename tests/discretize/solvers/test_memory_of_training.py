"""A step of training leaves nothing behind: what a graph keeps must not keep the graph, which no collector of garbage finds."""

import gc

import pytest
import torch
from problems import thinned

import ctrnn
from discretize import (
    Adjoint,
    BackwardEuler,
    Checkpointed,
    ContinuousRNN,
    DiscreteRNN,
    Euler,
    ensemble,
    integrate,
    ode_rnn,
)  # fmt: skip

pytestmark = pytest.mark.kernels  # they keep what they were called with


def alive():
    gc.collect()
    kinds = torch.Tensor, torch.autograd.function.BackwardCFunction
    return sum(issubclass(type(thing), kinds) for thing in gc.get_objects())


def solved(**how):
    return ContinuousRNN(ctrnn.gru(2, 4), **how)


def on_a_path(between):
    field, h0, ts = ctrnn.gru(2, 4), torch.zeros(3, 4), torch.arange(6.0)

    def run(x):
        found = integrate(field, ctrnn.LinearPath(x), h0, ts)
        return found(ts[1:] - 0.5) if between else found.hs

    return run


def times_learned(x):
    ts = torch.arange(6.0).requires_grad_()
    return integrate(ctrnn.gru(2, 4), ctrnn.LinearPath(x), torch.zeros(3, 4), ts).hs


def observed():
    model = ode_rnn(2, 2)
    return lambda x: model(x, ts=torch.arange(6.0))[0]


def first(module):
    return lambda x: module(x)[0]


FEW_STEPS = {"rtol": 1e-2, "atol": 1e-2}
WAYS = {
    "a solve": lambda: first(solved()),
    "a solve step by step": lambda: first(solved(fused=False, **FEW_STEPS)),
    "of steps of fixed length": lambda: first(solved(method="rk4", max_step=0.5)),
    "implicit": lambda: first(solved(method="rodas5p")),
    "in blocks": lambda: first(solved(gradient=Checkpointed(1000), **FEW_STEPS)),
    "by the adjoint": lambda: first(solved(gradient=Adjoint(), **FEW_STEPS)),
    "at times": lambda: on_a_path(between=False),
    "between times": lambda: on_a_path(between=True),
    "to times": lambda: times_learned,
    "Euler steps": lambda: first(DiscreteRNN(ctrnn.gru(2, 4), Euler())),
    "implicit steps": lambda: first(DiscreteRNN(ctrnn.gru(2, 4), BackwardEuler())),
    "several models": lambda: first(ensemble([solved(), solved()])),
    "jumps": observed,
}


@pytest.fixture(autouse=True)
def _only_what_is_new():
    gc.collect()
    gc.freeze()  # else all that the tests before left is looked through each time


EVERY_DAY = ["a solve step by step", "in blocks", "by the adjoint", "between times", "Euler steps", "jumps"]


@pytest.mark.parametrize("way", thinned(WAYS, EVERY_DAY))  # the others keep nothing that these do not
def test_a_step_of_training_leaves_no_tensor_and_no_node_behind(way):
    run, x = WAYS[way](), torch.randn(6, 3, 2)
    for _ in range(3):
        run(x).sum().backward()  # gradients are there, and what is computed once, for plans at the second call or the third
    before = alive()
    run(x).sum().backward()
    assert alive() == before
