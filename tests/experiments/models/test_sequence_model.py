"""The models that are trained: fields and integrators by their names, and the read-out."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from datasets import make_patients
from scipy import stats
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Euler, SequenceModel
from experiments.models.fields import FIELDS, JUMPS, MODULES, FieldSettings, built_field
from experiments.models.integrators import FOR_NOISE, INTEGRATORS, IntegratorSettings, sequence_module, under
from experiments.models.jumps import outputs_and_surprise
from experiments.runs.configuration import configuration, configuration_from_words
from experiments.runs.training import Training
from experiments.seeds import generator
from experiments.usage import UsageError


def test_every_step_map_has_its_name():
    steps = {name for name in discretize.steps.__all__ if isinstance(getattr(discretize.steps, name), type)}
    steps = {name for name in steps if issubclass(getattr(discretize.steps, name), discretize.steps.Step)}
    steps -= {"Step", "StochasticStep", "Zoneout", "EmbeddedMethod", "EmbeddedRungeKutta", "StepDoubling"}
    assert set(INTEGRATORS.values()) == {"ContinuousRNN", *steps}
    assert {name: kind.lower() for name, kind in INTEGRATORS.items()} == {
        name: "continuousrnn" if name == "exact" else name.replace("-", "") for name in INTEGRATORS
    }


def test_settings_reach_the_solver_and_the_steps():
    field = ctrnn.plain(2, 3)
    exact = sequence_module("exact", field, IntegratorSettings(method="bosh3", rtol=1e-2, atol=1e-4))
    assert (exact.settings.method, exact.settings.rtol, exact.settings.atol) == ("bosh3", 1e-2, 1e-4)
    heun = sequence_module("heun", field, IntegratorSettings(substeps=4))
    assert (type(heun.step), heun.substeps) == (discretize.Heun, 4)


def test_weights_move_between_integrators():
    model = configuration_from_words("recall", "gated", "euler", ["hidden=4"]).untrained_model().double()
    exact = under(model, "exact", IntegratorSettings(rtol=1e-6, atol=1e-8))
    fine = under(model, "runge-kutta4", IntegratorSettings(substeps=4))
    xs = torch.randn(3, 2, 10)
    assert_close(exact(xs), fine(xs), rtol=0, atol=1e-5)
    assert not torch.allclose(exact(xs), model(xs), atol=1e-3)
    assert [id(p) for p in exact.parameters()] == [id(p) for p in model.parameters()]
    with torch.no_grad():
        model.read_out.bias += 1
    assert_close(exact(xs), fine(xs), rtol=0, atol=1e-5)
    assert list(exact.state_dict()) == list(model.state_dict())


@pytest.mark.each_value
@pytest.mark.filterwarnings("ignore::discretize.StepWarning")  # a gate without bound, before it has learned
@pytest.mark.parametrize("integrator", ["euler", "exponential-euler", "exact"])
@pytest.mark.parametrize("field", [name for name in FIELDS if name not in MODULES])
def test_any_field_under_any_integrator_learns(field, integrator, monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")  # kernels have tests of their own, and each takes seconds to build
    configuration = configuration_from_words("recall", field, integrator, ["hidden=4", "init=standard", "length=5"])
    model, task = configuration.untrained_model(), configuration.task
    batch = task.batch(3, generator(0))
    task.loss(model(batch.xs), batch).backward()
    # What GRU-D does with values that are missing, and here none are.
    weights = [parameter for name, parameter in model.named_parameters() if parameter.numel() and "fade_x" not in name]
    assert all(weight.grad is not None and bool(weight.grad.any()) for weight in weights)


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    make_patients(folder := tmp_path_factory.mktemp("patients"), 20)
    return folder


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("task", "integrator", "setting"), [("forecast", "euler", "length=6"), ("physionet", "exact", "data={}")]
)
@pytest.mark.parametrize("name", JUMPS)
def test_a_model_that_jumps_is_the_named_one_under_the_integrator(name, task, integrator, setting, patients, monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")  # the same names and weights, and nothing to build
    chosen = configuration_from_words(task, name, integrator, [setting.format(patients), "hidden=3"])
    model, values = chosen.untrained_model().double(), 2 if task == "forecast" else 41 * (1 + (name == "cfc"))
    how = {"method": Euler()} if integrator == "euler" else {"rtol": 1e-3, "atol": 1e-5}
    made = getattr(discretize, JUMPS[name])(values, 3)
    how |= {"open_interval": 1.0} if name == "cfc" else {}
    expected = type(made)(made.field, made.jump, **how)
    expected.load_state_dict(model.rnn.state_dict())
    batch = chosen.task.batch(2, generator(0))
    parts = batch.xs.split(values, -1)
    seen = {} if len(parts) == 1 else {"observed": parts[1] > 0}
    given = {"ts": batch.ts, "lengths": batch.lengths}
    assert_close(model(batch.xs, **given), model.read_out(expected(parts[0], **given, **seen)[0]))
    assert under(model, integrator).rnn.jump is model.rnn.jump
    # Where time alone passes one step is exact; the others are solved, also after a training by steps.
    assert (under(model, "exact").rnn.settings.method == "dopri5") == (name in ("ode-rnn", "gru-ode-bayes"))


@pytest.mark.parametrize(("task", "setting"), [("forecast", "length=6"), ("physionet", "data={}")])
def test_what_is_seen_beside_what_was_expected_is_a_part_of_the_loss(task, setting, patients, monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")
    settings = [setting.format(patients), "hidden=3", "optimizer=sgd", "batch=3"]
    plain, chosen = (
        configuration_from_words(task, "gru-ode-bayes", "euler", [*settings, f"likelihood={much}"]) for much in (0, 0.5)
    )
    model, batch = chosen.untrained_model().double(), chosen.task.batch(3, generator(0))
    width, total, count = model.rnn.jump.input_size, 0.0, 0
    for k in range(3):  # each alone, without what pads it
        n = len(batch.xs) if batch.lengths is None else int(batch.lengths[k])
        ts = None if batch.ts is None else batch.ts if batch.ts.dim() == 1 else batch.ts[:n, k]
        before, after = model.rnn.jumps(batch.xs[:n, k], ts=ts)
        for t, one in enumerate(batch.xs[:n, k]):
            mean, log_variance = model.rnn.jump.f_obs(before[t].flatten()).chunk(2)
            their_mean, their_log_variance = model.rnn.jump.f_obs(after[t].flatten()).chunk(2)
            for d in range(width):
                if len(one) == width or one[width + d]:
                    a, x = log_variance[d].exp(), one[d]
                    total += ((x - mean[d]) ** 2 / a + log_variance[d] + math.log(2 * math.pi)) / 2
                    updated, b = 1 / (1 / a + 1 / 0.01**2), their_log_variance[d].exp()
                    off = updated * (mean[d] / a + x / 0.01**2) - their_mean[d]
                    total += 1e-4 * ((b / updated).log() + (updated + off**2) / b - 1) / 2
                    count += 1
    outputs, surprise = outputs_and_surprise(model, batch)
    inside = slice(None) if batch.lengths is None else torch.arange(len(outputs))[:, None] < batch.lengths
    assert_close(outputs[inside], model(batch.xs, ts=batch.ts, lengths=batch.lengths)[inside], rtol=0, atol=1e-12)
    assert_close(surprise, total / count, rtol=1e-10, atol=0)
    losses = {}
    for each in (plain, chosen):
        run = Training(each.untrained_model(), each.task, each.training, batch_at=partial(lambda batch, _: batch, batch))
        losses[each.training.likelihood] = run.learn()["loss"]
    assert losses[0.5] - losses[0.0] == pytest.approx(0.5 * surprise.item(), rel=1e-4)


def test_what_pads_a_sequence_is_no_surprise_where_all_values_are_seen(monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")
    chosen = configuration_from_words("forecast", "gru-ode-bayes", "euler", ["length=6", "hidden=3"])
    model, batch, lengths = chosen.untrained_model().double(), chosen.task.batch(3, generator(0)), [2, 6, 4]
    total = 0.0
    for k, n in enumerate(lengths):
        alone = replace(batch, xs=batch.xs[:n, k : k + 1], ts=batch.ts[:n, k : k + 1])
        total += n * outputs_and_surprise(model, alone)[1].item()
    _, found = outputs_and_surprise(model, replace(batch, lengths=torch.tensor(lengths)))
    assert found.item() == pytest.approx(total / sum(lengths), rel=1e-10)


def test_a_likelihood_is_refused_for_a_model_that_expects_nothing():
    other = configuration_from_words("adding", "gated", "euler", ["hidden=3", "T=4", "likelihood=1"])
    with pytest.raises(UsageError, match="likelihood is for gru-ode-bayes"):
        Training(other.untrained_model(), other.task, other.training)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_every_integrator_is_near_the_equation_with_steps_that_are_small(integrator, monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")
    settings = ["hidden=3", "T=4", *["substeps=5"] * (integrator != "exact"), *["noise=1e-9"] * (integrator in FOR_NOISE)]
    model = configuration_from_words("adding", "gated", integrator, settings).untrained_model().double()
    xs = torch.randn(2, 2, 2)
    exact = model.under(discretize.ContinuousRNN(getattr(model.field, "field", model.field), rtol=1e-7, atol=1e-9))
    assert_close(model(xs), exact(xs), rtol=0, atol=1e-2)  # of first order: a tenth of a change of 0.1


def test_leaky_is_equation_5_with_a_sigmoid_for_each_unit():
    field = built_field("leaky", 2, FieldSettings(hidden=3, alpha=0.2), generator(0))
    x, h = torch.randn(4, 2, dtype=torch.float32), torch.randn(4, 3, dtype=torch.float32)
    weights = dict(field.named_parameters())
    assert weights["rate.logit_alpha"].shape == (3,)
    alpha = torch.sigmoid(weights["rate.logit_alpha"])
    assert_close(alpha, torch.full((3,), 0.2, dtype=torch.float32))
    pulled = torch.tanh(x @ weights["candidate.weight_x"].T + h @ weights["candidate.weight_h"].T + weights["candidate.bias"])
    assert_close(h + field(x, h), alpha * pulled + (1 - alpha) * h)


def test_the_lstm_starts_with_forget_biases_of_1_and_other_biases_as_torch_draws_them():
    field = built_field("lstm", 2, FieldSettings(hidden=16), generator(0))
    i, f, g, o = dict(field.named_parameters())["gates.bias"].chunk(4)
    assert bool((f == 1).all())
    for other in (i, g, o):
        assert other.abs().max() <= 1 / 4
        assert len(other.unique()) == 16
    cell = ctrnn.to_torch(field)
    x, h, c = torch.randn(1, 2), torch.randn(1, 16), torch.randn(1, 16)
    x, h, c = x.float(), h.float(), c.float()
    _, there = cell(x, (h, c))
    assert_close((torch.cat([h, c], -1) + field(x, torch.cat([h, c], -1)))[:, 16:], there)


@pytest.mark.parametrize("name", ["leaky", "leaky-power", "gated-power", "gru-power", "lstm-power"])
def test_the_slow_fields_start_as_in_the_paper_from_one_rate_and_small_recurrent_weights(name):
    settings = FieldSettings(hidden=100, init="constant", alpha=25 / 300, recurrent_gain=0.1, one_alpha=True)
    field = built_field(name, 2, settings, generator(0))
    assert_close(ctrnn.timescales(field), torch.full((100,), 12.0, dtype=torch.float32), rtol=1e-5, atol=0)
    deviations = torch.cat([p.detach().flatten() for n, p in field.named_parameters() if n.endswith("weight_h")]) * 100
    assert abs(float(deviations.std()) - 1) < 5 / 141  # of 10,000 numbers, five of their spread's own deviations


def test_leaky_has_a_rate_for_each_unit_and_with_a_power_decay_one_for_all():
    rates = {name: built_field(name, 2, FieldSettings(hidden=7)).rate.logit_alpha.shape for name in ("leaky", "leaky-power")}
    assert rates == {"leaky": (7,), "leaky-power": ()}
    x, h = torch.randn(4, 2).float(), torch.randn(4, 7).float()
    scalar = built_field("leaky", 2, FieldSettings(hidden=7, one_alpha=True), generator(0))
    linear = built_field("leaky-power", 2, FieldSettings(hidden=7, exponent=0.0), generator(0))
    assert_close(scalar(x, h), linear(x, h), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["plain", "leaky", "additive"])
def test_units_excite_or_inhibit_in_the_share_of_dale_and_start_balanced(name):
    field = built_field(name, 2, FieldSettings(hidden=50, dale=0.8, recurrent_gain=0.7), generator(0))
    weight, h = field.candidate.weight_h.detach(), torch.zeros(1, 50, dtype=torch.float32)
    assert [bool((part >= 0).all()) for part in (weight[:, :40], -weight[:, 40:])] == [True, True]
    assert_close(torch.linalg.eigvals(weight).abs().max(), torch.tensor(0.7, dtype=torch.float32), rtol=1e-4, atol=0)
    positive = (
        field.visible(field(torch.randn(1, 2).float(), h)) if name == "additive" else field.candidate(torch.ones(1, 2).float(), h)
    )
    assert bool((positive >= 0).all())


def test_balanced_weights_have_a_spectral_radius_of_1_5_where_none_is_asked_for():
    field = built_field("plain", 2, FieldSettings(hidden=30, dale=0.8), generator(0))
    radius = torch.linalg.eigvals(field.candidate.weight_h.detach()).abs().max()
    assert radius.item() == pytest.approx(1.5, rel=1e-4)


@pytest.mark.parametrize("name", ["plain", "leaky", "additive"])
def test_balanced_is_the_start_of_dales_law_without_the_law(name):
    kept, free = (
        built_field(name, 2, FieldSettings(hidden=30, dale=0.8, init=init), generator(0)) for init in ("standard", "balanced")
    )
    for one, other in ((kept.candidate.weight_h, free.candidate.weight_h), (kept.candidate.weight_x, free.candidate.weight_x)):
        assert_close(one, other, rtol=0, atol=0)
    rows = free.candidate.weight_h.sum(1)
    assert_close(rows, torch.zeros_like(rows), rtol=0, atol=1e-4)  # as much excited as inhibited
    with torch.no_grad():
        for field in (kept, free):
            for weight in field.candidate.parameters():
                weight.sub_(10.0)
    assert bool((kept.candidate.weight_h[:, :24] >= 0).all())
    assert bool((free.candidate.weight_h < 0).all())


def test_balanced_needs_a_share_of_units_that_excite():
    with pytest.raises(ValueError, match="`init` is balanced, which needs `dale`"):
        FieldSettings(init="balanced")


def test_noise_of_a_field_is_as_asked_and_is_not_learned():
    field = built_field("gated", 2, FieldSettings(hidden=3, noise=0.2), generator(0))
    x, h = torch.zeros(1, 2), torch.zeros(1, 3)
    assert_close(field.diffusion(field.project(x.float()), h.float()), torch.full((1, 3), 0.2, dtype=torch.float32))
    assert not any(weight.requires_grad for name, weight in field.named_parameters() if name.startswith("noise"))
    assert any(weight.requires_grad for weight in field.parameters())


def test_the_nonlinearity_of_an_additive_field_is_the_named_one():
    smooth = built_field("additive", 2, FieldSettings(hidden=5, nonlinearity="softplus"), generator(0))
    h = torch.randn(4, 5).float()
    assert_close(smooth.visible(h), torch.nn.functional.softplus(h))


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("gru", {"dale": 0.8}, "`dale` is for units whose rates are not negative: of plain, leaky, additive, not of gru"),
        ("additive", {"dale": 0.8, "nonlinearity": "tanh"}, "rates must not be negative, and tanh is"),
        ("gated", {"nonlinearity": "relu"}, "`nonlinearity` is of plain, leaky, additive; leave it out for the field gated"),
        ("plain", {"nonlinearity": "softplus"}, "`nonlinearity` must be one of 'tanh', 'relu'"),
    ],
)
def test_dale_and_nonlinearities_that_a_field_cannot_have_are_refused(name, settings, words):
    with pytest.raises(UsageError, match=words):
        built_field(name, 2, FieldSettings(hidden=5, **settings))


@pytest.mark.parametrize("share", [0.0, 1.0, 0.05, -0.5, 1.5])
def test_dale_must_be_a_share_that_leaves_units_of_both_kinds(share):
    with pytest.raises(ValueError, match="`dale` must be a share of the 5 units"):
        FieldSettings(hidden=5, dale=share)


TIMELESS = [
    *("plain", "additive", "wilson-cowan", "ssn", "antisymmetric", "antisymmetric-gated", "cornn", "unicornn", "fitzhugh-nagumo"),
    *("glnn", "gnn"),
    *JUMPS,
]


# An ltc's synapses leak too: whether a time is long enough for them hangs on what is drawn.
@pytest.mark.parametrize("name", [name for name in FIELDS if name not in [*TIMELESS, *MODULES, "ltc"]])
def test_chrono_gives_times_between_its_two(name):
    settings = FieldSettings(hidden=200, init="chrono", t_min=5.0, t_max=40.0)
    times = ctrnn.timescales(built_field(name, 2, settings, generator(0))).detach()[-200:]  # the LSTM's are those of c
    assert times.min() >= 5 - 1e-3
    assert times.max() <= 40 + 1e-3
    if len(times.unique()) > 1:  # one gate has one time
        assert abs(float(times.mean()) - 22.5) < 4 * 35 / math.sqrt(12 * 200)


def test_chrono_of_the_lstm_is_equation_16():
    settings = FieldSettings(hidden=6, init="chrono", t_max=40.0)
    i, f, _, _ = dict(built_field("lstm", 2, settings, generator(0)).named_parameters())["gates.bias"].chunk(4)
    assert_close(i, -f)
    assert bool((f >= 0).all())
    assert bool((f <= math.log(39) + 1e-5).all())


@pytest.mark.parametrize("name", ["leaky", "leaky-power", "gated", "gru", "lstm", "gated-softplus"])
def test_slow_decay_draws_whole_times_by_footnote_7(name):
    """P(T = 2)/P(T = 3) is 3 log(4)^2/(2 log(3)^2); T = 2 alone where 2 is the longest."""
    settings = FieldSettings(hidden=4000, init="slow-decay")
    times = ctrnn.timescales(built_field(name, 1, settings, generator(0))).detach()[-4000:].double()
    if len(times.unique()) > 1:  # leaky-power has one alpha for all
        counts = [int(((times - k).abs() < 1e-3).sum()) for k in (2, 3)]
        odds = 3 * math.log(4) ** 2 / (2 * math.log(3) ** 2)
        assert abs(counts[0] / counts[1] / odds - 1) < 5 * math.sqrt(1 / counts[0] + 1 / counts[1])
    two = ctrnn.timescales(built_field(name, 1, FieldSettings(hidden=4, init="slow-decay", t_max=2.0), generator(0)))[-4:]
    assert_close(two.detach(), torch.full_like(two, 2.0))


@pytest.mark.parametrize("name", ["leaky", "gated", "lstm"])
def test_half_of_the_times_of_an_inverse_gamma_law_are_below_its_median(name):
    settings = FieldSettings(hidden=4000, init="inverse-gamma")
    times = ctrnn.timescales(built_field(name, 1, settings, generator(0))).detach()[-4000:].double()
    middle = float(stats.invgamma(0.56).median())
    assert abs(float((-1 / torch.log1p(-1 / times) < middle).double().mean()) - 0.5) < 5 * 0.5 / math.sqrt(4000)


@pytest.mark.parametrize("name", ["leaky", "gated", "gated-global", "lstm"])
def test_uniform_gates_lie_between_a_share_of_all_units_and_what_it_leaves(name):
    field = built_field(name, 1, FieldSettings(hidden=500, init="uniform-gates"), generator(0))
    gates = 1 / ctrnn.timescales(field).detach()[-500:].double().unique()  # a global gate is one number
    assert bool((gates >= (1 - 1e-4) / 500).all())
    assert bool((gates <= 1 - (1 - 1e-4) / 500).all())
    assert len(gates) == 1 or stats.kstest(gates.numpy(), stats.uniform(1 / 500, 1 - 2 / 500).cdf).pvalue > 1e-3


@pytest.mark.parametrize("init", [{"init": "chrono", "t_max": 9.0}, {"init": "slow-decay"}, {"init": "uniform-gates"}])
@pytest.mark.parametrize("name", TIMELESS)
def test_a_field_without_time_scales_starts_by_no_times(name, init):
    with pytest.raises(UsageError, match=f"the field {name} has no time scale"):
        configuration("recall", name, "euler", **init).untrained_model()


@pytest.mark.parametrize(("exponents", "shape"), [("learned", ()), ("per-unit", (7,))])
@pytest.mark.parametrize("name", ["leaky-power", "gated-power", "gru-power", "lstm-power"])
def test_exponents_can_be_learned_one_for_all_or_one_for_each_unit(name, exponents, shape):
    r = built_field(name, 2, FieldSettings(hidden=7, exponents=exponents, exponent=0.5)).decay.exponent
    assert r.requires_grad
    assert_close(r.detach(), torch.full(shape, 0.5, dtype=torch.float32))


def test_a_learned_exponent_starts_above_0():
    with pytest.raises(ValueError, match="`exponent` is 0, and one that is learned starts above it"):
        FieldSettings(exponents="learned", exponent=0.0)


def test_a_configuration_of_before_the_power_decays_is_read():
    now = configuration("recall", "leaky", "euler", alpha=0.3)
    written = now.to_json()
    for key in ("exponents", "one_alpha", "recurrent_gain"):
        del written["field_settings"][key]
    assert type(now).from_json(written) == now


def test_the_read_out_starts_as_linear_of_torch_does():
    rnn = discretize.DiscreteRNN(ctrnn.plain(2, 400))
    read_out = SequenceModel(rnn, 30, generator(0)).read_out
    theirs = nn.Linear(400, 30)
    for ours, other in zip(read_out.parameters(), theirs.parameters(), strict=True):
        assert ours.shape == other.shape
        assert 0.9 / 20 < ours.abs().max() <= 1 / 20
    assert abs(float(read_out.weight.detach().mean())) < 4 / 20 / math.sqrt(3 * 12000)


def test_outputs_are_read_from_the_visible_state():
    rnn = discretize.DiscreteRNN(ctrnn.lstm(2, 3))
    model = SequenceModel(rnn, 4)
    xs = torch.randn(5, 6, 2)
    states, _ = rnn(xs)
    assert states.shape == (5, 6, 3)
    assert_close(model(xs), states @ model.read_out.weight.T + model.read_out.bias)


def test_the_weights_are_a_function_of_the_seed():
    def weights(*settings):
        return [
            p.detach().numpy().tobytes()
            for p in configuration_from_words("recall", "gated", "euler", settings).untrained_model().parameters()
        ]

    torch.manual_seed(5)
    first = weights()
    torch.manual_seed(6)
    assert weights() == first
    assert not set(weights("seed=1")) & set(first)


@pytest.mark.parametrize("name", FIELDS)
def test_the_weights_are_float32_whatever_the_default_of_torch_is(name):
    assert torch.get_default_dtype() == torch.float64
    model = configuration_from_words("recall", name, "euler").untrained_model()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
