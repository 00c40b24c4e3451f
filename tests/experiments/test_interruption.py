"""Signals are never lost, and what they interrupt is put back."""

import signal
import weakref

import pytest

from experiments.interruption import Interrupted, checkpoint, deferred, interruptible


def test_signals_become_exit_codes_and_none_is_lost():
    # A signal becomes its exit code.
    for number, code in [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)]:
        before = signal.getsignal(number)
        with pytest.raises(Interrupted) as caught, interruptible():
            signal.raise_signal(number)
        assert caught.value.code == code
        assert signal.getsignal(number) is before
    # A background job that ignores ctrl c hears that its time is up.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts what ends in &
    try:
        for number in (signal.SIGUSR1, signal.SIGTERM):
            with pytest.raises(Interrupted) as caught, interruptible(), deferred():
                signal.raise_signal(number)
            assert caught.value.code == 128 + number
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)

    # A signal that strikes inside a weak references callback is not lost.
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
    # A checkpoint without a signal does nothing.
    with pytest.raises(Interrupted), interruptible():
        signal.raise_signal(signal.SIGTERM)
    reached = []
    with interruptible():
        checkpoint()
        reached.append("behind it")
    checkpoint()  # neither within nor outside is the signal of before told again
    assert reached == ["behind it"]
