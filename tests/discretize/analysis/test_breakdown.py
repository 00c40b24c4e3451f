r"""Tests the report on a trained model against closed forms.

linear    dh/dt = g (x w - h), held input      Euler's factor 1 - g dt, the equation's e^(-g dt), exactly
one unit  dh/dt = g (tanh(w h + x) - h)        rests in the equation; under Euler's step a cycle or chaos where w is far below 0
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import DiscreteRNN, breakdown
from discretize.analysis.breakdown.held import _fate
from discretize.analysis.breakdown.scores import Answers, Scores

TWICE = {"dtype": torch.float64}


class Linear(ctrnn.VectorField):
    def __init__(self, *rates: float, size: float = 1.0) -> None:
        super().__init__(len(rates), len(rates))
        self.rates = torch.nn.Parameter(torch.tensor(rates, **TWICE))
        self.size = size

    def flow(self, projected, h):
        return self.rates * (self.size * projected - h)

    def leak(self, projected, h):
        return self.rates.expand_as(h)


class OneUnit(ctrnn.VectorField):
    def __init__(self, g: float, w: float, offset: float = 0.0) -> None:
        super().__init__(1, 1)
        self.g, self.w, self.offset = g, w, offset
        self.none = torch.nn.Parameter(torch.zeros((), **TWICE))

    def flow(self, projected, h):
        return self.g * (torch.tanh(self.w * h + projected + self.offset) - h)

    def leak(self, projected, h):
        return torch.full_like(h, self.g)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Inputs are held for a shorter time, and one other step is tried."""
    for name, samples in (("WAIT", 25), ("LOOK", 25), ("MOST", 200)):
        monkeypatch.setattr(f"discretize.analysis.refine.{name}", samples)


def looked_at(model, batch=None, *args, **settings):
    return breakdown(model, inputs() if batch is None else batch, *args, **{"halvings": 1, "steps": ()} | settings)


def inputs(time=16, batch=3, width=2):
    return torch.randn(time, batch, width, generator=torch.Generator().manual_seed(0), **TWICE)


@pytest.fixture(scope="module")
def of_linear():
    return breakdown(DiscreteRNN(Linear(0.3, 1.5), dt=0.8), inputs(), steps=["exponential-euler"])


def test_factors_of_a_linear_field_are_those_of_its_step_and_of_its_equation(of_linear):
    modes = of_linear.modes
    assert_close(modes.stepped, torch.tensor([1 - 0.24, 1 - 1.2]).to(modes.stepped).expand_as(modes.stepped))
    expected = torch.tensor([math.exp(-0.24), math.exp(-1.2)], **TWICE)
    assert_close(modes.exact, expected.to(modes.exact).expand_as(modes.exact))


def test_growth_over_several_steps_is_the_product_of_their_factors(of_linear):
    powers = torch.arange(1, 9, **TWICE)
    assert_close(of_linear.modes.growth_stepped, (0.76**powers).expand_as(of_linear.modes.growth_stepped))
    assert_close(of_linear.modes.growth_exact, torch.exp(-0.24 * powers).expand_as(of_linear.modes.growth_exact))


def test_rate_times_step_and_where_it_is_above_one_are_known_by_unit(of_linear):
    assert_close(of_linear.g_dt, torch.tensor([0.24, 1.2], **TWICE).expand(16, 2))
    assert of_linear.above.tolist() == [[0.0, 0.0], [1.0, 0.0]]


