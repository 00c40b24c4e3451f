"""A solve like an earlier one, by fixed steps along held samples, runs by its plan, and sees what has changed since."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.func import vmap
from torch.testing import assert_close

import ctrnn
import discretize.solve as solves
from discretize import Euler, RungeKutta4, SolverError, integrate

pytestmark = pytest.mark.kernels
DICE = torch.Generator().manual_seed(0)
XS, H = torch.randn(5, 4, 2, generator=DICE, dtype=torch.float64), torch.rand(4, 3, generator=DICE, dtype=torch.float64)
TS = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
UNEVEN = torch.tensor([0.0, 0.5, 1.5, 2.0, 4.0, 4.5], dtype=torch.float64)
STAMPS = torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)


def run(field, xs=XS, h0=H, ts=TS, **settings):
    return integrate(field, ctrnn.HeldPath(xs, ts), h0, ts, **{"method": Euler(), "max_step": 1.0} | settings)


def by_steps(*given, **settings):
    return run(*given, fused=False, **settings)


def planned(**given):
    field = ctrnn.gated(2, 3)
    run(field, fused="always", **given)
    run(field, **given)
    assert runs_by_plan(field, **given)
    return field


def runs_by_plan(*given, **named):
    """Whether the settings of a solve are not checked once more."""
    kept, solves.Settings = solves.Settings, None
    try:
        run(*given, **named)
    except TypeError:
        return False
    finally:
        solves.Settings = kept
    return True


def test_the_solve_that_is_planned_projects_its_samples_once():
    field, xs = ctrnn.gated(2, 3), torch.randn(37, 4, 2)
    given = {"method": "tsit5", "max_step": None, "fused": "always", "ts": torch.arange(38.0), "h0": torch.zeros(4, 3)}
    run(field, xs, **given)
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        run(field, xs, **given)
    products = [
        event for event in profile.function_events if event.name == "aten::linear" and event.input_shapes[0] == [37, 4, 2]
    ]
    assert len(products) == 2  # the candidate's and the gate's
    assert runs_by_plan(field, xs, **given)


def same(field, *given, **named):
    found, expected = run(field, *given, **named), by_steps(field, *given, **named)
    assert_close((found.ts, found.hs), (expected.ts, expected.hs), rtol=0, atol=1e-12)
    told = [{name: value for name, value in each.stats.items() if not name.startswith("engine")} for each in (found, expected)]
    assert told[0] == told[1]
    assert list(found.stats) == list(expected.stats)
    return found


@pytest.mark.parametrize("ts", [TS, UNEVEN, STAMPS], ids=["equal", "uneven", "from before 0"])
@pytest.mark.parametrize("max_step", [None, 0.25])
def test_a_planned_solve_is_the_solve_step_by_step_at_whatever_times(ts, max_step):
    field = planned(max_step=max_step)
    # Else some samples take more steps than others, and there is no kernel.
    assert runs_by_plan(field, ts=ts, max_step=max_step) == (max_step is None or ts is not UNEVEN)
    told = same(field, ts=ts, max_step=max_step).stats
    shortest = int(ts.diff().argmin())  # the first of those
    assert (told["smallest_step_at"], told["smallest_step"]) == (ts[shortest], min(ts.diff()[shortest], max_step or torch.inf))


def test_a_planned_solve_has_the_gradients_of_the_steps():
    field, answers = planned(), []
    xs, h0 = XS.clone().requires_grad_(), H.clone().requires_grad_()
    for _ in range(2):
        run(field, xs, h0)
    assert runs_by_plan(field, xs, h0)
    for solved in (run(field, xs, h0), by_steps(field, xs, h0)):
        answers.append(torch.autograd.grad(solved.hs.pow(2).sum(), [xs, h0, *field.parameters()]))
    assert_close(*answers, rtol=0, atol=1e-11)


def test_states_between_are_those_of_the_weights_of_the_solve():
    field = planned()
    one, at = run(field), torch.tensor([0.3, 2.7])
    expected = by_steps(field)(at)
    with torch.no_grad():
        field.candidate.weight_h.mul_(2)
        field.candidate.bias.data = field.candidate.bias + 1
    assert_close(by_steps(field).hs, run(field).hs, rtol=0, atol=1e-12)
    with torch.no_grad():
        assert_close(one(at), expected, rtol=0, atol=1e-12)
    with pytest.raises(RuntimeError, match=r"`candidate\.weight_h` was written into since the solve"):
        one(at)
    assert_close(run(field)(at), by_steps(field)(at), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["dopri5", "bosh3"])
def test_a_planned_solve_by_chosen_steps_is_the_one_without_a_plan(method):
    field, answers = planned(method=method, max_step=None), []
    for is_planned in (True, False):
        found = []
        for recorded in (False, True):
            with torch.set_grad_enabled(recorded):
                run(field, ts=UNEVEN, method=method, max_step=None)
                if not is_planned:
                    solves._planned.clear()
                solved = run(field, ts=UNEVEN, method=method, max_step=None)
                found.append((solved.ts, solved.hs, solved(torch.tensor([0.7, 3.0]))))
        answers.append((found, torch.autograd.grad(sum(each.square().sum() for each in found[1]), [*field.parameters()])))
        answers[-1] += ({**solved.stats, "nfe_backward": 0},)
    assert answers[0][2] == answers[1][2]
    assert_close(answers[0][:2], answers[1][:2], rtol=0, atol=1e-14)


def test_the_times_of_a_planned_solve_are_its_own():
    field, ts = planned(), TS.clone()
    solved = run(field, ts=ts)
    ts.mul_(2)
    assert torch.equal(solved.ts, TS)


def replace(field):
    field.candidate.weight_h = nn.Parameter(field.candidate.weight_h.detach() / 2)


def write(field):
    field.candidate.weight_h.data.mul_(2)


def set_method(field):
    field.candidate.flow = lambda projected, h: projected - h


def set_dropout(field):
    field.candidate = ctrnn.Dropout(field.candidate, 0.5)
    field.eval()


@pytest.mark.parametrize("change", [replace, write, set_method, set_dropout])
def test_what_has_changed_in_the_field_is_seen(change):
    field = planned()
    change(field)
    same(field)
    same(field)


OTHERS = {
    "another step": {"method": RungeKutta4()},
    "another step by name": {"method": "rk4"},
    "other lengths": {"max_step": 0.5},
    "another method": {"method": "dopri5", "max_step": None},
    "no kernels": {"fused": False},
    "other times": {"ts": UNEVEN},
}


@pytest.mark.parametrize("settings", OTHERS.values(), ids=OTHERS)
def test_other_settings_are_seen(settings):
    field = planned()
    given = {"method": Euler(), "max_step": 1.0} | settings
    for _ in range(3):
        found, expected = run(field, **given), run(field, **given | {"fused": False})
        assert_close(found.hs, expected.hs, rtol=0, atol=1e-9)
        assert found.stats["method"] == expected.stats["method"]
        assert found.stats["num_steps"] == expected.stats["num_steps"]


def test_other_steps_by_name_are_seen():
    field = planned(method="euler")
    found, expected = (run(field, method="rk4", fused=fused) for fused in (True, False))
    assert_close(found.hs, expected.hs, rtol=0, atol=1e-12)


def test_fewer_times_and_times_within_samples_are_solved_for():
    field = planned()
    path = ctrnn.HeldPath(XS, TS)
    for ts in (TS[[0, 2, 5]], torch.tensor([0.0, 0.5, 1.0, 2.0, 3.0, 4.0]), TS.float(), TS.int(), -TS.flip(0).neg()):
        found = integrate(field, path, H, ts, method=Euler(), max_step=1.0)
        expected = integrate(field, path, H, ts, method=Euler(), max_step=1.0, fused=False)
        assert_close(found.hs, expected.hs, rtol=0, atol=1e-12)


def test_times_with_gradients_have_them():
    field, ts = planned(), TS.clone().requires_grad_()
    of_ts = [torch.autograd.grad(each(field, ts=ts).hs.sum(), ts)[0] for each in (run, by_steps)]
    assert_close(*of_ts, rtol=0, atol=1e-11)


class Shifted(ctrnn.HeldPath):
    def evaluate(self, data, t):
        return data[0] + 1

    def differentiate(self, data, t):
        return torch.zeros_like(data[0])


def test_a_path_of_the_users_own_is_read_as_it_says():
    field = planned()
    shifted = integrate(field, Shifted(XS, TS), H, TS, method=Euler(), max_step=1.0)
    assert_close(shifted.hs, by_steps(field, XS + 1).hs, rtol=0, atol=1e-12)


BAD = {
    "a setting of another kind": {"fused": 1},
    "a negative length": {"max_step": -1.0},
    "an unknown method": {"method": "eula"},
    "a start of another size": {"h0": H[:3]},
    "a start that is not finite": {"h0": H * torch.nan},
    "a start of another dtype": {"h0": H.float()},
    "other features": {"xs": XS[..., :1]},
    "samples that are not finite": {"xs": XS / 0},
    "times that go back": {"ts": TS.flip(0).roll(1)},
    "events that are none": {"events": (1,)},
    "a seed": {"seed": 3},
    "a history": {"history": H},
    "a gradient that is none": {"gradient": 3},
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_the_words_of_a_first_call(given):
    field, new = planned(), ctrnn.gated(2, 3)
    with pytest.raises((TypeError, ValueError)) as expected:
        run(new, **given)
    with pytest.raises(type(expected.value)) as found:
        run(field, **given)
    assert str(found.value) == str(expected.value)


class Growing(ctrnn.VectorField):
    def __init__(self):
        super().__init__(2, 3)

    def flow(self, projected, h):
        return projected[..., :1].exp() * h.square()


def test_a_planned_solve_that_fails_says_where():
    field, xs = Growing(), XS.abs()
    for fused in ("always", True, True):
        run(field, 0 * xs, fused=fused)
    with pytest.raises(SolverError) as expected:
        by_steps(field, 50 * xs + 100)
    with pytest.raises(SolverError) as found:
        run(field, 50 * xs + 100)
    assert str(found.value) == str(expected.value)


def test_one_sequence_is_read_by_all_states():
    field = planned()
    same(field, XS[:, :1])


def test_a_planned_solve_runs_inside_of_vmap_and_under_autocast():
    field = planned()
    both = torch.stack([H, 2 * H])
    found = vmap(lambda h: run(field, h0=h).hs)(both)
    assert_close(found, torch.stack([by_steps(field, h0=h).hs for h in both]), rtol=0, atol=1e-12)
    with torch.autocast("cpu", torch.bfloat16):
        same(field)


@pytest.mark.usefixtures("only_new_garbage")
@pytest.mark.parametrize("settings", [{}, {"method": "dopri5", "max_step": None}], ids=["steps of one length", "chosen ones"])
def test_a_field_that_is_not_used_any_more_goes_with_its_plans(settings):
    field = planned(**settings)
    number, gone = id(field), weakref.ref(field)
    assert number in {key[0] for key in solves._planned}
    del field
    gc.collect()
    assert gone() is None
    assert number not in {key[0] for key in solves._planned}
