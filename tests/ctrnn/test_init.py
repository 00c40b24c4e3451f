"""Biases for a range of time scales: what is drawn, where it is written, and what torch's own modules make of it."""

import math

import numpy as np
import pytest
import torch
from problems import NAMED_FIELDS, sigmoid_leaky
from scipy import stats
from torch import nn
from torch.nn.utils import parametrize
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.init import ENVELOPE, LONGEST, chrono_, gate_bias_, inverse_gamma_, slow_decay_, uniform_gates_

LEAST, MOST = 3.0, 40.0


def with_rate(rate):
    return ctrnn.Relaxation(ctrnn.TanhCandidate(3, 7), rate, ctrnn.LinearDecay())


def of_sigmoid(b):
    return 1 + np.exp(-b)


def of_softplus(b):
    return 1 / np.log1p(np.exp(b))


def of_exponential(b):
    return np.exp(-b)


# field, the parameter that was set, T from it, how many are drawn
FIELDS = {
    "gated": (lambda **s: ctrnn.gated(3, 7, **s), "rate.bias", of_sigmoid, 7),
    "global": (lambda **s: ctrnn.gated(3, 7, "global", **s), "rate.bias", of_sigmoid, 1),
    "network": (lambda **s: ctrnn.gated(3, 7, "network", **s), "rate.bias", of_sigmoid, 1),
    "power": (lambda **s: ctrnn.gated(3, 7, decay=ctrnn.PowerDecay(2), **s), "rate.bias", of_sigmoid, 7),
    "softplus": (lambda **s: ctrnn.gated(3, 7, rate="softplus", **s), "rate.bias", of_softplus, 7),
    "global softplus": (lambda **s: ctrnn.gated(3, 7, "global", rate="softplus", **s), "rate.bias", of_softplus, 1),
    "exponential": (lambda **s: ctrnn.gated(3, 7, rate="exponential", **s), "rate.bias", of_exponential, 7),
    "global exponential": (lambda **s: ctrnn.gated(3, 7, "global", rate="exponential", **s), "rate.bias", of_exponential, 1),
    "gru": (lambda **s: ctrnn.gru(3, 7, **s), "rate.bias", of_sigmoid, 7),
    "leaky": (lambda **s: ctrnn.leaky(3, 7, **s), "rate.log_alpha", of_exponential, 1),
    "leaky per unit": (lambda **s: ctrnn.leaky(3, 7, 0.3, True, **s), "rate.log_alpha", of_exponential, 7),
}
CONSTANTS = {
    "sigmoid constant": (lambda: with_rate(ctrnn.SigmoidConstantRate(torch.full((7,), 0.5))), "rate.logit_alpha", of_sigmoid, 7),
    "one sigmoid constant": (lambda: sigmoid_leaky(3, 7), "rate.logit_alpha", of_sigmoid, 1),
    "softplus constant": (lambda: with_rate(ctrnn.SoftplusConstantRate(0.5)), "rate.logit_alpha", of_softplus, 1),
}


def state_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def changed(before, module):
    return {name for name, value in module.state_dict().items() if not torch.equal(value, before[name])}


