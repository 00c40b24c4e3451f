"""Under autocast: half precision comes in, as from a linear layer, and is read in the field's own; gradients go back through.

bfloat16 rounds at 2^-8 of what it is given; states are below 1, and a few roundings add up along a sequence.
"""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import ctrnn
from discretize import BackwardEuler, ContinuousRNN, DiscreteCell, DiscreteRNN, Euler, Layers, Trapezoid, integrate, unroll

ROUNDING = 2.0**-8
TS = torch.arange(7.0)


@pytest.fixture(autouse=True)
def _float32():
    torch.set_default_dtype(torch.float32)


def half():
    return torch.autocast("cpu", dtype=torch.bfloat16)


WAYS = {
    "field": lambda field, x: field(x[0], torch.zeros(4, field.state_size, dtype=x.dtype)),
    "step": lambda field, x: Euler()(field, x[0], torch.zeros(4, field.state_size, dtype=x.dtype), 0.5),
    "cell": lambda field, x: DiscreteCell(field)(x[0], torch.zeros(4, field.state_size, dtype=x.dtype)),
    "unroll": lambda field, x: unroll(DiscreteCell(field), x).hs,
    "discrete": lambda field, x: DiscreteRNN(field)(x, torch.zeros(4, field.state_size, dtype=x.dtype))[0],
    "backward Euler": lambda field, x: DiscreteRNN(field, BackwardEuler())(x)[0],
    "trapezoid": lambda field, x: DiscreteRNN(field, Trapezoid())(x)[0],
    "continuous": lambda field, x: ContinuousRNN(field)(x, torch.zeros(1, 4, field.state_size, dtype=x.dtype))[0],
    "packed": lambda field, x: ContinuousRNN(field)(pack_padded_sequence(x, [6, 4, 2, 1]))[0].data,
    "held": lambda field, x: integrate(field, ctrnn.HeldPath(x), field.initial_state(4).to(x.dtype), TS).hs,
    "linear": lambda field, x: integrate(field, ctrnn.LinearPath(x), field.initial_state(4), TS[:6], method="bosh3").hs,
}


@pytest.mark.parametrize(("name", "way"), [*(("gated", way) for way in WAYS), ("lstm", "discrete")])
def test_half_precision_under_autocast_is_float32_to_its_rounding_gradients_too(name, way):
    generator = torch.Generator().manual_seed(3)
    field, linear = getattr(ctrnn, name)(3, 5, generator=generator), nn.Linear(2, 3)
    x = torch.randn(6, 4, 2, generator=generator)
    exact = WAYS[way](field, linear(x))
    given = [*field.parameters(), *linear.parameters()]
    wanted = torch.autograd.grad(exact.square().sum(), given)
    with half():
        read = linear(x)
        assert read.dtype == torch.bfloat16
        got = WAYS[way](field, read)
    assert got.dtype == torch.float32
    assert_close(got, exact, rtol=0, atol=4 * ROUNDING)
    for ours, theirs in zip(torch.autograd.grad(got.square().sum(), given), wanted, strict=True):
        assert_close(ours, theirs, rtol=0, atol=8 * ROUNDING * float(theirs.abs().max()) + 1e-6)


def test_a_solve_of_half_precision_is_that_of_the_rounded_input_to_the_last_bit():
    field, x = ctrnn.gated(3, 5), torch.randn(6, 4, 3)
    plain, _ = ContinuousRNN(field)(x.bfloat16().float())
    with half():
        got, _ = ContinuousRNN(field)(x.bfloat16())
        h0, path = torch.zeros(4, 5, dtype=torch.bfloat16), ctrnn.FunctionPath(lambda t: x[0].bfloat16(), (0.0, 6.0), 3)
        assert integrate(field, path, h0, TS).hs.dtype == torch.float32
    assert torch.equal(got, plain)


def test_the_pair_of_states_of_an_lstm_may_come_in_half_precision():
    rnn, x, h = DiscreteRNN(ctrnn.lstm(3, 5)), torch.randn(6, 4, 3), torch.zeros(4, 5, dtype=torch.bfloat16)
    with half():
        assert rnn(x, (h, h))[1].dtype == torch.float32


def test_stacked_layers_take_half_precision_too():
    layers, x = Layers([DiscreteRNN(ctrnn.lstm(3, 5)), DiscreteRNN(ctrnn.lstm(5, 5))], pair=True), torch.randn(6, 4, 3)
    wanted, _ = layers(x)
    with half():
        got, (h, c) = layers(x.bfloat16())
        layers(x.bfloat16(), (h.bfloat16(), c.bfloat16()))
    assert_close(got, wanted, rtol=0, atol=4 * ROUNDING)


@pytest.mark.kernels
def test_kernels_run_in_the_dtype_of_the_field_on_the_way_back_too():
    field, x = ctrnn.gated(3, 5), torch.randn(120, 4, 3).bfloat16()
    rnn = DiscreteRNN(field)
    plain = torch.autograd.grad(rnn(x.float())[0].square().sum(), list(field.parameters()))
    with half():
        got, _ = rnn(x)
        assert (rnn.stats["engine"], rnn.stats["engine_why"]) == ("compiled", None)
        inside = torch.autograd.grad(got.square().sum(), list(field.parameters()))
    for ours, theirs in zip(inside, plain, strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))  # float32's rounding, in other sums


@pytest.mark.filterwarnings("ignore:.*autocast:UserWarning")
def test_what_modules_of_torch_refuse_is_refused_in_words():
    x = torch.randn(6, 4, 3).double()
    with half(), pytest.raises(RuntimeError, match="same dtype"):
        nn.GRU(3, 5)(x)
    with half(), pytest.raises(TypeError, match=r"`x` is torch.float64, the field's parameters are torch.float32"):
        DiscreteRNN(ctrnn.gated(3, 5))(x)


def test_without_autocast_nobody_has_asked_for_a_cast():
    with pytest.raises(TypeError, match=r"`x` is torch.bfloat16"):
        DiscreteRNN(ctrnn.gated(3, 5))(torch.randn(6, 4, 3).bfloat16())


@pytest.mark.parametrize(
    "module", [DiscreteRNN, lambda field: ContinuousRNN(field, rtol=1e-2, atol=1e-2)], ids=["steps", "solve"]
)
def test_a_model_learns_under_autocast_what_it_learns_without(module):
    x = torch.randn(4, 16, 2, generator=torch.Generator().manual_seed(0))
    target = x.cumsum(0)[..., :1].tanh()

    def losses(enabled):
        torch.manual_seed(1)
        encode, rnn, read = nn.Linear(2, 4), module(ctrnn.gated(4, 8)), nn.Linear(8, 1)
        parts = nn.ModuleList([encode, rnn, read])
        optimizer = torch.optim.Adam(parts.parameters(), lr=0.03)
        for _ in range(8):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                loss = nn.functional.mse_loss(read(rnn(encode(x))[0]).float(), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield float(loss.detach())
        assert all(p.dtype == torch.float32 and bool(p.isfinite().all()) for p in parts.parameters())

    mixed, plain = list(losses(True)), list(losses(False))
    assert mixed[-1] < 0.7 * mixed[0]
    assert mixed == pytest.approx(plain, rel=0.05)
