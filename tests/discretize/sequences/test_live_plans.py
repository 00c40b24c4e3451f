"""Plans of live steps: what they look at again, what torch's tools make of them, and what is refused."""

import copy
import gc
import weakref

import pytest
import torch
from streams import BATCH, INPUT, JUMPS, MODULES, NOISY, TIME, UNITS, noisy, samples, solved, streamed
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, EulerMaruyama, Event, Layers, SequenceModel
from discretize.kernels import price, registry
from discretize.kernels.cpp import methods
from discretize.sequences import live


@pytest.mark.parametrize("name", ["DiscreteRNN of gru", "DiscreteRNN of lstm", "DiscreteRNN of plain", "DiscreteRNN of gated"])
@pytest.mark.parametrize("write", ["data", "copy", "replaced", "part"])
def test_weights_are_read_at_every_step_however_they_are_written(name, write):
    module, x, h = MODULES[name](), samples()[0], None
    part = module.field.gates if "lstm" in name else module.field.candidate
    part = part.pull if "gru" in name else part
    with torch.no_grad():
        for _ in range(2):
            _, h = module.live_step(x, h)
        before = module.live_step(x, h)[0]
        if write == "data":
            part.weight_h.data.mul_(2)
        elif write == "copy":
            part.weight_h.copy_(2 * part.weight_h)
        elif write == "replaced":
            part.weight_h = nn.Parameter(2 * part.weight_h)
        else:
            holder = module.field.candidate if "gru" in name else module.field
            child = next(child for child, given in holder.named_children() if given is part)
            setattr(holder, child, copy.deepcopy(part))
            getattr(holder, child).weight_h.mul_(2)
        assert_close(module.live_step(x, h)[0], module(x[None], h)[0][0], rtol=0, atol=1e-14)
        assert (module.live_step(x, h)[0] - before).abs().max() > 1e-3


@pytest.mark.parametrize("weight", ["weight_h", "bias"])
@pytest.mark.parametrize("name", ["DiscreteRNN of gru", "DiscreteRNN of lstm", "DiscreteRNN of plain", "DiscreteRNN of gated"])
def test_a_weight_that_becomes_a_buffer_in_the_stream_is_still_read(name, weight):
    module, xs = MODULES[name](), samples()
    _, h = module.live_step(xs[0])
    part = module.field.gates if "lstm" in name else module.field.rate if "plain" not in name else module.field.candidate
    value = getattr(part, weight).detach() + 0.5
    delattr(part, weight)
    part.register_buffer(weight, value)
    assert_close(module.live_step(xs[1], h)[0], module(xs[1:2], h)[0][0], rtol=0, atol=1e-14)


class Halved(ctrnn.VectorField):
    """dh/dt = scale (x - h), with a scale that is a plain attribute."""

    scale = 0.5

    def flow(self, projected, h):
        return self.scale * (projected - h)


def test_code_and_attributes_of_a_field_are_read_at_every_step():
    module, x, h = DiscreteRNN(Halved(INPUT, INPUT)), samples()[0], torch.zeros(1, BATCH, INPUT)
    assert_close(module.live_step(x, h)[0], x / 2)
    module.field.scale = 0.25
    assert_close(module.live_step(x, h)[0], x / 4)
    rate = ctrnn.plain(INPUT, UNITS)
    module = DiscreteRNN(rate)
    module.live_step(x)
    rate.rate.alpha = 0.5
    assert_close(module.live_step(x)[0], module(x[None])[0][0], rtol=0, atol=1e-14)


def test_a_weight_that_a_parametrization_begins_to_compute_is_computed():
    module, xs = MODULES["DiscreteRNN of gru"](), samples()
    streamed(module, xs)
    nn.utils.parametrize.register_parametrization(module.field.rate, "weight_h", Doubled())
    assert_close(streamed(module, xs), module(xs), rtol=0, atol=1e-13)


def test_a_hook_in_the_field_is_refused_and_code_of_an_object_is_run_though_a_plan_was_made_before():
    module, x = MODULES["DiscreteRNN of gru"](), samples()[0]
    module.live_step(x)
    hook = module.field.rate.register_forward_hook(lambda *_: None)
    with pytest.raises(TypeError, match="has a hook"):
        module.live_step(x)
    hook.remove()
    module.live_step(x)
    module.field.rate.function = lambda argument: torch.full_like(argument, 0.5)
    assert_close(module.live_step(x), tuple(each.squeeze(0) if k == 0 else each for k, each in enumerate(module(x[None]))))


