"""Code that does otherwise than recorded is refused: in another batch, type of numbers, mode or call, or when nobody records."""

import collections
import ctypes
import functools
import itertools
import random
import threading
import time
import types
from array import array
from os import environ

import numpy as np
import pytest
import torch
from sympy import symbols
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils import _python_dispatch
from torch.utils._traceback import CapturedTraceback

from derivations import symbolic, verify, verify_gradient

h = symbols("h_1:3", real=True)
CALLS, THREADS = [], torch.get_num_threads()
# A module that holds an itertools.count is copied with it, until Python 3.14.
pytestmark = pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy support:DeprecationWarning")


class Cell(nn.Module):
    """h' = h, as far as its code shows it."""

    def __init__(self, code):
        super().__init__()
        self.input_size, self.hidden_size, self.code, self.calls, self.last = 2, 2, code, 0, None
        self.w = nn.Parameter(torch.ones(2))

    def forward(self, x, h):
        return self.code(self, x, h)


class Keeping(Cell):
    class_calls = 0

    def __init__(self, code):
        super().__init__(code)
        self.constant, self.counts = torch.zeros(()), [0]
        self.register_buffer("steps", torch.zeros(()))
        self.kept, self.entries, self.gates = None, [None], torch.zeros(2)
        self.box, self.slots, self.nested = types.SimpleNamespace(n=0), Slots(), {"a": [0]}
        self.array, self.copied, self.single = array("q", [0]), Copied(), Single()
        self.beside = types.SimpleNamespace(array=self.array, n=0)
        self.queue, self.numbers = collections.deque([0], maxlen=1), itertools.count()
        self.ordered, self.labelled = collections.OrderedDict(), collections.OrderedDict()  # empty, as those of hooks are

    @functools.cached_property
    def cached(self):
        return self.w.detach().clone()

    @functools.lru_cache  # noqa: B019 - it is what is tried
    def cached_by_functools(self):
        return self.w.detach().clone()


def twice_if(condition):
    return lambda self, x, h: 2 * h if condition(self, h) else h


def counted(self, x, h):
    self.calls += 1
    return 2 * h if self.calls > 50 else h


def counted_in_a_tensor(name):
    def counted(self, x, h):
        setattr(self, name, getattr(self, name) + 1)
        return torch.where(getattr(self, name) > 1000, 2 * h, h)

    return counted


def counted_in_a_list(self, x, h):
    self.counts[0] += 1
    return 2 * h if self.counts[0] > 1000 else h


def counted_elsewhere(self, x, h):
    CALLS.append(x)
    return 2 * h if len(CALLS) > 6 else h


def counted_far_elsewhere(self, x, h):
    CALLS.append(x)
    return 2 * h if len(CALLS) > 1000 else h


def counted_in_a_default(self, x, h, calls=[]):  # noqa: B006 - it is what is tried
    calls.append(x)
    return 2 * h if len(calls) > 1000 else h


def counted_in_a_closure():
    calls = []

    def counted(self, x, h):
        calls.append(x)
        return 2 * h if len(calls) > 1000 else h

    return counted


def counted_in_its_class(self, x, h):
    type(self).class_calls += 1
    return 2 * h if type(self).class_calls > 1000 else h


def counting_in(count):
    return lambda self, x, h: 2 * h if count(self) > 1000 else h


def in_a_namespace(self):
    self.box.n += 1
    return self.box.n


def in_slots(self):
    self.slots.n += 1
    return self.slots.n


def in_a_list_in_a_dict(self):
    self.nested["a"][0] += 1
    return self.nested["a"][0]


def in_a_deque(self):
    self.queue.append(self.queue[-1] + 1)
    return self.queue[-1]


def in_a_dict_that_was_empty(self):
    self.ordered["n"] = self.ordered.get("n", 0) + 1
    return self.ordered["n"]


def on_an_empty_dict(self):
    self.labelled.n = getattr(self.labelled, "n", 0) + 1
    return self.labelled.n


def on_a_weight(self):
    self.w.calls = getattr(self.w, "calls", 0) + 1
    return self.w.calls


def numbers():
    n = 0
    while True:
        n += 1
        yield n


class Copied:
    """Says that a copy of it is a new one."""

    __slots__ = ("n",)

    def __init__(self):
        self.n = 0

    def __reduce__(self):
        return Copied, ()


