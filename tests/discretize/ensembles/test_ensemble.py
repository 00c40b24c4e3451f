"""An ensemble against a loop over its modules: values, gradients, engines, and everything torch does to modules."""

import copy
import inspect
import os
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from cases import crossed
from conformance import kernels_for_all
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import thinned
from torch import nn
from torch.func import vmap
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, Layers, SequenceModel, ensemble

ROUNDING = {"rtol": 0, "atol": 1e-12}


@pytest.fixture
def by_kernels():
    with kernels_for_all():
        yield


by_kernels_too = pytest.mark.usefixtures("by_kernels")


class Bump(ctrnn.VectorField):
    """A field of one's own."""

    def __init__(self, inputs, hidden):
        super().__init__(inputs, hidden)
        self.to_state, self.of_state = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden, bias=False)
        self.register_buffer("ceiling", torch.rand(()) + 1)

    def flow(self, projected, h):
        return nn.functional.softplus(self.to_state(projected) + self.of_state(h)) * (self.ceiling - h) - h


class Branching(Bump):
    def flow(self, projected, h):
        return super().flow(projected, h) if h.sum() < 100 else -h


def layers(dropout=0.0):
    rows = [[DiscreteRNN(ctrnn.lstm(width, 4)), DiscreteRNN(ctrnn.lstm(width, 4))] for width in (3, 8)]
    return Layers(rows, dropout=dropout, pair=True)


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight + weight.mT


def parametrized():
    field = ctrnn.gated(3, 5)
    nn.utils.parametrize.register_parametrization(field.candidate, "weight_h", Symmetric())
    return DiscreteRNN(field)


MODELS = {
    "gated": lambda: DiscreteRNN(ctrnn.gated(3, 5)),
    "one gate for all": lambda: DiscreteRNN(ctrnn.gated(3, 5, gate="global"), dt=0.3, substeps=2),
    "slow forgetting": lambda: DiscreteRNN(ctrnn.gated(3, 5, decay=ctrnn.PowerDecay(2.0)), discretize.ExponentialEuler(), dt=0.3),
    "both": lambda: DiscreteRNN(
        ctrnn.gated(3, 5, gate="global", decay=ctrnn.PowerDecay(2.0)), discretize.ExponentialEuler(), dt=0.3, substeps=2
    ),
    "leaky": lambda: DiscreteRNN(ctrnn.leaky(3, 5, per_unit=True, bias=False)),
    "gru": lambda: DiscreteRNN(ctrnn.gru(3, 5)),
    "lstm": lambda: DiscreteRNN(ctrnn.lstm(3, 5), discretize.ExponentialEuler(), dt=0.5),
    "batch first": lambda: DiscreteRNN(ctrnn.gated(3, 5), batch_first=True, hold="backward"),
    "midpoint": lambda: DiscreteRNN(ctrnn.gated(3, 5), discretize.Midpoint()),
    "implicit": lambda: DiscreteRNN(ctrnn.gated(3, 5), discretize.BackwardEuler()),
    "dopri5": lambda: ContinuousRNN(ctrnn.gated(3, 5)),
    "rk4": lambda: ContinuousRNN(ctrnn.gated(3, 5), method="rk4", path="linear"),
    "own field": lambda: DiscreteRNN(Bump(3, 5), dt=0.1),
    "own field solved": lambda: ContinuousRNN(Bump(3, 5)),
    "branching": lambda: DiscreteRNN(Branching(3, 5)),
    "layers": layers,
    "model": lambda: SequenceModel(DiscreteRNN(ctrnn.gru(4, 5)), 2, encoder=nn.Linear(3, 4)),
    "parametrized": parametrized,
    "cell": lambda: DiscreteCell(ctrnn.gru(3, 5)),
    "torch's own": lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh()),
}
EVERY_DAY = ("both", "dopri5", "branching", "layers", "parametrized")  # the others are like them
COMPILED = ("gated", "both", "gru", "lstm", "layers", "model", "parametrized", "implicit")
ALONE = ("dopri5", "own field solved", "branching")


