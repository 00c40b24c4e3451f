"""Every door of the library takes the fields that it can run, and refuses the others in the user's words."""

import pytest
import torch
from torch.func import vmap
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, Flow, Map

XS = torch.zeros(6, 2, 0, dtype=torch.float64)


def relaxing():
    """A field without an input, and where it is after each of six samples by Euler's step and exactly."""
    field = ctrnn.gated(0, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    h, rows = torch.zeros(2, 3, dtype=torch.float64), []
    for _ in range(6):
        h = h + field(XS[0], h)
        rows.append(h)
    exact = discretize.integrate(field, None, torch.zeros(2, 3), torch.arange(7.0), rtol=1e-9, atol=1e-9).hs[1:]
    return field, torch.stack(rows), exact


STEPPED = {
    "DiscreteRNN": lambda f: DiscreteRNN(f)(XS)[0],
    "DiscreteRNN by steps": lambda f: DiscreteRNN(f, fused=False)(XS)[0],
    "DiscreteRNN of one sequence": lambda f: DiscreteRNN(f)(XS[:, 0])[0][:, None].expand(-1, 2, -1),
    "DiscreteRNN batch first": lambda f: DiscreteRNN(f, batch_first=True)(XS.transpose(0, 1))[0].transpose(0, 1),
    "unroll": lambda f: discretize.unroll(DiscreteCell(f), XS, torch.zeros(2, 3)).hs[1:],
    "unroll_parallel": lambda f: discretize.unroll_parallel(DiscreteCell(f), XS, torch.zeros(2, 3)).hs[1:],
    "Layers": lambda f: discretize.Layers([DiscreteRNN(f)])(XS)[0],
    "ensemble": lambda f: discretize.ensemble([DiscreteRNN(f), DiscreteRNN(f)])(XS)[0][1],
}
SOLVED = {
    "ContinuousRNN": lambda f: ContinuousRNN(f, rtol=1e-9, atol=1e-9)(XS)[0],
    "integrate": lambda f: discretize.integrate(
        f, ctrnn.HeldPath(XS), torch.zeros(2, 3), torch.arange(7.0), rtol=1e-9, atol=1e-9
    ).hs[1:],
    "ensemble": lambda f: discretize.ensemble([ContinuousRNN(f, rtol=1e-9, atol=1e-9)])(XS)[0][0],
}


@pytest.mark.parametrize("door", STEPPED)
def test_a_field_without_an_input_is_stepped_over_samples_of_no_features(door):
    field, stepped, _ = relaxing()
    assert_close(STEPPED[door](field), stepped, rtol=0, atol=1e-12)


@pytest.mark.parametrize("door", SOLVED)
def test_a_field_without_an_input_is_solved_over_samples_of_no_features(door):
    field, _, solved = relaxing()
    assert_close(SOLVED[door](field), solved, rtol=0, atol=1e-7)


def test_steps_of_a_field_without_an_input_are_refined(monkeypatch):
    monkeypatch.setattr("discretize.analysis.refine.WAIT", 50)  # samples for which it is looked whether all come to rest
    monkeypatch.setattr("discretize.analysis.refine.LOOK", 50)
    refined = discretize.refine(DiscreteRNN(relaxing()[0], dt=0.5), XS[:2])
    assert refined.converges
    assert refined.orders[-1] == pytest.approx(1, abs=0.2)  # Euler's


def test_jacobians_of_a_field_without_an_input_are_those_of_its_step():
    field, stepped, _ = relaxing()
    found = discretize.state_jacobians(DiscreteRNN(field), XS)
    of_the_last_step = torch.autograd.functional.jacobian(lambda h: h + field(XS[0, 0], h), stepped[-2, 0])
    assert found.shape == (7, 2)
    assert_close(found[-2], of_the_last_step.norm().expand(2), rtol=0, atol=1e-12)


def test_a_field_without_an_input_is_monitored():
    rnn = DiscreteRNN(relaxing()[0])
    with discretize.Monitor(rnn) as monitor:
        rnn(XS)
    (record,) = monitor.records.values()
    assert record.counts.sum(-1).tolist() == [12, 12, 12]  # of each unit, six steps of two samples


def test_a_model_of_a_field_without_an_input_reads_its_states_out():
    field, stepped, _ = relaxing()
    model = discretize.SequenceModel(DiscreteRNN(field), 2)
    assert_close(model(XS), model.read_out(stepped), rtol=0, atol=1e-12)


def test_a_field_without_an_input_rests_where_it_does_not_move():
    field, *_ = relaxing()
    (h,) = discretize.fixed_points(Flow(field), torch.zeros(1, 3, dtype=torch.float64)).h
    assert_close(field(XS[0, :1], h[None]), torch.zeros(1, 3, dtype=torch.float64), rtol=0, atol=1e-8)


def test_samples_of_no_features_are_padded():
    batch = discretize.Collate()([{"x": torch.zeros(4, 0)}, {"x": torch.zeros(3, 0)}])
    assert batch.xs.shape == (4, 2, 0)
    assert batch.lengths.tolist() == [4, 3]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda field: DiscreteRNN(field)(XS.new_zeros(6, 2, 1)), "the field reads 0 input features"),
        (lambda field: DiscreteRNN(ctrnn.gated(1, 3))(XS), "the field reads 1 input features"),
        (lambda field: discretize.layers_to_torch(DiscreteRNN(ctrnn.gru(0, 3))), "torch has no module without one"),
    ],
    ids=["one too many", "one too few", "to torch"],
)
def test_features_that_a_field_does_not_read_and_features_it_misses_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(relaxing()[0])