def test_distances_by_time_and_unit_are_those_of_a_loop(of_linear):
    xs, dt, rates = inputs(), 0.8, torch.tensor([0.3, 1.5], **TWICE)
    stepped, exact, off, states = torch.zeros(3, 2, **TWICE), torch.zeros(3, 2, **TWICE), [], []
    for x in xs:
        stepped = stepped + dt * rates * (x - stepped)
        exact = x + (exact - x) * torch.exp(-rates * dt)
        off.append(stepped - exact)
        states.append(exact)
    squares, exact = torch.stack(off).square(), torch.stack(states).flatten(0, 1)
    spread = (exact - exact.mean(0)).square().mean().sqrt()
    close = {"rtol": 1e-5, "atol": 1e-8}
    assert_close(of_linear.over_time, squares.mean((1, 2)).sqrt() / spread, **close)
    assert_close(of_linear.by_unit, squares.mean((0, 1)).sqrt() / spread, **close)
    assert_close(of_linear.by_sequence, squares.mean((0, 2)).sqrt() / spread, **close)


def test_an_exponential_step_of_a_linear_field_is_the_equation_and_is_what_is_advised(of_linear):
    exponential = next(other for other in of_linear.others if other.step == "exponential-euler" and other.substeps == 1)
    assert exponential.share < 1e-6
    assert [other.evaluations for other in of_linear.others if other.step == "Euler()"] == [1, 2, 4, 8, 16]
    assert "step='exponential-euler', substeps=1 brings these weights within 1 %" in of_linear.advice


def test_growth_that_is_not_normal_is_seen_where_every_mode_decays():
    upper, lower = (torch.tensor(rows, **TWICE) for rows in ([[-0.5, 8.0], [0.0, -0.5]], [[-0.2, 0.0], [3.0, -0.2]]))

    class Shear(ctrnn.VectorField):
        """The matrix is the one or the other, as the input says, and they do not commute."""

        def __init__(self):
            super().__init__(2, 2)
            self.none = torch.nn.Parameter(torch.zeros((), **TWICE))

        def flow(self, projected, h):
            return torch.where(projected[..., :1] > 0, h @ upper.mT, h @ lower.mT) + projected

    xs = torch.ones(8, 1, 2, **TWICE)
    xs[4:] = -1
    found = looked_at(DiscreteRNN(Shear(), dt=0.5), xs)
    product, norms = torch.eye(2, **TWICE), []
    for matrix in [upper] * 4 + [lower] * 4:
        product = (torch.eye(2, **TWICE) + 0.5 * matrix) @ product
        norms.append(torch.linalg.matrix_norm(product, 2))
    assert_close(found.modes.growth_stepped, torch.stack(norms)[None])
    assert found.modes.largest[0] == pytest.approx(0.9)
    assert found.g_dt is None
    assert "declares no rate" in str(found)


@pytest.mark.parametrize(
    ("w", "g", "fate"),
    [(-1.0, 0.1, "rest"), (-4.0, 0.9, "cycle")],
    ids=["a weak loop rests", "a strong one cycles"],
)
def test_a_unit_that_rests_in_its_equation_is_told_from_what_its_step_makes_of_it(w, g, fate):
    found = looked_at(DiscreteRNN(OneUnit(g, w)), 0.1 * inputs(20, 2, 1))
    assert set(zip(*found.held, strict=True)) == {(fate, "rest")}
    assert (found.verdict == "the step's") == (fate != "rest")
    if fate == "cycle":
        # at h = 0 and near it Euler's factor is 1 + g (w - 1), up to what the input moves
        assert "a step multiplies a difference by -3" in str(found)
        assert "rhythm" not in str(found)


def test_of_two_units_the_one_that_its_step_throws_past_rest_is_told_of():
    class Two(OneUnit):
        """The first unit decays, the second reads itself."""

        def __init__(self):
            super().__init__(0.9, -4.0)
            self.input_size, self.hidden_size, self.state_size = 1, 2, 2

        def flow(self, projected, h):
            return torch.cat([-0.5 * h[..., :1], super().flow(projected, h[..., 1:])], -1)

    verdict = discretize.refine(DiscreteRNN(Two()), 0.1 * inputs(20, 2, 1), halvings=1).verdict
    assert "the step swings past it, ever further: there it multiplies a difference by -3" in verdict
    rests = discretize.refine(DiscreteRNN(OneUnit(0.1, -1.0)), 0.1 * inputs(20, 2, 1), halvings=1).verdict
    assert "swings" not in rests


