"""Memory between calls: blocks are lent again once nothing reads them, and never while something does."""

import gc
import os
import platform
import subprocess
import sys
import threading

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.kernels.cpp import memory

SMALL = torch.empty(0)


@pytest.fixture(autouse=True)
def no_blocks_yet(monkeypatch, only_new_garbage):
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


def test_what_stays_is_bounded_and_the_last_used_stay(monkeypatch):
    monkeypatch.setattr(memory, "_memory", lambda: 400_000)  # a quarter of which is room for five blocks
    blocks = [memory.lent(SMALL, 5000) for _ in range(7)]  # 20,000 bytes each, of which three are less than the most
    places = [block.data_ptr() for block in blocks]
    while blocks:
        blocks.pop(0)
    assert {place: block.stays for place, block in memory._idle.items()} == dict(
        zip(places[2:], [False, False, True, True, True], strict=True)
    )
    memory.lent(SMALL, 1 << 16)
    assert {*memory._idle} == {*places[2:]}  # for it is more than all that may stay


def test_a_block_that_the_system_may_take_is_lent_again_and_holds_what_is_written():
    place = (large := memory.lent(SMALL, 1 << 16)).data_ptr()
    del large
    assert not memory._idle[place].stays
    again = memory.lent(SMALL, 1 << 16).fill_(3)
    assert again.data_ptr() == place
    assert again.eq(3).all()


def test_where_the_system_takes_no_pages_back_what_is_beyond_the_most_is_freed(monkeypatch):
    monkeypatch.delattr(memory.mmap, "MADV_FREE")
    for count in (5000, 1 << 16):
        memory.lent(SMALL, count)
    assert [block.size for block in memory._idle.values()] == [20_000]


def test_pages_may_be_joined_once_they_have_been_written_and_not_while_they_are_new(monkeypatch):
    advised = list[str]()

    class Told(memory._Pages):
        def _advise(self, advice):
            advised.append(advice)
            return super()._advise(advice)

    monkeypatch.setattr(memory, "_Pages", Told)
    memory.lent(SMALL, 3000)
    assert advised == []
    memory.lent(SMALL, 3000)
    memory.lent(SMALL, 3000)
    assert advised == ["MADV_HUGEPAGE"]
    (block,) = memory._idle.values()
    assert block.leave()
    memory.lent(SMALL, 3000)  # whose pages may be new
    assert advised[1:] == ["MADV_FREE", "MADV_NOHUGEPAGE"]
    memory.lent(SMALL, 3000)
    assert advised[3:] == ["MADV_HUGEPAGE"]


def test_a_small_tensor_takes_no_block_of_a_large_one():
    memory.lent(SMALL, 12_000)
    place = next(iter(memory._idle))
    assert memory.lent(SMALL, 1000).data_ptr() != place
    assert memory.lent(SMALL, 8000).data_ptr() == place


@pytest.mark.parametrize("grad", [False, True], ids=["forward", "gradients"])
def test_what_ensembles_gave_is_never_written_over_while_it_is_read(grad):
    networks = [discretize.DiscreteRNN(ctrnn.gated(2, 5, dtype=torch.float64), fused="always") for _ in range(3)]
    many, xs = discretize.ensemble(networks), torch.randn(4, 12, 3, 2, dtype=torch.float64)
    with torch.set_grad_enabled(grad):
        for _ in range(2):  # planned, and in used memory, from the second on
            outputs = [many(x)[0] for x in xs]
            rows, outputs = [output[1, 3:7] for output in outputs], None
            rows += [many(x)[0][1, 3:7] for x in xs]
            for k, row in enumerate(rows):
                assert_close(row, networks[1](xs[k % 4])[0][3:7], rtol=0, atol=1e-14)


def test_large_states_of_a_sequence_lie_in_memory_that_is_used_again_and_are_never_written_over(monkeypatch):
    monkeypatch.setattr(memory, "LEAST", 1)
    rnn = discretize.DiscreteRNN(ctrnn.gated(2, 8), fused="always")
    x, other = torch.randn(2, 12, 3, 2)

    def place(x):
        output, _ = rnn(x)
        return output.untyped_storage().data_ptr()

    with torch.no_grad():
        assert place(x) not in memory._idle  # malloc's
        memory._idle.clear()  # of what was tried while the kernel was made
        monkeypatch.setattr(memory, "LARGEST", 12 * 3 * 8 * 4)
        first = place(x)
        assert [*memory._idle] == [first] == [place(x)]
        held = rnn(x)[0]
        before = held.clone()
        assert place(other) != held.data_ptr()
        assert_close(held, before, rtol=0, atol=0)
        assert_close(held, discretize.DiscreteRNN(rnn.field, fused=False)(x)[0])


