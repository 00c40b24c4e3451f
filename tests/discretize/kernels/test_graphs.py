"""Sequences as nodes of torch.compile's graphs: what torch asks of an operator, and the numbers of the steps."""

import pytest
import torch
from conformance import ROUNDING
from own_fields import Own, Powers, Soft
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.testing import assert_close
from torch.utils._pytree import tree_map_only

import ctrnn
from discretize import DiscreteRNN, Euler, ExponentialEuler, compat
from discretize.kernels import graphs

CLOSE = {"rtol": 0, "atol": 10 * ROUNDING[torch.float64]}  # of sums below 10
in_one_graph = pytest.mark.skipif(not compat.COMPILES_NODES, reason="torch 2.12 takes kernels into its graphs")


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()


def given(field, step, grad, dt=0.7, substeps=2):
    x = torch.randn(4, 3, field.input_size).requires_grad_(grad)
    node = graphs.node_for(field, step, x, True)
    assert not isinstance(node, str), node
    weights = [graphs._at(field, path).detach().requires_grad_(grad) for path in node.weights]
    return x, torch.randn(3, field.state_size), weights, dt, substeps, node.kernel, grad


@pytest.mark.slow
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("make", [lambda: ctrnn.gated(3, 5, decay=ctrnn.PowerDecay(1.5)), lambda: ctrnn.lstm(3, 5, bias=False)])
def test_sequences_are_operators_as_torch_wants_them(make, grad):
    # Compared are all outputs, and what is kept for the backward pass has gaps that nobody writes.
    compared = () if grad else ("test_aot_dispatch_dynamic",)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", *compared)
    torch.library.opcheck(torch.ops.ctrnn.steps.default, given(make(), ExponentialEuler(), grad), test_utils=checks)


def test_an_operator_gives_what_the_sequence_gives():
    field = Soft().double()
    x, h0, *others = given(field, Euler(), True)
    expected = DiscreteRNN(field, dt=0.7, substeps=2, fused=False, allow_overshoot=True)(x, h0)[0]
    assert_close(field.visible(torch.ops.ctrnn.steps(x, h0, *others)[0]), expected, **CLOSE)


def test_sizes_of_an_operator_may_be_symbols():
    mode, call = FakeTensorMode(shape_env=ShapeEnv()), given(ctrnn.gated(3, 5), Euler(), True)
    with mode:
        states, _ = torch.ops.ctrnn.steps(*tree_map_only(torch.Tensor, mode.from_tensor, call))
    assert tuple(states.shape) == (4, 3, 5)


def test_what_has_no_node_in_a_graph_says_why():
    x = torch.randn(4, 2, 3)
    assert "`fused` is False" in graphs.node_for(Own(), Euler(), x, False)
    assert "float16" in graphs.node_for(Own(), Euler(), x.half(), True)
    with torch.autocast("cpu", torch.bfloat16):
        assert "autocast" in graphs.node_for(Own(), Euler(), x, True)


@in_one_graph
def test_a_compiled_module_of_a_field_of_ones_own_is_the_same_in_one_graph():
    field = Soft().double()
    field.of_x.requires_grad_(False)
    rnn, x, h_0 = DiscreteRNN(field, dt=0.3, substeps=2, allow_overshoot=True), torch.randn(5, 3, 3), torch.randn(3, 5)
    compiled, found = torch.compile(rnn, fullgraph=True, backend="aot_eager"), []
    stepped = DiscreteRNN(field, dt=0.3, substeps=2, allow_overshoot=True, fused=False)
    for module in (compiled, stepped):
        sources = [x.clone().requires_grad_(), h_0.clone().requires_grad_()]
        output, h_n = module(*sources)
        sources += [weight for weight in field.parameters() if weight.requires_grad]
        how = {"allow_unused": True, "materialize_grads": True}
        found.append([output, h_n, *torch.autograd.grad((output * output.detach().cos()).sum() + h_n.sum(), sources, **how)])
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs, **CLOSE)
    with torch.no_grad():
        field.of_h.weight.mul_(2)  # weights are read at every call
        assert_close(compiled(x)[0], stepped(x)[0], **CLOSE)


@in_one_graph
def test_an_attribute_that_changes_after_tracing_is_refused():
    field, x = Powers(), torch.randn(4, 2, 3)
    compiled = torch.compile(DiscreteRNN(field, dt=0.1, allow_overshoot=True), fullgraph=True, backend="aot_eager")
    expected = compiled(x)[0]
    field.power = 3
    with pytest.raises(RuntimeError, match=r"The Powers has changed since torch\.compile traced it"):
        compiled(x)
    field.power = 2
    assert_close(compiled(x)[0], expected, rtol=0, atol=0)


def test_sizes_that_are_symbols_may_be_as_many_as_units():
    torch._dynamo.reset()
    rnn, x, h_0 = DiscreteRNN(ctrnn.gated(2, 5), fused="always"), torch.randn(7, 5, 2), torch.randn(1, 5, 5)
    output, _ = torch.compile(rnn, backend="eager", dynamic=True)(x, h_0)
    assert_close(output, rnn(x, h_0)[0], rtol=1e-12, atol=1e-13)
