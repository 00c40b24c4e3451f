"""Models in files: what comes back is what was saved, and a file, whoever has written it, gives a model or an error in words."""

import copy
import hashlib
import inspect
import json
import os
import pickle
import re
from importlib import import_module
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.lazy import places_of
from ctrnn.storage.files import write_atomically
from ctrnn.storage.model import FORMAT
from ctrnn.storage.tensors import read_tensors, write_tensors
from discretize.steps.catalog import steps

SIZES = st.integers(1, 4)
WEIGHTS = st.fixed_dictionaries({"bias": st.booleans(), "dtype": st.sampled_from([torch.float32, torch.float64, torch.bfloat16])})
LAYERS = st.integers(1, 3)
DECAYS = st.one_of(st.none(), st.builds(ctrnn.PowerDecay, st.floats(0, 3)), st.builds(ctrnn.LinearDecay))


def named(make, **more):
    return st.builds(
        lambda i, h, weights, given: make(i, h, **weights, **given), SIZES, SIZES, WEIGHTS, st.fixed_dictionaries(more)
    )


FIELDS = st.one_of(
    named(ctrnn.plain, num_layers=LAYERS),
    named(ctrnn.leaky, alpha=st.floats(0.1, 3), per_unit=st.booleans(), decay=DECAYS, num_layers=LAYERS),
    named(
        ctrnn.gated, gate=st.sampled_from(["unit", "global", "network"]), decay=DECAYS, num_layers=LAYERS,
        rate=st.sampled_from(["sigmoid", "softplus", "exponential"]),
    ),
    named(ctrnn.gru, decay=DECAYS, num_layers=LAYERS),
    named(ctrnn.lstm, decay=DECAYS, num_layers=LAYERS),
)  # fmt: skip
STEPS = [kind() for kind in steps().values()]
STEPS += [discretize.Zoneout(discretize.Euler(), 0.25), discretize.Zoneout(discretize.Heun(), (0.0, 0.5))]
MODULES = (
    lambda field: field,
    lambda field: discretize.DiscreteCell(field, discretize.Heun(), 0.5, allow_overshoot=True),
    lambda field: discretize.DiscreteRNN(
        field, STEPS[field.hidden_size % len(STEPS)], 0.5, 3, "backward", True, False, True, 2.0
    ),
    lambda field: discretize.ContinuousRNN(field, "rodas5p", 1e-4, torch.full((field.state_size,), 1e-6), 0.5, hold="backward"),
    lambda field: discretize.ContinuousRNN(field, gradient=discretize.Checkpointed(1e6), first_step=0.1, on_failure="keep"),
    lambda field: discretize.ContinuousRNN(field, discretize.Euler(), batch_first=True, fused=False),
    lambda field: discretize.SequenceModel(discretize.DiscreteRNN(field), 2, encoder=nn.Sequential(nn.Linear(3, 2), nn.Tanh())),
)


class Scaled(ctrnn.VectorField):
    """A field of a user, which keeps what it is given."""

    def __init__(self, input_size, hidden_size, scale, candidate):
        super().__init__(input_size, hidden_size)
        self.scale, self.candidate, self.inner = scale, candidate, ctrnn.leaky(input_size, hidden_size)

    def flow(self, projected, h):
        return self.scale * self.candidate(projected, h) + self.inner(projected, h)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def assert_same(loaded, model):
    assert repr(loaded) == repr(model)
    assert (loaded.training, type(loaded)) == (model.training, type(model))
    ours, theirs = loaded.state_dict(keep_vars=True), model.state_dict(keep_vars=True)
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype
        assert ours[name].requires_grad == tensor.requires_grad
        assert torch.equal(ours[name].detach().nan_to_num(), tensor.detach().nan_to_num())


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=FIELDS, make=st.sampled_from(MODULES))
def test_what_is_saved_comes_back(path, field, make):
    model = make(field)
    ctrnn.save(path, model)
    before = torch.get_rng_state()
    loaded = ctrnn.load(path)
    assert torch.equal(before, torch.get_rng_state())  # nothing is drawn that is not needed
    assert_same(loaded, model)
    for own, other in zip(loaded.modules(), model.modules(), strict=True):
        for name in ("alpha", "exponent", "settings", "watch", "hold", "batch_first", "dt", "substeps", "fused", "p"):
            if name in vars(other) and name != "watch":
                assert str(getattr(own, name)) == str(getattr(other, name))
        if "watch" in vars(other):
            assert own.watch.allowed == other.watch.allowed


