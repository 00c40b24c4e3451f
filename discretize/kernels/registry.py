r"""Make a kernel for a module's code once, and remember it by all that the code may read."""

from __future__ import annotations

import math
import os
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, Thread, current_thread
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.random import fork_rng

from ctrnn import VectorField
from discretize import compat
from discretize.kernels import price
from discretize.kernels.build import Libraries, Unavailable, begin
from discretize.kernels.eligibility import warn_once
from discretize.kernels.price import KernelReady, Waiting
from discretize.kernels.record.attributes import Attributes, attributes_of
from discretize.kernels.record.equations import one_iteration
from discretize.kernels.record.global_reads import GlobalReads
from discretize.kernels.record.guards import Guards
from discretize.kernels.record.program import CodeModule, Program, Text, Writer, weights_of, with_weights
from discretize.kernels.record.recording import UnknownOperation, in_the_users_words
from discretize.kernels.record.stored import Recorder, is_stored, program_key
from discretize.kernels.record.watched import Unwatched
from discretize.steps.algebra.exchanged import SOLUTION
from discretize.steps.step import Step

__all__ = [
    "LEAST",
    "ROUNDING",
    "KnownKernel",
    "Uses",
    "by_steps",
    "difference",
    "kernel_of",
    "known",
    "remember",
    "time_unit",
    "uses_of",
    "wrong_by",
]

# Relative to the largest number of each result, or to what LEAST of it comes from what goes in, if that is more.
ROUNDING = {torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float32: 1e-3, torch.float64: 1e-9}
LEAST = {dtype: min(1.0, 1e3 * torch.finfo(dtype).eps / rounding) for dtype, rounding in ROUNDING.items()}
USUAL = 1e2  # units of time, or parts of one, in which fields that count in it move by as much as their states are
BACKWARD = 1.0  # times as long as a call by steps: its backward pass
MOST_KEPT = 256  # kernels that a process remembers
MOST_IN_VAIN = 8  # kernels of fields of the same parts that served fewer than LEAST_USE calls each
LEAST_USE = 4  # calls in a row, from there on, before another one is made
CHANGING = "its attributes change from call to call, and a kernel is written for their values; make tensors of them"
OTHERS = (
    f"{MOST_IN_VAIN} kernels of fields of the same parts, which keep other numbers, served fewer than {LEAST_USE} calls each; "
    'fused="always" makes one for each field'
)
LONGEST = 600.0  # seconds that a kernel may take, from the recording to what is compiled: calls of the compiler have limits, too

Kernel = TypeVar("Kernel")
T = TypeVar("T")


@dataclass
class _Made:
    """A kernel, or why there is none, and what it was made for."""

    kernel: Any
    reads: GlobalReads
    globals: Attributes | str
    alive: tuple[Any, ...]  # objects of the module that are known by their ids

    def is_current(self, guards: Guards) -> bool:
        now = self.reads.now(guards)
        return (now if isinstance(now, str) else now.values) == (
            self.globals if isinstance(self.globals, str) else self.globals.values
        )


class _Seen(NamedTuple):
    """Counts how often a field's values have changed between calls that found no kernel; `values`: their hash at the last."""

    owner: weakref.ref[Any]
    values: int
    changes: int


@dataclass
class Uses:
    """The calls of a field's code: the `seconds` that steps have taken since the last of the kernels that were `made`, how many
    calls found a kernel and how many did not, what the last of those asked for, so many times in a row, and which fields did."""

    seconds: float = 0.0
    made: int = 0
    found: int = 0
    missed: int = 0
    asked: Any = None
    times: int = 0
    seen: OrderedDict[int, _Seen] = field(default_factory=OrderedDict)  # by ids

    def in_vain(self, key: object, owner: object, values: tuple[Any, ...], wait: bool) -> str | None:
        """Count a call that found none; return why a kernel for it would probably serve no other.

        Args:    owner: a field, or a method; values: that its code keeps; wait: whether the user asks for the kernel.
        """
        self.missed += 1
        self.times = self.times + 1 if key == self.asked else 1
        self.asked = key
        changes = self._changes(owner, hash(values))
        if self.missed <= MOST_IN_VAIN or self.found >= LEAST_USE * self.missed or self.times >= LEAST_USE:
            return None
        if changes > (MOST_IN_VAIN if wait else 0):
            return CHANGING
        return None if wait else OTHERS

    def _changes(self, owner: object, values: int) -> int:
        before = self.seen.get(id(owner))
        is_known = before is not None and before.owner() is owner  # an id is another's when its field has died
        changes = before.changes + (before.values != values) if before and is_known else 0
        _keep(self.seen, id(owner), _Seen(weakref.ref(owner), values, changes))
        return changes

    def took(self, seconds: float, learns: bool) -> None:
        """Count a call that no kernel ran; learns: whether a backward pass will follow."""
        self.seconds += seconds * (1 + BACKWARD * learns)

    def waiting(self) -> Waiting | None:
        """Why these calls have not paid for a kernel yet."""
        if not price.may_build():
            return Waiting(price.LIVE)
        if self.seconds >= price.PRICE:
            return None
        return Waiting(
            f"calls of this code have taken {self.seconds:.1f} s so far, and a kernel takes about {price.PRICE:g} s to build; "
            'fused="always" builds it now'
        )