def test_chaos_that_is_the_steps_is_called_chaos():
    # An equation of one unit has no chaos; this Euler step of it has, as the mean of its logarithmic slopes says.
    g, w, b = 0.6, -10.0, 6.5
    h, logs = 0.3, []
    for _ in range(3000):
        t = math.tanh(w * h + b)
        logs.append(math.log(abs(1 - g + g * w * (1 - t * t))))
        h = (1 - g) * h + g * t
    assert sum(logs[1000:]) / 2000 > 0.3
    found = looked_at(DiscreteRNN(OneUnit(g, w, b)), 0.01 * inputs(20, 2, 1))
    assert set(zip(*found.held, strict=True)) == {("chaos", "rest")}


def test_a_cycle_in_which_differences_vanish_is_no_chaos():
    # h <- relu(1 - 2 h), Euler's step of h' = relu(1 - 2 h) - h at dt = 1: 0, 1, 0, ... and at 1 the slope is 0.
    network = ctrnn.plain(1, 1, nonlinearity="relu").double()
    with torch.no_grad():
        network.candidate.weight_x.zero_()
        network.candidate.weight_h.fill_(-2.0)
        network.candidate.bias.fill_(1.0)
    found = looked_at(DiscreteRNN(network), 0.01 * inputs(20, 2, 1))
    assert set(zip(*found.held, strict=True)) == {("cycle", "rest")}


def test_a_step_that_leaves_all_bounds_diverges():
    found = looked_at(DiscreteRNN(Linear(3.0), dt=1.0), torch.ones(100, 2, 1, **TWICE), halvings=2)
    assert found.verdict == "diverges"
    assert "no bound under the steps and to rest in the equation" in str(found)


def test_a_sequence_that_leaves_all_bounds_is_not_left_out_of_the_distances():
    class Threshold(Linear):
        """Is no number where a unit is above 1."""

        def flow(self, projected, h):
            return projected - h + 0.0 * (1 - h).sqrt()

        def leak(self, projected, h):
            return torch.ones_like(h)

    # Euler's step of 1.5 goes past 0.9 by half of it, the equation does not.
    xs = torch.zeros(30, 2, 1, **TWICE)
    xs[:, 1] = 0.9
    found = looked_at(DiscreteRNN(Threshold(1.0), dt=1.5), xs)
    assert found.verdict == "diverges"
    assert found.by_sequence.tolist() == [0.0, math.inf]
    assert found.by_unit.tolist() == [math.inf]
    assert "1 of 1 units are without bound, in 1 of 2 sequences." in found.reasons[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panels = {ax.get_title("left"): ax for ax in found.figure().axes}
    assert [line.get_label() for line in panels["By unit"].lines] == ["without bound"]
    assert "leave all bounds on the data" in found.decided


def test_two_movements_of_nearly_one_size_are_not_told_apart_by_the_limit_between_them():
    assert [_fate(0.009, 0.011, 0.01), _fate(0.011, 0.009, 0.01)] == ["cycle", "cycle"]
    assert [_fate(0.009, 0.5, 0.01), _fate(0.5, 0.009, 0.01)] == ["rest", "cycle"]
    assert [_fate(0.009, 0.008, 0.01), _fate(0.009, math.inf, 0.01), _fate(math.inf, 0.0, 0.01)] == ["rest", "rest", "no bound"]


def test_the_equation_is_stepped_finely_enough_to_tell_its_chaos():
    class Lorenz(ctrnn.VectorField):
        def __init__(self):
            super().__init__(1, 3)
            self.none = torch.nn.Parameter(torch.zeros((), **TWICE))

        def flow(self, projected, h):
            x, y, z = h.unbind(-1)
            return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)

    # One step of Runge and Kutta in a sample of 0.3 would leave all bounds, as Euler's does.
    found = looked_at(DiscreteRNN(Lorenz(), dt=0.3), (torch.zeros(1, 1, 1, **TWICE), torch.tensor([[1.0, 2.0, 20.0]], **TWICE)))
    assert found.verdict == "diverges"
    assert found.held[1] == ("chaos",)


