"""Code that does otherwise than recorded is refused: in another batch, type of numbers, mode or call, or when nobody records."""

import random
import threading
import time
from os import environ

import numpy as np
import pytest
import torch
from cases import each
from sympy import symbols
from torch import nn

from derivations import symbolic, verify, verify_gradient

h = symbols("h_1:3", real=True)
CALLS, THREADS = [], torch.get_num_threads()


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


def remembered(self, x, h):
    last, self.last = self.last, h.detach()
    return h if last is None or last.shape != h.shape else last


def caught(self, x, h):
    try:
        return 2 * h if self.w.sum() > 1000 else h
    except Exception:
        return h


def far_away(self, x, h):
    return 2 * h if not torch.compiler.is_compiling() and h.abs().max() > 1000 else h


def far_away_by(looked_at):
    return lambda self, x, h: 2 * h if not torch.compiler.is_compiling() and looked_at(h) else h


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
    "the state of the call before": remembered,
    "a branch whose refusal is caught": caught,
    "a branch where nobody compiles, that is not taken": far_away,
    "a list where nobody compiles": far_away_by(lambda h: h.tolist()[0][0] > 1000),
    "an array where nobody compiles": far_away_by(lambda h: h.detach().numpy()[0, 0] > 1000),
    "an array made of a computed one": far_away_by(lambda h: np.asarray((2 * h).detach())[0, 0] > 1000),
    "a mask where nobody compiles": far_away_by(lambda h: len(h[h > 1000]) > 0),
    "a function of its own": lambda self, x, h: OfGradients.apply(h),
}


@each("name", DECEIVING)
def test_code_that_does_otherwise_when_it_is_run_is_refused(name):
    CALLS.clear()
    with pytest.raises(ValueError, match=r"otherwise than|attribute `[cs]|branches on the values|keep nothing|asks for"):
        verify(Keeping(DECEIVING[name]), h)


def test_symbolic_refuses_it_as_well():
    with pytest.raises(ValueError, match=r"for a batch of 1 in float\d\d, with gradients, in training mode"):
        symbolic(Cell(DECEIVING["double precision"]))


@each("training", [True, False])
def test_what_is_so_in_one_mode_only_is_said_to_be(training):
    verdict = verify(Cell(twice_if(lambda self, h: self.training != training)).train(training), h)
    assert verdict
    assert f"{'training' if training else 'evaluation'} mode only" in verdict.evidence


class WithDropout(Cell):
    def __init__(self):
        super().__init__(lambda self, x, h: self.dropout(h))
        self.dropout = nn.Dropout(0.5)


def test_dropout_is_proved_away_in_evaluation_mode_and_said_to_be():
    assert "evaluation mode only" in verify(WithDropout().eval(), h).evidence


@each(
    "code",
    [
        lambda self, x, h: h * self.w if type(h.detach()) is not torch.Tensor else h.detach() * self.w,  # a tensor of torch's own
        lambda self, x, h: h.detach() * self.w if h.dtype == torch.float64 else h * self.w,  # double precision
    ],
)
def test_a_gradient_that_is_another_when_it_is_run_is_refused(code):
    with pytest.raises(ValueError, match="otherwise than"):
        verify_gradient(Cell(code))


def test_frozen_weights_have_no_gradient_and_the_verdict_says_so():
    cell = Cell(lambda self, x, h: h * self.w)
    cell.w.requires_grad_(False)
    verdict = verify_gradient(cell)
    assert verdict
    assert "4 derivatives" in verdict.evidence
    assert "w, which are frozen" in verdict.evidence


def test_a_weight_with_a_hook_or_with_the_name_of_a_state_is_refused():
    # A hook on a weight which may change its gradient is refused.
    cell = Cell(lambda self, x, h: h * self.w)
    cell.w.register_hook(lambda g: 2 * g)
    with pytest.raises(ValueError, match="`w` has a hook"):
        verify_gradient(cell)
    # A weight with the name of a state is not taken for it.
    cell = Cell(lambda self, x, h: h * self.h_1)
    cell.h_1 = nn.Parameter(torch.ones(()))
    with pytest.raises(ValueError, match="would be called h_1"):
        verify(cell, [h[0] * h[0], h[1] * h[0]])


def test_what_a_refused_branch_recorded_so_far_is_not_printed(capfd, caplog):
    with pytest.raises(ValueError, match="branches on the values"):
        verify(Cell(twice_if(lambda self, h: h.max().item() > 1)), h)
    with pytest.raises(ValueError, match="torch cannot record the code"):
        symbolic(Cell(lambda self, x, h: h @ self.w[None]))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert capfd.readouterr() == ("", "")
