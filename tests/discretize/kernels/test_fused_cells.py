"""Fused sequence cells against the steps they stand for, taken one by one, and against finite differences."""

import copy
import warnings
from itertools import product

import problems
import pytest
import torch
from discretize.kernels.named import cells as choice
from discretize.kernels.named.kernel_spec import StackedWeights, kind_of, stacked_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import ctrnn
import discretize
from discretize import DiscreteCell, DiscreteRNN, Euler, ExponentialEuler, KernelWarning, unroll
from discretize.kernels import eligibility
from discretize.kernels.build import Unavailable

ENGINES = ("torch", "compiled")
compiled_engine = choice.compiled_engine  # before a test puts another in its place
STEPS = {"euler": Euler(), "exponential": ExponentialEuler()}
CANDIDATES = {"tanh": ctrnn.TanhCandidate, "relu": ctrnn.ReluCandidate, "reset": ctrnn.ResetCandidate}
RATES = {
    "constant": lambda i, h: ctrnn.ConstantRate(0.6),
    "constants": lambda i, h: ctrnn.SoftplusConstantRate(torch.linspace(0.2, 1.5, h)),
    "sigmoid": ctrnn.GateRate,
    "global sigmoid": ctrnn.GlobalGateRate,
    "softplus": ctrnn.SoftplusRate,
    "global softplus": ctrnn.GlobalSoftplusRate,
    "exponential": ctrnn.ExponentialRate,
    "global exponential": ctrnn.GlobalExponentialRate,
}
FIELDS = {
    f"{candidate}, {rate}, {exponent}": (candidate, rate, exponent)
    for candidate in CANDIDATES
    for rate in RATES
    for exponent in (0, 0.5, 2)
}
NAMES = [*FIELDS, "lstm"]
# A kernel takes seconds to build, so that most kinds have theirs built in the slow run only.
PAIRS = [
    ("tanh, sigmoid, 0", "euler"),
    ("tanh, sigmoid, 0", "exponential"),
    ("relu, constant, 0", "exponential"),
    ("tanh, constants, 0.5", "euler"),
    ("reset, sigmoid, 0", "euler"),
    ("reset, global softplus, 2", "exponential"),
    ("lstm", "euler"),
    ("lstm", "exponential"),
]
FEW = list(dict(PAIRS))
KINDS = [*((candidate, rate) for candidate in CANDIDATES for rate in RATES), ("lstm", "")]


def made(name: str, input_size: int = 2, hidden: int = 3, bias: bool = True) -> ctrnn.VectorField:
    if name == "lstm":
        return ctrnn.lstm(input_size, hidden, bias=bias)
    candidate, rate, exponent = FIELDS[name]
    settings = {} if "constant" in rate else {"bias": bias}
    decay = ctrnn.PowerDecay(exponent) if exponent else ctrnn.LinearDecay()
    rated = RATES[rate](input_size, hidden, **settings)
    return ctrnn.Relaxation(CANDIDATES[candidate](input_size, hidden, bias=bias), rated, decay)


def names_of(step):
    """The fields that have a kernel for that step in the run of every day."""
    return [name for name, other in PAIRS if other == step]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    """Its name, with nothing in the way of its being chosen."""
    monkeypatch.delenv("CTRNN_FUSED", raising=False)
    if request.param == "torch":
        monkeypatch.setattr(choice, "compiled_engine", lambda *_: (None, None))
    return request.param


def run_engine(engine, field, step, weights, x, *rest):
    """The states of a field of that kind by an engine of that name."""
    kind = kind_of(field)
    chosen = choice.torch_engine(kind) if engine == "torch" else compiled_engine(kind, step, x)[0]
    return choice.run_engine(chosen, kind, step, weights, x, *rest)


def near(found: torch.Tensor, expected: torch.Tensor, floor: float = 0.0) -> bool:
    """As a share of the largest entry: sums in another order, and no more."""
    return found.shape == expected.shape and bool((found - expected).abs().max() <= 1e-12 * expected.abs().max() + floor)