class Single:
    """Copied to itself, and nowhere else."""

    def __init__(self):
        self.n = 0

    def __reduce__(self):
        raise TypeError

    def __deepcopy__(self, memo):
        return self


def in_a_thread(self):
    LOCAL[0].n += 1
    return LOCAL[0].n


def in_a_module(self):
    MODULES[0].n += 1
    return MODULES[0].n


def counting_by(generator):
    return counting_in(lambda self: next(generator))


def counted_up(box, name="n"):
    setattr(box, name, getattr(box, name) + 1)
    return getattr(box, name)


def counted_up_at_0(numbers):
    numbers[0] += 1
    return numbers[0]


def beside(other):
    """Counts in a list next to what cannot be compared."""
    kept, counts = other, [0]
    return counting_in(lambda self: kept and counted_up_at_0(counts))


GENERATED, SHARED, SINGLE, LOCAL = numbers(), Copied(), Single(), [threading.local()]
C_NUMBER, VIEW, BIG = ctypes.c_int(0), memoryview(bytearray(8)).cast("q"), [*range(30_000)]
HELD, MODULES = types.SimpleNamespace(generator=GENERATED, n=0), [types.ModuleType("of_no_name")]
MODULES[0].n = 0
LOCAL[0].n = 0


class Counting:
    """A callable with a count in it."""

    def __init__(self):
        self.n = 0

    def __call__(self, module, x, h):
        self.n += 1
        return 2 * h if self.n > 1000 else h


class Slots:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


def remembered(self, x, h):
    last, self.last = self.last, h.detach()
    return h if last is None or last.shape != h.shape else last


def by_none(self, x, h):
    if self.kept is None:
        self.kept = self.w.detach().clone()
    return h * self.kept


def by_hasattr(self, x, h):
    if not hasattr(self, "memo"):
        self.memo = self.w.detach().clone()
    return h * self.memo


def by_object(self, x, h):
    if "memo" not in self.__dict__:
        object.__setattr__(self, "memo", self.w.detach().clone())
    return h * self.memo


def by_an_entry(self, x, h):
    if self.entries[0] is None:
        self.entries[0] = self.w.detach().clone()
    return h * self.entries[0]


def by_a_key(self, x, h, weights={}):  # noqa: B006 - it is what is tried
    if "w" not in weights:
        weights["w"] = self.w.detach().clone()
    return h * weights["w"]


def by_a_closure():
    kept = None

    def remembering(self, x, h):
        nonlocal kept
        if kept is None:
            kept = self.w.detach().clone()
        return h * kept

    return remembering


def by_memory(self, x, h):  # follows changes in place alone
    if self.kept is None:
        self.kept = self.w.detach()
    return h * self.kept


def far_sum(self, x, h):
    self.kept = (0 if self.kept is None else self.kept) + self.w.detach()
    return torch.where(self.kept > 10_000, 2, 1) * h * self.w


REMEMBERING = {
    "an attribute that was None": by_none,
    "an attribute that was not there": by_hasattr,
    "an attribute by object.__setattr__": by_object,
    "cached_property": lambda self, x, h: h * self.cached,
    "lru_cache": lambda self, x, h: h * self.cached_by_functools(),
    "an entry of a list": by_an_entry,
    "an entry of a dict": by_a_key,
    "a closure": by_a_closure(),
    "memory that weights had": by_memory,
    "a sum over calls that is far below where it matters": far_sum,
}


@pytest.mark.by_default(3)
@pytest.mark.parametrize("name", REMEMBERING)
def test_code_that_remembers_what_it_computed_at_an_earlier_call_is_refused(name, all_settings):
    w = symbols("w[0] w[1]", real=True)
    with pytest.raises(ValueError, match=r"otherwise than .* after its weights have changed|keeps? (nothing|a tensor)"):
        verify(Keeping(REMEMBERING[name]), [w[0] * h[0], w[1] * h[1]])


def with_gates(keep):
    def kept(self, x, h):
        keep(self, torch.sigmoid(h * self.w))
        return h * self.w

    return kept


def a_constant_made_once(self, x, h):
    if self.kept is None:
        self.kept = torch.ones(2, dtype=torch.float64)
    return h * self.w * self.kept.to(h)


