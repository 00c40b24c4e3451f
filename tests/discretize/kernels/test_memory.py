"""Memory between calls: blocks are lent again once nothing reads them, and never while something does."""

import gc
import threading

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.kernels.cpp import memory

SMALL = torch.empty(0)


@pytest.fixture(autouse=True)
def no_blocks_yet(monkeypatch):
    gc.collect()
    monkeypatch.setattr(memory, "_idle", {})
    monkeypatch.setattr(memory, "LEAST", 1 << 10)
    monkeypatch.setattr(memory, "MOST", 1 << 16)


def test_a_block_is_lent_again_once_the_last_view_of_it_is_gone():
    first = memory.lent(SMALL, 30, 100)
    place, view = first.data_ptr(), first[3:]
    del first
    other = memory.lent(SMALL, 30, 100)
    assert other.data_ptr() != place  # while the view reads it
    del view
    again = memory.lent(SMALL.double(), 10, 2, 70)  # of another dtype and size
    assert (again.data_ptr(), again.dtype, again.shape) == (place, torch.float64, (10, 2, 70))


def test_what_stays_is_bounded_and_the_last_used_stay():
    blocks = [memory.lent(SMALL, 5000) for _ in range(5)]  # 20,000 bytes each, of which three are less than the most
    places = [block.data_ptr() for block in blocks]
    while blocks:
        blocks.pop(0)
    assert list(memory._idle) == places[2:]
    large = memory.lent(SMALL, 1 << 15)
    place = large.data_ptr()
    del large
    assert place not in memory._idle


def test_threads_never_share_a_block():
    places, together = [], threading.Barrier(4)

    def work(number):
        for round in range(20):
            block = memory.lent(SMALL, 400 + 100 * ((number + round) % 3))
            places.append((round, block.data_ptr()))
            together.wait()  # while all have one
            del block

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(places)) == 4 * 20
    assert len({place for _, place in places}) < 4 * 20  # and blocks were lent again


def test_runs_whose_backward_passes_are_yet_to_come_keep_their_memory():
    field = ctrnn.gated(2, 5, dtype=torch.float64)
    compiled, stepped = (discretize.DiscreteRNN(field, dt=0.3, fused=fused) for fused in ("always", False))
    xs = [torch.randn(12, 3, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def gradients(rnn, order):
        runs = [rnn(x)[0] for x in xs]
        for _ in range(2):  # twice through the same graphs
            found = dict[int, tuple[torch.Tensor, ...]]()
            for k in order:
                found[k] = torch.autograd.grad(runs[k].square().sum(), [xs[k], *field.parameters()], retain_graph=True)
        return [found[k] for k in range(3)]

    gradients(compiled, (0, 1, 2))
    assert memory._idle  # so that the next runs begin in used memory
    assert_close(gradients(compiled, (2, 0, 1)), gradients(stepped, (0, 1, 2)))