def networks_of(name, count=3):
    torch.manual_seed(1)
    return [MODELS[name]() for _ in range(count)]


def outputs_of(name, x):
    return x[0] if name == "cell" else x


def looped(modules, *arguments, **keywords):
    alone = [tree_leaves(module(*arguments, **keywords)) for module in modules]
    return [torch.stack(parts) for parts in zip(*alone, strict=True)]


def assert_same(found, expected, many, modules, **rounding):
    """Outputs, and the gradients of a sum of them."""
    found = tree_leaves(found)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert_close(mine, theirs, **rounding)
    weights = [torch.randn_like(part) for part in expected]
    for outputs in (found, expected):
        sum((part * weight).sum() for part, weight in zip(outputs, weights, strict=True)).backward()
    for name, parameter in many.stacked.named_parameters():
        assert_close(parameter.grad, torch.stack([module.get_parameter(name).grad for module in modules]), **rounding)


@by_kernels_too
@pytest.mark.parametrize("name", thinned(MODELS, EVERY_DAY))
def test_an_ensemble_is_the_loop_over_its_modules(name):
    modules = networks_of(name)
    many, x = ensemble(modules), outputs_of(name, torch.randn(7, 4, 3))
    assert_same(many(x), looped(modules, x), many, modules, **ROUNDING)
    assert ("one after another" in (many.stats["engine_why"] or "")) == (name in ALONE)
    assert name not in COMPILED or many.stats["engine"] == "compiled"


@by_kernels_too
@pytest.mark.parametrize("name", ["gated", "layers"])  # whose programs the test above has, too
def test_a_kernel_gives_a_network_the_bits_that_it_has_alone(name):
    modules = networks_of(name)
    many, x = ensemble(modules), torch.randn(9, 21, 3)
    assert_same(many(x), looped(modules, x), many, modules, rtol=0, atol=0)
    assert many.stats["engine"] == "compiled"


LONG = {
    "own field": MODELS["own field"],
    "midpoint": MODELS["midpoint"],
    "published": lambda: DiscreteRNN(ctrnn.cornn(3, 4), dt=0.1, substeps=2),
    "parametrized": lambda: SequenceModel(DiscreteRNN(parametrized().field, discretize.Heun(), dt=0.3), 2),
}


@by_kernels_too
@pytest.mark.parametrize("name", thinned(LONG, ("own field",)))
def test_long_sequences_of_any_field_are_one_call_of_a_written_kernel(name):
    torch.manual_seed(1)
    modules, x = [LONG[name]() for _ in range(3)], torch.randn(100, 9, 3, requires_grad=True)  # one kernel for all calls
    alone = looped(modules, x)
    many, rounding = ensemble(modules), {"rtol": 0, "atol": 1e-10}  # sums of a hundred steps
    assert_same(many(x), alone, many, modules, **rounding)
    assert many.stats == {"engine": "compiled", "engine_why": None}
    with torch.no_grad():
        for mine, theirs in zip(tree_leaves(many(x)), alone, strict=True):
            assert_close(mine, theirs, **rounding)
    xs = torch.stack([x, 2 * x, -x]).detach().requires_grad_()
    key = next(iter(inspect.signature(many.stacked.forward).parameters))
    of_own = torch.autograd.grad(sum(part.square().sum() for part in tree_leaves(many(xs, each=key))), xs)[0]
    for k, module in enumerate(modules):
        sample = xs[k].detach().requires_grad_()
        expected = torch.autograd.grad(sum(part.square().sum() for part in tree_leaves(module(sample))), sample)[0]
        assert_close(of_own[k], expected, **rounding)


