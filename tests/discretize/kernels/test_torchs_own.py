"""Until a kernel is built a sequence that torch has a function for is run by it: the same numbers as by steps."""

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.kernels import price, registry, torchs_own
from discretize.kernels.record.program import StepModule

KINDS = {
    "plain": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
    "GRU": (nn.GRU, {}),
    "LSTM": (nn.LSTM, {}),
    "GRU without biases": (nn.GRU, {"bias": False}),
    "LSTM without biases": (nn.LSTM, {"bias": False}),
}


@pytest.fixture(autouse=True)
def _before_kernels(monkeypatch):
    monkeypatch.setattr(registry, "is_on_disk", lambda *_: False)
    monkeypatch.setattr(registry, "_made", OrderedDict())  # by other tests
    monkeypatch.setattr(price, "PRICE", 1e9)


def of_torch(kind, dtype=torch.float64, units=5, **settings):
    module, more = KINDS[kind]
    return ctrnn.from_torch(module(3, units, dtype=dtype, **more, **settings))


def given(field, dtype=torch.float64, time=7, batch=4):
    dice = torch.Generator().manual_seed(0)
    x, h = (torch.randn(size, generator=dice, dtype=dtype) for size in ((time, batch, 3), (batch, field.state_size)))
    return x.requires_grad_(), h.requires_grad_()


def answers(rnn, x, h, **how):
    output, h_n = rnn(x, h, **how)
    return [output, h_n, *torch.autograd.grad(output.sin().sum() + (h_n**2).sum(), [x, h, *rnn.parameters()])]


@pytest.mark.parametrize("lengths", [None, [3, 7, 1, 5]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_states_and_gradients_are_those_of_the_steps(kind, dtype, lengths):
    field = of_torch(kind, dtype)
    x, h = given(field, dtype)
    quick, stepped = discretize.DiscreteRNN(field), discretize.DiscreteRNN(field, fused=False)
    found, expected = answers(quick, x, h, lengths=lengths), answers(stepped, x, h, lengths=lengths)
    assert (quick.stats["engine"], stepped.stats["engine"]) == ("torch", "steps")
    slower = kind.startswith("LSTM") and dtype == torch.float32 and lengths is None
    assert ("kernel is slower at this size" if slower else "builds it now") in quick.stats["engine_why"]
    told = {"engine", "engine_why"}
    assert {k: v for k, v in quick.stats.items() if k not in told} == {k: v for k, v in stepped.stats.items() if k not in told}
    for mine, theirs in zip(found, expected, strict=True):
        assert_close(mine, theirs)
    assert quick.watch.largest == pytest.approx(stepped.watch.largest)


@pytest.mark.parametrize("kind", ["plain", "GRU"])
@pytest.mark.parametrize(
    "run",
    [
        lambda field, x, h: discretize.unroll(discretize.DiscreteCell(field), x, h),
        lambda field, x, h: discretize.integrate(
            field, ctrnn.HeldPath(x), h, torch.arange(len(x) + 1.0, dtype=torch.float64), method="euler", max_step=1.0
        ),
    ],
    ids=["unroll", "integrate"],
)
def test_doors_that_give_all_states_take_it_too(kind, run):
    field = of_torch(kind)
    x, h = given(field)
    found = run(field, x, h)
    assert found.stats["engine"] == "torch"
    assert_close(found.hs[1:], discretize.DiscreteRNN(field, fused=False)(x, h)[0])


@pytest.mark.parametrize(
    ("kind", "of", "name"),
    [("plain", ctrnn.parts.TanhCandidate, "function"), ("GRU", ctrnn.parts.ResetCandidate, "preactivation")],
)
def test_a_field_of_ours_whose_class_was_changed_as_a_whole_is_left_to_steps(kind, of, name, monkeypatch):
    field = of_torch(kind)
    x, h = given(field)
    before = discretize.DiscreteRNN(field, fused=False)(x, h)[0]
    method = vars(of)[name]
    monkeypatch.setattr(of, name, lambda self, *given: 0.5 * method(self, *given))
    rnn = discretize.DiscreteRNN(field)
    found = rnn(x, h)[0]
    assert rnn.stats["engine"] == "steps"
    assert_close(found, discretize.DiscreteRNN(field, fused=False)(x, h)[0])
    assert (found - before).abs().max() > 0.01


def test_the_states_of_an_lstm_in_all_are_left_to_steps():
    field = of_torch("LSTM")
    found = discretize.unroll(discretize.DiscreteCell(field), *given(field))
    assert found.stats["engine"] == "steps"


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives_are_those_of_the_steps(kind):
    field, found = of_torch(kind, units=3), []
    x, h = given(field, time=3, batch=2)
    for fused in (True, False):
        output, _ = discretize.DiscreteRNN(field, fused=fused)(x, h)
        (first,) = torch.autograd.grad(output.pow(3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), [x, *field.parameters()]))
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs)


@pytest.mark.parametrize("module", [nn.GRU, nn.LSTM])
def test_layers_in_both_directions_over_packed_sequences_are_torchs(module):
    torchs = module(3, 4, num_layers=2, bidirectional=True, dtype=torch.float64)
    layers = discretize.layers_from_torch(torchs)
    x = pack_padded_sequence(torch.randn(6, 3, 3, dtype=torch.float64), torch.tensor([2, 6, 4]), enforce_sorted=False)
    (output, _), (expected, _) = layers(x), torchs(x)
    assert layers.stats["engine"] == "torch"
    assert_close(output.data, expected.data)