def test_small_steps_are_the_equation():
    found = looked_at(DiscreteRNN(Linear(0.3, 0.5), dt=0.01), inputs())
    assert found.verdict == "its equation"
    assert found.advice.startswith("Nothing")


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_the_report_does_not_hang_on_the_unit_of_the_states(size):
    plain = looked_at(DiscreteRNN(Linear(0.3, 1.5), dt=0.8), inputs())
    field = Linear(0.3, 1.5, size=size)
    with torch.no_grad():
        found = looked_at(DiscreteRNN(field, dt=0.8), inputs())
    assert found.verdict == plain.verdict
    assert_close(found.by_unit, plain.by_unit, rtol=1e-5, atol=0)
    assert found.held == plain.held


def test_the_equation_is_solved_as_well_for_states_of_any_size():
    sizes = [Linear(0.3, 12.0, size=size) for size in (1.0, 1e-24)]
    found = [looked_at(DiscreteRNN(field, step="frozen-backward-euler", dt=0.5), inputs(20, 2)) for field in sizes]
    assert_close(found[1].by_unit, found[0].by_unit, rtol=1e-6, atol=0)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_report_does_not_hang_on_the_unit_of_time(unit):
    def asked(unit):
        torch.manual_seed(0)
        field = ctrnn.gated(1, 3, **TWICE)
        return looked_at(DiscreteRNN(Slowed(field, unit), dt=unit), 3 * inputs(20, 2, 1), steps=["rk4"])

    class Slowed(ctrnn.VectorField):
        """The same field, in a time of another unit."""

        def __init__(self, field, unit):
            super().__init__(1, 3)
            self.field, self.unit = field, unit

        def project(self, x):
            return self.field.project(x)

        def flow(self, projected, h):
            return self.field.flow(projected, h) / self.unit

        def leak(self, projected, h):
            return self.field.leak(projected, h) / self.unit

    plain, other = asked(1.0), asked(unit)
    assert (other.verdict, other.held) == (plain.verdict, plain.held)
    assert_close(other.g_dt, plain.g_dt)
    assert_close(other.modes.growth_exact, plain.modes.growth_exact)
    assert_close(other.by_unit, plain.by_unit, rtol=1e-6, atol=0)


def test_differences_are_followed_in_sequences_shorter_than_a_stretch():
    lengths = torch.tensor([3, 2, 2])
    found = looked_at(DiscreteRNN(Linear(0.3, 1.5), dt=0.8), discretize.Batch(inputs(), lengths=lengths))
    assert_close(found.modes.growth_stepped, (0.76 ** torch.arange(1, 4, **TWICE))[None])
    assert len(found.modes.stepped) == 3


def test_differences_that_grow_beyond_all_numbers_are_told_as_such():
    found = looked_at(DiscreteRNN(Linear(-300.0, 1.0, size=0.0)), inputs(9, 1))  # which stay 0
    assert found.modes.growth_exact[:, 1].isfinite().all()
    assert found.modes.growth_exact[:, -1].isinf().all()


def test_no_rate_is_made_up_where_sequences_are_over():
    class Undeclared(Linear):
        leak = ctrnn.VectorField.leak

    batch = discretize.Batch(inputs(), lengths=torch.tensor([16, 10, 5]))
    assert looked_at(DiscreteRNN(Undeclared(0.3, 1.5)), batch).g_dt is None


