"""Signals are never lost, and what they interrupt is put back."""

import signal
import weakref

import pytest

from derivations.processes.interruption import Interrupted, checkpoint, deferred, interruptible


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)])
def test_a_signal_becomes_its_exit_code(number, code):
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as caught, interruptible():
        signal.raise_signal(number)
    assert caught.value.code == code
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("launcher", "copies"), [("torchrun", 2), (None, 1)])
def test_a_second_ctrl_c_cuts_short_and_not_a_launchers_copy_of_the_first(launcher, copies, monkeypatch):
    if launcher:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    reached = []

    def work():
        with deferred():
            for _ in range(copies):
                signal.raise_signal(signal.SIGINT)
            reached.append("the step is taken, and saved")
            signal.raise_signal(signal.SIGINT)
            reached.append("not cut short")

    def leave():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            for _ in range(copies - 1):
                signal.raise_signal(signal.SIGINT)
            reached.append("put in order")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(Interrupted), interruptible():
            work()
        assert reached == ["the step is taken, and saved"]
        with pytest.raises(Interrupted), interruptible():
            leave()
        assert reached[1:] == ["put in order"]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_background_job_that_ignores_ctrl_c_hears_that_its_time_is_up():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts what ends in &
    try:
        for number in (signal.SIGUSR1, signal.SIGTERM):
            with pytest.raises(Interrupted) as caught, interruptible(), deferred():
                signal.raise_signal(number)
            assert caught.value.code == 128 + number
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_that_strikes_while_a_weak_reference_dies_is_not_lost():
    class Thing:
        pass

    reached = []

    def work():
        thing = Thing()
        watcher = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
        del thing
        assert watcher() is None
        reached.append("swallowed by Python")
        checkpoint()
        reached.append("lost")

    with pytest.raises(Interrupted), interruptible():
        work()
    assert reached == ["swallowed by Python"]


def test_a_checkpoint_without_a_signal_does_nothing():
    with pytest.raises(Interrupted), interruptible():
        signal.raise_signal(signal.SIGTERM)
    reached = []
    with interruptible():
        checkpoint()
        reached.append("behind it")
    checkpoint()  # neither within nor outside is the signal of before told again
    assert reached == ["behind it"]