def silent(module):
    """All weights zero: nothing is read, nothing is written, gates stand at their biases."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "weight" in name:
                parameter.zero_()
    return module


@pytest.mark.parametrize("name", [*FIELDS, *CONSTANTS])
def test_chrono_sets_the_bias_of_a_time_in_the_range_and_nothing_else(name):
    make, parameter, time_of, draws = (FIELDS | CONSTANTS)[name]
    field = make()
    before = state_of(field)
    assert chrono_(field, MOST, t_min=LEAST) is field
    assert changed(before, field) == {parameter}
    T = time_of(field.state_dict()[parameter].numpy()).reshape(-1)
    assert T.shape == (draws,)
    assert len(set(T)) == draws
    assert (T >= LEAST * (1 - 1e-13)).all()
    assert (T <= MOST * (1 + 1e-13)).all()
    timescales = ctrnn.timescales(field)
    assert_close(timescales, torch.from_numpy(T).expand(7), rtol=1e-12, atol=0)


def test_the_gates_of_an_lstm_are_tied_at_the_start_and_the_rest_stays():
    field = ctrnn.lstm(3, 7)
    before = state_of(field)
    chrono_(field, MOST, t_min=LEAST)
    assert changed(before, field) == {"gates.bias"}
    i, f, g, o = field.gates.bias.detach().chunk(4)
    assert torch.equal(i, -f)
    assert torch.equal(torch.cat([g, o]), before["gates.bias"][14:])
    T = 1 / (1 - torch.sigmoid(f))
    assert len(set(T.tolist())) == 7
    assert T.min() >= LEAST
    assert T.max() <= MOST


@pytest.mark.parametrize("make", [ctrnn.gated, ctrnn.gru, ctrnn.lstm, ctrnn.leaky])
def test_every_layer_of_a_stack_is_set(make):
    field = chrono_(make(3, 4, num_layers=3), MOST, t_min=LEAST)
    T = ctrnn.timescales(field)
    assert T.shape == (12,)
    assert ((T >= LEAST) & (T <= MOST)).all()
    assert len(set(T.tolist())) == (3 if make is ctrnn.leaky else 12)


def test_a_parametrized_bias_gets_its_time_through_the_parametrization():
    field, lstm = ctrnn.gated(3, 7), nn.LSTM(3, 7)
    parametrize.register_parametrization(field.rate, "bias", Halved())
    for name in ("bias_ih_l0", "bias_hh_l0"):
        parametrize.register_parametrization(lstm, name, Halved())
    T = ctrnn.timescales(chrono_(field, MOST, t_min=LEAST))
    assert ((T >= LEAST) & (T <= MOST)).all()
    chrono_(lstm, MOST, t_min=LEAST)
    assert torch.equal(lstm.bias_ih_l0[:7], -lstm.bias_ih_l0[7:14])
    assert not lstm.bias_hh_l0[:14].any()
    assert ((1 + lstm.bias_ih_l0[7:14].exp()) <= MOST).all()


def test_a_part_of_a_bias_is_filled_alone_and_returned():
    bias = nn.Parameter(torch.zeros(4, 3))
    part = bias[1:3]
    with torch.no_grad():
        assert gate_bias_(part, 6.0, 6.0) is part
    assert_close(bias[1:3].detach(), torch.full((2, 3), -math.log(5)), rtol=1e-14, atol=0)
    assert not bias[0].any()
    assert not bias[3].any()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.LSTMCell, nn.GRU, nn.GRUCell])
def test_modules_of_torch_forget_at_the_pace_that_was_set(kind):
    """With silent weights and no other bias, torch's c or h is multiplied by 1 - 1/T at every step."""
    lstm, cell = kind in (nn.LSTM, nn.LSTMCell), kind in (nn.LSTMCell, nn.GRUCell)
    module = silent(kind(3, 5))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "bias" in name:
                parameter.uniform_(-1, 1)
                parameter[10:15].zero_()  # torch's n of the GRU and g of the LSTM: the candidate is 0
    chrono_(module, MOST, t_min=LEAST)
    x, start = torch.randn(6, 1, 3), torch.ones(1, 1, 5)
    if cell:
        state = (torch.zeros(1, 5), start[0]) if lstm else start[0]
        for sample in x:
            state = module(sample, state)
        left = state[1][0] if lstm else state[0]
    else:
        state = module(x, (torch.zeros(1, 1, 5), start) if lstm else start)[1]
        left = (state[1] if lstm else state)[0, 0]
    T = 1 / (1 - left.detach() ** (1 / 6))
    assert len(set(T.tolist())) == 5
    assert T.min() >= LEAST
    assert T.max() <= MOST


def test_all_layers_directions_and_projections_of_torch_are_set():
    module = nn.LSTM(3, 6, num_layers=2, bidirectional=True, proj_size=2)
    before = state_of(module)
    chrono_(module, MOST, t_min=LEAST)
    seen = set()
    for suffix in ("_l0", "_l0_reverse", "_l1", "_l1_reverse"):
        first, second = (module.state_dict()[f"bias_{which}{suffix}"] for which in ("ih", "hh"))
        i, f, g, o = first.chunk(4)
        assert torch.equal(i, -f)
        assert not second[:12].any()
        assert torch.equal(torch.cat([g, o]), before[f"bias_ih{suffix}"][12:])
        assert torch.equal(second[12:], before[f"bias_hh{suffix}"][12:])
        seen |= set(f.tolist())
        T = 1 + f.exp()
        assert T.min() >= LEAST
        assert T.max() <= MOST
    assert len(seen) == 24
    assert all("bias" in name for name in changed(before, module))