def test_states_that_stay_0_are_those_of_the_equation_under_every_step():
    found = looked_at(DiscreteRNN(Linear(0.3, 1.5)), torch.zeros(4, 2, 2, **TWICE), steps=["rk4"])
    assert [other.share for other in found.others] == [0.0] * len(found.others)
    assert "diverges" not in str(found)


def test_of_one_sample_of_one_sequence_distances_are_shares_of_its_size():
    found = looked_at(DiscreteRNN(Linear(0.3, 1.5), dt=0.8), inputs(1, 1))
    exact = inputs(1, 1)[0] * (1 - torch.exp(-0.8 * torch.tensor([0.3, 1.5], **TWICE)))
    off = inputs(1, 1)[0] * torch.tensor([0.24, 1.2], **TWICE) - exact
    assert found.refinement.share == pytest.approx(float(off.norm() / exact.norm()), rel=1e-6)
    assert found.held == (("rest",), ("rest",))


def test_steps_that_torch_has_not_in_half_precision_are_told_as_refused():
    torch.manual_seed(0)
    model = DiscreteRNN(ctrnn.gated(2, 3, dtype=torch.float16))
    found = looked_at(model, inputs().half(), steps=["backward-euler", "rk4"])
    assert {other.step for other in found.others if other.refused} == {"backward-euler"}
    assert "refused" in str(found)


def test_steps_in_a_sample_are_counted_as_a_model_is_told_of_them():
    found = looked_at(DiscreteRNN(Linear(0.3, 1.5), dt=0.8, substeps=3), steps=["rk4"])
    assert [(other.substeps, other.evaluations) for other in found.others] == [(3, 3), (6, 6), (3, 12), (6, 24), (12, 48)]
    assert "step='rk4', substeps=3 brings" in found.advice


def test_what_is_beyond_the_end_of_a_sequence_decides_nothing():
    xs, lengths = inputs(), torch.tensor([16, 10, 5])
    wild = xs.clone()
    wild[10:, 1], wild[5:, 2] = 1e6, -1e6
    model = DiscreteRNN(Linear(0.3, 1.5), dt=0.8)
    plain, other = (looked_at(model, discretize.Batch(x, lengths=lengths)) for x in (xs, wild))
    assert_close(plain.over_time, other.over_time)
    assert_close(plain.by_unit, other.by_unit)
    assert_close(plain.g_dt, other.g_dt)
    assert plain.above.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    alone = looked_at(model, xs[:5, 2:])
    assert float(plain.by_sequence[2]) * plain.refinement.spread == pytest.approx(
        float(alone.by_sequence[0]) * alone.refinement.spread, rel=1e-5
    )


def test_whole_targets_are_scored_by_accuracy_and_numbers_by_their_squared_error():
    torch.manual_seed(0)
    model = discretize.SequenceModel(DiscreteRNN(ctrnn.gated(2, 5, **TWICE)), 3)
    xs, classes = inputs(), torch.randint(0, 3, (16, 3))
    outputs = model(xs).detach()
    found = looked_at(model, xs, classes)
    assert found.refinement.metrics[0] == pytest.approx(float((outputs.argmax(-1) == classes).double().mean()))
    numbers = torch.randn(16, 3, 3, **TWICE)
    found = looked_at(model, xs, numbers)
    assert found.refinement.metrics[0] == pytest.approx(float((outputs - numbers).square().mean()))
    assert model.training


def test_a_score_is_of_what_counts():
    torch.manual_seed(0)
    model = discretize.SequenceModel(DiscreteRNN(ctrnn.gated(2, 5, **TWICE)), 3)
    xs, classes, lengths = inputs(), torch.randint(0, 3, (16, 3)), torch.tensor([16, 10, 5])
    counts = (torch.arange(16)[:, None] < lengths).double()
    right = (model(xs, lengths=lengths).argmax(-1) == classes)[counts > 0].double().mean()
    found = looked_at(model, discretize.Batch(xs, classes, counts, lengths=lengths))
    assert found.refinement.metrics[0] == pytest.approx(float(right))
    numbers = torch.randn(16, 3, 3, **TWICE)
    off = (model(xs, lengths=lengths).detach() - numbers)[counts > 0].square().mean()
    assert looked_at(model, discretize.Batch(xs, numbers, counts, lengths=lengths)).refinement.metrics[0] == pytest.approx(
        float(off)
    )