@by_kernels_too
def test_a_written_kernel_of_many_networks_has_second_derivatives_and_those_of_shared_inputs():
    torch.manual_seed(1)
    modules = [DiscreteRNN(Bump(2, 3), dt=0.1) for _ in range(2)]
    many, x = ensemble(modules), torch.randn(100, 1, 2, requires_grad=True)
    ts = (torch.arange(101.0) * 0.05).requires_grad_()

    def double(call):
        output = call(x, ts=ts)
        first = torch.autograd.grad(output.square().sum(), (x, ts), create_graph=True)
        return [output, *first, *torch.autograd.grad(sum(part.square().sum() for part in first), (x, ts))]

    found = double(lambda x, ts: many(x, ts=ts)[0])
    assert many.stats["engine"] == "compiled"
    expected = double(lambda x, ts: torch.stack([module(x, ts=ts)[0] for module in modules]))
    for mine, theirs in zip(found, expected, strict=True):
        assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@by_kernels_too
@settings(max_examples=5)
@given(
    count=st.integers(1, 5),
    batch=st.integers(1, 20),
    time=st.integers(1, 6),
    name=st.sampled_from(["gated", "own field"]),
    own=st.booleans(),
    threads=st.integers(1, 3),
)
def test_any_number_of_networks_samples_and_times(count, batch, time, name, own, threads):
    torch.set_num_threads(threads)
    modules = networks_of(name, count)
    many, x = ensemble(modules), torch.randn(*([count] if own else []), time, batch, 3)
    x.requires_grad_(name == "own field")  # the kernel of long sequences, above
    found = many(x, each="x") if own else many(x)
    alone = [module(sample) for module, sample in zip(modules, x if own else [x] * count, strict=True)]
    assert_same(found, [torch.stack(parts) for parts in zip(*alone, strict=True)], many, modules, rtol=0, atol=1e-10)


@by_kernels_too
@pytest.mark.parametrize(("name", "own"), [("gated", ("x",)), ("own field", ("h_0",)), ("dopri5", ("x", "h_0", "ts"))])
def test_arguments_are_shared_or_of_each_network(name, own):
    modules = networks_of(name)
    many = ensemble(modules)
    x, h_0, ts = torch.randn(6, 4, 3), torch.randn(1, 4, 5), torch.arange(6.0) * 0.7
    given = {"x": x.requires_grad_(), "h_0": h_0.requires_grad_(), "ts": ts}
    if name != "dopri5" and "ts" in own:
        own = own[:2]  # times are looked at: networks then run one after another, see below
    given |= {key: torch.stack([given[key].detach() + k for k in range(3)]).requires_grad_(key != "ts") for key in own}
    mine = [{key: value[k] if key in own else value for key, value in given.items()} for k in range(3)]
    found, expected = many(**given, each=own), [module(**one) for module, one in zip(modules, mine, strict=True)]
    leaves = [given["x"], given["h_0"]]
    gradients = []
    for outputs in (found, [torch.stack(parts) for parts in zip(*expected, strict=True)]):
        total = sum(part.square().sum() for part in outputs)
        gradients.append([*outputs, *torch.autograd.grad(total, leaves)])
    for ours, theirs in zip(*gradients, strict=True):
        assert_close(ours, theirs, **ROUNDING)


@pytest.mark.parametrize("name", ["layers", "dopri5"])
def test_each_network_goes_on_from_its_final_state(name):
    many, x = ensemble(networks_of(name)), torch.randn(8, 4, 3)
    if name == "layers":  # backwards the end comes first: no sequence can be cut
        many = ensemble([Layers([DiscreteRNN(ctrnn.lstm(3, 4))], pair=True) for _ in range(3)])
    whole, end = many(x)
    first, middle = many(x[:5])
    second, last = many(x[5:], middle, each="h_0")
    assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-5 if name == "dopri5" else 1e-12)
    assert_close(last, end, rtol=0, atol=1e-5 if name == "dopri5" else 1e-12)


EXTRAS = {"lengths": [7, 2, 5, 1], "ts": torch.arange(8.0) * 0.3, "reset": torch.eye(7, 4) > 0}


