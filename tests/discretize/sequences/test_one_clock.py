"""A sample lasts `dt` by every module: twins of one field are on one clock, and where they are not, that is said or refused."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteRNN, Layers, SequenceModel, TimeUnitWarning

EXACT = {"method": "dopri8", "rtol": 1e-10, "atol": 1e-12, "fused": False}


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gru(seed: int = 0, units: int = 4) -> ctrnn.VectorField:
    return ctrnn.gru(1, units, dtype=torch.float64, generator=drawn(seed))


def samples(time: int = 12, batch: int = 2) -> torch.Tensor:
    return torch.randn(time, batch, 1, dtype=torch.float64, generator=drawn(1))


class Watch(ctrnn.VectorField):
    """dh/dt = 1: the state is the time that has gone by."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.rate = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def flow(self, projected: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return self.rate + 0 * h


class Nothing(discretize.Jump):
    """An observation that moves no state."""

    input_size, state_size = 1, 1

    def forward(self, x: torch.Tensor, observed: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return h


@pytest.mark.parametrize("step", [discretize.Euler(), discretize.Heun(), discretize.ExponentialEuler(), discretize.RungeKutta4()])
def test_the_twin_is_what_steps_converge_to_at_their_order(step):
    field, x, off = gru(), samples(4), []
    for parts in (2, 4):  # every sample, of 0.8, in so many
        fine = x.repeat_interleave(parts, 0)
        model = SequenceModel(DiscreteRNN(field, step, dt=0.8 / parts, fused=False), 2, generator=drawn())
        twin = model.under(ContinuousRNN(field, **EXACT))
        off.append((model(fine) - twin(fine)).abs().max().item())
    assert off[1] < 0.02
    assert abs(math.log2(off[0] / off[1]) - step.order) < 0.35


def test_a_twin_without_a_length_of_its_own_reads_the_data_on_the_clock_of_the_model():
    field, x = gru(), samples(15)
    model = SequenceModel(DiscreteRNN(field, dt=0.2), 1, generator=drawn())
    twin = model.under(ContinuousRNN(field, **EXACT))
    right = twin(x, ts=0.2 * torch.arange(16, dtype=torch.float64))
    with pytest.warns(TimeUnitWarning, match="it has dt=1, the model's lasts 0.2"):
        counted = model.under(ContinuousRNN(field, dt=1.0, **EXACT))(x)
    assert_close(twin(x), right, rtol=0, atol=1e-9)
    assert (twin(x) - model(x)).abs().max() < 0.1 * (counted - model(x)).abs().max()


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_doors_agree_in_any_unit_of_time(unit):
    field = ctrnn.leaky(1, 3, tau=unit, dtype=torch.float64, generator=drawn())
    x, dt = samples(), 0.2 * unit
    expected = DiscreteRNN(ctrnn.leaky(1, 3, tau=1.0, dtype=torch.float64, generator=drawn()), dt=0.2)(x)[0]
    edges = dt * torch.arange(13, dtype=torch.float64)
    rnn = DiscreteRNN(field, dt=dt)
    for stepped in (rnn, ContinuousRNN(field, "euler", dt=dt), discretize.solved(rnn, discretize.Euler()), Layers([rnn])):
        assert_close(stepped(x)[0], expected, rtol=0, atol=1e-12)
        assert_close(stepped(x, ts=edges)[0], expected, rtol=0, atol=1e-12)
    solved = discretize.solved(rnn, **EXACT)(x)[0]
    path = ctrnn.HeldPath(x, edges)
    exact = discretize.integrate(field, path, x.new_zeros(2, 3), edges, method="dopri8", rtol=1e-12, atol=1e-14)
    assert_close(solved, exact.hs[1:], rtol=0, atol=1e-9)
    assert_close(discretize.solved(Layers([rnn]), **EXACT)(x)[0], solved, rtol=0, atol=0)


def test_noise_and_a_past_are_on_the_same_clock_by_steps_and_solves():
    noise = ctrnn.Noise(torch.tensor(0.5, dtype=torch.float64))
    noisy = DiscreteRNN(ctrnn.Noisy(gru(), noise), "euler-maruyama", dt=0.2, substeps=2)
    x = samples()
    solved = discretize.solved(noisy, "euler-maruyama", max_step=0.1)
    assert_close(solved(x, seed=3)[0], noisy(x, seed=3)[0], rtol=0, atol=1e-12)
    late = DiscreteRNN(Late(), dt=0.25)
    assert_close(discretize.solved(late, "euler")(x)[0], late(x)[0], rtol=0, atol=1e-12)


class Late(ctrnn.DelayedField):
    """dh/dt = x - h(t - 0.5)."""

    def __init__(self) -> None:
        super().__init__(1, 1, [0.5])
        self.rate = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def flow(self, projected: torch.Tensor, h: torch.Tensor, past: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return self.rate * (projected - past[0])


@pytest.mark.parametrize("path", ["held", "linear"])
def test_a_sample_lasts_as_long_with_lengths_and_resets(path):
    field, x, dt = gru(), samples(6, 3), 0.25
    rnn = ContinuousRNN(field, path=path, dt=dt, **EXACT)
    ts = dt * torch.arange(7 if path == "held" else 6, dtype=torch.float64)
    more = {"lengths": [6, 2, 3], "reset": (torch.arange(6) == 1)[:, None].expand(6, 3)}
    for own, given in zip(rnn(x, **more), rnn(x, ts=ts, **more), strict=True):
        assert_close(own, given, rtol=0, atol=1e-10)


def test_a_twin_is_a_copy_that_shares_the_field_and_leaves_what_was_given_as_it_is():
    field, x = gru(), samples()
    model, given = SequenceModel(DiscreteRNN(field, dt=0.2), 1), ContinuousRNN(field)
    twin = model.under(given)
    assert (twin.rnn.dt, given.dt, twin.rnn.field) == (0.2, 1.0, field)
    twin(x).sum().backward()
    assert all(weight.grad is not None for weight in field.parameters())
    twin.rnn.register_forward_hook(lambda *_: None)
    assert not given._forward_hooks
    assert SequenceModel(DiscreteRNN(field), 1).under(given).rnn is given


def test_another_fields_weights_are_refused_unless_meant():
    field = gru()
    model = SequenceModel(DiscreteRNN(field, dt=0.2), 1)
    other = ContinuousRNN(gru(5))
    with pytest.raises(ValueError, match=r"another field.* not among the trained weights.*`other_weights=True`"):
        model.under(other)
    assert model.under(other, other_weights=True).rnn.dt == 0.2
    equal = Layers.of(ctrnn.gru, 1, 4, dtype=torch.float64)
    equal.layers[0][0].field.load_state_dict(field.state_dict())
    for same in (
        ContinuousRNN(copy.deepcopy(field)),
        ContinuousRNN(ctrnn.Noisy(field, ctrnn.Noise(torch.tensor(0.1, dtype=torch.float64))), "euler-maruyama"),
        equal,
    ):
        assert model.under(same).rnn.dt == 0.2
    with pytest.raises(ValueError, match="reads 1 features and gives 5, the model's own 1 and 4"):
        model.under(ContinuousRNN(gru(units=5)))
    with pytest.raises(TypeError, match="`rnn` must be"):
        model.under(field)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hold": "backward"}, "hold='backward', the model's 'forward'"),
        ({"batch_first": True}, "batch_first=True, the model's False"),
    ],
)
def test_a_module_that_reads_the_data_otherwise_is_said(settings, said):
    field = gru()
    with pytest.warns(TimeUnitWarning, match=said):
        SequenceModel(DiscreteRNN(field), 1).under(ContinuousRNN(field, **settings))


