"""Tests that ask other things than how code is recorded and run share a module's record, and run its code twice.

Those which use `all_settings` are of what is found by recording anew and running in all settings.
"""

from itertools import islice

import pytest

RECORDS = {}  # what was made of a module, with the module: while it lives its id is its own


def shared(make):
    """The function, called once for each module as it is now."""
    from torch import nn  # noqa: PLC0415 - seconds, for tests that have no use for it

    from discretize.kernels.record.recording import ModuleRecord  # noqa: PLC0415 - as torch

    def made(module, *others, **settings):
        if not isinstance(module, nn.Module):
            return make(module, *others, **settings)
        tensors = [*module.parameters(), *module.buffers()]
        state = [(id(t), t._version, t.requires_grad) for t in tensors], [(id(part), part.training) for part in module.modules()]
        given = [id(each) if isinstance(each, ModuleRecord) else str(each) for each in (*others, *settings.items())]
        key = str((make.__name__, id(module), state, given))
        if key not in RECORDS:
            RECORDS[key] = make(module, *others, **settings), module, others
        return RECORDS[key][0]

    return made


@pytest.fixture
def all_settings():
    """Asked for by a test of what is seen in some setting alone."""


@pytest.fixture
def read_alone(request, monkeypatch):
    """In a default run: no comparing of code with its record, a third of the time of tests that ask what the equations say."""
    if request.config.option.markexpr == "not slow":
        from derivations.tracing import symbolic  # noqa: PLC0415 - as torch
        from derivations.tracing.running import Conditions  # noqa: PLC0415

        monkeypatch.setattr(symbolic, "as_recorded", lambda module, program: Conditions(""))


@pytest.fixture(autouse=True)
def _recorded_once_and_run_twice(request, monkeypatch):
    if "all_settings" in request.fixturenames or request.config.option.markexpr != "not slow":
        return
    from derivations.tracing import gradient, proof, running, symbolic, wide  # noqa: PLC0415 - as torch

    for room in (gradient, proof, symbolic, wide):
        for name in {"trace", "as_recorded", "record_wide"} & vars(room).keys():
            monkeypatch.setattr(room, name, shared(getattr(room, name)))
    every = running._settings
    # For one sample and for four, in the first of the surroundings; at those between all numbers are 0, or large.
    monkeypatch.setattr(running, "_settings", lambda *of: islice(every(*of[:-1], of[-1][:1]), 0, 4, 3))