def examples():
    """A model of every public class of parts, fields and modules, beside those above."""
    sizes = {"input_size": 3, "hidden_size": 4}
    candidate = ctrnn.TanhCandidate(3, 4)
    rates = [ctrnn.ConstantRate(2.0), ctrnn.SigmoidConstantRate(torch.full((4,), 0.2)), ctrnn.SoftplusConstantRate(0.1)]
    rates += [
        getattr(ctrnn, name)(**sizes)
        for name in places_of(ctrnn.__file__)
        if re.fullmatch(r"(Global)?(Gate|Softplus|Exponential)Rate", name)
    ]
    fields = [ctrnn.Relaxation(candidate, rate, ctrnn.PowerDecay(1.5)) for rate in (*rates, ctrnn.FixedRate(0.3))]
    lstm = discretize.DiscreteRNN(ctrnn.lstm(3, 4))
    pair = [discretize.DiscreteRNN(ctrnn.lstm(8, 4)), discretize.DiscreteRNN(ctrnn.lstm(8, 4))]
    layers = discretize.Layers([[lstm, copy.deepcopy(lstm)], pair], dropout=0.3, batch_first=True, pair=True)
    yield ctrnn.LTCField(ctrnn.Synapses(torch.eye(3, 4)), ctrnn.Synapses(-torch.eye(4)), 2)
    yield from (*rates, *fields, layers, ctrnn.Affine(3, 4, 5), ctrnn.softplus_clock(ctrnn.gated(3, 4)), ctrnn.lstm(3, 4))
    yield from (
        ctrnn.NetworkGated(candidate, ctrnn.GateRate(3, 4), ctrnn.LinearDecay(), ctrnn.gru(3, 4)),
        ctrnn.gru(3, 4, num_layers=2),
    )
    yield ctrnn.gru(3, 4, decay=ctrnn.PowerDecay(0.5, learnable=True), num_layers=2)
    yield ctrnn.lstm(3, 4, decay=ctrnn.PowerDecay(torch.tensor([0.5, 1.0, 2.0, 4.0]), learnable=True, hidden_size=4))
    yield discretize.SequenceModel(layers, 2, encoder=nn.Sequential(nn.Linear(5, 3), nn.LayerNorm(3), nn.Dropout(0.2), nn.GELU()))
    yield discretize.SequenceModel(lstm, 2, encoder=nn.Embedding(7, 3, padding_idx=0, max_norm=2.0))
    yield from (
        discretize.DiscreteCell(ctrnn.plain(3, 4)),
        discretize.ensemble([discretize.DiscreteRNN(ctrnn.gated(3, 4)) for _ in range(2)]),
        discretize.ContinuousRNN(ctrnn.plain(3, 4), gradient=discretize.Adjoint()),
        discretize.ode_rnn(3, 4),
        discretize.gru_ode_bayes(3, 4),
        discretize.gru_d(3, 4, torch.ones(3)),
        discretize.cfc(3, 4, "pure", layers=0, wiring=torch.ones(7, 4), hold="backward", open_interval=2.0),
        discretize.cfc(3, 4, activation="silu", units=5, layers=2, dropout=0.3, batch_first=True),
        discretize.ContinuousRNN(ctrnn.ControlledField(nn.Linear(4, 12), 3, 4), path="linear"),
        discretize.DiscreteRNN(ctrnn.Noisy(ctrnn.gru(3, 4), ctrnn.Noise(0.3)), discretize.Milstein(), 0.5),
        discretize.DiscreteRNN(ctrnn.Noisy(ctrnn.lstm(3, 4), ctrnn.Noise(torch.rand(8, 2))), discretize.StratonovichHeun()),
        discretize.DiscreteRNN(ctrnn.ColoredInput(ctrnn.gru(3, 4), torch.rand(3), 2.0), discretize.SRA1()),
        discretize.DiscreteCell(
            ctrnn.Noisy(ctrnn.NetworkField(nn.Identity(), 4), ctrnn.Noise(0.0)), discretize.ExponentialEulerMaruyama()
        ),
        ctrnn.LowRankReduction(of_low_rank(ctrnn.additive(3, 4))),
        ctrnn.Noisy(linear_relaxation(), ctrnn.Noise(torch.rand(3), on="input")),
        discretize.ContinuousRNN(
            ctrnn.Noisy(ctrnn.gru(3, 4), ctrnn.Noise(0.3)), discretize.StepDoubling(discretize.EulerMaruyama()), 0.1, 0.1
        ),
    )