def classified(batch_first=False):
    """A model of three classes whose step is far from its equation, and sequences of 16, 10 and 5 samples."""
    torch.manual_seed(2)
    rnn = DiscreteRNN(Linear(0.3, 1.5), dt=0.8, batch_first=batch_first)
    return discretize.SequenceModel(rnn, 3), 3 * inputs(), torch.tensor([16, 10, 5])


@pytest.mark.parametrize(("of", "batch_first"), [("sequences", True), ("samples", False)])
def test_scores_and_changed_answers_of_each_sequence_are_those_of_a_loop(of, batch_first):
    model, xs, lengths = classified(batch_first)
    solved = model.solved(rtol=1e-10, atol=1e-12)
    samples = of == "samples"
    classes = torch.randint(0, 3, (16, 3) if samples else (3,))
    counts = (torch.arange(16)[:, None] < lengths).double() if samples else None
    turned = [None if t is None else t.mT if batch_first and t.dim() == 2 else t for t in (classes, counts)]
    x = xs.transpose(0, 1) if batch_first else xs
    found = looked_at(model, discretize.Batch(x, *turned, lengths=lengths, batch_first=batch_first))
    for k, length in enumerate(lengths.tolist()):
        alone = xs[:length, k : k + 1]
        said = [(run(alone.transpose(0, 1))[0] if batch_first else run(alone)[:, 0]).argmax(-1) for run in (model, solved)]
        right = classes[:length, k] if samples else classes[k]
        said = said if samples else [answers[-1] for answers in said]
        for scores, answers in zip((found.scores.stepped, found.scores.exact), said, strict=True):
            assert float(scores[k]) == pytest.approx(float((answers == right).double().mean()))
        assert float(found.scores.changed[k]) == pytest.approx(float((said[0] != said[1]).double().mean()))
    assert bool((found.scores.changed > 0).any())
    assert f"{int((found.scores.changed > 0).sum())} of 3 sequences answer otherwise" in str(found)


@pytest.mark.parametrize("left_out", ["beyond the end", "asked for nothing"])
def test_answers_are_counted_where_something_is_asked_also_beside_a_metric(left_out):
    model, xs, lengths = classified()
    classes = torch.where(torch.arange(16)[:, None] < lengths, 0, 0 if left_out == "beyond the end" else -1)
    given = lengths if left_out == "beyond the end" else None
    runs = [run(xs, lengths=given) for run in (model, model.solved(rtol=1e-10, atol=1e-12))]
    others = [(runs[0][:n, k].argmax(-1) != runs[1][:n, k].argmax(-1)).double().mean() for k, n in enumerate(lengths.tolist())]
    found = looked_at(model, discretize.Batch(xs, classes, lengths=given), metric=lambda outputs, _: outputs.mean())
    assert_close(found.scores.changed, torch.stack(others))


def test_a_class_is_not_right_where_its_scores_are_no_numbers():
    batch = discretize.Batch(torch.zeros(3, 2, 1), torch.zeros(3, 2, dtype=torch.int64))
    lost = torch.tensor([5.0, 0.0]).expand(3, 2, 2).clone()
    kept, lost[1:, 1] = lost.clone(), math.nan
    assert Answers(batch.targets, batch)(lost) == pytest.approx(4 / 6)
    changed, counted = Answers(batch.targets, batch).changed(lost, kept)
    assert changed.tolist() == [[0, 0], [0, 1], [0, 1]]
    assert counted.all()


