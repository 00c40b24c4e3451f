"""When a kernel is made: once calls by steps have taken as long, or at once where the user waits for it."""

import gc
import itertools
import math
import re
import threading
import weakref
from collections import OrderedDict
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, integrate, unroll
from discretize.kernels import price, registry, sequences


@pytest.fixture(autouse=True)
def nothing_is_paid_for(monkeypatch):
    monkeypatch.setattr(price, "PRICE", math.inf)
    monkeypatch.setattr(registry, "is_stored", lambda key: False)


class Own(ctrnn.VectorField):
    def __init__(self):
        super().__init__(1, 2)
        self.weight, self.factor = nn.Parameter(torch.tensor([0.5, -0.7])), 1.0

    def flow(self, projected, h):
        return self.factor * torch.sin(self.weight * h) + projected


XS = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2, 1)
H0 = torch.full((2, 2), 0.1, dtype=torch.float64)


def by_rnn(field, **how):
    rnn = DiscreteRNN(field, dt=0.1, **how)
    return rnn(XS, H0)[0], rnn.stats


def by_unroll(field, **how):
    found = unroll(DiscreteCell(field, dt=0.1), XS, H0, **how)
    return found.hs, found.stats


def by_solver(field, **how):
    rnn = ContinuousRNN(field, **how)
    return rnn(XS, H0)[0], rnn.stats


def by_integrate(field, method="dopri5", **how):
    found = integrate(field, ctrnn.HeldPath(XS), H0, torch.arange(5.0), method=method, **how)
    return found.hs, found.stats


def by_implicit_method(field, **how):
    return by_integrate(field, "rodas5p", **how)


CALLS = [by_rnn, by_unroll, by_solver, by_integrate, by_implicit_method]


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch):
    for name in ("_made", "_known", "_absent"):
        monkeypatch.setattr(registry, name, type(getattr(registry, name))())
    monkeypatch.setattr(registry, "_uses", {})


def forget():
    for table in (registry._made, registry._known, registry._uses):
        table.clear()


# The slow run adds the derivatives that an implicit method reads, whose programs test_stiff_solves.py has every day.
@pytest.mark.parametrize("call", [*CALLS[:-1], pytest.param(by_implicit_method, marks=pytest.mark.slow)])
def test_a_call_that_waits_has_a_kernel_at_once(call):
    states, stats = call(Own(), fused="always")
    assert stats["engine"] == "compiled", stats
    torch.testing.assert_close(states, call(Own(), fused=False)[0], rtol=0, atol=1e-4)  # of solves, whose samples step alone


@pytest.mark.parametrize("call", CALLS)
def test_a_first_call_says_what_it_waits_for(call):
    forget()
    stats = call(Own())[1]
    assert stats["engine"] == "steps"
    assert "calls of this code have taken 0.0 s so far, and a kernel takes about inf s to build" in stats["engine_why"]
    assert 'fused="always" builds it now' in stats["engine_why"]
    assert type(stats["engine_why"]) is str


class Bending(Own):
    """Of a projection that is no A x + b, so that kernels read another field, which projects by itself."""

    def project(self, x):
        return torch.tanh(x)


def by_another_field(field, **how):
    found = integrate(Bending(), ctrnn.LinearPath(XS), H0, torch.arange(4.0), **how)
    return found.hs, found.stats


@pytest.mark.parametrize("call", [*CALLS, by_another_field])
def test_seconds_by_steps_pay_for_a_kernel(call):
    forget()
    field = Own()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(price, "PRICE", 1e-9)
        patch.setattr(price.Stopwatch, "rings", lambda self: False)  # none of these calls is long
        assert [call(field)[1]["engine"] for _ in range(3)] == ["steps", "compiled", "compiled"]


def test_a_stopwatch_rings_once_when_steps_have_taken_as_long_as_a_kernel_takes_to_build(monkeypatch):
    monkeypatch.setattr(price, "PRICE", 4.0)
    ticks = iter([100.0, 103.9, 104.0, 104.1, 1e9])
    monkeypatch.setattr(price.time, "perf_counter", lambda: next(ticks))
    watch = price.Stopwatch()
    assert [watch.rings() for _ in range(4)] == [False, True, False, False]