@pytest.mark.parametrize("rate", ["sigmoid", "softplus", "exponential"])
def test_the_solved_field_falls_to_one_over_e_in_the_time_that_was_set(rate):
    field = silent(ctrnn.gated(1, 1, rate=rate))
    chrono_(field, 20.0, t_min=20.0)
    with torch.no_grad():
        field.candidate.bias.zero_()
    rnn = discretize.ContinuousRNN(field, rtol=1e-10, atol=1e-12)
    left = rnn(torch.zeros(20, 1, 1), torch.ones(1, 1))[0][-1]
    assert_close(left, torch.full((1, 1), math.exp(-1)), rtol=1e-8, atol=0)


def test_through_the_softplus_clock_the_discrete_cell_itself_forgets_in_exactly_that_many_steps():
    field = silent(ctrnn.gated(1, 1))
    chrono_(ctrnn.softplus_clock(field), 20.0, t_min=20.0)
    with torch.no_grad():
        field.candidate.bias.zero_()
    left = discretize.DiscreteRNN(field)(torch.zeros(20, 1, 1), torch.ones(1, 1))[0][-1]
    assert_close(left, torch.full((1, 1), math.exp(-1)), rtol=1e-13, atol=0)
    assert_close(field.rate.bias.detach(), torch.tensor([math.log(math.exp(1 / 20) - 1)]), rtol=1e-14, atol=0)


@pytest.mark.parametrize("how", [lambda f, **s: chrono_(f, MOST, **s), slow_decay_, uniform_gates_])
def test_a_generator_is_all_the_chance_there_is(how):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, other, third = (ctrnn.lstm(3, 7, generator=torch.Generator().manual_seed(0)) for _ in range(3))
    how(one, generator=torch.Generator().manual_seed(8))
    how(other, generator=torch.Generator().manual_seed(8))
    how(third, generator=torch.Generator().manual_seed(9))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.gates.bias, other.gates.bias)
    assert not torch.equal(one.gates.bias, third.gates.bias)
    how(one)  # without one, torch's own
    torch.random.set_rng_state(before)
    how(other)
    assert torch.equal(one.gates.bias, other.gates.bias)


@pytest.mark.parametrize("dtype", [torch.bfloat16])
@pytest.mark.parametrize("name", FIELDS)
def test_dtype_device_and_identity_of_parameters_are_kept(name, dtype):
    make, parameter, _, _ = FIELDS[name]
    field = make(dtype=dtype)
    before = dict(field.named_parameters())
    before[parameter].requires_grad_(False)  # frozen is no obstacle, and stays so
    chrono_(field, MOST, generator=torch.Generator().manual_seed(0))
    after = dict(field.named_parameters())
    assert all(after[key] is value for key, value in before.items())
    assert after[parameter].dtype == dtype
    assert not after[parameter].requires_grad
    exact = make(dtype=torch.float64)
    chrono_(exact, MOST, generator=torch.Generator().manual_seed(0))
    assert_close(after[parameter], dict(exact.named_parameters())[parameter].to(dtype), check_device=False, rtol=0, atol=0)
    chrono_(make(dtype=dtype, device="meta"), MOST)


class Halved(nn.Module):
    def forward(self, b):
        return b / 2

    def right_inverse(self, b):
        return 2 * b


class OneWay(nn.Module):
    def forward(self, b):
        return b / 2