def test_a_class_that_is_ruled_out_leaves_the_others_their_answer():
    """Of log probabilities those of classes that cannot be are -inf."""
    batch = discretize.Batch(torch.zeros(4, 1, 1), torch.tensor([[0], [1], [1], [1]]))
    scores = torch.tensor([[2.0, 1, -math.inf], [-math.inf, 0, -1], [-math.inf, math.inf, 0], [-math.inf] * 3])[:, None]
    right, counted = Answers(batch.targets, batch).scored(scores)
    assert right[:, 0].tolist() == [1, 1, 0, 0]
    assert counted.all()


def test_a_metric_may_score_each_sequence_too():
    model, xs, _ = classified()
    outputs = model(xs).detach()
    found = looked_at(model, xs, metric=lambda outputs: (outputs.mean(), outputs.mean((0, 2))))
    assert_close(found.scores.stepped, outputs.mean((0, 2)))
    assert found.refinement.metrics[0] == pytest.approx(float(outputs.mean()))
    assert looked_at(model, xs, metric=lambda outputs: outputs.mean()).scores.stepped is None


def test_how_unevenly_scores_fall_is_judged_by_a_sign_test():
    stepped, exact = torch.tensor([1.0] * 6 + [0.0] * 3), torch.tensor([0.0] * 5 + [1.0] * 2 + [0.0] * 2)
    lower, higher, chance = Scores(stepped, exact).uneven
    scipy = pytest.importorskip("scipy.stats")
    assert (lower, higher) == (5, 1)
    assert chance == pytest.approx(scipy.binomtest(1, 6).pvalue)


def test_what_is_no_number_scores_as_none_and_classes_that_torch_leaves_out_as_nothing():
    class Wild(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = DiscreteRNN(Linear(0.3, 1.5), dt=0.8)

        def forward(self, x):
            return self.rnn(x)[0] * math.nan

    assert math.isnan(
        looked_at(Wild(), discretize.Batch(inputs(), torch.zeros(16, 3, 2), torch.ones(16, 3))).refinement.metrics[0]
    )
    model, xs, _ = classified()
    classes = model(xs).argmax(-1)
    classes[::2] = -100
    assert looked_at(model, xs, classes).refinement.metrics[0] == 1.0


class Late(ctrnn.DelayedField):
    """dh/dt = x - h(t - 1.5)."""

    def __init__(self):
        super().__init__(2, 2, [1.5])
        self.none = torch.nn.Parameter(torch.zeros((), **TWICE))

    def flow(self, projected, h, past):
        return projected - past[0]


def test_a_model_with_delays_is_run_by_other_steps_and_no_difference_is_followed():
    found = looked_at(DiscreteRNN(Late(), dt=0.5), steps=["rk4", "backward-euler"])
    assert (found.modes, found.g_dt, found.held) == (None, None, None)
    best = next(other for other in found.others if other.step == "rk4" and other.substeps == 4)
    assert best.share < 0.01 < found.refinement.share
    assert not any(other.refused for other in found.others)


@pytest.mark.parametrize("watch", [discretize.Monitor, looked_at])
def test_a_step_that_is_a_module_is_watched_and_put_back(watch):
    step = discretize.Zoneout(discretize.Euler(), 0.1)
    model = DiscreteRNN(Linear(0.3, 1.5), step=step, allow_overshoot=True).eval()
    if watch is looked_at:
        assert looked_at(model).g_dt is not None
    else:
        with discretize.Monitor(model, warn="never") as monitor:
            model(inputs())
        assert monitor.records[""].largest.g_dt == pytest.approx(1.5)
    assert model.step is step
    assert "step" in dict(model.named_modules())


def test_packed_sequences_are_looked_at_as_padded_ones():
    xs, lengths = inputs(), torch.tensor([16, 10, 5])
    model = DiscreteRNN(Linear(0.3, 1.5), dt=0.8)
    packed = looked_at(model, torch.nn.utils.rnn.pack_padded_sequence(xs, lengths))
    assert_close(packed.by_unit, looked_at(model, discretize.Batch(xs, lengths=lengths)).by_unit)


def test_a_noisy_model_is_compared_by_its_moments_along_the_same_paths():
    torch.manual_seed(0)

    class Shaken(Linear):
        def diffusion(self, projected, h):
            return torch.full_like(h, 0.5)

    model = DiscreteRNN(Shaken(1.0), step=discretize.EulerMaruyama(), dt=0.5)
    found = looked_at(model, torch.zeros(200, 64, 1, **TWICE))
    # Euler and Maruyama's variance at rest is s^2 / (2 g) / (1 - g dt / 2)
    ratio = [(1 - 0.5 / 2 / (2 * 16)) / (1 - 0.5 / 2 / n) for n in (1, 2)]
    assert [moments.variance[0] for moments in found.noise] == pytest.approx(ratio, rel=0.05)
    assert found.modes is None
    assert "variances" in str(found)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"model": ctrnn.plain(2, 3)}, ValueError, "no discretize.DiscreteRNN in it"),
        ({"model": 3}, TypeError, "model"),
        ({"targets": [1, 2]}, TypeError, "targets"),
        ({"targets": torch.zeros(3, dtype=torch.int64)}, TypeError, "give a `metric`"),
        ({"metric": 3}, TypeError, "must be a function"),
        ({"steps": ["nope"]}, ValueError, "`steps` 'nope' is not known"),
        ({"batch": inputs()[:, :0]}, ValueError, "no sequence at all"),
        (
            {"batch": discretize.Batch(inputs(), torch.zeros(16, 3), lengths=torch.tensor([16, 3, 3]))},
            ValueError,
            "beyond an end",
        ),
    ],
    ids=[
        "no steps",
        "no model",
        "a list",
        "a module that returns two things",
        "no function",
        "no step",
        "an empty batch",
        "padded",
    ],
)
def test_what_does_not_fit_is_refused_in_words(given, error, words):
    call = {"model": DiscreteRNN(Linear(0.3, 1.5)), "batch": inputs()} | given
    with pytest.raises(error, match=words):
        looked_at(**call)