def of_low_rank(field):
    nn.utils.parametrize.register_parametrization(field.candidate, "weight_h", ctrnn.LowRank(2))
    return field


def linear_relaxation():
    """A field that is linear in its input."""
    return ctrnn.Relaxation(ctrnn.Affine(3, 4, 4), ctrnn.FixedRate(0.5), ctrnn.LinearDecay())


# What constructors ask for, by name.
ARGUMENTS = {
    "input_size": 3, "hidden_size": 4, "outputs": 4, "part": ctrnn.TanhCandidate(3, 4),
    "drive": ctrnn.Affine(3, 4, 4), "adaptation": ctrnn.FixedRate(0.1), "candidate": ctrnn.TanhCandidate(3, 4),
    "signs": torch.tensor([1.0, -1.0]), "mask": torch.rand(2, 3), "rank": 2, "value": 0.9, "nonlinearity": "retanh",
    "rate": ctrnn.FixedRate(2.0), "decay": ctrnn.LinearDecay(), "field": ctrnn.gru(3, 4), "step": discretize.Heun(), "p": 0.3,
}  # fmt: skip


def parts_around_parts():
    gate = ctrnn.Dropout(ctrnn.LayerNorm(ctrnn.GateRate(3, 4), eps=1e-3), 0.3, 0.1)
    field = ctrnn.Relaxation(ctrnn.LayerNorm(ctrnn.ReluCandidate(3, 4)), gate, ctrnn.LinearDecay())
    return discretize.DiscreteRNN(field, discretize.Zoneout(discretize.Euler(), (0.05, 0.5)))


def test_every_public_class_can_be_saved(path, subtests):
    seen = set()
    for model in (*examples(), parts_around_parts()):
        with subtests.test(model=type(model).__name__):
            ctrnn.save(path, model.eval())
            assert_same(ctrnn.load(path), model)
        seen |= {type(part) for part in model.modules()}
    public = {
        getattr(import_module(place), name)
        for package in (ctrnn, discretize)
        for name, place in places_of(package.__file__).items()
    }
    modules = {kind for kind in public if inspect.isclass(kind) and issubclass(kind, nn.Module) and not inspect.isabstract(kind)}
    for kind in modules - seen - {ctrnn.Driven, ctrnn.DelayLine}:  # which hold samples, or a field of one's own
        with subtests.test(kind=kind.__name__):
            needed = [
                name for name, p in inspect.signature(kind).parameters.items() if p.default is p.empty and name in ARGUMENTS
            ]
            model = kind(**{name: copy.deepcopy(ARGUMENTS[name]) for name in needed})
            ctrnn.save(path, model)
            assert_same(ctrnn.load(path), model)


def test_a_part_that_took_the_place_of_another_is_saved(path):
    model = discretize.SequenceModel(discretize.DiscreteRNN(ctrnn.gated(3, 4)), 2)
    model.read_out = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    ctrnn.save(path, model)
    assert_same(ctrnn.load(path), model)


def test_a_part_that_no_constructor_makes_is_refused(path):
    model = discretize.SequenceModel(discretize.DiscreteRNN(ctrnn.gated(3, 4)), 2)
    model.more = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"`model` was changed after it was made, or .*it has no part 'more'"):
        ctrnn.save(path, model)
    assert not path.exists()


def test_outputs_are_the_same_to_the_bit_and_shared_and_frozen_weights_stay_so(path):
    field = ctrnn.gated(3, 4)
    field.rate.bias.requires_grad_(False)
    model = discretize.Layers([[discretize.DiscreteRNN(field), discretize.DiscreteRNN(ctrnn.softplus_clock(field))]])
    ctrnn.save(path, model)
    loaded, x = ctrnn.load(path), torch.randn(5, 2, 3)
    assert torch.equal(loaded(x)[0], model(x)[0])
    forwards, backwards = (row.field for row in loaded.layers[0])
    assert forwards.candidate.weight_x is backwards.candidate.weight_x
    assert not backwards.rate.bias.requires_grad
    assert sum(p.numel() for p in loaded.parameters()) == sum(p.numel() for p in model.parameters())