def states_and_gradients(rnn, tensors, call):
    """Output, final state, and the gradients of a weighted sum of both, to tensors and parameters."""
    output, h_n = call(rnn, *tensors)
    weights = torch.cos(torch.arange(output.numel(), dtype=output.dtype)).reshape(output.shape)
    loss = (output * weights).sum() + h_n.square().sum()
    learned = [*tensors, *rnn.parameters()]
    return [output.detach(), h_n.detach(), *torch.autograd.grad(loss, learned)]


def assert_the_same(field, step, engine, tensors, call=lambda rnn, x, h: rnn(x, h), floor=0.0, **settings):
    """The fused states and gradients are those of the steps, and the engine is the one expected."""
    fused, stepped = (DiscreteRNN(field, step, fused=flag, **settings) for flag in (True, False))
    found, expected = (states_and_gradients(rnn, tensors, call) for rnn in (fused, stepped))
    assert (fused.stats["engine"], stepped.stats["engine"]) == (engine, "steps")
    with torch.no_grad():
        assert near(call(fused, *tensors)[0], expected[0], floor)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert near(a, b, floor), (field, step, k, float((a - b).abs().max()), float(b.abs().max()))


@pytest.mark.parametrize("step", STEPS)
def test_every_field_has_the_states_and_the_gradients_of_its_steps(step, engine):
    for name in NAMES if engine == "torch" else names_of(step):
        assert_the_field_is_its_steps(name, step, engine)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
@pytest.mark.parametrize("engine", ["compiled"], indirect=True)
def test_every_field_has_a_kernel_with_the_states_and_the_gradients_of_its_steps(kind, engine):
    for name in (name for name in NAMES if FIELDS.get(name, (name, ""))[:2] == kind):
        for step in STEPS:
            assert_the_field_is_its_steps(name, step, engine)
            assert_no_time_leaves_the_state(name, step, engine)


def assert_the_field_is_its_steps(name, step, engine):
    field = made(name)
    x, h_0 = torch.randn(4, 3, 2, requires_grad=True), (0.5 * torch.randn(3, field.state_size)).requires_grad_()
    assert_the_same(field, STEPS[step], engine, (x, h_0), dt=0.4, substeps=2)


@pytest.mark.parametrize("step", STEPS)
def test_every_sequence_may_have_times_and_a_length_of_its_own(step, engine):
    for name in FEW if engine == "torch" else names_of(step):
        check_times_and_lengths(made(name), step, engine, [5, 1, 3])


def check_times_and_lengths(field, step, engine, lengths):
    x, h_0 = torch.randn(5, 3, 2, requires_grad=True), torch.zeros(3, field.state_size, requires_grad=True)
    own = (0.2 + torch.rand(6, 3)).cumsum(0).requires_grad_()
    shared = (0.2 + torch.rand(6)).cumsum(0).requires_grad_()
    for ts in (own, shared):
        assert_the_same(field, STEPS[step], engine, (x, h_0, ts), lambda rnn, x, h, ts: rnn(x, h, ts, lengths), substeps=3)
        assert_the_same(field, STEPS[step], engine, (x, h_0, ts), lambda rnn, x, h, ts: rnn(x, h, ts))
    assert_the_same(field, STEPS[step], engine, (x,), lambda rnn, x: rnn(x, lengths=lengths), dt=0.7)


def test_a_sequence_that_is_over_cannot_leave_all_bounds(engine):
    rnn = DiscreteRNN(made("tanh, constant, 2"), dt=3.0, allow_overshoot=True)
    h_0 = torch.full((2, 3), 4.0)
    output, h_n = rnn(torch.randn(30, 2, 2), h_0, lengths=[1, 2])
    assert not bool(torch.isfinite(rnn(torch.randn(30, 2, 2), h_0)[0]).all())
    for gradient in torch.autograd.grad(output.sum() + h_n.sum(), list(rnn.parameters())):
        assert bool(torch.isfinite(gradient).all())  # 0 times an infinite slope would be nan