@contextmanager
def a_call_is_long(from_look):
    """The stopwatch of a call rings when it is looked at for that time."""
    with pytest.MonkeyPatch.context() as patch:
        looks = itertools.count(1)
        patch.setattr(price.Stopwatch, "rings", lambda self: next(looks) == from_look)
        yield


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_steps_that_take_long_give_way_to_a_kernel_within_a_call(call):
    forget()
    field = Own()
    with a_call_is_long(from_look=3):
        states, stats = call(field)
    assert registry.uses_of(field).seconds == 0.0  # those steps have had their kernel
    again, expected = call(field, fused="always")
    assert (stats["engine"], stats["engine_why"]) == ("compiled", None)
    assert {name: stats.get(name) for name in ("nfe", "num_steps")} == {name: expected.get(name) for name in ("nfe", "num_steps")}
    assert_close(states, again, rtol=0, atol=0)
    mine, theirs = (torch.autograd.grad(hs.sum(), field.weight)[0] for hs in (states, again))
    assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_long_call_without_a_kernel_goes_on_by_the_same_steps(call, monkeypatch):
    monkeypatch.setattr(registry, "_attempt", lambda *given: registry._Made("none today", registry.GlobalReads(), "", ()))
    forget()
    with a_call_is_long(from_look=3):
        states, stats = call(Own())
    assert stats["engine"] == "steps"
    assert_close(states, call(Own(), fused=False)[0], rtol=0, atol=0)


@pytest.mark.parametrize("from_look", [1, 3])  # the first step is one that is only measured
def test_kernels_in_bounded_memory_take_over_from_steps_too(from_look):
    forget()
    how, field = {"gradient": discretize.Checkpointed(1e4)}, Own()
    with a_call_is_long(from_look):
        states, stats = by_integrate(field, **how)
    assert stats["engine"] == "compiled"
    again = by_integrate(field, fused="always", **how)[0]
    assert_close(states, again, rtol=0, atol=0)
    mine, theirs = (torch.autograd.grad(hs.sum(), field.weight)[0] for hs in (states, again))
    assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("method", ["euler", "dopri5"])
def test_sequences_with_times_of_their_own_give_way_to_a_kernel_too(method):
    def call(**how):
        ts = torch.tensor([[0.0, 0.5], [1.0, 1.5], [2.5, 1.75], [3.0, 2.5], [4.0, 3.0]], dtype=torch.float64)
        found = integrate(field, ctrnn.HeldPath(XS, ts), H0, ts, method=method, **how)
        return found.hs, found.stats

    forget()
    field = Own()
    with a_call_is_long(from_look=3):
        states, stats = call()
    again, expected = call(fused="always")
    assert stats["engine"] == "compiled"
    assert stats["accepted_steps_of_samples"] == expected["accepted_steps_of_samples"]
    assert_close(states, again, rtol=0, atol=0)


def test_a_long_stiff_solve_says_so_while_it_runs_and_once():
    def stiff(t, h):
        return 1e3 * (torch.cos(t) - h)

    with a_call_is_long(from_look=300), pytest.warns(discretize.SolverWarning) as said:
        integrate(stiff, None, torch.zeros(1, 1), torch.tensor([0.0, 1.2]), fused=False)
    assert len(said) == 1
    assert re.search(r"has taken (29|30)\d steps, and is at t = .*The field is stiff.*rodas5p", str(said[0].message))


def test_fields_of_the_same_parts_pay_together(monkeypatch):
    by_rnn(Own())
    monkeypatch.setattr(price, "PRICE", 1e-9)
    monkeypatch.setattr(price.Stopwatch, "rings", lambda self: False)
    assert by_rnn(Own())[1]["engine"] == "compiled"
    assert by_integrate(Own())[1]["engine"] == "steps"  # another kind of call


def test_kernels_are_waited_for_where_answers_must_not_hang_on_the_clock():
    torch.use_deterministic_algorithms(True)
    try:
        assert [call(Own())[1]["engine"] for call in (by_rnn, by_integrate)] == ["compiled", "compiled"]
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_kernel_in_the_process_is_taken_always():
    by_rnn(Own(), fused="always")
    assert by_rnn(Own())[1]["engine"] == "compiled"
    other = Own()
    other.factor = 2.0
    assert by_rnn(other)[1]["engine"] == "steps"  # of other code


@pytest.mark.parametrize("call", CALLS)
def test_a_field_that_waits_takes_the_kernel_that_another_one_has_paid_for(call):
    forget()
    waits = Own()
    assert [call(waits)[1]["engine"] for _ in range(3)] == ["steps"] * 3  # the later ones by the quick check
    assert call(Own(), fused="always")[1]["engine"] == "compiled"
    assert call(waits)[1]["engine"] == "compiled"


