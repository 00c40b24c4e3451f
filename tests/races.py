"""Watch kernels of Triton where its interpreter runs them, as one thread a program; on a GPU a program has many, in no order.

Between two barriers nothing may be read that was stored, nor stored where was read: many threads may hold the same value.
A sum may be read and stored again in its place, by a load and a store of the same addresses: who stores it has read it before.
Nothing that a program stores may be read or stored by another one of the same launch.
"""

import collections
import linecache
import sys

import numpy as np

__all__ = ["Watched"]


class Watched:
    """What a program has stored and read since its last barrier, and what programs of this launch have stored, as addresses."""

    def __init__(self):
        self.stored, self.read, self.program, self.of, self.races = set(), {}, (), {}, collections.Counter()

    def starts(self, builder, *program):
        self.meet(builder)
        self.program = program
        if not any(program):  # the first of a launch
            self.of.clear()

    def meet(self, builder):
        self.stored.clear()
        self.read.clear()

    def loads(self, builder, pointers, mask, *others):
        addresses = _addresses(pointers, mask)
        self._note("is read after it was stored", self.stored.intersection(addresses))
        self._note("is read beside the program that stores it", self._of_others(addresses))
        for address in addresses:
            self.read.setdefault(address, []).append(addresses)

    def stores(self, builder, pointers, value, mask, *others):
        addresses = _addresses(pointers, mask)
        self._note(
            "is stored after it was read", [a for a in addresses if any(read != addresses for read in self.read.get(a, ()))]
        )
        self._note("is stored by two programs", self._of_others(addresses))
        self.stored.update(addresses)
        self.of.update(dict.fromkeys(addresses, self.program))

    def _of_others(self, addresses):
        return [address for address in addresses if self.of.get(address, self.program) != self.program]

    def _note(self, what, addresses):
        if addresses:
            frame = sys._getframe(2)
            while frame.f_back and ".triton." not in frame.f_code.co_filename:  # of a text that discretize.kernels.triton wrote
                frame = frame.f_back
            self.races[f"{what}: {linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()}"] += len(addresses)

    def watch(self, builder, monkeypatch):
        """Note what programs do through this builder, of Triton's interpreter."""
        for name, note in {
            "set_grid_idx": self.starts,
            "create_barrier": self.meet,
            "create_masked_load": self.loads,
            "create_masked_store": self.stores,
        }.items():
            monkeypatch.setattr(builder, name, _noted(getattr(builder, name), note))


def _addresses(pointers, mask):
    return pointers.data[np.broadcast_to(mask.data, pointers.data.shape).astype(bool)].tolist()


def _noted(original, note):
    def noted(*given):
        note(*given)
        return original(*given)

    return noted