class KnownKernel(NamedTuple):
    """What was found for a field or a method: all that its code keeps, and the kernel, or why there is none."""

    attributes: Attributes
    kernel: Any
    guards: Guards
    uses: Uses
    kernels: int  # of such code that had been made by then
    made: OrderedDict[Any, _Made]  # among which it was looked for
    end: weakref.ref[Any]


_known: OrderedDict[int, dict[Any, KnownKernel]] = OrderedDict()  # by request, of fields that are alive, by their ids
_made: OrderedDict[tuple[Any, ...], _Made] = OrderedDict()
_absent: OrderedDict[tuple[Any, ...], None] = OrderedDict()  # kernels that were not on disk
_uses: dict[tuple[type, ...], Uses] = {}  # of fields of the same parts
_locks: dict[int, Lock] = {}  # by process: a child forked meanwhile must not wait for a thread that it has not got


def uses_of(field: VectorField, *kinds: type) -> Uses:
    """Those of fields of the same parts, in calls of such kinds."""
    return _uses.setdefault((*kinds, *map(type, field.modules())), Uses())


@contextmanager
def by_steps(uses: Uses, weights: Iterable[Tensor]) -> Iterator[None]:
    """Counts the seconds of a call that no kernel runs, and its backward pass as it will probably be."""
    start, ended = time.perf_counter(), True
    try:
        yield
    except KernelReady:
        ended = False  # its kernel has been paid for
        raise
    finally:
        learns = torch.is_grad_enabled() and any(weight.requires_grad for weight in weights)
        uses.took(ended * (time.perf_counter() - start), learns)


def is_on_disk(attributes: Attributes, wanted: Mapping[str, bool], dtype: torch.dtype, write: Writer[Any]) -> bool:
    """Whether a kernel can be had for less than its price; asked once for each in a process."""
    key = program_key(attributes, wanted, dtype, write)
    return key is not None and is_stored(key)


def known(field: VectorField | Step, request: object, wait: bool) -> KnownKernel | None:
    """What `remember` was given for the same request, if nothing has changed that the code of a field, or method, may read, and,
    where it waits for a kernel, none of such code has been made since; wait: not without a kernel that may be there."""
    kernel = _known.get(id(field), {}).get(request)
    if kernel is None or kernel.made is not _made or not kernel.guards.hold(field):
        return None
    if isinstance(kernel.kernel, Waiting):
        why = None if wait or kernel.uses.made != kernel.kernels else kernel.uses.waiting()
        return kernel._replace(kernel=why) if why else None
    kernel.uses.found += 1
    return kernel


def remember(
    field: VectorField | Step, request: object, guards: Guards, attributes: Attributes, kernel: object, uses: Uses
) -> None:
    """guards: of all that was looked at for the attributes and the kernel."""
    key = id(field)
    of_field = _known.get(key, {})
    if guards.refused:
        of_field.pop(request, None)
        return
    # By a number alone: a field may die while code is watched, which may call no other's `__hash__`.
    end = weakref.ref(field, lambda _: _known.pop(key, None))
    _keep(_known, key, of_field | {request: KnownKernel(attributes, kernel, guards.complete(), uses, uses.made, _made, end)})


