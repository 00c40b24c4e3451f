"""Sequences with noise: a sample's path depends on its key and its place alone, and every way to say it is the same path."""

import copy
from itertools import pairwise

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

import ctrnn
from discretize import (
    SRA1,
    BrownianPath,
    ContinuousRNN,
    DiscreteCell,
    DiscreteRNN,
    Euler,
    EulerMaruyama,
    ExponentialEulerMaruyama,
    Layers,
    Milstein,
    StratonovichHeun,
    noise_keys,
    unroll,
)
from discretize.noise.generator import normals

STEPS = [EulerMaruyama(), Milstein(), StratonovichHeun(), SRA1(), ExponentialEulerMaruyama()]
ROUNDING = {"rtol": 0, "atol": 1e-12}


def noisy(inputs=2, hidden=5, sigma=0.4):
    return ctrnn.Noisy(ctrnn.leaky(inputs, hidden, alpha=0.7), ctrnn.Noise(sigma))


def by_loop(field, step, x, h, dt, keys, first=0, substeps=1):
    """The states after each sample, by the increments of a path whose cells are the samples."""
    edges = dt * torch.arange(len(x) * substeps + 1) / substeps
    w, z = BrownianPath(keys, dt * torch.arange(len(x) + 1.0), field.noise_channels, first=first).increments(edges)
    states = []
    for k in range(len(x) * substeps):
        more = (z[k],) if step.reads_integral else ()
        h = step(field, x[k // substeps], h, dt / substeps, w[k], *more)
        states.append(h)
    return torch.stack(states)[substeps - 1 :: substeps]


@pytest.mark.each_value
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("substeps", [1, 4, 6])  # powers of two are drawn where they are used, others ahead
def test_drawn_increments_are_those_of_a_path_whose_cells_are_the_samples(step, substeps):
    field, x, keys = noisy(), torch.randn(3, 3, 2), noise_keys(4, 3)
    wanted = by_loop(field, step, x, torch.zeros(3, 5), 0.5, keys, substeps=substeps)
    assert_close(DiscreteRNN(field, step, dt=0.5, substeps=substeps)(x, seed=4)[0], wanted, **ROUNDING)


@pytest.mark.parametrize("step", STEPS)
def test_unrolling_draws_the_increments_of_a_path_whose_cells_are_the_samples(step):
    field, x, keys = noisy(), torch.randn(3, 3, 2), noise_keys(4, 3)
    cell = DiscreteCell(field, step, dt=0.5)
    assert_close(unroll(cell, x, seed=4).hs[1:], by_loop(field, step, x, torch.zeros(3, 5), 0.5, keys), **ROUNDING)


@pytest.mark.parametrize("step", STEPS)
def test_a_cell_takes_increments_that_are_given(step):
    field, x, h, w, z = noisy(), torch.randn(3, 2), torch.randn(3, 5), torch.randn(3, 5), torch.randn(3, 5)
    more = (z,) if step.reads_integral else ()
    cell = DiscreteCell(field, step, dt=0.5)
    assert_close(cell(x, h, 0.25, w, *more), step(field, x, h, 0.25, w, *more))
    assert_close(cell(x[0], h[0], None, w[0], *(each[0] for each in more)), step(field, x, h, 0.5, w, *more)[0], **ROUNDING)
    own = torch.tensor([0.5, 0.25, 1.0])
    assert_close(cell(x, h, own, w, *more)[1], step(field, x, h, 0.25, w, *more)[1], **ROUNDING)


def test_the_first_step_from_zero_is_the_noise_of_the_first_number():
    # By hand, without any of what draws a sequence: dt sigma and the root of the step.
    field = ctrnn.Noisy(ctrnn.leaky(1, 3), ctrnn.Noise(0.4))
    keys, zero = noise_keys(9, 2), torch.tensor(0)
    output, _ = DiscreteRNN(field, EulerMaruyama(), dt=0.25)(torch.zeros(1, 2, 1), seed=9)
    drift = 0.25 * field(torch.zeros(2, 1), torch.zeros(2, 3))
    assert_close(output[0], drift + 0.4 * 0.25**0.5 * normals(keys, zero, zero, 3, torch.float64), **ROUNDING)


def test_a_path_depends_on_its_key_alone():
    rnn, x, keys = DiscreteRNN(noisy(), SRA1(), substeps=2), torch.randn(7, 6, 2), noise_keys(4, 6)
    together, _ = rnn(x, seed=keys)
    order = torch.tensor([5, 0, 3])
    assert_close(rnn(x[:, order], seed=keys[order])[0], together[:, order], **ROUNDING)
    assert_close(rnn(x[:, 2], seed=keys[2:3])[0], together[:, 2], **ROUNDING)  # without a batch
    assert_close(rnn(x[:, :4], seed=4)[0], together[:, :4], **ROUNDING)  # a seed has the same keys for fewer
    assert_close(rnn(x[:3], seed=keys)[0], together[:3], **ROUNDING)  # and nothing of what comes later
    assert (rnn(x, seed=5)[0] - together).abs().max() > 0.1


def test_threads_do_not_change_a_path():
    rnn, x, threads = DiscreteRNN(noisy(2, 40), EulerMaruyama()), torch.randn(5, 50, 2), torch.get_num_threads()
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(rnn(x, seed=4)[0])
    finally:
        torch.set_num_threads(threads)
    assert_close(found[0], found[1], **ROUNDING)


def test_without_a_seed_the_generator_of_torch_draws_and_calls_differ():
    rnn, x = DiscreteRNN(noisy(), EulerMaruyama()), torch.randn(3, 4, 2)
    torch.manual_seed(5)
    first, second = rnn(x)[0], rnn(x)[0]
    torch.manual_seed(5)
    assert_close(rnn(x)[0], first, **ROUNDING)
    assert (first - second).abs().max() > 0.1
    cell = DiscreteCell(rnn.field, EulerMaruyama())
    torch.manual_seed(5)
    assert_close(unroll(cell, x).hs[1:], first, **ROUNDING)


@pytest.mark.parametrize(("step", "substeps"), [(EulerMaruyama(), 3), (SRA1(), 1)])
@pytest.mark.parametrize("timed", [False, True])
def test_padding_and_packing_do_not_matter(step, substeps, timed):
    rnn, x, lengths, keys = DiscreteRNN(noisy(), step, substeps=substeps), torch.randn(4, 3, 2), [2, 4, 1], noise_keys(4, 3)
    times = torch.rand(5, 3).cumsum(0) if timed else None
    output, h_n = rnn(x, ts=times, lengths=lengths, seed=keys)
    for k, n in enumerate(lengths):
        alone, end = rnn(x[:n, k], ts=None if times is None else times[: n + 1, k], seed=keys[k : k + 1])
        assert_close(output[:n, k], alone, **ROUNDING)
        assert_close(h_n[:, k], end, **ROUNDING)
        assert not output[n:, k].any()
    more = None if times is None else torch.cat([times, times + 9])[:9]
    longer, end = rnn(torch.cat([x, x]), ts=more, lengths=lengths, seed=4)
    assert_close(longer[:4], output, **ROUNDING)
    assert_close(end, h_n, **ROUNDING)
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    for seed in (keys, 4):
        of_packed, end = rnn(packed, ts=times, seed=seed)
        assert_close(pad_packed_sequence(of_packed)[0], output, **ROUNDING)
        assert_close(end, h_n, **ROUNDING)


@pytest.mark.parametrize("step", [EulerMaruyama(), SRA1()])
def test_a_piece_that_begins_anew_goes_on_with_its_own_cells(step):
    field, x, keys = noisy(), torch.randn(6, 2, 2), noise_keys(4, 2)
    reset = torch.zeros(6, 2, dtype=torch.bool)
    reset[2, 0] = reset[4, 0] = reset[5, 1] = True
    h_0 = torch.randn(1, 2, 5)
    output, h_n = DiscreteRNN(field, step, dt=0.5)(x, h_0, reset=reset, seed=4)
    for k, cuts in enumerate(([0, 2, 4, 6], [0, 5, 6])):
        for start, end in pairwise(cuts):
            h = h_0[0, k : k + 1] if start == 0 else torch.zeros(1, 5)
            piece = by_loop(field, step, x[start:end, k : k + 1], h, 0.5, keys[k : k + 1], first=start)
            assert_close(output[start:end, k], piece[:, 0], **ROUNDING)
        assert_close(h_n[0, k], piece[-1, 0], **ROUNDING)


@pytest.mark.parametrize("hold", ["forward", "backward"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("step", [EulerMaruyama(), SRA1()])
def test_samples_at_uneven_times_have_increments_of_their_lengths(step, own, hold):
    field, x, keys = noisy(), torch.randn(4, 3, 2), noise_keys(4, 3)
    ts = torch.rand(5, 3).cumsum(0) if own else torch.rand(5).cumsum(0)
    for times in (ts, ts[:4]):  # edges and stamps
        rnn, lengths = DiscreteRNN(field, step, hold=hold, open_interval=0.3), times.diff(dim=0)
        if len(times) == 4:
            open_one = torch.full_like(lengths[:1], 0.3)
            lengths = torch.cat([lengths, open_one] if hold == "forward" else [open_one, lengths])
        ends = torch.cat([torch.zeros_like(lengths[:1]), lengths.cumsum(0)])
        w, z = BrownianPath(keys, ends, 5).increments(ends)
        h, wanted = torch.zeros(3, 5), []
        for k in range(4):
            more = (z[k],) if step.reads_integral else ()
            h = step(field, x[k], h, lengths[k][:, None] if own else float(lengths[k]), w[k], *more)
            wanted.append(h)
        assert_close(rnn(x, ts=times, seed=4)[0], torch.stack(wanted), **ROUNDING)
        turned = DiscreteRNN(field, step, hold=hold, open_interval=0.3, batch_first=True)
        found = turned(x.transpose(0, 1), ts=times.mT if own else times, seed=4)[0]
        assert_close(found.transpose(0, 1), torch.stack(wanted), **ROUNDING)


@pytest.mark.parametrize("substeps", [1, 4, 3])
@pytest.mark.parametrize("step", [EulerMaruyama(), SRA1()])
def test_a_path_with_knots_at_the_samples_is_their_keys(step, substeps):
    rnn, x, keys = DiscreteRNN(noisy(), step, dt=0.5, substeps=substeps), torch.randn(4, 3, 2), noise_keys(4, 3)
    path = BrownianPath(keys, 0.5 * torch.arange(5), 5)
    assert_close(rnn(x, seed=path)[0], rnn(x, seed=keys)[0], **ROUNDING)
    ts = torch.rand(5, 3).cumsum(0)
    assert_close(rnn(x, ts=ts, seed=BrownianPath(keys, ts, 5))[0], rnn(x, ts=ts, seed=keys)[0], **ROUNDING)
    cell = DiscreteCell(rnn.field, step, dt=0.5)
    assert_close(unroll(cell, x, seed=path).hs, unroll(cell, x, seed=keys).hs, **ROUNDING)


@pytest.mark.parametrize("step", [EulerMaruyama(), SRA1()])
def test_half_the_step_over_twice_the_samples_reads_the_same_path(step):
    field, x, keys = noisy(), torch.randn(4, 3, 2), noise_keys(4, 3)
    path = BrownianPath(keys, torch.arange(5.0), 5)
    fine, _ = DiscreteRNN(field, step, dt=0.5)(x.repeat_interleave(2, 0), seed=path)
    assert_close(fine[1::2], DiscreteRNN(field, step, substeps=2)(x, seed=keys)[0], **ROUNDING)


@pytest.mark.parametrize("step", [EulerMaruyama(), ExponentialEulerMaruyama(), SRA1()])
def test_finer_substeps_converge_on_one_path(step):
    # To the path itself, sample by sample: means alone would converge on any paths.
    x, field = torch.randn(3, 50, 2), noisy()
    found = {n: DiscreteRNN(field, step, substeps=n)(x, seed=1)[0] for n in (1, 2, 3, 4, 6, 32)}
    off = {n: (found[n] - found[32]).square().mean().sqrt() for n in (1, 2, 3, 4, 6)}
    assert off[2] < 0.7 * off[1]
    assert off[3] < 0.9 * off[2]
    assert off[4] < 0.9 * off[3]
    assert off[6] < 0.9 * off[4]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("substeps", [2, 3])
def test_float32_is_float64_to_the_rounding_of_float32(step, substeps):
    field, x = noisy(), torch.randn(8, 4, 2)
    narrow = copy.deepcopy(field).float()
    wide, _ = DiscreteRNN(field, step, substeps=substeps)(x, seed=4)
    found, _ = DiscreteRNN(narrow, step, substeps=substeps)(x.float(), seed=4)
    assert_close(found.double(), wide, rtol=0, atol=1e-5)  # 24 steps that forget, of a few roundings of numbers up to 4


@pytest.mark.parametrize(("dtype", "within"), [(torch.bfloat16, 0.1), (torch.float16, 0.02)])
@pytest.mark.parametrize(
    ("step", "substeps", "samples"),
    [(EulerMaruyama(), 1, 300), (SRA1(), 2, 20), (EulerMaruyama(), 3, 20)],  # 300 cells are more than bfloat16 can count
)
def test_half_precision_reads_the_same_path(step, substeps, samples, dtype, within):
    field, half = noisy(1), noisy(1).to(dtype)
    half.load_state_dict(field.state_dict())
    x = torch.randn(samples, 4, 1)
    wide, _ = DiscreteRNN(field, step, substeps=substeps)(x, seed=4)
    found, h_n = DiscreteRNN(half, step, substeps=substeps)(x.to(dtype), seed=4)
    assert found.dtype == h_n.dtype == dtype
    assert_close(found.double(), wide, rtol=0, atol=within)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_with_noise_stay_in_half_precision(dtype):
    half, x = noisy(1).to(dtype), torch.randn(20, 4, 1)
    stacked = Layers([DiscreteRNN(half, EulerMaruyama()), DiscreteRNN(ctrnn.leaky(5, 5).to(dtype))])
    assert stacked(x.to(dtype), seed=4)[0].dtype == dtype


def test_layers_have_noise_of_their_own_and_a_sample_has_it_alone_too():
    fields = [noisy(2, 3), noisy(3, 3), noisy(3, 3)]
    layers, x, keys = Layers([DiscreteRNN(field, EulerMaruyama()) for field in fields]), torch.randn(5, 4, 2), noise_keys(4, 4)
    output, h_n = layers(x, seed=keys)
    order = torch.tensor([3, 1])
    assert_close(layers(x[:, order], seed=keys[order])[0], output[:, order], **ROUNDING)
    assert_close(layers(x, seed=4)[1], h_n, **ROUNDING)
    with torch.no_grad():  # layers that read nothing of one another: what is left is their noise
        for field in fields[1:]:
            field.field.candidate.weight_x.zero_()
    _, ends = layers(torch.zeros(1, 2000, 2), seed=0)
    noises = torch.cat([end - end.mean(0) for end in ends], -1)
    assert (torch.corrcoef(noises.mT) - torch.eye(9)).abs().max() < 5 / 2000**0.5


def test_two_directions_have_noise_of_their_own_and_padding_does_not_matter():
    layer = [DiscreteRNN(noisy(2, 3), EulerMaruyama()), DiscreteRNN(noisy(2, 3), EulerMaruyama())]
    layers, x, keys, lengths = Layers([layer]), torch.randn(6, 3, 2), noise_keys(4, 3), [4, 6, 2]
    output, h_n = layers(x, lengths=lengths, seed=keys)
    for k, n in enumerate(lengths):
        alone, end = layers(x[:n, k : k + 1], seed=keys[k : k + 1])
        assert_close(output[:n, k : k + 1], alone, **ROUNDING)
        assert_close(h_n[:, k : k + 1], end, **ROUNDING)
    _, ends = layers(torch.zeros(1, 2000, 2), seed=0)
    noises = torch.cat([end - end.mean(0) for end in ends], -1)
    assert (torch.corrcoef(noises.mT) - torch.eye(6)).abs().max() < 5 / 2000**0.5


def test_a_stack_may_have_noise_in_some_of_its_layers():
    quiet, loud = DiscreteRNN(ctrnn.leaky(2, 3), Euler()), DiscreteRNN(noisy(3, 3), EulerMaruyama())
    x = torch.randn(5, 4, 2)
    output, h_n = Layers([quiet, loud])(x, seed=4)
    assert_close(h_n[0], quiet(x)[1][0], **ROUNDING)
    assert (output - Layers([quiet, loud])(x, seed=5)[0]).abs().max() > 0.1
    assert_close(Layers([quiet, loud])(x, seed=4)[0], output, **ROUNDING)


@pytest.mark.parametrize("step", STEPS)
def test_gradients_to_noise_weights_and_start_are_those_of_the_loop(step):
    field, x, keys = noisy(), torch.randn(3, 2, 2), noise_keys(4, 2)
    h_0, dt = torch.randn(2, 5, requires_grad=True), 0.5
    wanted = [field.noise.sigma, h_0, *field.field.parameters()]
    ours = torch.autograd.grad(DiscreteRNN(field, step, dt=dt)(x, h_0, seed=4)[0].sin().sum(), wanted)
    theirs = torch.autograd.grad(by_loop(field, step, x, h_0, dt, keys).sin().sum(), wanted)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, rtol=0, atol=1e-10)


def test_the_noise_takes_the_root_of_the_length_of_a_step_and_times_have_its_gradient():
    ts, x = torch.tensor([0.0, 0.4, 1.0], requires_grad=True), torch.randn(2, 2, 2)
    rnn = DiscreteRNN(noisy(), SRA1(), substeps=2)
    assert torch.autograd.gradcheck(lambda at: rnn(x, ts=at, seed=4)[0], ts)  # the path stretches with its cell


def test_a_sequence_that_is_over_has_finite_gradients():
    # The root of a length has no derivative at 0, where padding is.
    rnn, x = DiscreteRNN(noisy(), SRA1()), torch.randn(4, 2, 2)
    ts = torch.rand(5, 2).cumsum(0).requires_grad_()
    output, _ = rnn(x, ts=ts, lengths=[2, 4], seed=1)
    grad = torch.autograd.grad(output.sin().sum(), ts)[0]
    assert grad.isfinite().all()
    assert not grad[3:, 0].any()


class Multiplied(ctrnn.VectorField):
    """dh = -h dt + h dW."""

    def __init__(self, mixed: bool = False) -> None:
        super().__init__(2, 2)
        self.mixed = mixed

    def flow(self, projected, h):
        return -h

    def diffusion(self, projected, h):
        return h.flip(-1) if self.mixed else h


def one_for_all():
    return ctrnn.Noisy(ctrnn.leaky(2, 2), ctrnn.Noise(torch.ones(2, 1)))


def takes(kinds, *given):
    return [pytest.param(*given, step, id=f"{given[0]}, {type(step).__name__}") for step in kinds]


@pytest.mark.parametrize(
    ("noise", "make", "step"),
    [
        *takes([Milstein()], "of its own unit", Multiplied),
        *takes([EulerMaruyama(), StratonovichHeun(), SRA1(), ExponentialEulerMaruyama()], "a matrix", one_for_all),
        *takes([EulerMaruyama(), StratonovichHeun(), ExponentialEulerMaruyama()], "of other units", lambda: Multiplied(True)),
    ],
)
def test_steps_take_the_noise_they_are_for(noise, make, step):
    field, x, keys = make(), torch.randn(3, 3, 2), noise_keys(4, 3)
    h_0 = torch.randn(3, 2)
    assert_close(DiscreteRNN(field, step, dt=0.5)(x, h_0, seed=4)[0], by_loop(field, step, x, h_0, 0.5, keys), **ROUNDING)


def unrolled(cell):
    return lambda x, seed: unroll(cell, x, seed=seed)


MADE = {
    "DiscreteRNN": DiscreteRNN,
    "unroll": lambda *given: unrolled(DiscreteCell(*given)),
    "ContinuousRNN": lambda field, step: ContinuousRNN(field, method=step, fused="always"),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_noise_that_comes_to_depend_on_the_state_is_refused_at_the_next_call(make):
    field, x = FromNothing(), torch.randn(3, 2, 1)
    call = make(field, SRA1())
    call(x, seed=0)
    with torch.no_grad():
        field.strength.fill_(0.5)
    with pytest.raises(ValueError, match=r"^`FromNothing` does not go with `SRA1\(\)`: mathematics refuses it"):
        call(x, seed=0)


class Around(ctrnn.VectorField):
    """A field in another, which does not hand its noise on."""

    def __init__(self) -> None:
        super().__init__(2, 5)
        self.inner = noisy()

    def flow(self, projected, h):
        return self.inner.flow(self.inner.project(projected), h)


def zeros(*shape):
    return torch.zeros(*shape)  # in the dtype of the test


def run(seed, field=None, step=STEPS[0], around=lambda rnn: rnn):
    return around(DiscreteRNN(noisy() if field is None else field, step))(zeros(4, 3, 2), seed=seed)


def path(samples=4, units=5, batch=3):
    return BrownianPath(0, torch.arange(samples + 1.0), units, batch)


def cell(*given, field=None, step=STEPS[0]):
    return DiscreteCell(noisy() if field is None else field, step)(zeros(3, 2), None, None, *given)


def packed(seed):
    return DiscreteRNN(noisy(), EulerMaruyama())(pack_padded_sequence(zeros(4, 3, 2), [4, 4, 4]), seed=seed)


def quiet():
    return ctrnn.leaky(2, 5)


NO_NOISE = "`seed` is of noise, and here is none; a field has it by `ctrnn.Noisy"
NOT_FOR_NOISE = (
    r"`Noisy` does not go with `Euler\(\)`: mathematics refuses it, .*; take a step for noise, `discretize.EulerMaruyama\(\)`"
)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: run(0.5), TypeError, "`seed` must be a whole number, got 0.5"),
        (lambda: run(noise_keys(0, 2)), ValueError, r"`seed` must have a key for each sample, shape \(3,\), got \(2,\)"),
        (lambda: run(zeros(3)), TypeError, "`seed` must be a whole number or a tensor of int64 keys"),
        (lambda: run(0, quiet(), Euler()), ValueError, NO_NOISE),
        (lambda: run(0, quiet(), Euler(), lambda rnn: Layers([rnn])), ValueError, NO_NOISE),
        (lambda: unroll(DiscreteCell(quiet()), zeros(4, 3, 2), seed=0), ValueError, NO_NOISE),
        (lambda: run(path(units=4)), ValueError, "`seed` is a path of 4 units, and the field has 5 Brownian motions"),
        (lambda: run(path(batch=2)), ValueError, r"`seed` must have a key for each sample, shape \(3,\), got \(2,\)"),
        (lambda: run(path(3)), ValueError, "4.0"),
        (lambda: run(path(), around=lambda rnn: Layers([rnn])), ValueError, "is a path, and each layer has noise of its own"),
        (lambda: packed(path()), ValueError, "`seed` is a path, whose samples are not in the order of a PackedSequence"),
        (lambda: run(0, step=Euler()), ValueError, NOT_FOR_NOISE),
        (lambda: cell(step=Euler()), ValueError, NOT_FOR_NOISE),
        (lambda: run(0, quiet()), ValueError, r"does not go with `EulerMaruyama\(\)`: .* there is no noise to draw"),
        (lambda: run(0, Multiplied(), SRA1()), ValueError, r"`Multiplied` .* `SRA1\(\)`: .* G depends on h"),
        (
            lambda: run(0, one_for_all(), Milstein()),
            ValueError,
            r"`Noisy` does not go with `Milstein\(\)`: .* G is a matrix",
        ),
        (lambda: run(0, Multiplied(True), Milstein()), ValueError, "`Multiplied` does not go with .* G depends on others"),
        (lambda: run(0, Around()), ValueError, "The field has noise in a part, Noisy in Around, which does not hand it on"),
        (cell, TypeError, r"takes the increments of the noise, w of shape \(..., 5\)"),
        (lambda: cell(zeros(3, 5), step=SRA1()), TypeError, "takes the increments of the noise, w and z of shape"),
        (lambda: cell(zeros(3, 4)), ValueError, r"must be \(3, 5\), one for each Brownian motion, got \(3, 4\)"),
        (
            lambda: cell(zeros(3, 5), field=quiet(), step=Euler()),
            ValueError,
            "increments of noise, .* is a step without",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_words(make, error, words):
    with pytest.raises(error, match=words):
        make()


class FromNothing(ctrnn.VectorField):
    """Noise that is 0 until it is learned, and depends on the state then."""

    def __init__(self):
        super().__init__(1, 2)
        self.strength = torch.nn.Parameter(torch.zeros(2))

    def flow(self, projected, h):
        return projected - h

    def diffusion(self, projected, h):
        return self.strength * h


@pytest.mark.parametrize(
    ("w", "error", "words"),
    [
        ([0.0], TypeError, "`w` must be a torch.Tensor"),
        (torch.zeros(2, 2, dtype=torch.float32), TypeError, "`w` is torch.float32, the field's parameters are torch.float64"),
        (torch.full((2, 2), torch.nan, dtype=torch.float64), ValueError, "`w` must be finite"),
    ],
)
def test_increments_that_are_none_are_refused_in_words(w, error, words):
    cell = DiscreteCell(FromNothing(), EulerMaruyama())
    with pytest.raises(error, match=words):
        cell(torch.zeros(2, 1), w=w)