def test_what_a_twin_was_not_told_of_the_open_interval_is_the_models():
    field = gru()
    model = SequenceModel(DiscreteRNN(field, open_interval=0.3), 1)
    x, ts = samples(1), torch.zeros(1, dtype=torch.float64)
    assert_close(model.under(ContinuousRNN(field, "euler"))(x, ts=ts), model(x, ts=ts), rtol=0, atol=1e-14)


HOW = {"dt": 0.2, "hold": "backward", "open_interval": 0.5, "batch_first": True}


@pytest.mark.parametrize("rnn", [DiscreteRNN(gru(), **HOW), ContinuousRNN(gru(), **HOW)], ids=["stepped", "solved"])
def test_twins_by_solved_and_stepped_keep_field_clock_and_axes(rnn):
    model = SequenceModel(rnn, 1).eval()
    for twin in (model.solved(rtol=1e-9), model.stepped("heun", substeps=3), model.solved("tsit5").stepped()):
        assert all(vars(twin.rnn)[name] == vars(rnn)[name] for name in ("dt", "hold", "batch_first", "training"))
        assert twin.rnn.field is rnn.field
        assert twin.read_out is model.read_out
    again = model.solved(rtol=1e-9, max_step=0.1).solved(atol=1e-8).rnn.settings
    assert (again.rtol, again.atol, again.max_step) == (1e-9, 1e-8, 0.1)
    once = model.stepped("heun", substeps=3, dt=0.4).stepped(substeps=2).rnn
    assert (repr(once.step), once.substeps, once.dt) == ("Heun()", 2, 0.4)


