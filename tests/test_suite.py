"""What conftest.py does for all tests."""

from collections import OrderedDict

import pytest
import torch

import ctrnn
from discretize import DiscreteRNN
from discretize.kernels import registry
from discretize.kernels.record import stored


class Own(ctrnn.VectorField):
    """Of this test alone."""

    def flow(self, projected, h):
        return torch.sin(projected) - 3 * h


def recordings(monkeypatch, calls):
    """How many programs are recorded where each call is like that of a process of its own."""
    found, record = [], stored.program_of
    monkeypatch.setattr(stored, "program_of", lambda *given: found.append(given) or record(*given))
    for _ in range(calls):
        monkeypatch.setattr(registry, "_made", OrderedDict())
        rnn = DiscreteRNN(Own(2, 2), dt=0.1, fused="always")
        rnn(torch.randn(3, 2, 2))
        assert rnn.stats["engine"] == "compiled", rnn.stats
    return len(found)


@pytest.mark.kernels
def test_the_same_code_is_recorded_once_in_a_run(monkeypatch):
    assert recordings(monkeypatch, calls=3) <= 1


@pytest.mark.kernels
@pytest.mark.records
def test_tests_of_recording_find_no_program_of_another_test(monkeypatch):
    assert recordings(monkeypatch, calls=2) == 2


def test_programs_of_a_run_lie_in_its_own_folder(tmp_path_factory, programs_of_the_run):
    assert programs_of_the_run.parent in (base := tmp_path_factory.getbasetemp(), base.parent)
    assert stored.Cache().folder == programs_of_the_run