NOT_REMEMBERING = {
    "gates for a plot": with_gates(lambda self, gates: setattr(self, "gates", gates)),
    "gates for a plot, once None": with_gates(lambda self, gates: setattr(self, "kept", gates.detach())),
    "gates for a plot, in a list": with_gates(lambda self, gates: self.entries.__setitem__(0, gates)),
    "a constant made once": a_constant_made_once,
    "a constant of one type of numbers": lambda self, x, h: h * self.w * torch.ones(2).to(h),
}


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", NOT_REMEMBERING)
def test_what_is_kept_and_changes_no_answer_is_no_memory(name, all_settings):
    w = symbols("w[0] w[1]", real=True)
    verdict = verify(Keeping(NOT_REMEMBERING[name]), [w[0] * h[0], w[1] * h[1]])
    assert verdict.verdict == "holds", verdict.evidence


def caught(self, x, h):
    try:
        return 2 * h if self.w.sum() > 1000 else h
    except Exception:
        return h


def far_away(self, x, h):
    return 2 * h if not torch.compiler.is_compiling() and h.abs().max() > 1000 else h


def far_away_by(looked_at):
    return lambda self, x, h: 2 * h if not torch.compiler.is_compiling() and looked_at(h) else h


def counted_entries(entries):
    """Looks at how many entries there are, where the size of a batch is a number above 1, as it is in no record."""
    return twice_if(lambda self, h: type(h.shape[0]) is int and h.shape[0] > 1 and len(entries((h > 1000).flatten().long())) > 1)


def called_with_numbers(hand_out):
    """What is above 1, by a function that torch calls with the numbers of a tensor."""

    def far(of):
        seen = []
        hand_out(of.clone(), lambda *numbers: seen.append(numbers[-1]) or numbers[0])
        return [0] * (1 + max(seen))

    return counted_entries(far)


class OfGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        return h.clone() if h.requires_grad else 2 * h

    @staticmethod
    def backward(ctx, v):
        return v