class OwnPull(type(ctrnn.gru(1, 1).candidate)):
    """Overrides what torch's cell does."""

    def flow(self, projected, h):
        return super().flow(projected, h) * 0.5


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        (None, {"dt": 0.5}),
        (None, {"substeps": 2}),
        (None, {"step": discretize.ExponentialEuler()}),
        (None, {"fused": False}),
        (lambda field: setattr(field.candidate, "__class__", OwnPull) or field, {}),
    ],
    ids=["half a unit", "two substeps", "another step", "kernels off", "code of one's own"],
)
def test_what_is_not_torchs_is_run_by_steps(change, settings):
    field = of_torch("GRU")
    rnn = discretize.DiscreteRNN(change(field) if change else field, **settings)
    rnn(*given(field))
    assert rnn.stats["engine"] == "steps"


def test_stamps_hooks_on_all_modules_and_autocast_are_for_steps():
    field = of_torch("GRU", torch.float32)
    rnn, (x, h) = discretize.DiscreteRNN(field), given(field, torch.float32)
    rnn(x, h, ts=torch.linspace(0, 3, 8))
    assert rnn.stats["engine"] == "steps"
    with torch.autocast("cpu", torch.bfloat16):
        rnn(x, h)
    assert rnn.stats["engine"] == "steps"
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    rnn(x, h)
    handle.remove()
    assert rnn.stats["engine"] == "steps"
    rnn(x, h)
    assert rnn.stats["engine"] == "torch"


def test_half_precision_and_tensors_of_a_kind_of_their_own_are_for_steps():
    class Told(torch.Tensor):
        """A kind of its own."""

    field = of_torch("GRU", torch.float32)
    rnn, (x, h) = discretize.DiscreteRNN(field), given(field, torch.float32)
    with torch.no_grad():
        rnn(x.as_subclass(Told), h)
        assert rnn.stats["engine"] == "steps"
        rnn.bfloat16()(x.bfloat16(), h.bfloat16())
        assert rnn.stats["engine"] == "steps"


def test_the_end_is_not_a_view_of_the_output():
    field = of_torch("plain")
    output, h_n = discretize.DiscreteRNN(field)(*given(field))
    expected = h_n.detach().clone()
    with torch.no_grad():
        output.zero_()
    assert_close(h_n, expected)


def test_its_seconds_pay_for_the_kernel():
    field = of_torch("GRU", units=6)
    uses = registry.uses_of(field, StepModule, discretize.Euler)
    before = uses.seconds
    discretize.DiscreteRNN(field)(*given(field))
    assert uses.seconds > before


def test_an_lstm_with_a_kernel_is_run_by_torch_where_that_is_faster(monkeypatch):
    field = of_torch("LSTM", torch.float32)
    rnn, (x, h) = discretize.DiscreteRNN(field, fused="always"), given(field, torch.float32)
    expected, rnn.fused = rnn(x, h), True
    engines = []
    monkeypatch.setattr(
        torchs_own, "FASTER", {True: (9, 0), False: (1, x[..., :1].numel() * 5 + 1)}
    )  # one longer sequence is not
    for grad in (True, True, False, False, True):  # planned from the second call on
        with torch.set_grad_enabled(grad):
            for mine, theirs in zip(rnn(x, h), expected, strict=True):
                assert_close(mine, theirs)
        engines.append(rnn.stats["engine"])
    assert engines == ["compiled", "compiled", "torch", "torch", "compiled"]
    with torch.no_grad():
        for longer in (x, torch.cat([x, x]).requires_grad_()):
            rnn(longer, h)
            engines.append(rnn.stats["engine"])
    assert engines[-2:] == ["torch", "compiled"]


def test_packed_samples_of_an_lstm_are_left_to_its_kernel(monkeypatch):
    monkeypatch.setattr(torchs_own, "FASTER", dict.fromkeys((False, True), torchs_own.LSTMSizes(1, 1 << 30)))
    field = of_torch("LSTM", torch.float32)
    rnn, (x, h) = discretize.DiscreteRNN(field, fused="always"), given(field, torch.float32)
    packed = pack_padded_sequence(x.detach(), torch.tensor([3, 7, 1, 5]), enforce_sorted=False)
    with torch.no_grad():
        expected, rnn.fused = rnn(packed, h), True
        for _ in range(2):
            found = rnn(packed, h)
            assert rnn.stats["engine"] == "compiled"
            assert_close(found[0].data, expected[0].data)
        rnn(x.detach(), h)
        rnn(x.detach(), h)
        assert rnn.stats["engine"] == "torch"
        rnn(packed, h)
        assert rnn.stats["engine"] == "compiled"


@pytest.mark.parametrize("records", [True, False], ids=["with gradients", "without"])
def test_a_transposed_weight_is_refused_and_not_read_by_other_rows(records):
    field = of_torch("LSTM", torch.float32)
    field.gates.weight_h = nn.Parameter(field.gates.weight_h.detach().t())
    x, h = given(field, torch.float32)
    with torch.set_grad_enabled(records), pytest.raises(RuntimeError, match="cannot be multiplied"):
        discretize.DiscreteRNN(field)(x, h)


@pytest.mark.parametrize(
    ("kind", "name"), [("plain", "weight_h"), ("plain", "bias"), ("GRU", "bias"), ("LSTM", "weight_h"), ("LSTM", "bias")]
)
def test_a_weight_of_one_row_for_all_units_is_read_as_by_steps(kind, name):
    field = of_torch(kind, torch.float32)
    part = field.gates if kind == "LSTM" else field.candidate.reset if kind == "GRU" else field.candidate
    setattr(part, name, nn.Parameter(getattr(part, name).detach()[:1].clone()))
    x, h = given(field, torch.float32)
    quick, stepped = discretize.DiscreteRNN(field), discretize.DiscreteRNN(field, fused=False)
    for mine, theirs in zip(answers(quick, x, h), answers(stepped, x, h), strict=True):
        assert_close(mine, theirs)