class Delayed(ctrnn.DelayedField):
    def flow(self, projected, h, past):
        return -past[0]


DELAYED, X, H = Delayed(1, 2, 1.0), torch.zeros(1).double(), torch.zeros(1, 2).double()
LONG = torch.zeros(5, 1, 1)
REFUSED = {
    "Map": lambda f: discretize.fixed_points(Map(f, discretize.Euler(), X), H),
    "state_jacobians": lambda f: discretize.state_jacobians(DiscreteRNN(f), LONG),
    "Monitor": lambda f: discretize.Monitor(DiscreteRNN(f)),
    "Flow.stepped": lambda f: Flow(f, X).stepped(discretize.Euler()),
    "Map of a function": lambda f: Map(f, None, X),
    "verify_engines": lambda f: discretize.verify_engines(f, LONG),
    "timescales": ctrnn.timescales,
}


@pytest.mark.parametrize("door", REFUSED)
def test_a_field_that_reads_its_past_is_refused_with_what_takes_it(door):
    with pytest.raises(
        TypeError, match=r"`field` must be a ctrnn.VectorField, got Delayed; it reads its own past: `discretize.int"
    ):
        REFUSED[door](DELAYED)


RUN_OF_STATES = {
    "lyapunov": lambda f: discretize.lyapunov(Flow(f, X), H),
    "periodic_orbits": lambda f: discretize.periodic_orbits(Flow(f, X), 2, H),
    "continuation": lambda f: discretize.continuation(Flow(f, lambda p: p[:, None]), H[0], 0.0, (0.0, 1.0)),
}


@pytest.mark.parametrize("door", RUN_OF_STATES)
def test_what_takes_a_state_for_all_that_a_flow_knows_refuses_a_field_that_reads_its_past(door):
    with pytest.raises(TypeError, match="the state is a history, and `fixed_points` finds"):
        RUN_OF_STATES[door](DELAYED)


def test_a_call_of_a_cell_knows_no_past_and_says_what_does():
    with pytest.raises(TypeError, match=r"is given one state, and its field reads earlier ones; `discretize\.unroll"):
        DiscreteCell(DELAYED)(X)


OTHERS = {
    "unroll": (lambda f: discretize.unroll(f, LONG), "`cell` must be a discretize.DiscreteCell"),
    "unroll_parallel": (lambda f: discretize.unroll_parallel(f, LONG), "`cell` must be a discretize.DiscreteCell"),
    "Layers": (lambda f: discretize.Layers([f]), r"`layers\[0\]` must be made of discretize.DiscreteRNN or ContinuousRNN"),
    "refine": (lambda f: discretize.refine(f, LONG), "`model` has no discretize.DiscreteRNN in it"),
    "state_jacobians": (lambda f: discretize.state_jacobians(f, LONG), "`rnn` must be a discretize.DiscreteRNN or Cont"),
    "to_torch": (discretize.layers_to_torch, "`module` must be a discretize.Layers or DiscreteRNN"),
}