DECEIVING = {
    "an input that requires its gradient": twice_if(lambda self, h: h.requires_grad),
    "frozen weights": twice_if(lambda self, h: not self.w.requires_grad),
    "no gradients": twice_if(lambda self, h: not torch.is_grad_enabled()),
    "inference mode": twice_if(lambda self, h: torch.is_inference_mode_enabled()),
    "a batch of five": twice_if(lambda self, h: isinstance(h.shape[0], int) and h.shape[0] == 5),
    "another default type": twice_if(lambda self, h: torch.get_default_dtype() == torch.float64),
    "another number of threads": twice_if(lambda self, h: torch.get_num_threads() != THREADS),
    "autocast": twice_if(lambda self, h: torch.is_autocast_enabled("cpu")),
    "double precision": twice_if(lambda self, h: h.dtype == torch.float64),
    "half precision": twice_if(lambda self, h: h.dtype == torch.float16),
    "nobody exports": twice_if(lambda self, h: not torch.compiler.is_exporting()),
    "nobody compiles": twice_if(lambda self, h: not torch.compiler.is_compiling()),
    "a tensor that is none of torch's stand-ins": twice_if(lambda self, h: type(h) is torch.Tensor),
    "a result of other code": twice_if(lambda self, h: h.grad_fn is not None),
    "no leaf": twice_if(lambda self, h: not h.is_leaf),
    "rows apart in memory": twice_if(lambda self, h: not h.is_contiguous()),
    "an input changed before": twice_if(lambda self, h: h._version > 0),
    "weights changed before": twice_if(lambda self, h: self.w._version > 0),
    "weights with a gradient": twice_if(lambda self, h: self.w.grad is not None),
    "one object of seven": twice_if(lambda self, h: id(h) % 7 == 0),
    "chance, of Python's": lambda self, x, h: h * (1 if random.random() < 0.5 else 2),
    "a number by chance": lambda self, x, h: h * random.random(),
    "a year to come": twice_if(lambda self, h: time.time() > 1e10),
    "the environment": twice_if(lambda self, h: "NOBODY_HAS_THIS" in environ),
    "the seed": twice_if(lambda self, h: torch.initial_seed() == 5),
    "no mode of torch, for several samples": twice_if(
        lambda self, h: h.shape[0] > 1 and _python_dispatch._get_current_dispatch_mode() is None
    ),
    "the stack of calls": twice_if(lambda self, h: len(CapturedTraceback.extract().summary()) < 20),
    "another thread": twice_if(lambda self, h: threading.current_thread() is not threading.main_thread()),
    "the second call": counted,
    "far calls, counted in a buffer": counted_in_a_tensor("steps"),
    "far calls, counted in a tensor": counted_in_a_tensor("constant"),
    "far calls, counted in a list": counted_in_a_list,
    "the seventh call, counted elsewhere": counted_elsewhere,
    "far calls, counted in a default": counted_in_a_default,
    "far calls, counted in a closure": counted_in_a_closure(),
    "far calls, counted in its class": counted_in_its_class,
    "far calls, counted elsewhere": counted_far_elsewhere,
    "far calls, counted in a namespace": counting_in(in_a_namespace),
    "far calls, counted in slots": counting_in(in_slots),
    "far calls, counted in a list in a dict": counting_in(in_a_list_in_a_dict),
    "far calls, counted in a deque": counting_in(in_a_deque),
    "far calls, counted in a dict that was empty": counting_in(in_a_dict_that_was_empty),
    "far calls, counted on an empty dict": counting_in(on_an_empty_dict),
    "far calls, counted on a weight": counting_in(on_a_weight),
    "far calls, counted by itertools": counting_in(lambda self: next(self.numbers)),
    "far calls, counted in a callable": Counting(),
    "far calls, counted by a generator": counting_in(lambda self: next(GENERATED)),
    "far calls, counted by a generator in a closure": counting_by(numbers()),
    "far calls, counted next to a generator": counting_in(lambda self: counted_up(HELD)),
    "far calls, counted next to a generator, in a closure": beside(numbers()),
    "far calls, counted next to many numbers": counting_in(lambda self: BIG and counted_up(SHARED)),
    "far calls, counted in an object that says nothing of it": counting_in(lambda self: counted_up(SHARED)),
    "far calls, counted in an object that is not copied": counting_in(lambda self: counted_up(SINGLE)),
    "far calls, counted in what threads have of their own": counting_in(in_a_thread),
    "far calls, counted in a module of no name": counting_in(in_a_module),
    "far calls, counted in a number of C": counting_in(lambda self: counted_up(C_NUMBER, "value")),
    "far calls, counted in memory": counting_in(lambda self: counted_up_at_0(VIEW)),
    "far calls, counted in an array of its own": counting_in(lambda self: counted_up_at_0(self.array)),
    "far calls, counted next to an array of its own": counting_in(lambda self: counted_up(self.beside)),
    "far calls, counted in an object of its own that says nothing of it": counting_in(lambda self: counted_up(self.copied)),
    "far calls, counted in an object of its own that is not copied": counting_in(lambda self: counted_up(self.single)),
    "the state of the call before": remembered,
    "a branch whose refusal is caught": caught,
    "a branch where nobody compiles, that is not taken": far_away,
    "a list where nobody compiles": far_away_by(lambda h: h.tolist()[0][0] > 1000),
    "an array where nobody compiles": far_away_by(lambda h: h.detach().numpy()[0, 0] > 1000),
    "an array made of a computed one": far_away_by(lambda h: np.asarray((2 * h).detach())[0, 0] > 1000),
    "a mask where nobody compiles": far_away_by(lambda h: len(h[h > 1000]) > 0),
    "as many entries as runs of equal numbers": counted_entries(lambda far: far.unique_consecutive()),
    "as many entries as the largest number": counted_entries(lambda far: far.bincount()),
    "as many entries as a place in another tensor": counted_entries(lambda far: torch.zeros(9).tensor_split(1 + far)[0]),
    "as many entries as a packed length": counted_entries(
        lambda far: pack_padded_sequence(torch.zeros(2, 1, 1), 1 + far.amax(0, keepdim=True)).data
    ),
    "a function of one number after the other": called_with_numbers(lambda of, take: of.apply_(take)),
    "a function of two numbers": called_with_numbers(lambda of, take: of.map_(of, take)),
    "a function of its own": lambda self, x, h: OfGradients.apply(h),
}


@pytest.mark.by_default(12)
@pytest.mark.parametrize("name", DECEIVING)
def test_code_that_does_otherwise_when_it_is_run_is_refused(name, all_settings):
    CALLS.clear()
    with pytest.raises(ValueError, match=r"otherwise than|attribute `|branches on the values|keep nothing|asks for"):
        verify(Keeping(DECEIVING[name]), h)