@by_kernels_too
@pytest.mark.parametrize(("key", "name"), crossed(EXTRAS, ("gated", "dopri5", "layers", "both")))
def test_lengths_stamps_and_resets_are_for_all_networks(name, key):
    extra, modules = {key: EXTRAS[key]}, networks_of(name)
    many, x = ensemble(modules), torch.randn(7, 4, 3)
    assert_same(many(x, **extra), looped(modules, x, **extra), many, modules, **ROUNDING)


@pytest.mark.parametrize("check", [torch.autograd.gradcheck, torch.autograd.gradgradcheck])
def test_gradients_of_an_ensemble_are_derivatives_and_so_are_the_second(check):
    many = ensemble([DiscreteRNN(ctrnn.gated(2, 3), dt=0.5) for _ in range(2)])
    x, names = torch.randn(3, 2, 2, requires_grad=True), [name for name, _ in many.named_parameters()]

    def output(x, *weights):
        return torch.func.functional_call(many, dict(zip(names, weights, strict=True)), (x,))[0]

    given = (x, *(parameter.detach().requires_grad_() for parameter in many.parameters()))
    assert check(output, given, fast_mode=True)


def test_under_vmap_an_ensemble_runs_by_steps():
    many, x = ensemble(networks_of("gated")), torch.randn(5, 4, 3)
    assert_close(vmap(lambda x: many(x[:, None])[0][:, :, 0], in_dims=1, out_dims=2)(x), many(x)[0], **ROUNDING)


def test_gradients_of_an_ensemble_by_torch_func_are_those_of_autograd():
    many, x = ensemble(networks_of("gated")), torch.randn(5, 4, 3)
    weights = {name: weight.detach() for name, weight in many.named_parameters()}
    gradient = torch.func.grad(lambda weights: torch.func.functional_call(many, weights, (x,))[0].square().sum())(weights)
    many(x)[0].square().sum().backward()
    for name, weight in many.named_parameters():
        assert_close(gradient[name], weight.grad, **ROUNDING)


def test_an_optimizer_of_all_is_an_optimizer_of_each():
    optimizer = torch.optim.Adam
    modules, x = networks_of("model"), torch.randn(7, 4, 3)
    many = ensemble(modules)
    ours, theirs = optimizer(many.parameters(), lr=0.01), [optimizer(module.parameters(), lr=0.01) for module in modules]
    for _ in range(4):
        ours.zero_grad()
        many(x).square().mean((1, 2, 3)).sum().backward()
        norms = many.clip_grad_norm_(0.1)
        ours.step()
        for k, (module, one) in enumerate(zip(modules, theirs, strict=True)):
            one.zero_grad()
            module(x).square().mean().backward()
            assert_close(norms[k], nn.utils.clip_grad_norm_(module.parameters(), 0.1), **ROUNDING)
            one.step()
    for mine, other in zip(many.separate(), modules, strict=True):
        for name, parameter in other.named_parameters():
            assert_close(mine.get_parameter(name), parameter, **ROUNDING)


def test_a_parameter_of_one_number_is_clipped_with_the_others():
    modules, x = [DiscreteRNN(ctrnn.leaky(3, 5)) for _ in range(3)], torch.randn(7, 4, 3)
    many = ensemble(modules)
    assert min(weight.dim() for weight in modules[0].parameters()) == 0
    many(x)[0].square().sum().backward()
    norms = many.clip_grad_norm_(0.1)
    for k, module in enumerate(modules):
        module(x)[0].square().sum().backward()
        assert_close(norms[k], nn.utils.clip_grad_norm_(module.parameters(), 0.1), **ROUNDING)
        for name, weight in many.stacked.named_parameters():
            assert_close(weight.grad[k], module.get_parameter(name).grad, **ROUNDING)