def test_twins_of_layers_and_jumps_keep_their_clocks_too():
    layers = Layers.of(ctrnn.gru, 1, 4, 2, bidirectional=True, dt=0.2, dropout=0.5, dtype=torch.float64).eval()
    x, ts = samples(), 0.2 * torch.arange(13, dtype=torch.float64)
    solved = discretize.solved(layers, rtol=1e-8)
    assert_close(solved(x)[0], solved(x, ts=ts)[0], rtol=0, atol=1e-9)
    assert_close(discretize.stepped(solved)(x)[0], layers(x)[0], rtol=0, atol=0)
    assert (solved.dt, solved.dropout, solved.training) == (0.2, 0.5, False)
    jumps = discretize.ode_rnn(1, 4, dt=0.2)
    with torch.no_grad():
        solved = SequenceModel(jumps, 1).solved(rtol=1e-6)
        assert_close(solved(x.float()), solved(x.float(), ts=ts[:-1]))
    stepped = discretize.stepped(jumps, "heun")
    assert (stepped.dt, stepped.settings.method) == (0.2, "heun")
    held = discretize.cfc(1, 4, dt=0.2, hold="backward", open_interval=0.1)
    assert discretize.stepped(held).hold == held.hold


def test_layers_of_which_some_were_told_a_length_are_said():
    with pytest.warns(TimeUnitWarning, match="a sample lasts 0.2 in the first and 1 in the others"):
        layers = Layers([DiscreteRNN(gru(), dt=0.2), ContinuousRNN(ctrnn.gru(4, 4, dtype=torch.float64))])
    assert layers.dt is None
    assert [module.dt for module in SequenceModel(layers, 1).stepped().rnn._clocked()] == [0.2, 1.0]


@pytest.mark.parametrize("name", ["hold", "open_interval", "batch_first"])
def test_twins_refuse_what_they_keep(name):
    for twin in (discretize.solved, discretize.stepped):
        with pytest.raises(TypeError, match=f"`{twin.__name__}` keeps `{name}`"):
            twin(DiscreteRNN(gru()), **{name: True})


def test_steps_refuse_events_and_paths_that_they_cannot_follow():
    event = discretize.Event(lambda t, h: h[:, 0] - 9)
    for rnn in (ContinuousRNN(gru(), path="linear"), ContinuousRNN(gru(), events=event)):
        with pytest.raises(ValueError, match=r"holds its samples and finds no events.*`solved\(method=discretize.Euler\(\)\)`"):
            discretize.stepped(rnn)
        assert discretize.solved(rnn, discretize.Euler()).path == rnn.path


@pytest.mark.filterwarnings("error::discretize.TimeUnitWarning")
def test_times_beside_a_length_that_was_set_are_said_once_unless_they_say_the_same():
    x = samples(4)
    for rnn in (DiscreteRNN(gru(), dt=0.2), Layers([ContinuousRNN(gru(), dt=0.2)])):
        rnn(x, ts=0.2 * torch.arange(5))  # float32: nothing is said
        with pytest.warns(TimeUnitWarning, match=r"here 1, and `dt`=0.2, which was set, is not read"):
            rnn(x, ts=torch.arange(5.0))
        rnn(x, ts=torch.arange(5.0))
    DiscreteRNN(gru(), dt=1.0)(x, ts=0.2 * torch.arange(5))


@pytest.mark.parametrize("ts", [None, [0.5, 1.0, 3.0], [0.5, 1.0, 3.0, 3.5], [[0.5, 0.1], [1.0, 0.2], [3.0, 9.0], [3.5, 9.5]]])
@pytest.mark.parametrize("how", ["forward", "backward", "linear", "jumps"])
@pytest.mark.parametrize("lengths", [None, [2, 3]])
def test_outputs_are_the_states_at_the_output_times(how, ts, lengths):
    if how == "linear" and ts is not None:
        ts = ts[:3]
    x, given = samples(3), None if ts is None else torch.tensor(ts, dtype=torch.float64)
    rnn = {
        "forward": DiscreteRNN(Watch(), dt=0.5),
        "backward": DiscreteRNN(Watch(), dt=0.5, hold="backward", open_interval=0.25),
        "linear": ContinuousRNN(Watch(), path="linear", dt=0.5),
        "jumps": discretize.JumpRNN(Watch0(), Nothing(), dt=0.5),
    }[how]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TimeUnitWarning)
        times = rnn.output_times(x, ts=given, lengths=lengths)
        output = rnn(x, ts=given, lengths=lengths)[0][..., 0]
    start = 0.0 if given is None else given[0]
    if how == "backward" and given is not None and len(given) == 3:
        start = start - 0.25
    expected = times if times.dim() == 2 else times[:, None]
    read = torch.ones(3, 2) if lengths is None else torch.arange(3)[:, None] < torch.tensor(lengths)
    assert_close(((expected - start).expand(3, 2) * read), output * read, rtol=0, atol=1e-9, check_dtype=False)


class Watch0(Watch):
    """The same without input."""

    def __init__(self) -> None:
        super().__init__()
        self.input_size = 0