def test_a_bias_that_cannot_be_set_is_refused():
    one_way = ctrnn.gated(3, 7)
    parametrize.register_parametrization(one_way.rate, "bias", OneWay(), unsafe=True)
    with pytest.raises(ValueError, match="parametrized without a right inverse"):
        chrono_(one_way, MOST)
    stack = ctrnn.gated(3, 7, num_layers=2)
    parametrize.register_parametrization(stack.fields[1].rate, "bias", OneWay(), unsafe=True)
    first = stack.fields[0].rate.bias.clone()
    with pytest.raises(ValueError, match="parametrized without a right inverse"):
        chrono_(stack, MOST)
    assert torch.equal(stack.fields[0].rate.bias, first)  # refused before anything was changed
    hooked = ctrnn.gated(3, 7)
    bias = hooked.rate.bias
    del hooked.rate._parameters["bias"]
    hooked.rate.bias = bias.detach()
    with pytest.raises(ValueError, match="`bias` is no parameter but made anew"):
        chrono_(hooked, MOST)


def test_a_module_without_gates_is_refused_and_then_nothing_was_changed():
    with pytest.raises(ValueError, match="`module` has the fixed rate 1 and no gate"):
        chrono_(ctrnn.plain(3, 5), MOST)
    mixed = ctrnn.Stack([ctrnn.gated(3, 5), ctrnn.plain(5, 5)])
    before = state_of(mixed)
    with pytest.raises(ValueError, match=r"`module.fields\[1\]` has the fixed rate 1"):
        chrono_(mixed, MOST)
    half = ctrnn.Stack([ctrnn.gated(3, 5), ctrnn.gated(5, 5, bias=False)])
    unset = state_of(half)
    with pytest.raises(ValueError, match="without a bias"):
        chrono_(half, MOST)
    assert not changed(before, mixed)
    assert not changed(unset, half)


def doubled(field):
    class Twice(nn.Module):
        def forward(self, weight):
            return 2 * weight

    parametrize.register_parametrization(next(part for part in field.modules() if hasattr(part, "weight_h")), "weight_h", Twice())
    return field