def test_gradients_shorter_than_the_bound_stay_as_they_are():
    modules, x = networks_of("model"), torch.randn(7, 4, 3)
    many = ensemble(modules)
    many(x).square().sum().backward()
    before = [weight.grad.clone() for weight in many.parameters()]
    norms = torch.stack([each.flatten(1).square().sum(1) for each in before]).sum(0).sqrt()
    bound = float(norms.sort().values[1] * 1.001)  # shorter than one, longer than two
    assert_close(many.clip_grad_norm_(bound), norms, **ROUNDING)
    share = (bound / norms).clamp(max=1)
    for weight, was in zip(many.parameters(), before, strict=True):
        assert_close(weight.grad, was * share.reshape(-1, *[1] * (was.dim() - 1)), rtol=1e-5, atol=0)  # torch adds 1e-6 to a norm


def test_networks_come_back_as_plain_modules():
    modules = networks_of("model")
    many, x = ensemble(modules), torch.randn(5, 4, 3)
    assert len(many) == 3
    for mine, other in zip(many, modules, strict=True):
        assert type(mine) is SequenceModel
        assert_close(mine(x), other(x), rtol=0, atol=0)
    assert_close(many[-1](x), modules[2](x), rtol=0, atol=0)
    assert all(parameter.is_leaf and parameter.requires_grad for parameter in many[0].parameters())


@pytest.mark.parametrize("written", ["what came back", "what was given"])
def test_weights_are_copied_on_the_way_in_and_on_the_way_out(written):
    modules = networks_of("model")
    many, x = ensemble(modules), torch.randn(5, 4, 3)
    before = many(x)
    with torch.no_grad():
        (many[0] if written == "what came back" else modules[0]).read_out.weight.zero_()
    assert_close(many(x), before, rtol=0, atol=0)


def dropped():
    rate, part = ctrnn.GateRate(3, 5), ctrnn.Dropout(ctrnn.TanhCandidate(3, 5), 0.5)
    return DiscreteRNN(ctrnn.Relaxation(part, rate, ctrnn.LinearDecay()))


DRAWING = {
    "dropout": dropped,
    "dropout between layers": lambda: layers(0.5),
    "zoneout": lambda: DiscreteRNN(dropped().field, discretize.Zoneout(discretize.Euler(), 0.5)),
}


@pytest.mark.parametrize("name", DRAWING)
def test_masks_are_drawn_for_each_network_and_at_each_call(name):
    one = DRAWING[name]()
    many, x = ensemble([one, copy.deepcopy(one)]), torch.randn(5, 8, 3)
    mine, theirs = many(x)[0]
    assert not torch.equal(mine, theirs)
    assert "one after another" not in (many.stats["engine_why"] or "")
    assert not torch.equal(many(x)[0][0], mine)


def test_no_masks_are_drawn_in_evaluation():
    one = dropped()
    many = ensemble([one, copy.deepcopy(one)]).eval()
    mine, theirs = many(torch.randn(5, 8, 3))[0]
    assert torch.equal(mine, theirs)
    assert not many[0].training


def test_torch_compile_runs_an_ensemble_as_it_is():
    many, x = ensemble(networks_of("gated")), torch.randn(5, 4, 3)
    assert_close(torch.compile(many, backend="eager")(x), many(x), rtol=0, atol=0)


def test_copies_of_an_ensemble_and_what_is_loaded_give_the_same(tmp_path, subtests):
    many, x = ensemble(networks_of("model")), torch.randn(5, 4, 3)
    ctrnn.save(tmp_path / "many.safetensors", many)
    other = ensemble(networks_of("model")[::-1])
    other.load_state_dict(many.state_dict())
    ways = {"copied": copy.deepcopy(many), "pickled": pickle.loads(pickle.dumps(many)), "of its weights": other}
    for way, again in (ways | {"saved": ctrnn.load(tmp_path / "many.safetensors")}).items():
        with subtests.test(way):
            assert_close(again(x), many(x), rtol=0, atol=0)


def test_an_ensemble_is_converted_to_single_precision_and_to_the_meta_device(monkeypatch):
    many, x = ensemble(networks_of("model")), torch.randn(5, 4, 3)
    monkeypatch.setenv("CTRNN_FUSED", "0")  # kernels in float32 would be built for this alone
    half = copy.deepcopy(many).float()
    found = half(x.float())
    assert found.dtype == torch.float32
    assert_close(found.double(), many(x), rtol=1e-5, atol=1e-5)
    assert_close(half[1](x.float()), found[1])
    assert copy.deepcopy(many).to("meta")(x.to("meta")).shape == (3, 5, 4, 2)