def test_output_times_are_turned_as_the_outputs_are():
    x, ts = samples(3), torch.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    first = DiscreteRNN(gru(), batch_first=True)
    assert_close(first.output_times(x.mT.reshape(2, 3, 1), ts=ts.T), DiscreteRNN(gru()).output_times(x, ts=ts).T)
    assert SequenceModel(first, 1).output_times(torch.zeros(3, 1)).tolist() == [1.0, 2.0, 3.0]


def test_a_model_is_called_as_its_rnn_is_and_by_position_as_before_with_a_word():
    x, ts = samples(5), torch.tensor([0.0, 0.5, 1.5, 2.0, 3.0])
    model = SequenceModel(DiscreteRNN(gru()), 2)
    given = {"h_0": torch.ones(1, 2, 4, dtype=torch.float64), "lengths": [5, 3], "reset": torch.rand(5, 2) < 0.3}
    states = model.rnn(x, given["h_0"], ts, given["lengths"], given["reset"])[0]
    assert torch.equal(model(x, ts=ts, **given), model.read_out(states))
    with pytest.warns(FutureWarning, match="takes all but xs by name; what came by position was read as ts=, lengths= and"):
        assert torch.equal(model(x, ts, [5, 3]), model(x, ts=ts, lengths=[5, 3]))
    with pytest.warns(FutureWarning, match="ts="), pytest.raises(ValueError, match="`ts` has 2 times"):
        model(x[:1].expand(6, 2, 1), torch.zeros(2, 4)[:, 0].cumsum(0) + torch.arange(2))  # no state in silence
    with pytest.raises(TypeError, match="`ts` twice"):
        model(x, ts, ts=ts)
    with pytest.raises(TypeError, match="takes no `tss`; did you mean `ts`"):
        model(x, tss=ts)
    many = discretize.ensemble([model, model])
    with pytest.raises(ValueError, match="`each` names 'ts', which is given by position"):
        many(x, torch.stack([ts, ts]), each="ts")


def test_events_are_at_times_of_the_clock():
    event = discretize.Event(lambda t, h: h[:, 0] - 1)
    rnn = ContinuousRNN(Watch(), dt=0.3, events=event)
    rnn(samples(5, 1))
    assert_close(rnn.crossed[0].times, torch.ones(1, dtype=torch.float64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("rnn", [ContinuousRNN(gru(), "euler", dt=0.2), DiscreteRNN(gru()), discretize.ode_rnn(1, 3, dt=0.2)])
def test_a_model_in_a_file_keeps_its_clock_and_whether_it_was_set(rnn, tmp_path):
    ctrnn.save(tmp_path / "model.safetensors", SequenceModel(rnn, 1))
    again = ctrnn.load(tmp_path / "model.safetensors").rnn
    assert (again.dt, again.dt_given, repr(again)) == (rnn.dt, rnn.dt_given, repr(rnn))
    assert ("dt=0.2" in repr(again)) == (rnn.dt == 0.2)


@pytest.mark.slow
def test_an_exported_solve_by_steps_is_on_the_same_clock():
    field, x = gru(), samples(4)
    rnn = ContinuousRNN(field, "euler", max_step=0.1, dt=0.2)
    exported = torch.export.export(rnn, (x,)).module()
    assert_close(exported(x)[0], DiscreteRNN(field, dt=0.2, substeps=2)(x)[0], rtol=0, atol=1e-14)


def test_a_unit_is_five_samples_long_in_any_unit_and_form():
    ts = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.5, 4.0], [2.0, 1.5, torch.nan]], dtype=torch.float64)
    one = discretize.unit(ts)  # intervals 0.5, 1, 1, 1, 3
    assert one == 5.0
    assert discretize.unit([ts[:, 0], ts[:, 1].numpy(), ts[:2, 2].tolist()]) == one
    assert discretize.unit(1e-6 * ts, samples=2) == pytest.approx(2e-6)
    assert discretize.unit(range(3)) == discretize.unit([0.0, 1.0, 2.0]) == discretize.unit(np.arange(3)) == 5.0


@pytest.mark.parametrize(
    ("ts", "said"),
    [
        (torch.zeros(3), "has an interval of 0"),
        (torch.tensor([[0.0, 1.0], [-1.0, 2.0]]), "has an interval of -1"),
        ([torch.zeros(1), torch.ones(1)], "no two times of one sequence"),
        ([], "no two times"),
        ([0.0, math.inf], "interval of inf"),
        (torch.zeros(2, 2, 2), r"\(time,\) or \(time, batch\)"),
        (None, "must be"),
        (["a", "b"], "must be"),
    ],
)
def test_what_is_no_unit_of_time_is_refused(ts, said):
    with pytest.raises((TypeError, ValueError), match=said):
        discretize.unit(ts)
