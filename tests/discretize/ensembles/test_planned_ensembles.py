"""An ensemble's call like an earlier one runs its kernel at once, and sees what has changed since."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.func import vmap
from torch.nn.utils import parametrize
from torch.testing import assert_close

import ctrnn
from discretize import DiscreteRNN, RungeKutta4, ensemble
from discretize.kernels import torchs_own

pytestmark = pytest.mark.kernels
DICE = torch.Generator().manual_seed(0)
X, XS = torch.randn(5, 4, 2, generator=DICE, dtype=torch.float64), torch.randn(3, 5, 4, 2, generator=DICE, dtype=torch.float64)
H = torch.rand(4, 3, generator=DICE, dtype=torch.float64)


class Scaled(ctrnn.VectorField):
    """What is seen of it is not the state itself."""

    def __init__(self):
        super().__init__(2, 3)
        self.linear, self.gain = nn.Linear(5, 3), nn.Parameter(torch.rand(3))

    def flow(self, projected, h):
        return torch.tanh(self.linear(torch.cat([projected, h], -1))) - h

    def visible(self, h):
        return self.gain * h


def made(networks=3, field=lambda: ctrnn.gated(2, 3), **settings):
    rnns = [DiscreteRNN(field(), fused="always", allow_overshoot=True, **settings) for _ in range(networks)]
    together, x = ensemble(rnns), X.transpose(0, 1) if settings.get("batch_first") else X
    for _ in range(2):
        together(x.to(rnns[0].field.dtype))
    return together


def looped(together, *given, each=(), **named):
    """By steps, one network after another."""
    answers = []
    for k, rnn in enumerate(together.separate()):
        rnn.fused = False
        answers.append(rnn(*(x[k] if each else x for x in given), **named))
    return tuple(torch.stack(each) for each in zip(*answers, strict=True))


def runs_by_plan(together, *given, **named):
    before = together._plan
    together._plan_for = None  # as no call by the long way ends without
    try:
        together(*given, **named)
    except TypeError:
        return False
    finally:
        del together._plan_for
    return together._plan is before is not None


@pytest.mark.parametrize("networks", [1, 3])
@pytest.mark.parametrize("each", [(), "x"], ids=["shared samples", "samples of each"])
def test_a_planned_ensemble_is_the_loop_over_its_networks_with_gradients(networks, each):
    together, x = made(networks), (XS[:networks] if each else X).clone().requires_grad_()
    for _ in range(2):
        together(x, each=each)
    assert runs_by_plan(together, x, each=each)
    found, weights = together(x, each=each), list(together.parameters())
    gradients = torch.autograd.grad(sum(one.pow(2).sum() for one in found), [x, *weights])
    y, rnns = x.detach().clone().requires_grad_(), together.separate()
    answers = [rnn(y[k] if each else y) for k, rnn in enumerate(rnns)]
    of_loop = tuple(torch.stack(one) for one in zip(*answers, strict=True))
    assert_close(found, of_loop, rtol=0, atol=1e-12)
    loss = sum(one.pow(2).sum() for one in of_loop)
    of_x, *of_weights = torch.autograd.grad(loss, [y, *(w for rnn in rnns for w in rnn.parameters())])
    per_network = len(weights)
    stacked = [torch.stack(of_weights[k::per_network]) for k in range(per_network)]
    assert_close(gradients, (of_x, *stacked), rtol=0, atol=1e-11)


@pytest.mark.parametrize("settings", [{"batch_first": True}, {"substeps": 2, "dt": 0.5}, {"step": RungeKutta4()}])
def test_a_planned_ensemble_has_the_axes_and_settings_of_its_networks(settings):
    together = made(**settings)
    x = X.transpose(0, 1) if "batch_first" in settings else X
    assert runs_by_plan(together, x)
    assert_close(together(x), looped(together, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("first", "each"), [(X, ()), (XS, "x")], ids=["shared samples", "samples of each"])
def test_a_planned_ensemble_tells_what_ran(first, each):
    together, rnn = made(substeps=2, step="midpoint"), DiscreteRNN(ctrnn.gated(2, 3), "midpoint", substeps=2, fused="always")
    together._plan = None
    together(first, each=each)
    rnn(X)
    assert runs_by_plan(together, X)
    assert together.stacked.stats == rnn.stats
    assert together.stats == {"engine": "compiled", "engine_why": None}


def write(together):
    with torch.no_grad():
        next(together.parameters())[1].mul_(2)


def replace(together):
    part = together.stacked.field.candidate
    part.weight_h = nn.Parameter(part.weight_h.detach() / 2)


def set_length(together):
    together.stacked.dt = 0.5


def set_step(together):
    together.stacked.step = RungeKutta4()


def set_field(together):
    together.stacked.field.candidate.flow = lambda projected, h: projected - h


def turn_axes(together):
    together.stacked.batch_first = True


@pytest.mark.parametrize("change", [write, replace, set_length, set_step, set_field, turn_axes])
def test_what_has_changed_in_the_networks_is_seen(change):
    together = made()
    change(together)
    assert_close(together(X), looped(together, X), rtol=0, atol=1e-12)
    assert_close(together(X), looped(together, X), rtol=0, atol=1e-12)


def test_weights_of_another_size_are_refused_as_before():
    together = made()
    part = together.stacked.field.candidate
    part.weight_h = nn.Parameter(part.weight_h.detach()[:2])
    with pytest.raises(ValueError, match="needs a first axis of 3 networks"):
        together(X)


class Half(nn.Module):
    def forward(self, weight):
        return weight / 2


def test_a_parametrization_that_is_added_is_seen():
    together = made()
    before = together(X)[0]
    parametrize.register_parametrization(together.stacked.field.candidate, "weight_h", Half())
    assert_close(together(X), looped(together, X), rtol=0, atol=1e-12)
    assert not torch.allclose(together(X)[0], before)


def test_hooks_of_the_networks_run():
    together, seen = made(), []
    handle = together.stacked.register_forward_hook(lambda module, given, output: (2 * output[0], output[1]))
    assert_close(together(X)[0], 2 * looped(together, X)[0] / 2, rtol=0, atol=1e-12)
    handle.remove()
    together.register_forward_hook(lambda *given: seen.append(1))
    together(X)
    assert seen == [1]


class Narrow(Scaled):
    def visible(self, h):
        return h[..., :2]


@pytest.mark.parametrize("field", [Scaled, Narrow])
def test_what_is_not_the_state_itself_is_shown_as_the_field_does(field):
    together = made(field=field)
    assert together._plan is None
    assert_close(together(X), looped(together, X), rtol=0, atol=1e-12)


NAN = X.clone()
NAN[1, 2, 0] = torch.nan


@pytest.mark.parametrize(
    ("given", "each", "words"),
    [
        ((NAN,), (), "`x` must be finite, got nan at index"),
        ((X[..., :1],), (), "the field reads 2 input features"),
        ((X.float(),), (), "`x` is torch.float32"),
        ((X,), "x", "needs a tensor with a first axis of 3 networks"),
        ((XS[:2],), "x", "needs a tensor with a first axis of 3 networks"),
        ((XS,), "y", "`each` names 'y'"),
        ((X,), "y", "`each` names 'y'"),
        ((X.tolist(),), (), "`x` must be a torch.Tensor"),
    ],
)
def test_bad_input_is_refused_as_before(given, each, words):
    together = made()
    with pytest.raises((TypeError, ValueError), match=words):
        together(*given, each=each)
    assert runs_by_plan(together, X)


@pytest.mark.parametrize("given", [(X[:, 0],), (X, H)], ids=["one sequence", "a start"])
def test_other_calls_go_the_long_way(given):
    together = made()
    found = together(*given)
    assert_close(found, looped(together, *given), rtol=0, atol=1e-12)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_plans_for_itself(copied):
    together = made()
    twin = copied(together)
    assert twin._plan is None
    write(twin)
    assert_close(twin(X), looped(twin, X), rtol=0, atol=1e-12)
    assert_close(together(X), looped(together, X), rtol=0, atol=1e-12)


def test_an_ensemble_that_has_run_is_saved_and_comes_back(tmp_path):
    together = made()
    ctrnn.save(tmp_path / "model", together)
    assert_close(ctrnn.load(tmp_path / "model")(X), together(X), rtol=0, atol=1e-12)


def test_a_planned_ensemble_runs_inside_of_vmap_and_without_gradients():
    together = made()
    xs = torch.stack([X, 2 * X])
    found = vmap(lambda x: together(x)[0], randomness="different")(xs)
    assert_close(found, torch.stack([looped(together, x)[0] for x in xs]), rtol=0, atol=1e-12)
    with torch.inference_mode():
        assert runs_by_plan(together, X)
    assert_close(together.separate()[1](X), tuple(one[1] for one in together(X)), rtol=0, atol=1e-12)


@pytest.mark.each_value
@pytest.mark.parametrize("each", [(), "x"], ids=["shared samples", "samples of each"])
@pytest.mark.parametrize("settings", [{}, {"batch_first": True}, {"bias": False}], ids=["time first", "batch first", "no bias"])
def test_wide_lstms_go_by_torchs_function_one_after_another_without_gradients(monkeypatch, settings, each):
    monkeypatch.setattr(torchs_own, "FASTER", dict.fromkeys((False, True), torchs_own.LSTMSizes(1, 1 << 30)))
    monkeypatch.setattr(torchs_own, "UNITS_OF_NETWORKS", 3)
    bias, settings = "bias" not in settings, {name: value for name, value in settings.items() if name != "bias"}
    together = made(field=lambda: ctrnn.lstm(2, 3, bias=bias, dtype=torch.float32), **settings)
    together.stacked.fused = True
    x = (XS if each else X).float()
    x = x.transpose(-3, -2) if settings else x
    engines = []
    for grad in (False, False, True, False):
        with torch.set_grad_enabled(grad):
            assert_close(together(x, each=each), looped(together, x, each=each))
        engines.append(together.stats["engine"])
    assert engines[1:] == ["torch", "compiled", "torch"]
    write(together)
    with torch.no_grad():
        assert_close(together(x, each=each), looped(together, x, each=each))
        assert together.stats["engine"] == "torch"
        assert "kernel is slower" in together.stats["engine_why"]
    monkeypatch.setattr(torchs_own, "UNITS_OF_NETWORKS", 4)
    with torch.no_grad():
        together(x, each=each)
    assert together.stats["engine"] == "compiled"