def test_symbolic_refuses_deceiving_code_as_well(all_settings):
    with pytest.raises(ValueError, match=r"for a batch of 1 in float\d\d, with gradients, in training mode"):
        symbolic(Cell(DECEIVING["double precision"]))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param(lambda self, x, h: h, "a single sample (units) gives the same", id="of any number of axes"),
        pytest.param(lambda self, x, h: h[:, [0, 1]], "no single sample", id="of two axes"),
    ],
)
def test_a_verdict_says_for_which_shapes_it_is_said(code, words):
    verdict = verify(Cell(code), h)
    assert verdict.verdict == "holds"
    assert words in verdict.evidence


class Folding(Cell):
    """Remembers its weights in evaluation mode."""

    def train(self, mode=True):
        super().train(mode)
        self.folded = None if mode else self.w.detach().clone()
        return self


class Normed(Cell):
    def __init__(self):
        super().__init__(lambda self, x, h: self.norm(h))
        self.norm = nn.BatchNorm1d(2, eps=0.5, affine=False)  # torch 2.11 refuses eps=0
        self.norm.running_var.fill_(0.5)


CONDITIONAL = {
    "training mode only": Cell(twice_if(lambda self, h: not self.training)),
    "evaluation mode only": Cell(twice_if(lambda self, h: self.training)).eval(),
    "in evaluation mode only": Cell(lambda self, x, h: nn.functional.dropout(h, 0.5, self.training)).eval(),
    "evaluation mode only, for it does otherwise": Normed().eval(),
    "evaluation mode only, for it does": Folding(lambda self, x, h: 2 * h * self.w if self.training else h * self.folded).eval(),
    "in training mode only": Folding(lambda self, x, h: h if self.training else 2 * h * self.folded),
    "(batch, units) only": Cell(twice_if(lambda self, h: h.dim() == 1)),
    "(batch, units) only: it does otherwise with a single sample": Cell(lambda self, x, h: h + torch.zeros(x.shape[0], 1)),
}


@pytest.mark.by_default(3)
@pytest.mark.parametrize("words", CONDITIONAL)
def test_what_is_so_in_one_mode_or_for_batches_only_holds_under_that_assumption(words):
    verdict = verify(CONDITIONAL[words], h)
    assert verdict.verdict == "holds under the stated assumptions"
    assert words in verdict.evidence


@pytest.mark.by_default(1)
@pytest.mark.parametrize(
    "code",
    [
        lambda self, x, h: h * self.w if type(h.detach()) is not torch.Tensor else h.detach() * self.w,  # a tensor of torch's own
        lambda self, x, h: h.detach() * self.w if h.dtype == torch.float64 else h * self.w,  # double precision
    ],
)
def test_a_gradient_that_is_another_when_it_is_run_is_refused(code, all_settings):
    with pytest.raises(ValueError, match="otherwise than"):
        verify_gradient(Cell(code))


def test_frozen_weights_have_no_gradient_and_the_verdict_says_so():
    cell = Cell(lambda self, x, h: h * self.w)
    cell.w.requires_grad_(False)
    verdict = verify_gradient(cell)
    assert verdict
    assert "4 derivatives" in verdict.evidence
    assert "w, which are frozen" in verdict.evidence


def test_a_hook_on_a_weight_which_may_change_its_gradient_is_refused():
    cell = Cell(lambda self, x, h: h * self.w)
    cell.w.register_hook(lambda g: 2 * g)
    with pytest.raises(ValueError, match="`w` has a hook"):
        verify_gradient(cell)


def test_a_weight_with_the_name_of_a_state_is_not_taken_for_it():
    cell = Cell(lambda self, x, h: h * self.h_1)
    cell.h_1 = nn.Parameter(torch.ones(()))
    with pytest.raises(ValueError, match="would be called h_1"):
        verify(cell, [h[0] * h[0], h[1] * h[0]])


def test_what_a_refused_branch_recorded_so_far_is_not_printed(capfd):
    with pytest.raises(ValueError, match="branches on the values"):
        verify(Cell(twice_if(lambda self, h: h.max().item() > 1)), h)
    with pytest.raises(ValueError, match="torch cannot record the code"):
        symbolic(Cell(lambda self, x, h: h @ self.w[None]))
    assert capfd.readouterr() == ("", "")