@pytest.mark.parametrize("write", [torch.relu_, lambda output: output.mul_(2), lambda output: output[0].zero_()])
def test_large_states_may_be_written_into_as_small_ones(monkeypatch, write):
    def slope():
        x = torch.linspace(-1, 1, 72).view(12, 3, 2).requires_grad_()
        output, _ = rnn(x)
        write(output)
        return torch.autograd.grad(output.square().sum(), x)[0]

    rnn = discretize.DiscreteRNN(ctrnn.gated(2, 8), fused="always")
    small = slope()
    monkeypatch.setattr(memory, "LARGEST", 1)
    monkeypatch.setattr(memory, "LEAST", 1)
    assert_close(slope(), small, rtol=0, atol=0)


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


GLIBC = platform.libc_ver()[0] == "glibc" and not any(each.startswith(("MALLOC_", "GLIBC_", "LD_PRELOAD")) for each in os.environ)


class Braked(ctrnn.VectorField):
    """A field of whose code no other test has a kernel."""

    def flow(self, x, h):
        return x.sum(-1, keepdim=True) - 0.37 * h * h.abs()


def test_a_kernel_of_sequences_has_malloc_keep_what_is_freed():
    memory.keep_freed.cache_clear()
    rnn = discretize.DiscreteRNN(Braked(2, 5), fused="always")
    rnn(torch.randn(4, 3, 2))
    assert rnn.stats["engine"] == "compiled"
    assert memory.keep_freed.cache_info().currsize == 1


IN_THE_HEAP = """
import sys
import torch
from pathlib import Path
from discretize.kernels.cpp import memory

if sys.argv[1] == "keep":
    memory.keep_freed()
place = torch.empty(20 << 20, dtype=torch.uint8).data_ptr()  # by default in a mapping of its own, which goes with it
heaps = [line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[heap]")]
print(any(int(first, 16) < place < int(last, 16) for first, last in (heap.split("-") for heap in heaps)))
"""


@pytest.mark.slow  # two processes that load torch
@pytest.mark.skipif(not GLIBC, reason="of glibc's malloc")
@pytest.mark.parametrize("how", ["keep", "leave"])
def test_malloc_keeps_what_is_freed_below_32_mib_where_it_is_told(how):
    done = subprocess.run([sys.executable, "-c", IN_THE_HEAP, how], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(how == "keep")]


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


def losses(outputs, ends):
    return {
        "output": lambda: outputs.square().sum(),
        "ends": lambda: ends.square().sum(),
        "both": lambda: outputs.square().sum() + (ends * outputs[:, :1].mean(-1, keepdim=True)).sum(),
        "none": lambda: outputs.detach().sum() + 0 * ends.sum(),
    }


@pytest.mark.each_value
@pytest.mark.parametrize("read", ["output", "ends", "both", "none"])
@pytest.mark.parametrize("make", [ctrnn.lstm, ctrnn.gated], ids=["pairs", "all visible"])
def test_gradients_of_an_ensemble_are_those_of_the_loop_whatever_is_read_of_it(make, read):
    networks = [discretize.DiscreteRNN(make(2, 5, dtype=torch.float64), fused="always") for _ in range(3)]
    many, x = discretize.ensemble(networks), torch.randn(12, 3, 2, dtype=torch.float64, requires_grad=True)
    alone = [rnn(x) for rnn in networks]
    outputs, ends = (torch.stack(each) for each in zip(*alone, strict=True))
    first = [x, *(next(rnn.parameters()) for rnn in networks)]
    theirs, *of_first = torch.autograd.grad(losses(outputs, ends)[read](), first)
    for _ in range(3):  # planned, and in used memory, from the second on
        outputs, ends = many(x)
        mine = torch.autograd.grad(losses(outputs, ends)[read](), [x, next(many.parameters())], create_graph=True)
        assert_close(mine, (theirs, torch.stack(of_first)), rtol=1e-12, atol=1e-14)
        mine = torch.autograd.grad(losses(*many(x))[read](), [x, next(many.parameters())])
        assert_close(mine, (theirs, torch.stack(of_first)), rtol=1e-12, atol=1e-14)


def test_what_an_ensemble_gives_may_be_written_into():
    networks = [discretize.DiscreteRNN(ctrnn.lstm(2, 5, dtype=torch.float64), fused="always") for _ in range(3)]
    many, x = discretize.ensemble(networks), torch.randn(12, 3, 2, dtype=torch.float64)
    many(x)
    output, ends = many(x)
    (output.exp_().sum() + ends.sum()).backward()
    found = next(many.parameters()).grad
    (torch.stack([rnn(x)[0] for rnn in networks]).exp().sum() + sum(rnn(x)[1].sum() for rnn in networks)).backward()
    assert_close(found, torch.stack([next(rnn.parameters()).grad for rnn in networks]), rtol=1e-12, atol=1e-14)