def test_with_kernels_turned_off_networks_step_together(monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")
    modules, x = networks_of("own field"), torch.randn(100, 4, 3)
    many = ensemble(modules)
    assert_same(many(x), looped(modules, x), many, modules, rtol=0, atol=1e-10)
    assert many.stats == {"engine": "steps", "engine_why": "CTRNN_FUSED is 0"}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            lambda: DiscreteRNN(ctrnn.gated(3, 6)),
            r"`networks\[1\]` differs from `networks\[0\]` in `field.hidden_size`: it is 6, and it is 5",
        ),
        (lambda: DiscreteRNN(ctrnn.gru(3, 5)), "`field.candidate.__class__`: it is ResetCandidate, and it is TanhCandidate"),
        (lambda: DiscreteRNN(ctrnn.gated(3, 5), dt=0.5), "`dt`: it is 0.5, and it is 1.0 there"),
        (lambda: DiscreteRNN(ctrnn.gated(3, 5), discretize.Heun()), r"`step`: it is Heun\(\), and it is Euler\(\) there"),
        (lambda: DiscreteRNN(ctrnn.gated(3, 5, bias=False)), "bias`"),
        (lambda: DiscreteRNN(ctrnn.gated(3, 5)).float(), "torch.float32 of shape"),
        (lambda: DiscreteRNN(ctrnn.gated(3, 5)).eval(), "`training`: it is False, and it is True"),
        (lambda: DiscreteRNN(ctrnn.gated(3, 5)).requires_grad_(False), "frozen"),
        (lambda: ContinuousRNN(ctrnn.gated(3, 5)), "`__class__`: it is ContinuousRNN, and it is DiscreteRNN"),
        (parametrized, "candidate"),
        (lambda: hooked(2.0), r"`_forward_hooks\[0\]`: it is <function .*, and it has none there"),
    ],
)
def test_modules_that_differ_are_refused_in_words(other, words):
    with pytest.raises(ValueError, match=words):
        ensemble([DiscreteRNN(ctrnn.gated(3, 5)), other()])


def hooked(factor):
    module = DiscreteRNN(ctrnn.gated(3, 5))
    module.register_forward_hook(lambda module, given, output: (factor * output[0], output[1]))
    return module


def with_atol(factor):
    return ContinuousRNN(ctrnn.gated(3, 5), atol=factor * torch.full((5,), 1e-6))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: [ContinuousRNN(ctrnn.gated(3, 5), rtol=rtol) for rtol in (1e-5, 1e-5, 0.1)],
            r"`networks\[2\]` differs.*`settings.rtol`: it is 0.1, and it is 1e-05",
        ),
        (lambda: [with_atol(1), with_atol(2)], r"`settings.atol`: it is tensor"),
        (lambda: [hooked(2.0), hooked(3.0)], r"`networks\[1\]` differs.*`_forward_hooks\[0\]`"),
    ],
    ids=["a number", "a tensor", "a hook"],
)
def test_settings_of_solves_that_differ_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        ensemble(make())


def test_settings_of_equal_tensors_are_alike():
    assert len(ensemble([with_atol(1), with_atol(1)])) == 2


def test_hooks_of_the_same_code_and_numbers_are_alike_and_act_on_each_network():
    alike, x = [hooked(2.0), hooked(2.0)], torch.randn(5, 4, 3)
    many = ensemble(alike)
    assert_same(many(x), looped(alike, x), many, alike, **ROUNDING)


def test_calls_before_do_not_make_modules_differ():
    modules = networks_of("gated")
    modules[1](torch.randn(5, 4, 3))
    assert len(ensemble(modules)) == 3