@given(
    sizes=st.tuples(*(st.integers(1, 6) for _ in range(4))),
    pair=st.sampled_from(PAIRS),
    substeps=st.integers(1, 3),
    form=st.sampled_from(["plain", "batch first", "every other", "expanded"]),
    bias=st.booleans(),
    started=st.booleans(),
)
@settings(max_examples=15)
def test_any_sizes_and_any_layout_of_the_samples(sizes, pair, substeps, form, bias, started):
    (name, step), (time, batch, inputs, hidden) = pair, sizes
    field = made(name, inputs, hidden, bias)
    given = {
        "plain": lambda: torch.randn(time, batch, inputs),
        "batch first": lambda: torch.randn(batch, time, inputs).transpose(0, 1),
        "every other": lambda: torch.randn(time, batch, 2 * inputs)[..., ::2],
        "expanded": lambda: torch.randn(time, 1, inputs).expand(time, batch, inputs),
    }[form]()
    tensors = (given.detach().requires_grad_(), *([torch.randn(batch, field.state_size, requires_grad=True)] if started else []))
    for engine in ENGINES:
        with pytest.MonkeyPatch.context() as patch:
            if engine == "torch":
                patch.setattr(choice, "compiled_engine", lambda *_: (None, None))
            assert_the_same(field, STEPS[step], engine, tensors, lambda rnn, *given: rnn(*given), dt=0.3, substeps=substeps)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("engine", ["torch"], indirect=True)
def test_long_sequences_are_worked_through_in_pieces(step, engine, monkeypatch):
    monkeypatch.setattr("discretize.kernels.named.plain_torch.sequences.BLOCK", 100)
    for name in FEW:
        x, h_0 = torch.randn(23, 3, 2, requires_grad=True), torch.randn(3, made(name).state_size, requires_grad=True)
        assert_the_same(made(name), STEPS[step], engine, (x, h_0), dt=0.4, substeps=2)


@pytest.mark.parametrize(
    ("name", "step"), [pytest.param(*pair, marks=[] if pair == PAIRS[1] else pytest.mark.slow) for pair in product(FEW, STEPS)]
)
def test_float32_is_as_close_to_float64_as_the_steps_are(name, step, engine):
    field = made(name, 2, 8)
    x, h_0 = torch.randn(30, 4, 2), 0.5 * torch.randn(4, field.state_size)

    def run(dtype, fused):
        rnn = DiscreteRNN(copy.deepcopy(field).to(dtype), STEPS[step], dt=0.5, fused=fused)
        tensors = [tensor.to(dtype).requires_grad_() for tensor in (x, h_0)]
        return states_and_gradients(rnn, tensors, lambda rnn, x, h: rnn(x, h))

    true, stepped, fused = run(torch.float64, False), run(torch.float32, False), run(torch.float32, True)
    largest = max(exact.abs().max() for exact in true)  # a gradient of one number is a sum of such, and may nearly cancel
    for exact, before, now in zip(true, stepped, fused, strict=True):
        assert now.dtype == torch.float32
        allowed = 4 * (before - exact).abs().max() + 4 * torch.finfo(torch.float32).eps * largest
        assert (now - exact).abs().max() <= allowed


def weighted(name, step, substeps):
    """A fused cell as a function of all of its tensors, for finite differences, and those tensors; away from h = 0."""
    field = made(name, 1, 2)
    found = stacked_weights(field)._asdict()
    weights = {key: weight.detach().clone().requires_grad_() for key, weight in found.items() if weight is not None}
    names = list(weights)
    x, h0 = torch.randn(2, 2, 1, requires_grad=True), (0.5 + torch.rand(2, field.state_size)).requires_grad_()
    dt = (0.3 + torch.rand(2, 2, 1)).requires_grad_()

    def run(engine, x, h0, dt, *weights):
        with_these = StackedWeights(**found | dict(zip(names, weights, strict=True)))
        return run_engine(engine, field, step, with_these, x, h0, dt, substeps)

    return run, (x, h0, dt, *weights.values())