def test_the_same_model_is_the_same_bytes(tmp_path):
    model, files = ctrnn.gru(2, 3), [tmp_path / str(k) for k in range(12)]  # the library's own order differs from call to call
    for file in files:
        ctrnn.save(file, model)
    assert len({file.read_bytes() for file in files}) == 1


def observer_with(activation):
    model = discretize.gru_ode_bayes(3, 4)
    model.jump.f_obs = nn.Sequential(nn.Linear(4, 25), activation, nn.Linear(25, 6))
    return model


def closed_form_with(activation):
    model = discretize.cfc(3, 4)
    model.jump.backbone[1] = activation
    return model


def closed_form_without_dropout(activation):
    model = discretize.cfc(3, 4, activation="relu", layers=2, dropout=0.9)
    model.jump.backbone[1] = activation
    model.jump.backbone[-1].p = 0.0
    return model


@pytest.mark.parametrize("make", [observer_with, closed_form_with, closed_form_without_dropout])
def test_a_part_within_a_part_that_took_the_place_of_another_is_saved(path, make):
    model, x = make(nn.Tanh()), torch.randn(5, 2, 3)
    ctrnn.save(path, model)
    assert torch.equal(ctrnn.load(path)(x)[0], model(x)[0])


def test_a_part_in_another_mode_than_the_whole_stays_in_it(path):
    model = discretize.SequenceModel(discretize.DiscreteRNN(ctrnn.gru(3, 4)), 1, encoder=nn.Sequential(nn.Dropout(0.5)))
    model.encoder.eval()
    ctrnn.save(path, model)
    loaded, x = ctrnn.load(path), torch.randn(5, 2, 3)
    assert torch.equal(loaded(x), model(x))
    assert [part.training for part in loaded.modules()] == [part.training for part in model.modules()]


def test_without_a_path_nothing_is_written_and_why_not_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ctrnn.save(None, discretize.DiscreteRNN(ctrnn.gru(3, 4)))
    with pytest.raises(TypeError, match=r"`model.args.1.` is of the class Hardtanh, which a file cannot name"):
        ctrnn.save(None, nn.Sequential(nn.Linear(3, 3), nn.Hardtanh()))
    assert not any(tmp_path.iterdir())


def test_what_was_set_on_an_object_in_place_of_what_its_class_has_is_refused(path):
    rnn = discretize.DiscreteRNN(ctrnn.plain(3, 4))
    rnn.field.candidate.function = torch.sigmoid
    with pytest.raises(TypeError, match=r"`model.field.candidate.function` was set on the object"):
        ctrnn.save(path, rnn)
    del rnn.field.candidate.function
    ctrnn.save(path, rnn)


def test_models_are_loaded_where_torch_compile_has_replaced_the_constructor_of_modules(path, monkeypatch):
    made = nn.Module.__init__

    def counted(self, *args, **kwargs):
        made(self, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "__init__", counted)
    field = ctrnn.gated(1, 2)
    ctrnn.save(path, field)
    assert_same(ctrnn.load(path), field)


@pytest.fixture
def of_a_user():
    return discretize.DiscreteRNN(Scaled(3, 4, 2.0, ctrnn.TanhCandidate(3, 4)))


def test_a_class_of_a_user_is_refused_with_the_way_out(path, of_a_user):
    with pytest.raises(
        TypeError, match=r"`model.field` is of the class Scaled.*Give `known=\{'Scaled': Scaled\}`.*`state_dict\(\)`"
    ):
        ctrnn.save(path, of_a_user)
    assert not path.exists()


def test_a_class_of_a_user_that_is_known_comes_back(path, of_a_user):
    ctrnn.save(path, of_a_user, known={"Mine": Scaled})
    with pytest.raises(
        ValueError, match=r"it holds a 'Mine', which is no class of this version; name it in `known` if it is yours"
    ):
        ctrnn.load(path)
    assert_same(ctrnn.load(path, known={"Mine": Scaled}), of_a_user)


def test_a_class_that_does_not_keep_what_it_is_given_is_refused(path, of_a_user):
    del of_a_user.field.scale
    with pytest.raises(TypeError, match=r"Scaled does not keep what its constructor takes as `scale`; set `self.scale = scale`"):
        ctrnn.save(path, of_a_user, known={"Mine": Scaled})