def test_the_figure_has_a_panel_for_all_that_is_known(of_linear):
    pytest.importorskip("matplotlib")
    figure = of_linear.figure()
    labels = {(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes}
    assert {
        ("step", "g dt, the largest over sequences"),
        ("steps", "growth of a difference"),
        ("unit", "states apart, of their spread"),
    } <= labels


def test_a_step_that_is_near_by_chance_is_not_advised():
    found = breakdown(DiscreteRNN(Linear(0.3, 1.5), dt=0.8), inputs(9, 2), halvings=2, steps=())
    shares = {1: 0.5, 2: 0.005, 4: 0.03}
    chance = [replace(other, share=shares[other.substeps]) for other in found.others]
    assert "No step that was tried" in replace(found, others=tuple(chance)).advice
    chance[-1] = replace(chance[-1], share=0.002)
    assert "substeps=2 brings" in replace(found, others=tuple(chance)).advice


def test_a_distance_so_near_a_limit_that_sequences_decide_is_said_to_be_so():
    found = looked_at(DiscreteRNN(Linear(0.3, 1.5), dt=0.8), inputs(20, 3))
    share, spread = found.refinement.share, found.refinement.spread
    assert "standard error" not in found.decided
    of_one = found.by_sequence.square()
    error = share * float(of_one.std()) / math.sqrt(3) / (2 * float(of_one.mean()))
    near = replace(found.refinement, drift=(0.1 * (1 + 1.5 * error / share) * spread, *found.refinement.drift[1:]))
    assert "standard error" in replace(found, refinement=near).decided
    far = replace(found.refinement, drift=(0.1 * (1 + 4 * error / share) * spread, *found.refinement.drift[1:]))
    assert "standard error" not in replace(found, refinement=far).decided