@pytest.mark.parametrize(
    ("name", "step"),
    [pytest.param(name, step, marks=[] if dict(PAIRS)[name] == step else pytest.mark.slow) for name, step in product(FEW, STEPS)],
)
def test_first_and_second_derivatives_are_those_of_finite_differences(name, step, engine):
    run, tensors = weighted(name, step, 2)
    assert torch.autograd.gradcheck(lambda *given: run(engine, *given), tensors, check_batched_grad=True, fast_mode=True)
    run, tensors = weighted(name, step, 1)
    assert torch.autograd.gradgradcheck(lambda *given: run(engine, *given), tensors, atol=1e-4, fast_mode=True)


def test_gradients_of_gradients_go_every_way_once(engine):
    field, x = made("tanh, constant, 2"), torch.randn(3, 3, 2)

    def slopes(fused):
        h_0 = field.candidate.weight_h.sin()  # a start that is made of the weights
        output = DiscreteRNN(field, fused=fused)(x, h_0)[0]
        weights = [field.candidate.weight_h, field.rate.log_alpha]
        first = torch.autograd.grad(output.square().sum(), weights, create_graph=True)
        return [*first, *torch.autograd.grad(sum(gradient.square().sum() for gradient in first), weights)]

    for found, expected in zip(slopes(True), slopes(False), strict=True):
        assert near(found.detach(), expected.detach())


def test_a_second_backward_pass_finds_what_the_first_one_did(engine):
    for name, step in PAIRS:
        field, x = made(name), torch.randn(4, 3, 2, requires_grad=True)
        output, h_n = DiscreteRNN(field, STEPS[step], dt=0.4)(x)
        learned = [x, *field.parameters()]
        loss = output.square().sum() + h_n.sum()
        first = torch.autograd.grad(loss, learned, retain_graph=True)
        for again, before in zip(torch.autograd.grad(loss, learned), first, strict=True):
            assert near(again, before), (name, step)


def test_writing_into_the_output_leaves_the_way_back_as_it_was(engine):
    for name, step in PAIRS:
        field, x = made(name), torch.randn(4, 3, 2)

        def slopes(fused, field=field, step=step, x=x):
            output, _ = DiscreteRNN(field, STEPS[step], fused=fused)(x)
            output[:2] = 0
            output.mul_(3)
            return torch.autograd.grad(output.square().sum(), list(field.parameters()))

        for found, expected in zip(slopes(True), slopes(False), strict=True):
            assert near(found, expected), name


@pytest.mark.parametrize("step", STEPS)
def test_a_sample_of_no_time_leaves_the_state_to_the_last_bit_and_no_nan(step, engine):
    for name in NAMES if engine == "torch" else names_of(step):
        assert_no_time_leaves_the_state(name, step, engine)


def assert_no_time_leaves_the_state(name, step, engine):
    field = made(name)
    h0 = torch.randn(3, field.state_size)
    h0[0] = 0  # where |h|^r has no slope
    x, dt, h0 = torch.randn(2, 3, 2, requires_grad=True), torch.zeros(2, 3, 1, requires_grad=True), h0.requires_grad_()
    states = run_engine(engine, field, step, stacked_weights(field), x, h0, dt, 2)
    assert torch.equal(states, torch.stack([h0, h0])), name  # h + 0 * slope, of numbers and not of products of matrices
    for gradient in torch.autograd.grad(states.sum(), [x, h0, dt, *field.parameters()]):
        assert bool(torch.isfinite(gradient).all()), name