def test_known_classes_are_given_by_their_names(path):
    ctrnn.save(path, ctrnn.plain(2, 3))
    with pytest.raises(TypeError, match="`known` must be a dictionary of classes by their names"):
        ctrnn.load(path, known=[Scaled])


def test_a_class_of_a_user_keeps_what_it_is_given_under_any_name(path):
    ctrnn.save(path, Named(3, 7, "linear", False), known={"Named": Named})
    loaded = ctrnn.load(path, known={"Named": Named})
    assert (loaded.outputs, loaded.hold, loaded.bias) == (7, "linear", False)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ctrnn.gated(3, 4).state_dict(), r"`model` must be a torch.nn.Module, got OrderedDict"),
        (lambda: ctrnn.gated(3, 4, device="meta"), "is no tensor with values"),
    ],
    ids=["tensors alone", "no values"],
)
def test_what_is_no_model_is_not_saved(path, make, words):
    with pytest.raises(TypeError, match=words):
        ctrnn.save(path, make())
    assert not path.exists()


def test_tensors_of_a_dtype_without_a_name_are_not_written(path):
    with pytest.raises(TypeError, match=r"`model` has tensors of torch.complex128, for which the file has no name; convert them"):
        write_tensors(path, {"a": torch.zeros(2, dtype=torch.complex128)}, "")
    assert not path.exists()


def test_tensors_that_do_not_say_of_which_model_are_refused_with_the_way_out(path):
    safetensors.torch.save_file(ctrnn.gated(3, 4).state_dict(), path)
    with pytest.raises(ValueError, match=r"does not say of which model.*safetensors\.torch\.load_file.*load_state_dict"):
        ctrnn.load(path)


class Named(ctrnn.VectorField):
    """A field whose arguments have the names of arguments of ours, which ours keep elsewhere."""

    def __init__(self, hidden_size, outputs, hold, bias):
        super().__init__(hidden_size, hidden_size)
        self.outputs, self.hold, self.bias, self.inner = outputs, hold, bias, ctrnn.leaky(hidden_size, hidden_size)

    def flow(self, projected, h):
        return self.inner(projected, h)


class Several(Named):
    def __init__(self, hidden_size, *more):
        super().__init__(hidden_size, 1, "forward", True)
        self.more = more


class Parted(Named):
    def __init__(self, hidden_size, parts):
        super().__init__(hidden_size, 1, "forward", True)
        self.parts = parts


@pytest.mark.parametrize("model", [Several(3, 1), Parted(3, 1)], ids=lambda model: type(model).__name__)
def test_arguments_that_a_description_has_no_place_for_are_refused(path, model):
    with pytest.raises(TypeError, match=r"takes `(\*more|parts)`, which a file cannot say; take a list, and by another name"):
        ctrnn.save(path, model, known={"Mine": type(model)})


# Files from elsewhere


def rewritten(path, change):
    """The file with another description, and the digest of that: as somebody who knows the form would write it."""
    text, tensors = read_tensors(path)
    about = json.loads(text)
    changed = change(about)
    write_tensors(path, tensors, changed if isinstance(changed, str) else json.dumps(about if changed is None else changed))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda about: about.update(format=2),
            "a newer ctrnn has written it, in format 2, and this one reads 1; `pip install --upgrade ctrnn-ode`",
        ),
        (lambda about: "{", "its description is damaged"),
        (lambda about: about.pop("shared"), "its description is damaged"),
        (lambda about: about["model"].update({"class": "os.system"}), "it holds a 'os.system', which is no class"),
        (lambda about: about["model"].update({"class": "ctrnn.HeldPath"}), "it holds a 'ctrnn.HeldPath', which is no class"),
        (lambda about: about["model"].update({"class": "ctrnn.VectorField"}), "no VectorField can be made as it says"),
        (lambda about: about["model"]["rate"].update(hidden_size=10**9), "no Relaxation can be made as it says"),
        (lambda about: about["model"].update(speed=3), "no Relaxation can be made as it says: `Relaxation` takes no `speed`"),
        (lambda about: about["model"]["candidate"].update(bias=False), "it has a tensor 'candidate.bias', and its model none"),
        (lambda about: about["model"].update(decay=None), "`decay` must be a ctrnn.parts.Decay, got NoneType"),
    ],
)  # fmt: skip
def test_a_description_that_fits_nothing_is_refused_in_words(path, change, words):
    ctrnn.save(path, ctrnn.gated(3, 4))
    rewritten(path, change)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}: .*{re.escape(words)}"):
        ctrnn.load(path)


