"""Full garbage collections wait until code is recorded, and come as ever then."""

import gc
import os
import threading

import pytest
import torch

import ctrnn
from discretize.kernels.record.collection import LATER, full_collections_postponed
from discretize.kernels.record.program import FlowModule, program_of

USUAL = (600, 11, 7)


@pytest.fixture(autouse=True)
def usual_threshold():
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_code_is_recorded_without_full_collections():
    field = ctrnn.gated(2, 3)
    program = program_of(FlowModule(field, 6), {"x": False}, torch.float32, lambda values: gc.get_threshold())
    assert program.written == (*USUAL[:2], LATER)
    assert gc.get_threshold() == USUAL


def test_the_last_of_several_threads_brings_collections_back():
    inside, go_on = threading.Event(), threading.Event()

    def other():
        with full_collections_postponed():
            inside.set()
            go_on.wait()

    thread = threading.Thread(target=other)
    with full_collections_postponed():
        thread.start()
        inside.wait()
    during = gc.get_threshold()
    go_on.set()
    thread.join()
    assert during[2] == LATER
    assert gc.get_threshold() == USUAL


def test_a_threshold_that_somebody_sets_meanwhile_stays():
    with full_collections_postponed():
        gc.set_threshold(500, 5, 5)
    assert gc.get_threshold() == (500, 5, 5)


def test_collections_come_back_after_an_error():
    with pytest.raises(ValueError, match="of the code"), full_collections_postponed():
        raise ValueError("of the code")
    assert gc.get_threshold() == USUAL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_that_is_forked_meanwhile_collects_as_ever():
    with full_collections_postponed():
        child = os.fork()
        if not child:
            os._exit(gc.get_threshold() != USUAL)
        _, status = os.waitpid(child, 0)
        assert gc.get_threshold()[2] == LATER
    assert os.waitstatus_to_exitcode(status) == 0