GATED, BIAS = ctrnn.gated(3, 5), torch.zeros(3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: chrono_(with_rate(ctrnn.Affine(3, 7, 7)), MOST), TypeError, "has the rate Affine; how its bias sets a time"),
        (lambda: chrono_(nn.RNN(3, 5), MOST), TypeError, "must be a field with gates.*got RNN"),
        (lambda: chrono_(discretize.DiscreteRNN(GATED), MOST), TypeError, "got DiscreteRNN; pass its field, `module.field`"),
        (lambda: chrono_(ctrnn.lstm(3, 5, bias=False), MOST), ValueError, "without a bias.*make it with bias=True"),
        (lambda: chrono_(nn.GRU(3, 5, bias=False), MOST), ValueError, "without a bias.*make it with bias=True"),
        (lambda: chrono_(GATED, 5.0, t_min=1.0), ValueError, "`t_min` must be above 1, got 1"),
        (lambda: chrono_(GATED, 1.5), ValueError, "`t_max` must be at least `t_min`, got 1.5 and 2"),
        (lambda: chrono_(GATED, MOST, generator=7), TypeError, "`generator` must be a torch.Generator, got int"),
        (lambda: gate_bias_(BIAS, 2.0, float("inf")), ValueError, "`t_max` must be finite"),
        (lambda: gate_bias_(BIAS.long(), 2, 5), TypeError, "`bias` must be floating point, got torch.int64"),
        (lambda: gate_bias_([0.0], 2, 5), TypeError, "`bias` must be a torch.Tensor, got list"),
        (lambda: inverse_gamma_(GATED, 0.0), ValueError, "`shape` must be"),
        (lambda: inverse_gamma_(GATED, scale=-1.0), ValueError, "`scale` must be"),
        (lambda: inverse_gamma_(GATED, generator=7), TypeError, "`generator` must be a torch.Generator, got int"),
        (lambda: uniform_gates_(GATED, 0.0), ValueError, "`least` must be positive, got 0.0"),
        (lambda: uniform_gates_(GATED, 0.5), ValueError, "`least` must be above 0 and below 1/2, got 0.5"),
        (lambda: uniform_gates_(GATED, generator=7), TypeError, "`generator` must be a torch.Generator, got int"),
        (lambda: uniform_gates_(ctrnn.gated(3, 5, "global")), ValueError, "`module` has 1 gate in a layer.*give `least`"),
        (lambda: uniform_gates_(ctrnn.lstm(3, 2)), ValueError, "`module` has 2 gates in a layer.*give `least`"),
        (lambda: uniform_gates_(ctrnn.lstm(3, 5, bias=False)), ValueError, "without a bias.*make it with bias=True"),
        (lambda: uniform_gates_(ctrnn.plain(3, 5)), ValueError, "has the fixed rate 1 and no gate"),
        (lambda: uniform_gates_(BIAS.long()), TypeError, "`bias` must be floating point, got torch.int64"),
        (lambda: slow_decay_(BIAS, largest=1.5), ValueError, r"`largest` must be from 2 to 2\^53"),
        (lambda: slow_decay_(BIAS, largest=2.0**54), ValueError, r"`largest` must be from 2 to 2\^53"),
        (lambda: ctrnn.init.initial_rate_(GATED, 1.0), ValueError, "`alpha` must be strictly between 0 and 1"),
        (lambda: ctrnn.init.initial_rate_(GATED, 0.0), ValueError, "`alpha` must be positive, got 0.0"),
        (lambda: ctrnn.init.initial_rate_(ctrnn.lstm(3, 5), 1.5), ValueError, "below 1, as those of `module`'s Affine"),
        (lambda: ctrnn.init.initial_rate_(ctrnn.rhn(3, 5), 1.0), ValueError, "rates that are sigmoids are below 1"),
        (lambda: chrono_(ctrnn.gated(3, 5, rate="softplus"), 5.0, t_min=0.0), ValueError, "`t_min` must be above 0, got 0"),
        (lambda: ctrnn.init.recurrent_normal_(nn.Linear(2, 3)), TypeError, "a field or module with matrices of recurrent"),
        (lambda: ctrnn.init.recurrent_normal_(ctrnn.unicornn(3, 5)), TypeError, "whose units have one each"),
        (lambda: ctrnn.init.recurrent_normal_(doubled(ctrnn.gru(3, 5))), ValueError, "without a right inverse, so that it can"),
        (lambda: ctrnn.init.recurrent_normal_(GATED, -1.0), ValueError, "`gain` must be"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("gate", ["unit", "global"])
@pytest.mark.parametrize(("rate", "bias"), [("softplus", math.log(math.expm1(4.0))), ("exponential", math.log(4.0))])
def test_rates_above_1_are_those_of_gates_that_have_no_bound(gate, rate, bias):
    field = ctrnn.init.initial_rate_(ctrnn.gated(3, 5, gate=gate, rate=rate, dtype=torch.float64), 4.0)
    assert_close(field.rate.bias, torch.full_like(field.rate.bias, bias), rtol=1e-14, atol=0)
    drawn = ctrnn.init.chrono_(field, 0.5, t_min=0.25, generator=torch.Generator().manual_seed(0))
    times = ctrnn.timescales(drawn)
    assert ((times >= 0.25) & (times <= 0.5)).all()


def test_a_time_that_a_field_of_ones_own_cannot_have_leaves_all_layers_as_they_are():
    class Slow(ctrnn.VectorField):  # its leak is below 1/2
        def __init__(self):
            super().__init__(3, 3)
            self.b = nn.Parameter(torch.zeros(3))

        def flow(self, x, h):
            return torch.sigmoid(self.b) / 2 * (x - h)

    stack = ctrnn.Stack([ctrnn.gated(3, 3), Slow()])
    before = stack.fields[0].rate.bias.clone()
    with pytest.raises(ValueError, match=r"no bias makes the leak 1/T for T = 1\.25"):
        ctrnn.init.initial_rate_(stack, 0.8)
    assert torch.equal(before, stack.fields[0].rate.bias)


def weights_of(ks):
    return 1 / (ks * np.log(ks + 1) ** 2)


@pytest.mark.parametrize("largest", [2, 3, 7, 10.5])
def test_slow_decay_draws_the_law_itself(largest):
    draws, ks = 40000, np.arange(2, math.floor(largest) + 1)
    b = slow_decay_(torch.empty(draws), largest=largest, generator=torch.Generator().manual_seed(2)).numpy()
    T = of_sigmoid(b)
    assert_close(T, T.round(), rtol=1e-14, atol=0)
    counts = np.array([(T.round() == k).sum() for k in ks])
    assert counts.sum() == draws
    expected = weights_of(ks) / weights_of(ks).sum() * draws
    assert len(ks) == 1 or stats.chisquare(counts, expected).pvalue > 1e-3


def test_the_slow_tail_is_as_heavy_as_the_law_says():
    draws, largest = 40000, 10**6
    ks = np.arange(2.0, largest + 1)
    tail = weights_of(ks)[::-1].cumsum()[::-1] / weights_of(ks).sum()
    T = of_sigmoid(slow_decay_(torch.empty(draws), largest=largest, generator=torch.Generator().manual_seed(4)).numpy())
    for k in (10, 100, 1000, 10**4, 10**5):
        share = tail[k - 2]
        assert abs((T.round() >= k).mean() - share) < 4 * math.sqrt(share * (1 - share) / draws)
    assert T.max() > 0.5 * largest
    assert T.max() <= largest * (1 + 1e-9)


def test_times_are_uniform():
    T = of_sigmoid(gate_bias_(torch.empty(20000), 5.0, 80.0, generator=torch.Generator().manual_seed(3)).numpy())
    assert stats.kstest(T, stats.uniform(5.0, 75.0).cdf).pvalue > 1e-3


def test_the_bound_of_the_draws_and_what_the_default_leaves_out():
    k = np.arange(2.0, 200)
    ratio = np.log(k) / np.log(k + 1) / (k * np.log1p(1 / k))
    assert 1.0085 < ratio.max() < 1.009 < ENVELOPE
    # Beyond K the sum is 1/log K to a part in K: the integral of 1/(x log(x)^2).
    ks = np.arange(2.0, 10**6)
    beyond = 1 / math.log(LONGEST) / (weights_of(ks).sum() + 1 / math.log(10**6))
    assert round(100 * beyond, 1) == 4.6


@pytest.mark.parametrize("make", [ctrnn.gated, ctrnn.gru, ctrnn.lstm, nn.LSTM, nn.GRU])
def test_slow_decay_sets_whole_time_scales_in_fields_and_in_modules_of_torch(make):
    field = slow_decay_(make(3, 50, dtype=torch.float64), largest=1000)
    T = ctrnn.timescales(field if isinstance(field, ctrnn.VectorField) else ctrnn.from_torch(field))
    assert_close(T, T.round(), rtol=1e-10, atol=0)
    assert T.round().min() >= 2
    assert T.max() < 1001


@pytest.mark.parametrize("make", [ctrnn.gated, ctrnn.lstm, nn.LSTM, nn.GRU])
@pytest.mark.parametrize(("shape", "scale"), [(0.56, 1.0), (2.0, 30.0)])
def test_steps_of_units_forget_in_times_of_an_inverse_gamma_law(make, shape, scale):
    generator = torch.Generator().manual_seed(5)
    field = inverse_gamma_(make(1, 2000, dtype=torch.float64), shape, scale, generator=generator)
    T = ctrnn.timescales(field if isinstance(field, ctrnn.VectorField) else ctrnn.from_torch(field))
    kept = 1 - 1 / T.detach()[-2000:].numpy()  # of a state, by one step
    assert stats.kstest(-1 / np.log(kept), stats.invgamma(shape, scale=scale).cdf).pvalue > 1e-3
    for n in (1, 10, 100):
        mean, error = (kept**n).mean(), (kept**n).std() / math.sqrt(2000)
        assert abs(mean - (1 + n / scale) ** -shape) < 4 * error


def test_the_fastest_times_of_an_inverse_gamma_law_have_finite_biases():
    gates = inverse_gamma_(ctrnn.lstm(1, 1000, dtype=torch.float64), 1.0, 1e-3, generator=torch.Generator().manual_seed(6)).gates
    i, f, _, _ = gates.bias.detach().chunk(4)
    assert bool(gates.bias.isfinite().all())
    assert float(f.min()) == pytest.approx(-30.0, abs=0.1)  # float64 tells 1 - e^-30 from 1 to three digits
    assert_close(i, -f, rtol=1e-14, atol=0)


def law_of_times(least):
    """P(1/u <= t) for u uniform on (least, 1 - least)."""
    return lambda t: np.clip((1 - least - 1 / t) / (1 - 2 * least), 0, 1)


@pytest.mark.parametrize("make", [ctrnn.gated, ctrnn.gru, ctrnn.lstm, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("least", [None, 0.2])
def test_uniform_gates_have_the_law_of_their_values_and_of_their_times(make, least):
    field = uniform_gates_(make(1, 2000, dtype=torch.float64), least, generator=torch.Generator().manual_seed(7))
    T = ctrnn.timescales(field if isinstance(field, ctrnn.VectorField) else ctrnn.from_torch(field)).detach()[-2000:].numpy()
    low = least or 1 / 2000
    assert stats.kstest(1 / T, stats.uniform(low, 1 - 2 * low).cdf).pvalue > 1e-3
    assert stats.kstest(T, law_of_times(low)).pvalue > 1e-3
    assert T.min() >= (1 - 1e-12) / (1 - low)
    assert T.max() <= (1 + 1e-12) / low


def test_a_forget_gate_starts_uniform_its_input_gate_at_what_it_leaves_and_all_else_stays():
    field = ctrnn.lstm(3, 1000)
    before = state_of(field)
    assert uniform_gates_(field, generator=torch.Generator().manual_seed(8)) is field
    assert changed(before, field) == {"gates.bias"}
    i, f, g, o = field.gates.bias.detach().chunk(4)
    assert torch.equal(torch.cat([g, o]), before["gates.bias"][2000:])
    assert_close(i.sigmoid() + f.sigmoid(), torch.ones(1000), rtol=1e-14, atol=0)
    assert stats.kstest(torch.sigmoid(f).numpy(), stats.uniform(1e-3, 1 - 2e-3).cdf).pvalue > 1e-3


def test_each_layer_has_the_range_of_its_own_units_and_a_bias_that_of_its_entries():
    stack = uniform_gates_(ctrnn.Stack([ctrnn.gated(2, 3), ctrnn.gated(3, 400)]), generator=torch.Generator().manual_seed(9))
    few, many = (1 / ctrnn.timescales(layer).detach() for layer in stack.fields)
    assert bool(((few >= 1 / 3 - 1e-9) & (few <= 2 / 3 + 1e-9)).all())
    assert many.min() < 0.05
    assert many.max() > 0.95
    bias = torch.zeros(20, 20)
    assert uniform_gates_(bias, generator=torch.Generator().manual_seed(10)) is bias
    assert stats.kstest(bias.sigmoid().numpy().ravel(), stats.uniform(1 / 400, 1 - 2 / 400).cdf).pvalue > 1e-3


def test_recurrent_weights_are_normal_and_no_others_are_touched():
    for module in (ctrnn.gru(3, 200), ctrnn.lstm(3, 200, num_layers=2), nn.GRU(3, 200, num_layers=2)):
        before = {name: value.detach().clone() for name, value in module.named_parameters()}
        assert ctrnn.init.recurrent_normal_(module, generator=torch.Generator().manual_seed(0)) is module
        for name, value in module.named_parameters():
            if "weight_h" in name:
                deviations = value.detach() * 200**0.5 / 0.1
                # The mean of 40,000 numbers and more is known to 1/200, their spread to 1/282; five times that.
                assert abs(float(deviations.mean())) < 5 / 200
                assert abs(float(deviations.std()) - 1) < 5 / 282
                assert abs(float((deviations.abs() < 1).double().mean()) - 0.6827) < 5 * 0.4654 / 200
            else:
                assert_close(value.detach(), before[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    "name", ["leaky", "leaky per unit", "gated global", "gated softplus", "gated exponential", "gru", "lstm"]
)
def test_every_unit_starts_with_the_rate_that_is_given(name):
    field = ctrnn.init.initial_rate_(NAMED_FIELDS[name](3, 5), 25 / 300)
    assert_close(ctrnn.timescales(field), torch.full((5,), 12.0), rtol=1e-12, atol=0)  # an inverse and its function