def test_sizes_without_the_weights_for_them_take_no_memory(path):
    ctrnn.save(path, ctrnn.plain(3, 4))
    rewritten(path, lambda about: about["model"]["candidate"].update(input_size=10**6, hidden_size=10**6))
    with pytest.raises(ValueError, match=r"its tensor 'candidate.weight_x' is \(4, 3\), and \(1000000, 1000000\) in its model"):
        ctrnn.load(path)


@pytest.mark.parametrize("of", ["a number", "the description"])
def test_one_bit_that_is_another_is_found(path, of):
    ctrnn.save(path, ctrnn.gated(2, 3))
    whole = path.read_bytes()
    at = len(whole) - 1 if of == "a number" else whole.index(b"ctrnn.GateRate") + 6
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(ValueError, match="it is damaged, its digest is another"):
        ctrnn.load(path)


def test_a_link_is_not_followed(path, tmp_path):
    ctrnn.save(path, ctrnn.plain(2, 3))
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match=r"it is a symbolic link, not a file: .*link"):
        ctrnn.load(tmp_path / "link")


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        ctrnn.load(tmp_path / "lost")


CONTENTS = {
    "nothing": b"",
    "too short": b"\x00" * 7,
    "a length beyond the end": b"\xff" * 64,
    "a pickle": pickle.dumps(print),
    "a list": b"\x02" + b"\x00" * 7 + b"[]",
}


@pytest.mark.parametrize("content", CONTENTS)
def test_only_files_of_tensors_are_loaded(path, content):
    path.write_bytes(CONTENTS[content])
    with pytest.raises(ValueError, match=r"it is no file of tensors|as torch\.save writes"):
        ctrnn.load(path)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("keep", [lambda f: f.state_dict(), lambda f: f, lambda f: {"model": f.state_dict(), "step": 3}])
def test_a_file_of_torch_save_is_told_from_a_damaged_one(tmp_path, keep, zipped):
    saved = tmp_path / "model.pt"  # torch.load goes by the name
    torch.save(keep(ctrnn.gated(3, 4)), saved, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"as torch\.save writes.*load_state_dict\(torch\.load\(path, weights_only=True"):
        ctrnn.load(saved)


def test_weights_of_torch_save_are_read_as_the_words_say_and_saved_in_their_place(tmp_path):
    saved, field = tmp_path / "model.pt", ctrnn.gated(3, 4)
    torch.save(field.state_dict(), saved)
    again = ctrnn.gated(3, 4)
    again.load_state_dict(torch.load(saved, weights_only=True))
    ctrnn.save(saved, again)
    assert_same(ctrnn.load(saved), field)


def test_a_file_is_what_the_form_says_and_its_tensors_may_stand_in_any_order(path):
    model = ctrnn.lstm(2, 3, dtype=torch.bfloat16)
    ctrnn.save(path, model)
    text = safetensors.safe_open(path, "pt").metadata()["ctrnn"]
    data, entries = b"", {}
    for name, tensor in model.state_dict().items():
        new = bytes(tensor.view(torch.uint8).flatten().tolist())
        entries[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(new)]}
        data += new
    digest = hashlib.sha256(json.dumps([text, entries]).encode() + data).hexdigest()
    header = json.dumps({"__metadata__": {"ctrnn": text, "sha256": digest}, **entries}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    assert_same(ctrnn.load(path), model)


WORDS = st.text('ab_."\\\n\0é', max_size=8) | st.sampled_from(["ctrnn.Stack", "torch.nn.Linear"])
KEYS = st.sampled_from(["class", "args", "numbers", "dtype", "tuple", "items", "alpha"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
PLACES = [["model"], ["frozen"], ["shared"], ["model", "fields"], ["model", "fields", 0, "rate"]]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON, where=st.sampled_from(PLACES))
def test_any_description_gives_a_model_or_an_error_in_words(path, value, where):
    if not path.exists() or path.stat().st_size == 0:
        ctrnn.save(path, ctrnn.leaky(2, 3, num_layers=2))

    def change(about):
        for key in where[:-1]:
            about = about[key]
        about[where[-1]] = value

    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    rewritten(other, change)
    try:
        answer = ctrnn.load(other)
    except ValueError as error:
        answer = str(error)
    assert isinstance(answer, nn.Module) or str(other) in answer


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_that_was_changed_anywhere_is_refused(path, data):
    ctrnn.save(path, ctrnn.gated(2, 3))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1) | st.integers(0, 400))
    cut, put = data.draw(st.integers(0, 3)), data.draw(st.binary(max_size=3))
    changed = whole[:at] + put + whole[at + cut :]
    path.write_bytes(changed)
    if changed != whole:
        with pytest.raises(ValueError, match=re.escape(str(path))):
            ctrnn.load(path)