def _keep(table: OrderedDict[Any, Any], key: object, value: object) -> None:
    """Among those that were kept last."""
    table[key] = value
    table.move_to_end(key)
    while len(table) > MOST_KEPT:
        table.popitem(last=False)


def kernel_of(
    module: CodeModule,
    attributes: Attributes,
    wanted: Mapping[str, bool],
    dtype: torch.dtype,
    make: Callable[[Program[Text], Recorder], Kernel | str],
    write: Writer[Text],
    libraries: Libraries,
    guards: Guards,
    uses: Uses,
    wait: bool,
    check: Callable[[], None] = lambda: None,
) -> Kernel | str:
    r"""The kernel of a module's code, made of its program by `make` where there is none yet, or why there is none.

    Args:    make: is given a recorder too, for programs of other modules of the same code; attributes: of the module; wanted,
             dtype, write: as for `program_of`; libraries: what it needs of any code, which is made meanwhile; guards: collects
             what was looked at; uses: of this code; wait: for the kernel, whatever calls have taken so far;
             check: called before one is made.
    """
    if current_thread() in _recording:  # a field that calls another one, which is recorded: whoever waits for that has the lock
        guards.refused = True
        return "it is called by code that is being recorded"
    how = (*wanted.items(), dtype, torch.get_default_dtype(), write)
    with _locks.setdefault(os.getpid(), Lock()):
        if (attributes.values, *how) not in _made:  # looked at while another thread recorded, when torch exchanges its methods?
            again = attributes_of(module)
            if isinstance(again, str):
                return again
            attributes = again
        key = (attributes.values, *how)
        if key in _made and _made[key].is_current(guards):
            uses.found += 1
        else:
            if not wait and (why := uses.waiting()) and (key in _absent or not is_on_disk(attributes, wanted, dtype, write)):
                _keep(_absent, key, None)
                return why
            owner = module if guards.owner is None else guards.owner
            if vain := uses.in_vain(key, owner, attributes.values, wait):
                guards.refused = True
                return vain
            check()
            _keep(_made, key, _attempt(module, wanted, dtype, make, attributes, write, libraries))
            uses.seconds, uses.made = 0.0, uses.made + 1
            guards.refused = True  # what was looked at before the code ran; the next call looks again
        _made.move_to_end(key)
        found: Kernel | str = _made[key].kernel
    return found


def _attempt(
    module: CodeModule,
    wanted: Mapping[str, bool],
    dtype: torch.dtype,
    make: Callable[[Program[Text], Recorder], Kernel | str],
    attributes: Attributes,
    write: Writer[Text],
    libraries: Libraries,
) -> _Made:
    compat.keep_device_guard()  # in this thread, which may be the main one
    reads = GlobalReads()
    for each in libraries:
        begin(*each)

    def seen() -> list[Any]:
        return [found if isinstance(found, str) else found.values for found in (reads.now(), attributes_of(module))]

    def made() -> Kernel | str:
        with torch.autograd.set_detect_anomaly(False), price.without_building():  # sequences within run by steps
            with reads.noted():  # before the recording, which would be of what cannot be watched, and takes three times as long
                same = _is_the_same_alone(module, dtype)
            before = seen()
            recorder = Recorder(reads)
            program = recorder.program(module, wanted, dtype, write)
            if not same:
                raise UnknownOperation("its code treats a sample alone otherwise than among others")
            kernel = make(program, recorder)
            if seen() != before:
                raise UnknownOperation(
                    "its code changes what it reads outside of the field, in a closure, a default, a class or a global"
                )
        if not isinstance(kernel, str):
            recorder.keep()
        return kernel

    try:
        # In a thread of its own: in no mode of torch that is on in this one, and under no profiler. Context variables come along.
        # What is drawn there is drawn again by the steps.
        devices = [device] if (device := module.device) is not None and device.type == "cuda" else []
        with fork_rng(devices):
            kernel = _in_a_thread(partial(copy_context().run, made))
    except (Unwatched, UnknownOperation, compat.Missing) as error:
        kernel = str(error)
    except Unavailable as error:
        kernel = warn_once(str(error))
    except Exception as error:  # torch records much and not all, and without a kernel nothing is missing
        kernel = in_the_users_words(error)
    now = reads.now()
    return _Made(now if isinstance(now, str) else kernel, reads, now, attributes.objects)


