"""Derivatives in forward mode have right derivatives of their own, whatever functions of torch a field is made of."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.forward import jvp

H = torch.tensor([[0.3, -1.2, 0.7, 2.0], [0.9, 0.2, -0.6, -1.5]]).double()
W = torch.linspace(0.5, 1.5, 4, dtype=torch.float64)

FUNCTIONS = {
    "layer_norm": lambda h: functional.layer_norm(h, (4,), W, W, 0.1),
    "two axes": lambda h: functional.layer_norm(h.unflatten(-1, (2, 2)), (2, 2), eps=0.1).flatten(1),
    "instance_norm": lambda h: functional.instance_norm(h.unflatten(-1, (2, 2)), weight=W[:2], bias=W[:2], eps=0.1).flatten(1),
    "group_norm": lambda h: functional.group_norm(h, 2, W),
    "rms_norm": lambda h: functional.rms_norm(h, (4,), W),
    "solve": lambda h: torch.linalg.solve(torch.diag(3 + W) + h[:, None] * h[..., None], h),
    "solve, columns": lambda h: torch.linalg.solve(torch.diag(3 + W) + torch.outer(h[0], h[1]), h.mT).mT,
    "glu": lambda h: functional.glu(torch.cat([h, h.cos()], -1)) + functional.glu(h.mT, 0).mT.repeat(1, 2),
    "softmax": lambda h: h.softmax(-1) * functional.silu(h),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_moves_along_a_direction_is_differentiated_right(name):
    f = FUNCTIONS[name]
    assert torch.autograd.gradcheck(lambda h: jvp(f, (h,), (W.expand_as(h),))[1], H.clone().requires_grad_())
    value, along = jvp(f, (H,), (W.expand_as(H),))
    assert_close(value, f(H), rtol=1e-13, atol=1e-13)
    assert_close(along, torch.func.jvp(f, (H,), (W.expand_as(H),))[1], rtol=1e-12, atol=1e-12)


def test_a_thread_that_leaves_takes_no_derivatives_of_others():
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    def first(h):
        first_in.set()
        second_in.wait(0.2)  # the time is spent where threads come one after another
        return h.exp()

    def second(h):
        second_in.set()
        first_out.wait(10)
        return h.sin()

    def along_second():
        first_in.wait(10)
        return jvp(second, (H,), (W.expand_as(H),))[1]

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(along_second)
        assert_close(jvp(first, (H,), (W.expand_as(H),))[1], H.exp() * W, rtol=1e-13, atol=1e-13)
        first_out.set()
        assert_close(other.result(), H.cos() * W, rtol=1e-13, atol=1e-13)


STEPS = {"taylor": discretize.Taylor2(), "rosenbrock": discretize.ExponentialRosenbrock()}


@pytest.mark.parametrize("by", [*STEPS, "rodas5p"])
def test_steps_by_derivatives_of_normalized_units_have_their_gradient(by):
    field = ctrnn.gated(2, 4, dtype=torch.float64)
    field.candidate = ctrnn.LayerNorm(field.candidate, eps=0.1)
    xs = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 2, 2)

    def end(h0):
        if by == "rodas5p":
            return discretize.integrate(field, ctrnn.HeldPath(xs), h0, [0.0, 3.0], method=by).hs[-1]
        return discretize.unroll(discretize.DiscreteCell(field, STEPS[by], 0.2), xs, h0).hs[-1]

    assert torch.autograd.gradcheck(end, (H / 4).requires_grad_(), atol=1e-6, fast_mode=True)