def test_what_was_there_stays_where_writing_fails(path, monkeypatch):
    ctrnn.save(path, ctrnn.plain(2, 3))
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        ctrnn.save(path, ctrnn.gru(2, 3))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_was_there_becomes_the_file_that_is_kept(path, tmp_path):
    for text in ("first", "second", "third"):
        write_atomically(path, text, keep=tmp_path / "before")
    assert (path.read_text(), (tmp_path / "before").read_text()) == ("third", "second")


@pytest.mark.parametrize("length", [0x280, 0x380, 0x480, 0x580])
def test_a_header_whose_length_begins_as_pickles_do_is_read(path, length):
    write_tensors(path, {"a": torch.zeros(2)}, "")
    text = "a" * (length - path.read_bytes()[0])
    write_tensors(path, {"a": torch.zeros(2)}, text)
    assert path.read_bytes()[:3] == length.to_bytes(3, "little")
    assert read_tensors(path)[0] == text


# Files as they were written once, never written anew, and the last outputs of their models for -1, -1/3, 1/3, 1.
KEPT = Path(__file__).with_name("saved")
LAST_OUTPUTS = {
    "gated": [-0.0936731214346178, 0.1201573005949223],
    "lstm": [0.19109897020033756, -0.23191534903313982],
    "parametrized": [-0.09941385069800686, -0.09220848832199545],
}
OF_A_USER = [-0.3397202000182216, -0.6804896449248536]


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
@pytest.mark.parametrize("name", LAST_OUTPUTS)
def test_a_kept_file_of_every_format_gives_the_outputs_that_it_gave(version, name):
    model = ctrnn.load(KEPT / f"format-{version}-{name}.safetensors")
    xs = torch.linspace(-1, 1, 4, dtype=torch.float64).reshape(4, 1, 1)
    output = model(xs) if isinstance(model, discretize.SequenceModel) else model(xs)[0]
    assert_close(output[-1].flatten().tolist(), LAST_OUTPUTS[name], rtol=0, atol=1e-14)  # other BLAS, other rounding


def test_kept_files_have_frozen_weights_modes_and_computed_weights():
    gated, lstm, parametrized = (ctrnn.load(KEPT / f"format-1-{name}.safetensors") for name in LAST_OUTPUTS)
    assert (gated.training, lstm.training) == (True, False)
    assert [name for name, weight in gated.named_parameters() if not weight.requires_grad] == ["field.rate.bias"]
    candidate = parametrized.rnn.field.candidate
    assert candidate.weight_h.diagonal().tolist() == [0.0, 0.0]
    assert candidate.parametrizations.weight_h.original.diagonal().count_nonzero() == 2
    assert candidate.parametrizations.weight_x.original0.shape == (2, 1)


def test_a_kept_file_of_a_users_classes_gives_the_outputs_that_it_gave():
    model = ctrnn.load(KEPT / "format-1-of-a-user.safetensors", known={"Mine": Scaled, "Named": Named})
    field = model.rnn.field
    assert field.scale.tolist() == [0.5, 2.0]
    assert (field.inner.outputs, field.inner.hold, field.inner.bias) == ({"of": (7, None)}, ["forward", 0.25], False)
    assert [type(part) for part in model.read_out] == [nn.Linear, nn.Tanh]  # in place of what the constructor makes
    xs = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 1, 2)
    assert_close(model(xs)[-1].flatten().tolist(), OF_A_USER, rtol=0, atol=1e-14)  # other BLAS, other rounding