def test_neither_threads_nor_neighbours_change_a_bit_of_a_compiled_sequence():
    # The kernel projects the input too, so nothing here is summed by torch.
    for name, step in dict(PAIRS).items():
        field, before = made(name, 3, 7), torch.get_num_threads()
        x, h0 = torch.randn(5, 70, 3), torch.randn(70, field.state_size)
        cotangent, weights = torch.randn(5, 70, field.state_size), stacked_weights(field)

        def found(rows, threads=1, field=field, step=step, weights=weights, x=x, h0=h0, cotangent=cotangent):
            torch.set_num_threads(threads)
            given = [x[:, rows].clone().requires_grad_(), h0[rows].clone().requires_grad_()]
            states = run_engine("compiled", field, step, weights, *given, 0.4, 2)
            shared = [weight for weight in (weights.weight_x, weights.weight_h) if weight.requires_grad]
            return states, *torch.autograd.grad(states, [*given, *shared], cotangent[:, rows])

        try:
            one, two, three = (found(slice(0, 70), threads) for threads in (1, 2, 3))
        finally:
            torch.set_num_threads(before)
        for other in (two, three):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True)), name
        for row in (0, 33, 69):
            alone = found(slice(row, row + 1))
            assert all(torch.equal(a[..., 0, :], b[..., row, :]) for a, b in zip(alone[:3], one[:3], strict=True)), name


def test_leaks_of_all_sizes_have_the_gradients_of_phi(engine):
    # phi_1' by its difference loses all digits near 0, and by a short series far away.
    few = {
        "torch": ["tanh, softplus, 0", "tanh, softplus, 2", "tanh, constants, 0.5", "lstm"],
        "compiled": names_of("exponential"),
    }
    for name in few[engine]:
        for size in (1e-30, 1e-8, 1e-3, 1.0, 1e3):
            torch.manual_seed(0)  # no state near 0, from which a step of 1000 goes to f / h^2: rounding would grow
            field = made(name)
            x, h_0 = torch.randn(2, 3, 2, requires_grad=True), torch.randn(3, field.state_size, requires_grad=True)
            # At 1000 the steps find 1e-16 for what is e^-600.
            assert_the_same(field, ExponentialEuler(), engine, (x, h_0), dt=size, floor=1e-14 if size > 1 else 0.0)