_recording: list[Thread] = []  # the last one; in a child forked meanwhile it is not alive


def _in_a_thread(work: Callable[[], T]) -> T:
    """Wait for a thread that records, but not for ever: the user's code runs there, and torch's, which takes locks of others."""
    if any(thread.is_alive() for thread in _recording):
        raise UnknownOperation("another recording has not ended, and there is one at a time")
    ended: Future[T] = Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:
            ended.set_exception(error)

    thread = Thread(target=run, name="ctrnn recording", daemon=True)
    _recording[:] = [thread]
    thread.start()
    try:
        return ended.result(LONGEST)
    except BaseException as error:
        if isinstance(error, TimeoutError) and not ended.done():
            raise UnknownOperation(f"its recording and compilation did not end within {LONGEST:g} s") from None
        thread.join(LONGEST)  # after Ctrl-C: meanwhile methods of torch are exchanged
        raise


def difference(mine: Tensor, theirs: Tensor, least: float = 0.0) -> float:
    """Return how far two results are apart, each of the last axis relative to its largest number in the second, or `least`."""
    if not theirs.numel():
        return 0.0
    mine, theirs = (x.detach().reshape(-1, x.shape[-1] if x.dim() else 1) for x in (mine, theirs))
    same = (mine == theirs) | (mine.isnan() & theirs.isnan())
    apart = torch.where(same, 0.0, (mine - theirs).abs()).nan_to_num(math.inf, math.inf)
    size = theirs.abs().nan_to_num(0.0, 0.0, 0.0).amax(0).clamp(min=least)
    return float(torch.where(apart > 0, apart / size, 0.0).max())


def wrong_by(
    mine: Sequence[Tensor], theirs: Sequence[Tensor], h0: Tensor, sought: Sequence[Tensor], cotangent: float, dtype: torch.dtype
) -> float:
    """Return how far a kernel's results are from the steps': states, and gradients to what is sought.

    A state counts by how far it has moved, each unit by itself, a gradient by its largest number. Sums that cancel leave the
    rounding of their summands: the least size of a result is a share of the start, or of the loss for each unit of a tensor.
    """
    h0 = h0.detach()
    start = float(h0.abs().max())
    (hs, *gradients), (true, *expected) = ([x.detach().to(h0.dtype) for x in each] for each in (mine, theirs))
    off = [difference(hs - h0, true - h0, LEAST[dtype] * start)]
    loss = cotangent * float((true - h0).abs().nan_to_num(0.0, 0.0, 0.0).max())
    for one, other, by in zip(gradients, expected, sought, strict=True):
        size = float(by.detach().abs().max()) if by.numel() else 0.0
        off.append(difference(one.reshape(-1, 1), other.reshape(-1, 1), LEAST[dtype] * loss / (size or start)))
    return max(off)


def time_unit(slope: Tensor, h: Tensor) -> float:
    """Return the time in which a field moves by as much as its states are; 1 where it is about that, or not known."""
    unit = float(h.detach().abs().max()) / (float(slope.detach().abs().max()) or math.nan)
    return unit if 0 < unit < math.inf and not 1 / USUAL < unit < USUAL else 1.0


def _is_the_same_alone(module: CodeModule, dtype: torch.dtype) -> bool:
    """Whether code, which is recorded for batches of two or more, gives a sample the same numbers when it is alone."""
    dice = torch.Generator().manual_seed(0)
    device = module.device
    samples = [
        torch.rand((3, width), generator=dice, dtype=dtype, device="cpu").to(device) + 0.1 for width in module.samples.values()
    ]
    # Copies: under inference_mode weights may be such that autograd refuses.
    module = with_weights(module, [w.detach().clone().requires_grad_(w.requires_grad) for w in weights_of(module)])
    with SOLUTION.by(one_iteration):
        together = module(*(sample.requires_grad_() for sample in samples))
    if together.requires_grad:  # backward, too, for what that code reads
        torch.autograd.grad(together.sum(), samples, allow_unused=True)
    with torch.no_grad(), SOLUTION.by(one_iteration):
        alone = torch.cat([module(*(sample[k : k + 1] for sample in samples)) for k in range(3)])
    together = together.detach()
    return difference(alone, together, LEAST[dtype] * float(together.abs().nan_to_num(0.0, 0.0, 0.0).max())) <= ROUNDING[dtype]