class Doubled(nn.Module):
    def forward(self, w):
        return 2 * w


def test_dropout_draws_in_training_and_not_after_eval():
    module, x = MODULES["dropout"](), samples(64)[0]
    h = torch.randn(1, 64, UNITS)
    quiet = module.live_step(x, h)[0]
    assert torch.equal(module.train().live_step(x, h)[0], module.live_step(x, h)[0]) is False
    assert torch.equal(module.eval().live_step(x, h)[0], quiet)


def test_the_output_is_not_the_memory_of_the_state():
    for name in (
        "DiscreteRNN of gru",
        "DiscreteRNN of lstm",
        "DiscreteRNN of plain",
        "DiscreteRNN of gated",
        "layers",
        "fixed steps",
    ):
        module, x, state = MODULES[name](), samples()[0], None
        for _ in range(3):
            with torch.no_grad():
                output, state = module.live_step(x, state)
            kept = state.clone()
            output.zero_()
            assert torch.equal(state, kept)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", MODULES)
def test_a_stream_has_the_same_bits_again_and_from_its_first_step_on(name, mode):
    module, xs = MODULES[name](), samples()
    with mode():
        once, again = streamed(module, xs), streamed(copy.deepcopy(module), xs)
        assert_close(once, again, rtol=0, atol=0)
        assert_close(streamed(module, xs), once, rtol=0, atol=0)


def test_batches_may_change_from_step_to_step_and_modes_too():
    module = MODULES["DiscreteRNN of gru"]()
    for batch in (1, 3, None, 2, 3):
        x = samples(batch)
        assert_close(streamed(module, x), module(x), rtol=0, atol=1e-13)
    xs = samples()
    assert_close(streamed(module.float(), xs.float()), module(xs.float()), rtol=0, atol=1e-5)
    assert_close(streamed(module.double(), xs), module(xs), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["DiscreteRNN of gru", "DiscreteRNN of lstm", "DiscreteRNN of plain", "DiscreteRNN of gated"])
def test_under_autocast_states_keep_the_dtype_of_the_field(name):
    module, xs = MODULES[name]().float(), samples()
    streamed(module, xs.float())
    for dtype in (torch.bfloat16, torch.float32):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found, wanted = streamed(module, xs.to(dtype)), module(xs.to(dtype))
        assert found[0].dtype == found[1].dtype == torch.float32
        assert_close(found, wanted, rtol=0, atol=0.05)


def test_a_model_reads_out_and_returns_its_state():
    model = SequenceModel(DiscreteRNN(ctrnn.gru(UNITS, UNITS)), 2, encoder=nn.Linear(INPUT, UNITS))
    xs = samples()
    output, state = streamed(model, xs)
    assert_close(output, model(xs), rtol=0, atol=1e-13)
    assert_close(state, model.rnn(model.encoder(xs))[1], rtol=0, atol=1e-13)
    noisy_model = SequenceModel(NOISY["DiscreteRNN"](), 2)
    assert_close(streamed(noisy_model, xs, seed=[3] * TIME, place=range(TIME))[0], noisy_model(xs, seed=3), rtol=0, atol=1e-13)
    jumping = SequenceModel(JUMPS["GRU-D"](), 2)
    assert_close(streamed(jumping, xs)[0], jumping(xs), rtol=0, atol=1e-13)


class Step(nn.Module):
    """A live step as a module, for torch's tools."""

    def __init__(self, model, dt=None):
        super().__init__()
        self.model, self.dt = model, dt

    def forward(self, x, state):
        return self.model.live_step(x, state, self.dt)


TRACED = ["DiscreteRNN of gru", "DiscreteRNN of lstm", "substeps", "fixed steps", "layers"]