class Allocated(TorchDispatchMode):
    """The numbers in the buffers made."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        made = function(*args, **kwargs or {})
        if function.overloadpacket.__name__ in ("empty", "new_empty", "empty_like"):
            self.numbers += made.numel()
        return made


def test_without_gradients_nothing_is_kept_but_the_states(engine):
    for name, step in PAIRS:
        field = made(name, 2, 4)
        weights, x, h0 = stacked_weights(field), torch.randn(50, 3, 2), torch.zeros(3, field.state_size)
        with Allocated() as allocated, torch.no_grad():
            states = run_engine(engine, field, step, weights, x, h0, 1.0, 8)
        # Rows in turn beside the states, and no numbers for each of the 400 steps.
        assert allocated.numbers < states.numel() + 50 * h0.numel(), name


def test_transforms_of_torch_go_through_the_steps(engine):
    rnn, x = DiscreteRNN(made({"torch": "tanh, sigmoid, 0", "compiled": "lstm"}[engine])), torch.randn(4, 3, 2)
    stepped = DiscreteRNN(rnn.field, fused=False)
    for transform in (
        lambda rnn: torch.func.grad(lambda x: rnn(x)[0].square().sum())(x),
        lambda rnn: torch.func.vmap(lambda x: rnn(x[:, None])[0], in_dims=1)(x),
        lambda rnn: torch.func.jvp(lambda x: rnn(x)[0], (x,), (torch.cos(x),))[1],
        lambda rnn: torch.func.jacrev(lambda x: rnn(x)[0])(x),
        lambda rnn: torch.func.hessian(lambda x: rnn(x)[0].square().sum())(x[:2, :1]),
        lambda rnn: torch.autograd.functional.jacobian(lambda x: rnn(x)[0], x),
        lambda rnn: torch.autograd.functional.jacobian(lambda x: rnn(x)[0], x, vectorize=True),
    ):
        assert_close(transform(rnn), transform(stepped), rtol=0, atol=1e-12)
    torch.func.grad(lambda x: rnn(x)[0].sum())(x)
    assert rnn.stats == {"engine": "steps", "engine_why": "it runs inside a transform of torch.func"}


def test_forward_mode_goes_through_the_steps(engine):
    rnn, x = DiscreteRNN(ctrnn.gated(2, 3)), torch.randn(4, 3, 2)
    with torch.autograd.forward_ad.dual_level():
        tangent = torch.autograd.forward_ad.unpack_dual(rnn(torch.autograd.forward_ad.make_dual(x, torch.cos(x)))[0]).tangent
        assert rnn.stats["engine_why"] == "derivatives are taken in forward mode"
    assert_close(tangent, torch.func.jvp(lambda x: rnn(x)[0], (x,), (torch.cos(x),))[1], rtol=0, atol=1e-14)


def test_checkpoints_run_it_again(engine):
    rnn, x = DiscreteRNN(ctrnn.gated(2, 3)), torch.randn(4, 3, 2, requires_grad=True)
    output = torch.utils.checkpoint.checkpoint(lambda x: rnn(x)[0], x, use_reentrant=False)
    (found,) = torch.autograd.grad(output.square().sum(), x)
    assert rnn.stats["engine"] == engine
    assert_close(found, torch.autograd.grad(rnn(x)[0].square().sum(), x)[0], rtol=0, atol=1e-14)


def test_copies_of_a_module_and_of_what_it_made_stand_on_their_own(engine):
    rnn, x = DiscreteRNN(ctrnn.gru(2, 3)), torch.randn(4, 3, 2)
    output, _ = rnn(x)
    twin, kept = copy.deepcopy(rnn), copy.deepcopy(x)
    assert list(rnn.state_dict()) == list(twin.state_dict()) == [f"field.{name}" for name, _ in rnn.field.named_parameters()]
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    output.sum().backward()  # refused if the original had been written into
    assert all(parameter.grad is None for parameter in twin.parameters())
    assert near(DiscreteRNN(rnn.field)(kept)[0], output)
    assert torch.equal(twin(x)[0], torch.zeros_like(output))


def test_weights_written_between_forward_and_backward_are_refused(engine):
    rnn = DiscreteRNN(made("relu, constant, 0"), ExponentialEuler())  # a gate's weights are stacked, which copies them
    output, _ = rnn(torch.randn(4, 3, 2))
    with torch.no_grad():
        rnn.field.candidate.weight_h.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_the_switch_is_an_argument_and_a_variable(engine, monkeypatch):
    x, cell = torch.randn(4, 3, 2), DiscreteCell(ctrnn.gated(2, 3))

    def used(fused=True):
        rnn = DiscreteRNN(cell.field, fused=fused)
        rnn(x)
        stats = unroll(cell, x, fused=fused).stats
        assert rnn.stats == {key: stats[key] for key in rnn.stats}
        return tuple(rnn.stats.values())

    assert used() == (engine, None)
    assert used(fused=False) == ("steps", "`fused` is False")
    monkeypatch.setenv("CTRNN_FUSED", "1")
    assert used() == (engine, None)
    monkeypatch.setenv("CTRNN_FUSED", "0")
    assert used() == ("steps", "CTRNN_FUSED is 0")
    monkeypatch.setenv("CTRNN_FUSED", "yes")
    for call in (lambda: DiscreteRNN(cell.field)(x), lambda: unroll(cell, x)):
        with pytest.raises(ValueError, match=r"CTRNN_FUSED must be 0 .* or 1, got 'yes'"):
            call()
    with pytest.raises(TypeError, match='`fused` must be True, False or "always"'):
        DiscreteRNN(cell.field, fused=1)
    with pytest.raises(TypeError, match='`fused` must be True, False or "always"'):
        unroll(cell, x, fused="no")


def test_unrolling_counts_as_it_did(engine):
    for step in STEPS.values():
        cell, x, h0 = DiscreteCell(ctrnn.lstm(2, 3), step, dt=0.5), torch.randn(4, 3, 2), torch.randn(3, 6)
        fused, stepped = unroll(cell, x, h0), unroll(cell, x, h0, fused=False)
        assert fused.stats == stepped.stats | {"engine": engine, "engine_why": None}
        assert torch.equal(fused.ts, stepped.ts)
        assert_close(fused.hs, stepped.hs, rtol=0, atol=1e-14)
        assert torch.equal(fused.hs[0], h0)


def test_a_monitor_sees_every_step(engine):
    rnn = DiscreteRNN(ctrnn.gated(2, 3), substeps=2)
    with discretize.Monitor(rnn) as monitor:
        rnn(torch.randn(4, 5, 2))
        assert rnn.stats["engine"] == "steps"
    assert int(monitor.records[""].counts.sum()) == 4 * 2 * 5 * 3
    rnn(torch.randn(4, 5, 2))
    assert rnn.stats["engine"] == engine


class Turned(ctrnn.Relaxation):
    def flow(self, projected, h):
        return -super().flow(projected, h)


class Doubled(Euler):
    def advance(self, field, projected, h, dt):
        return super().advance(field, projected, h, 2 * dt)


def test_what_is_the_users_own_is_stepped(engine):
    x, gated = torch.randn(4, 3, 2), ctrnn.gated(2, 3)
    turned = Turned(gated.candidate, gated.rate, gated.decay)
    patched = copy.deepcopy(gated)
    patched.rate.flow = lambda projected, h: torch.ones_like(h)
    for field, step, why in [
        (turned, Euler(), "Turned"),
        (patched, Euler(), "GateRate"),
        (ctrnn.gated(2, 3, "network"), Euler(), "NetworkGated"),
        (gated, Doubled(), "Doubled"),
        (gated, discretize.Heun(), "Heun"),
    ]:
        rnn = DiscreteRNN(field, step)
        output, _ = rnn(x)
        h = torch.zeros(3, field.state_size)
        for k in range(4):
            h = step(field, x[k], h, 1.0)
        assert_close(output[-1], field.visible(h), rtol=0, atol=1e-14)
        assert rnn.stats["engine"] == "steps"
        assert why in rnn.stats["engine_why"]


def test_a_parametrized_weight_runs_as_fast_as_a_plain_one(engine):
    x, squashed = torch.randn(4, 3, 2), ctrnn.gated(2, 3)
    nn.utils.parametrize.register_parametrization(squashed.candidate, "weight_h", nn.Tanh())
    rnn = DiscreteRNN(squashed)
    output, _ = rnn(x)
    h = torch.zeros(3, 3)
    for k in range(4):
        h = Euler()(squashed, x[k], h, 1.0)
    assert_close(output[-1], h, rtol=0, atol=1e-14)
    assert rnn.stats["engine"] == engine


class Tagged(torch.Tensor):
    pass


def test_unusual_tensors_are_stepped(engine):
    x = torch.randn(4, 3, 2)
    mixed = ctrnn.Relaxation(ctrnn.TanhCandidate(2, 3), ctrnn.ConstantRate(0.5), ctrnn.LinearDecay())
    mixed.rate.float()

    def why(field, x):
        rnn = DiscreteRNN(field)
        rnn(x)
        assert rnn.stats["engine"] == "steps"
        return rnn.stats["engine_why"]

    half = {"dtype": torch.bfloat16}
    assert "bfloat16" in why(ctrnn.gated(2, 3, **half), x.to(**half))
    assert "meta" in why(ctrnn.gated(2, 3, device="meta"), x.to("meta"))
    assert "Tagged" in why(ctrnn.gated(2, 3), x.as_subclass(Tagged))
    assert "dtype" in why(mixed, x)
    with Allocated():
        assert "dispatch mode" in why(ctrnn.gated(2, 3), x)


def test_a_traced_module_has_its_steps_in_the_graph(engine):
    rnn, x = DiscreteRNN(ctrnn.gated(2, 3)), torch.randn(2, 3, 2)
    program = torch.export.export(rnn, (x,))
    assert_close(program.module()(x), rnn(x), rtol=0, atol=1e-14)
    assert rnn.stats["engine"] == engine


def test_a_kernel_that_cannot_be_had_is_warned_of_once(monkeypatch):
    def none_to_be_had(*_):
        raise Unavailable("there is no compiler")

    monkeypatch.setattr(choice, "cells_library", none_to_be_had)
    monkeypatch.setattr(eligibility, "_warned", False)
    rnn, x = DiscreteRNN(ctrnn.gated(2, 3)), torch.randn(4, 3, 2)
    with pytest.warns(KernelWarning, match="there is no compiler"):
        rnn(x)
    assert rnn.stats == {"engine": "torch", "engine_why": "there is no compiler"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rnn(x)


def test_the_graph_does_not_grow_with_the_sequence(engine):
    def nodes(length):
        seen, waiting = set(), [DiscreteRNN(ctrnn.gated(2, 2))(torch.randn(length, 1, 2))[0].grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                waiting.extend(following for following, _ in node.next_functions)
        return len(seen)

    assert nodes(40) == nodes(4)


@pytest.mark.parametrize("engine", ["torch"], indirect=True)
def test_every_named_field_but_the_network_gate_has_a_fused_form(engine):
    for name, field in problems.NAMED_FIELDS.items():
        rnn = DiscreteRNN(field(2, 3), allow_overshoot=True)
        rnn(torch.randn(4, 3, 2))
        assert rnn.stats["engine"] == ("steps" if name == "gated network" else engine), name


@pytest.mark.parametrize("step", STEPS)
def test_gradients_under_the_power_decay_are_those_of_the_steps_where_states_are_almost_nothing(step, engine):
    field, x = made("tanh, constants, 0.5", hidden=6), torch.zeros(3, 1, 2)
    with torch.no_grad():
        for parameter in field.candidate.parameters():
            parameter.zero_()  # else the second step is far from 0
    found = []
    for fused in (True, False):
        h_0 = torch.tensor([[0.0, -0.0, 5e-324, -1e-310, 1e-300, -0.7]], requires_grad=True)
        rnn = DiscreteRNN(field, STEPS[step], dt=0.4, fused=fused)
        found.append(torch.autograd.grad(rnn(x, h_0)[0].sum(), h_0)[0])
    assert rnn.stats["engine"] == "steps"
    assert bool(found[0].isfinite().all())
    assert_close(found[0], found[1], rtol=1e-12, atol=0)  # sums in another order


@pytest.mark.parametrize("step", STEPS)
def test_subnormal_numbers_may_count_as_0(step):
    """As after torch.set_flush_denormal(True). Nothing is less than the least of them there, and a start of 0 is a start of 0."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has subnormal numbers always")
    try:
        for name in ("tanh, constants, 2", "tanh, constants, 0.5"):
            x, h_0 = torch.randn(4, 3, 2, requires_grad=True), torch.zeros(3, 3, requires_grad=True)
            assert_the_same(made(name), STEPS[step], "compiled", (x, h_0), dt=0.4)
    finally:
        torch.set_flush_denormal(False)


def test_the_kernels_leave_decays_that_they_do_not_know_to_others():
    learned = ctrnn.PowerDecay(2.0, learnable=True)
    assert kind_of(ctrnn.gated(2, 3, decay=learned)) == "its decay has an exponent that is learned"
    assert kind_of(ctrnn.lstm(2, 3, decay=learned)) == "its decay has an exponent that is learned"
    assert kind_of(ctrnn.lstm(2, 3, decay=ctrnn.PowerDecay(2.0))) == "the LSTM's kernel is for the decay c"
    assert kind_of(ctrnn.lstm(2, 3, decay=ctrnn.PowerDecay(0.0))) == kind_of(ctrnn.lstm(2, 3))
    assert kind_of(ctrnn.gru(2, 3, decay=ctrnn.PowerDecay(2.0))).exponent == 2.0