@pytest.fixture
def stubs(monkeypatch):
    """In place of kernels why there is none, made at once; the numbers that fields kept for which they were made."""
    numbers = []

    def stub(module, *_):
        numbers.append(module.field.factor)
        return SimpleNamespace(kernel="a stub", is_current=lambda guards: True)

    monkeypatch.setattr(registry, "_attempt", stub)
    monkeypatch.setattr(registry, "_uses", {})
    monkeypatch.setattr(registry, "_made", OrderedDict())
    return numbers


def reason(call, field):
    """Why a call that waits for its kernel has none."""
    with pytest.raises(ValueError, match="and there is no kernel") as refused:
        call(field, fused="always")
    return str(refused.value).split(": ", 1)[1].removesuffix(". With True, the default, steps run in its place.")


@pytest.mark.parametrize("call", [by_rnn, by_integrate])
def test_each_of_40_fields_of_the_same_parts_gets_the_kernel_that_is_waited_for(call, stubs):
    for number in range(40):
        field = Own()
        field.factor = float(number)
        assert reason(call, field) == "a stub"
    assert set(stubs) == {*range(40)}


def test_a_field_that_changes_at_each_call_says_so_and_gets_no_kernel_each_time_even_where_one_is_waited_for(stubs):
    field, whys = Own(), []
    for number in range(40):
        field.factor = float(number)
        whys.append(reason(by_rnn, field))
    assert len(stubs) < 15
    assert whys[-1] == registry.CHANGING


def test_a_field_that_stays_as_it_is_gets_a_kernel_for_each_way_in_which_one_is_waited_for():
    uses, field = registry.Uses(), Own()
    assert {uses.in_vain(way, field, (1.0,), wait=True) for way in range(40)} == {None}


def test_fields_that_do_not_change_are_told_of_the_others_where_no_kernel_is_made(stubs, monkeypatch):
    monkeypatch.setattr(price, "PRICE", 0.0)
    for number in range(12):
        field = Own()
        field.factor = float(number)
        why = by_rnn(field)[1]["engine_why"]
    assert why == registry.OTHERS
    assert reason(by_rnn, field) == "a stub"


def test_a_backward_pass_to_come_is_counted():
    field, spent = Own(), []
    uses = registry.uses_of(field)
    for learns in (False, True):
        field.requires_grad_(learns)
        uses.seconds = 0.0
        with pytest.MonkeyPatch.context() as patch:
            ticks = iter([0.0, 1.0])
            patch.setattr(registry.time, "perf_counter", lambda ticks=ticks: next(ticks))
            with registry.by_steps(uses, field.parameters()):
                pass
        spent.append(uses.seconds)
    assert spent == [1.0, 2.0]


def test_an_ensemble_waits_for_its_kernel_too():
    networks = [DiscreteRNN(Own(), dt=0.1, fused="always") for _ in range(2)]
    many = discretize.ensemble(networks)
    many(XS)
    assert many.stats["engine"] == "compiled"
    assert math.isinf(price.PRICE)


def test_a_kernel_on_disk_is_taken_always(monkeypatch):
    monkeypatch.setattr(registry, "is_on_disk", lambda *_: True)
    assert by_rnn(Own())[1]["engine"] == "compiled"


def test_calls_see_what_was_written_between_them():
    field = Own()
    for factor in (1.0, 2.0, 1.0):
        field.factor = factor
        by_rnn(field, fused="always")
        for _ in range(2):  # the second by the quick check
            states, stats = by_rnn(field)
            assert stats["engine"] == "compiled"
            torch.testing.assert_close(states, by_rnn(field, fused=False)[0], rtol=1e-12, atol=1e-12)


def test_a_kernel_that_was_paid_for_leaves_nothing_for_the_next(monkeypatch):
    field = Own()
    by_rnn(field)
    for uses in registry._uses.values():
        uses.seconds = 5.0
    monkeypatch.setattr(price, "PRICE", 4.0)
    assert by_rnn(field)[1]["engine"] == "compiled"
    field.factor = 2.0  # other code, by calls that have taken almost no time since
    assert by_rnn(field)[1]["engine"] == "steps"


def test_kernels_that_were_used_last_are_kept(monkeypatch):
    made, attempt = [], registry._attempt
    monkeypatch.setattr(registry, "_attempt", lambda *given: made.append(field.factor) or attempt(*given))
    monkeypatch.setattr(registry, "MOST_KEPT", 2)
    field = Own()
    first, second, third = (by_rnn, 1.0), (by_rnn, 2.0), (by_solver, 1.0)
    for call, factor in (first, second, first, third, first, third, second):
        field.factor = factor
        assert call(field, fused="always")[1]["engine"] == "compiled"
    assert made == [1.0, 2.0, 1.0, 2.0]


