"""Compiled passes against those in torch, which other tests compare with autograd: the same but for the order of additions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.riemannian import compiled
from discretize.riemannian.directions import METRICS, backpropagated, transition_direction
from discretize.riemannian.natural import NATURAL
from discretize.riemannian.network import network_of
from discretize.riemannian.rows import REDUCTIONS

# Sums of tens of terms of order 1, and a recursion that grows by less than 100 over 30 samples: 1000 roundings of the largest.
CLOSE = {torch.float64: {"rtol": 1e-12, "atol": 1e-12}, torch.float32: {"rtol": 1e-3, "atol": 1e-4}}
MAKERS = {"glnn": ctrnn.glnn, "gnn": ctrnn.gnn, "plain": None}


def model_of(make, symbols, units, edges, activation="tanh", dtype=None, seed=0):
    """With weights so small that two runs stay as near as rounding has them."""
    generator, like = torch.Generator().manual_seed(seed), {"dtype": dtype}
    gated = MAKERS[make]
    field = (
        gated(symbols, units, edges, activation, generator=generator, **like) if gated else ctrnn.plain(symbols, units, **like)
    )
    model = discretize.SymbolModel(field)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model, torch.Generator().manual_seed(seed + 1)


@st.composite
def problems(draw):
    sizes = draw(st.tuples(st.integers(1, 4), st.integers(1, 5)))
    edges = draw(st.integers(1, sizes[1]))
    kind = draw(
        st.sampled_from([(make, s) for make in MAKERS for s in ("tanh", "logistic") if (make, s) != ("plain", "logistic")])
    )
    dtype = draw(st.sampled_from([torch.float64, torch.float32]))
    model, generator = model_of(kind[0], *sizes, edges, kind[1], dtype, draw(st.integers(0, 1000)))
    time = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    mask = (torch.rand(time, generator=generator) < 0.8).to(dtype)
    return model, torch.randint(sizes[0], time, generator=generator), mask


@pytest.fixture
def short_sequences_too(monkeypatch):
    monkeypatch.setattr(compiled, "LEAST_SAMPLES", 1)


@settings(max_examples=60)
@given(problems())
def test_passes_of_random_networks_are_those_in_torch(problem):
    model, symbols, mask = problem
    found = []
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "LEAST_SAMPLES", 1)
        for fused in (True, False):
            network = network_of(model.field, fused)
            assert network.engine(symbols, model.start)[0] == ("compiled" if fused else "steps")
            activity = network.activities(symbols, model.start)
            pi = model.read_out(activity).softmax(-1)
            back = backpropagated(network, model.read_out.weight, symbols, activity, pi, mask)
            found.append((activity, back.values, back.moduli))
    assert_close(*found, **CLOSE[model.start.dtype])


@pytest.mark.parametrize("edges", [2, 5])
@pytest.mark.parametrize("dtype", list(CLOSE))
def test_sums_of_each_symbol_and_unit_are_those_in_torch(edges, dtype):
    model, generator = model_of("glnn", 4, 5, edges, dtype=dtype)
    part = network_of(model.field).edges
    read = torch.randint(3, (40, 2), generator=generator)  # of the last symbol there is no sample
    values, heard = (torch.randn(40, 2, 5, generator=generator, dtype=dtype) for _ in range(2))
    heard[:5] = 0  # what "frequency" does not count
    moduli = torch.rand(40, 2, 5, generator=generator, dtype=dtype)
    for kind in {step.sums for step in REDUCTIONS.values()}:
        ours = compiled.sums(kind, part, values, moduli, read, heard)
        for y in range(4):
            at = read == y
            inputs = torch.cat([torch.ones(int(at.sum()), 5, 1, dtype=dtype), heard[at][:, part.sources]], -1)
            theirs = kind.of(values[at], moduli[at], inputs)
            for name, expected in vars(theirs).items():
                assert_close(
                    getattr(ours, name).unflatten(0, (4, 5))[y], expected.reshape(5, *expected.shape[1:]), **CLOSE[dtype]
                )


@pytest.mark.parametrize("make", list(MAKERS))
def test_directions_by_every_metric_are_those_in_torch(make, short_sequences_too):
    model, generator = model_of(make, 3, 4, 3)
    symbols, chi = torch.randint(3, (60, 2), generator=generator), torch.ones(60, 2)
    activity = model.activities(symbols).detach()
    for metric in set(METRICS) - set(NATURAL):  # which have no kernels
        for reduction in REDUCTIONS:
            ours, theirs = (
                transition_direction(model, symbols, chi, activity, metric, reduction, 1.0, fused) for fused in (True, False)
            )
            for parameter, move in ours.items():
                # Dampened matrices have condition numbers below 1e4.
                assert_close(move, theirs[parameter], rtol=1e-9, atol=1e-9, msg=f"{metric} {reduction}")


def test_threads_change_no_bits(short_sequences_too):
    model, generator = model_of("glnn", 3, 5, 3)
    symbols, before, found = torch.randint(3, (50, 4), generator=generator), torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            network, chi = network_of(model.field), torch.ones(50, 4)
            activity = network.activities(symbols, model.start).detach()
            back = backpropagated(network, model.read_out.weight.detach(), symbols, activity, torch.full((50, 4, 3), 1 / 3), chi)
            sums = compiled.sums(REDUCTIONS["full"].sums, network.edges, back.values, back.moduli, symbols, activity)
            found.append([activity, back.values, back.moduli, *vars(sums).values()])
    finally:
        torch.set_num_threads(before)
    assert_close(*found, rtol=0, atol=0)


def test_training_says_what_ran_and_is_the_same(monkeypatch):
    symbols = torch.tensor([0] * 5 + [1] * 5 + [2]).repeat(100)[:, None]
    reached, engines = [], []
    for fused, setting in ((True, "1"), (False, "1"), (True, "0")):
        monkeypatch.setenv("CTRNN_FUSED", setting)
        generator = torch.Generator().manual_seed(0)
        model = discretize.SymbolModel(ctrnn.glnn(3, 4, 3, generator=generator))
        model.begin(symbols, generator=generator)
        ascent = discretize.RiemannianAscent(model, fused=fused)
        reached.append([ascent.step(symbols) for _ in range(2)])
        engines.append(ascent.stats)
        with torch.no_grad():  # also of a model that is only read
            assert_close(model(symbols), model.read_out(model.activities(symbols, fused=False)), rtol=1e-9, atol=1e-9)
    assert_close(reached[0], reached[1], rtol=1e-9, atol=0)
    assert reached[1] == reached[2]
    assert [stats["engine"] for stats in engines] == ["compiled", "steps", "steps"]
    for stats, why in zip(engines, ("None", "`fused` is False", "CTRNN_FUSED is 0"), strict=True):
        assert str(stats["engine_why"]) == why