@pytest.mark.parametrize("solver", [DiscreteRNN, ContinuousRNN])  # all at once, and one by one
def test_a_mean_that_is_put_in_the_place_of_a_buffer_is_of_each_network(solver):
    modules, xs = [Centred(solver) for _ in range(3)], torch.randn(3, 5, 4, 3)
    many = ensemble(modules)
    for _ in range(2):
        assert_close(many(xs, each="x"), torch.stack([one(x) for one, x in zip(modules, xs, strict=True)]), **ROUNDING)
    assert_close(many.stacked.mean, torch.stack([one.mean for one in modules]), **ROUNDING)


class Centred(nn.Module):
    def __init__(self, solver):
        super().__init__()
        self.network = solver(ctrnn.gated(3, 5))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.mean = 0.5 * self.mean + x.mean((0, 1))  # another tensor, where torch's own modules write in place
        return self.network(x - self.mean)[0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda many, x: ensemble([]), ValueError, "`networks` is empty"),
        (lambda many, x: ensemble(many[0]), TypeError, "`networks` must be a list of modules, got DiscreteRNN"),
        (lambda many, x: ensemble([many[0], 3]), TypeError, r"`networks\[1\]` must be a torch.nn.Module, got int"),
        (
            lambda many, x: many(x, each="h"),
            ValueError,
            "`each` names 'h', which is no argument of the modules; these are x, h_0",
        ),
        (lambda many, x: many(x, each=True), TypeError, "`each` must be names of arguments"),
        (lambda many, x: many(x, each="x"), ValueError, r"`x` is named in `each`.*3 networks, got shape \(5, 4, 3\)"),
        (lambda many, x: many(x[..., :2]), ValueError, "the field reads 3 input features"),
        (lambda many, x: many(), TypeError, "needs `x`"),
        (lambda many, x: many(x, hx=x), TypeError, "h_0"),
        (lambda many, x: many(x.float()), TypeError, "`x` is torch.float32"),
        (lambda many, x: many(nn.utils.rnn.pack_sequence([x[:, 0]])), TypeError, "PackedSequence"),
        (lambda many, x: many[3], IndexError, "There are 3 networks, got 3"),
        (lambda many, x: many[:2], TypeError, r"`separate\(\)` gives all"),
        (lambda many, x: many.clip_grad_norm_(0), ValueError, "`max_norm` must be positive"),
    ],
)
def test_wrong_calls_are_answered_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call(ensemble(networks_of("gated")), torch.randn(5, 4, 3))


def test_threads_that_call_an_ensemble_at_once_get_what_they_would_alone():
    networks = [discretize.DiscreteRNN(ctrnn.gated(2, 3, dtype=torch.float64), fused=False) for _ in range(3)]
    many, xs = discretize.ensemble(networks), [torch.randn(steps, 2, 2, dtype=torch.float64) for steps in (2, 5, 9, 7)]
    together = threading.Barrier(len(xs))

    def called(x):
        together.wait()
        return [many(x)[0] for _ in range(5)]

    with ThreadPoolExecutor(len(xs)) as threads:
        answers = list(threads.map(called, xs))
    for x, outputs in zip(xs, answers, strict=True):
        for output in outputs:
            assert_close(output, torch.stack([network(x)[0] for network in networks]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_that_is_forked_while_a_thread_calls_an_ensemble_has_its_own_turn():
    (called, calling), (gone, going) = os.pipe(), os.pipe()

    class Slow(nn.Module):
        def forward(self, x):
            os.write(calling, b"x")
            os.read(gone, 1)
            return x

    quick = discretize.ensemble([nn.Identity(), nn.Identity()])
    thread = threading.Thread(target=discretize.ensemble([Slow(), Slow()]), args=[torch.zeros(1)])
    thread.start()
    os.read(called, 1)
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits
        os._exit(quick(torch.zeros(1)).shape != (2, 1))
    _, status = os.waitpid(child, 0)
    os.write(going, bytes(9))
    thread.join()
    for end in (called, calling, gone, going):
        os.close(end)
    assert os.waitstatus_to_exitcode(status) == 0