@pytest.mark.parametrize("name", TRACED)
def test_an_exported_step_is_the_step(name):
    module = MODULES[name]()
    step, x = Step(module, 0.5), samples()[0]
    state = module.live_step(x)[1].detach()
    program = torch.export.export(
        step, (x, state), dynamic_shapes=({0: torch.export.Dim("batch")}, {1: torch.export.Dim("batch")})
    )
    for batch in (BATCH, 7):
        given = torch.randn(batch, INPUT), torch.randn(len(state), batch, state.shape[-1])
        assert_close(program.module()(*given), step(*given), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", TRACED)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # of shapes, which stay those of the traced call
def test_a_traced_step_is_the_step(name):
    module = MODULES[name]()
    x = samples()[0]
    state = module.live_step(x)[1].detach()
    traced = torch.jit.trace(Step(module), (x, state))
    assert_close(traced(2 * x, -state), module.live_step(2 * x, -state), rtol=0, atol=1e-14)


def test_a_step_is_mapped_by_vmap():
    for name in ("DiscreteRNN of gru", "DiscreteRNN of gated"):
        module, xs = MODULES[name](), samples()
        _, state = streamed(module, xs)
        states = torch.stack([state, 2 * state])
        found = torch.func.vmap(lambda h, module=module, x=xs[0]: module.live_step(x, h)[0])(states)
        assert_close(found, torch.stack([module.live_step(xs[0], h)[0] for h in states]), rtol=0, atol=1e-14)


def test_no_live_step_builds_a_kernel_however_long_steps_have_taken(monkeypatch):
    def built(*_, **__):
        raise AssertionError("a live step began to build a kernel")

    monkeypatch.setattr(registry, "_attempt", built)
    monkeypatch.setattr(registry, "is_on_disk", lambda *_: False)
    monkeypatch.setattr(price, "PRICE", 0.0)
    for module in (ContinuousRNN(Halved(INPUT, INPUT)), DiscreteRNN(noisy(), EulerMaruyama()), JUMPS["ODE-RNN"]()):
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            try:
                streamed(module, samples())
            finally:
                torch.use_deterministic_algorithms(False)
    assert price.may_build()


def test_no_live_step_compiles_a_method_under_a_field_that_has_a_kernel(monkeypatch):
    def built(*_):
        raise AssertionError("a live step began to build a method")

    field, whys = ctrnn.gated(INPUT, 9, dtype=torch.float64), []
    with torch.no_grad():
        ContinuousRNN(field, fused="always")(samples())
        monkeypatch.setattr(methods, "is_built", lambda *_: False)
        monkeypatch.setattr(methods, "_of_tableau", built)
        monkeypatch.setattr(methods, "kernel_of", lambda *given: price.LIVE if not given[-1] else built())
        for method in ("bosh3", discretize.StepDoubling("heun")):
            module = ContinuousRNN(field, method)
            streamed(module, samples())
            whys.append(module.stats["engine_why"])
    assert whys == [price.LIVE, price.LIVE]


def test_a_stream_counts_as_steps_that_may_overshoot():
    field = ctrnn.leaky(INPUT, UNITS, alpha=5.0)
    module = DiscreteRNN(field)
    with pytest.warns(discretize.StepWarning, match="g dt up to 5"):
        module.live_step(samples()[0])
    module = DiscreteRNN(field, dt=0.1)
    module.live_step(samples()[0])
    with pytest.warns(discretize.StepWarning, match="g dt up to 5"):
        module.live_step(samples()[0], dt=1.0)


def test_a_state_that_is_not_finite_is_an_error_of_a_solve():
    module = ContinuousRNN(Halved(INPUT, INPUT), method="euler")
    _, state = module.live_step(samples()[0])
    module.field.scale = 1e308
    assert live._plans[module].unit is None
    with pytest.raises(discretize.SolverError, match="inf"):
        module.live_step(torch.full((BATCH, INPUT), 10.0), state)


@pytest.mark.usefixtures("only_new_garbage")
def test_a_plan_does_not_keep_its_module_alive():
    module = MODULES["DiscreteRNN of gru"]()
    streamed(module, samples())
    assert module in live._plans
    end = weakref.ref(module)
    del module
    gc.collect()
    assert end() is None


def late():
    class Late(ctrnn.DelayedField):
        def flow(self, projected, h, past):
            return projected - past[0]

    return Late(INPUT, INPUT, [1.0])


def two_ways():
    return Layers.of(ctrnn.gru, INPUT, UNITS, bidirectional=True)


def spiking(terminal):
    return ContinuousRNN(ctrnn.gated(INPUT, UNITS), events=Event(lambda t, h: h[..., 0] - 9.0, terminal=terminal))


WRONG = {
    "delays": (lambda x: DiscreteRNN(late()).live_step(x), "`Late` does not go with `live_step`: this version refuses it"),
    "a cell with delays": (lambda x: DiscreteCell(late()).live_step(x), "`Late` does not go with `live_step`"),
    "two directions": (lambda x: two_ways().live_step(x), "`bidirectional=True` does not go with `live_step`: mathematics"),
    "a path": (lambda x: solved(ctrnn.gru(INPUT, UNITS), path="linear").live_step(x), "`path='linear'` does not go with"),
    "terminal events": (lambda x: spiking(True).live_step(x), "`terminal` does not go with `live_step`"),
    "a sequence": (lambda x: rnn().live_step(x[None]), r"`x` must be one sample, \(batch, input\) or \(input,\)"),
    "features": (lambda x: rnn().live_step(x[:, :1]), "the field reads 2 input features"),
    "a list": (lambda x: rnn().live_step(x.tolist()), "`x` must be a torch.Tensor, got list"),
    "another batch": (lambda x: rnn().live_step(x, torch.zeros(1, 2, UNITS)), r"`state` must have shape \(1, 3, 4\)"),
    "another width": (lambda x: rnn().live_step(x, torch.zeros(1, BATCH, 7)), "`state` has 7 units"),
    "another dtype": (lambda x: rnn().live_step(x, torch.zeros(1, BATCH, UNITS).float()), "`state` is torch.float32"),
    "layers": (lambda x: MODULES["layers"]().live_step(x, torch.zeros(1, BATCH, UNITS)), "`state` must have 2 layers"),
    "no time": (lambda x: rnn().live_step(x, dt=0.0), "`dt` must be positive"),
    "times": (lambda x: rnn().live_step(x, dt=torch.ones(2)), "`dt` must be a number, or one for each sample"),
    "a number as reset": (lambda x: rnn().live_step(x, reset=torch.ones(BATCH)), "`reset` must be a boolean"),
    "a seed": (lambda x: rnn().live_step(x, seed=3), "`seed` is of noise, and here is none"),
    "a place": (lambda x: rnn().live_step(x, place=3), "`place` is that of a sample's noise"),
    "no place": (lambda x: NOISY["DiscreteRNN"]().live_step(x, seed=3), "`seed` and `place`.* go together"),
    "a far place": (lambda x: NOISY["DiscreteRNN"]().live_step(x, seed=3, place=1 << 24), "`place` must be from 0"),
    "nan at first": (lambda x: rnn().live_step(x * torch.nan), "`x`"),
}


def rnn():
    return DiscreteRNN(ctrnn.gru(INPUT, UNITS))


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_a_step_is_said_in_words(name, planned, monkeypatch):
    call, words = WRONG[name]
    if planned and "rnn" in call.__code__.co_names and name != "nan at first":  # after steps that were right
        module = rnn()
        streamed(module, samples())
        monkeypatch.setitem(call.__globals__, "rnn", lambda: module)
    with pytest.raises((TypeError, ValueError), match=words):
        call(samples()[0])


def test_a_spike_in_a_stream_is_told_in_the_time_of_its_sample():
    module = spiking(terminal=False)
    module.live_step(samples()[0])
    assert len(module.crossed) == 1


@pytest.mark.parametrize("name", ["DiscreteRNN of gru", "layers"])
def test_a_pair_for_a_state_that_is_none_is_refused_by_the_name_that_a_step_has_for_it(name):
    module, x = MODULES[name](), samples()[0]
    _, h = module.live_step(x)
    with pytest.raises(ValueError, match="`state` is a sequence of 2"):
        module.live_step(x, (h, h))


@pytest.mark.parametrize("read_out", [nn.Linear(UNITS, 2), nn.Sequential(nn.Linear(UNITS, 2), nn.Tanh()), nn.Identity()])
def test_a_model_reads_a_sample_in_the_dtype_of_its_read_out_as_in_a_call(read_out):
    model = SequenceModel(DiscreteRNN(ctrnn.gru(INPUT, UNITS)), 2)
    model.read_out, x = read_out.to(model.rnn.field.dtype), samples()[:1]
    assert_close(model.live_step(x[0])[0], model(x)[0], rtol=0, atol=1e-14)
    if list(read_out.parameters()):
        assert_close(model.live_step(x[0].float())[0], model(x.float())[0], rtol=0, atol=1e-14)