@pytest.mark.parametrize("door", OTHERS)
@pytest.mark.parametrize("kind", ["delayed", "jumps"])
def test_doors_of_models_refuse_other_kinds_in_words(door, kind):
    call, words = OTHERS[door]
    with pytest.raises((TypeError, ValueError), match=words):
        call(DELAYED if kind == "delayed" else discretize.ode_rnn(1, 2))


@pytest.mark.parametrize("system", [lambda f: Flow(f, X), lambda f: Map(f, None, X)], ids=["flow", "map"])
def test_a_model_with_jumps_is_no_system(system):
    with pytest.raises(TypeError, match="must give dh/dt as a tensor like h, got tuple"):
        discretize.fixed_points(system(discretize.ode_rnn(1, 2).double()), H)


NOISY = ctrnn.Noisy(ctrnn.gated(1, 2, dtype=torch.float64), ctrnn.Noise(0.1))

MANY = torch.zeros(3, 4, 2, 1, dtype=torch.float64)
DRAWING = {
    "DiscreteRNN": lambda **seed: lambda x: DiscreteRNN(NOISY, discretize.EulerMaruyama())(x, **seed)[0],
    "ContinuousRNN": lambda **seed: lambda x: ContinuousRNN(NOISY, method=discretize.EulerMaruyama())(x, **seed)[0],
    "unroll": lambda **seed: lambda x: discretize.unroll(DiscreteCell(NOISY, discretize.EulerMaruyama()), x, **seed).hs,
}


@pytest.mark.parametrize("door", DRAWING)
def test_vmap_over_noise_without_a_seed_says_what_to_give(door):
    with pytest.raises(ValueError, match=r"Under `torch.func.vmap` noise needs a `seed`.*randomness='different'"):
        vmap(DRAWING[door]())(MANY)
    assert vmap(DRAWING[door](seed=3))(MANY).shape[0] == 3
    apart = vmap(DRAWING[door](), randomness="different")(MANY)
    assert not torch.equal(apart[0], apart[1])


@pytest.mark.parametrize("behind", [0, 1])
def test_integers_reach_an_embedding_before_a_model_and_are_cast_for_other_encoders(behind):
    encoder = torch.nn.Sequential(torch.nn.Embedding(7, 4), *(torch.nn.Linear(4, 4) for _ in range(behind)))
    model = discretize.SequenceModel(DiscreteRNN(ctrnn.gru(4, 5)), 2, encoder=encoder)
    tokens = torch.tensor([[0, 3], [6, 1], [2, 2]])
    states, _ = model.rnn(encoder(tokens))
    assert_close(model(tokens), model.read_out(states), rtol=0, atol=0)
    first, state = model.live_step(tokens[0])
    second, _ = model.live_step(tokens[1], state)
    assert_close(torch.stack([first, second]), model(tokens)[:2])
    counts = discretize.SequenceModel(DiscreteRNN(ctrnn.gru(4, 5)), 2, encoder=torch.nn.Linear(1, 4))
    assert_close(counts(tokens[..., None]), counts(tokens[..., None].double()), rtol=0, atol=0)


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("batch_first", [False, True])
def test_times_of_outputs_of_embedded_integers_are_those_of_what_they_are_embedded_in(batch_first, behind):
    encoder = torch.nn.Sequential(torch.nn.Embedding(7, 4), *(torch.nn.Linear(4, 4) for _ in range(behind)))
    rnn = DiscreteRNN(ctrnn.gru(4, 5), batch_first=batch_first)
    tokens, lengths = torch.arange(6).reshape(2, 3), torch.tensor([2, 3] if batch_first else [2, 1, 2])
    for model in (discretize.SequenceModel(rnn, 2, encoder=each) for each in (encoder, encoder[0])):
        for given in ({}, {"lengths": lengths}):
            assert_close(model.output_times(tokens, **given), rnn.output_times(encoder(tokens), **given), rtol=0, atol=0)


def test_a_bag_of_integers_reads_no_sequence_of_integers():
    """It would add the samples up that are side by side."""
    model = discretize.SequenceModel(DiscreteRNN(ctrnn.gru(4, 5)), 2, encoder=torch.nn.EmbeddingBag(7, 4))
    with pytest.raises((RuntimeError, ValueError), match=r"indices|input"):
        model(torch.arange(6).reshape(3, 2))