@pytest.mark.usefixtures("only_new_garbage")
def test_a_field_that_was_run_by_a_kernel_is_not_kept_alive():
    for call in (by_rnn, by_integrate):
        field = Own()
        for _ in range(2):
            call(field, fused="always")
        end = weakref.ref(field)
        assert id(field) in registry._known
        del field
        gc.collect()
        assert end() is None
        assert not registry._known


@pytest.mark.parametrize("make", [lambda fused: DiscreteRNN(Own(), fused=fused), lambda fused: by_integrate(Own(), fused=fused)])
def test_other_words_are_refused(make):
    with pytest.raises(TypeError, match=re.escape("`fused` must be True, False or \"always\", got 'never'")):
        make("never")


@pytest.mark.records
def test_a_recording_that_does_not_end_is_given_up_and_its_reason_said(monkeypatch):
    # As where torch or a user's code wants a lock that another thread keeps.
    go, recorder = threading.Event(), registry.Recorder
    with monkeypatch.context() as patch:
        patch.setattr(registry, "LONGEST", 0.2)
        patch.setattr(registry, "Recorder", lambda reads: recorder(reads) if go.wait() else None)
        with price.kernels_at_once():
            states, stats = by_rnn(Own())
            assert stats["engine_why"] == "its recording and compilation did not end within 0.2 s"
            torch.testing.assert_close(states, by_rnn(Own(), fused=False)[0])
            assert "another recording has not ended" in by_rnn(Bending())[1]["engine_why"]
        with pytest.raises(ValueError, match="there is no kernel: another recording has not ended"):
            by_rnn(Bending(), fused="always")
        go.set()
        registry._recording[0].join()
    forget()
    assert by_rnn(Own(), fused="always")[1]["engine"] == "compiled"


class Calling(Own):
    """Calls a sequence of its own, which asks for a kernel while that of the field is recorded."""

    def __init__(self):
        super().__init__()
        self.inner = DiscreteRNN(Own(), fused="always")

    def flow(self, projected, h):
        return super().flow(projected, h) + self.inner(h[None, :, :1])[0][0]


@pytest.mark.records
def test_a_field_that_calls_a_sequence_does_not_wait_for_itself(monkeypatch):
    monkeypatch.setattr(registry, "LONGEST", 100.0)  # for ever, before
    with price.kernels_at_once():
        states, stats = by_rnn(Calling())
    assert "did not end" not in (stats["engine_why"] or "")
    torch.testing.assert_close(states, by_rnn(Calling(), fused=False)[0])


class Scaled(discretize.Step):
    order, evaluations = 1, 1

    def __init__(self, factor):
        self.factor = factor

    def advance(self, field, projected, h, dt):
        return h + self.factor * dt * field.flow(projected, h)


@pytest.mark.parametrize("make", [discretize.Euler, lambda: Scaled(0.5)], ids=["no numbers", "a number"])
def test_a_step_that_is_made_anew_for_each_call_is_found_again(make, monkeypatch):
    field = Own().double()
    for _ in range(2):  # the first one builds it
        DiscreteRNN(field, make(), fused="always")(XS)
    monkeypatch.setattr(sequences, "attributes_of", None)  # which looks through all code
    rnn = DiscreteRNN(field, make(), fused="always")
    rnn(XS)
    assert rnn.stats["engine"] == "compiled"


@pytest.mark.parametrize("factors", [(0.5, 2.0), (1, True), (1, 1.0)])
def test_steps_of_other_numbers_are_told_apart(factors):
    field = Own().double()
    for factor in factors:
        step = Scaled(factor)
        by_kernel, by_steps = (DiscreteRNN(field, step, fused=fused)(XS)[0] for fused in ("always", False))
        assert_close(by_kernel, by_steps, rtol=1e-14, atol=1e-14)


def test_a_number_of_a_step_may_change_between_calls():
    field, step = Own().double(), Scaled(0.5)
    rnn = DiscreteRNN(field, step, fused="always")
    rnn(XS)
    step.factor = 2.0
    assert_close(rnn(XS)[0], DiscreteRNN(field, step, fused=False)(XS)[0], rtol=1e-14, atol=1e-14)
    # And one with the number of before is as before.
    assert_close(
        DiscreteRNN(field, Scaled(0.5), fused="always")(XS)[0],
        DiscreteRNN(field, Scaled(0.5), fused=False)(XS)[0],
        rtol=1e-14,
        atol=1e-14,
    )
