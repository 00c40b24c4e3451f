"""Gated leaky networks: the recurrences of the paper written with loops over edges, closed forms, and how weights start."""

import pytest
import torch
from torch.nn.functional import one_hot
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.cells.edges import ACTIVATIONS, GatedCandidate, Sigmoidal

ROUNDING = {"rtol": 0, "atol": 1e-13}


def moved(field, size=0.4):
    for parameter in field.parameters():
        torch.nn.init.normal_(parameter, std=size)
    return field


def symbols(*shape, alphabet=3):
    return one_hot(torch.randint(alphabet, shape), alphabet).to(torch.get_default_dtype())


def heard(part, x, activity):
    """sum_i tau_ijx a_i of one sample, with i = 0 always on, edge by edge."""
    total = torch.zeros(part.hidden_size)
    for y, amount in enumerate(x):
        for j, sources in enumerate(part.sources.tolist()):
            total[j] += amount * part.bias[y, j]
            for k, i in enumerate(sources):
                total[j] += amount * part.weight[y, j, k] * activity[i]
    return total


@pytest.mark.parametrize("edges", [2, None])
@torch.no_grad()
def test_unit_euler_steps_are_the_networks_of_the_paper_edge_by_edge(edges):
    leaky, gated = moved(ctrnn.glnn(3, 5, edges)), moved(ctrnn.gnn(3, 5, edges, "logistic"))
    V, a = torch.randn(5), torch.rand(5)
    for x in [*symbols(4), torch.randn(3)]:  # eqs. (13), (10) and (11), and for other vectors remark 2
        following = V + heard(leaky.incoming, x, torch.tanh(V))
        assert_close(discretize.DiscreteCell(leaky)(x, V), following, **ROUNDING)
        assert_close(leaky.visible(following), torch.tanh(following), **ROUNDING)
        assert_close(discretize.DiscreteCell(gated)(x, a), torch.sigmoid(heard(gated.candidate, x, a)), **ROUNDING)
        V, a = following, torch.sigmoid(heard(gated.candidate, x, a))


@torch.no_grad()
def test_the_rnn_of_the_paper_is_a_plain_cell_and_a_gnn_of_equal_weights():
    rnn, gnn, xs, h0 = moved(ctrnn.plain(3, 5)), ctrnn.gnn(3, 5), symbols(10, 4), torch.randn(4, 5)
    gnn.candidate.weight.copy_(rnn.candidate.weight_h.expand(3, 5, 5))
    gnn.candidate.bias.copy_(rnn.candidate.weight_x.mT + rnn.candidate.bias)
    a = h0
    for x, hs in zip(
        xs, discretize.DiscreteRNN(rnn, fused=False)(xs, h0)[0], strict=True
    ):  # eqs. (8) and (9): rho_jx + sum_i tau_ij a_i
        rho = rnn.candidate.weight_x[:, x.argmax(-1)].mT
        a = torch.tanh(rho + a @ rnn.candidate.weight_h.mT + rnn.candidate.bias)
        assert_close(hs, a, **ROUNDING)
    assert_close(discretize.DiscreteRNN(gnn)(xs, h0)[0], discretize.DiscreteRNN(rnn, fused=False)(xs, h0)[0], **ROUNDING)


@torch.no_grad()
def test_solved_exactly_held_symbols_make_ramps_and_loops_forget_in_closed_form():
    field, xs = ctrnn.glnn(2, 3, 1), symbols(4, 1, alphabet=2)  # only loops
    field.incoming.weight.zero_()
    h0, path = torch.randn(1, 3), ctrnn.HeldPath(xs)
    ends = torch.arange(5.0)
    ramps = discretize.integrate(field, path, h0, ends).hs
    assert_close(ramps[1:] - ramps[:-1], xs @ field.incoming.bias, rtol=0, atol=1e-10)
    field.incoming.bias.zero_()
    field.incoming.weight.fill_(-0.5)  # dV/dt = -tanh(V)/2: sinh V falls as e^(-t/2)
    solved = discretize.integrate(field, path, h0, ends, rtol=1e-10, atol=1e-12).hs[:, 0]
    assert_close(solved, torch.asinh(torch.exp(-ends / 2)[:, None] * torch.sinh(h0)), rtol=0, atol=1e-9)


@pytest.mark.parametrize("make", [ctrnn.glnn, ctrnn.gnn])
@pytest.mark.parametrize("squash", [ACTIVATIONS["logistic"], Sigmoidal(width=0.7, size=-3.0, centre=5.0)])
@torch.no_grad()
def test_other_activations_are_the_same_network_in_other_numbers(squash, make):
    xs, h0 = symbols(12, 2), torch.randn(2, 4)
    field = moved(make(3, 4, 3))
    part = next(part for part in field.modules() if isinstance(part, GatedCandidate))
    start = h0 if make is ctrnn.glnn else h0.tanh()
    before = discretize.DiscreteRNN(field)(xs, start)[0]
    part.rewrite_(squash)
    start = squash.width * h0 if make is ctrnn.glnn else squash(squash.width * h0)
    after = discretize.DiscreteRNN(field)(xs, start)[0]
    assert_close(after, squash.centre + squash.size * before, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("n", "edges"), [(1, 1), (7, 1), (40, 3), (5, 5)])
def test_every_unit_hears_itself_and_as_many_others_as_asked_each_once(n, edges):
    sources = ctrnn.glnn(2, n, edges).incoming.sources
    assert sources.shape == (n, edges)
    for j, heard_by_j in enumerate(sources.tolist()):
        assert j in heard_by_j
        assert len(set(heard_by_j)) == edges


def test_which_others_a_unit_hears_is_drawn_evenly():
    drawn = torch.cat([ctrnn.glnn(1, 6, 3).incoming.sources[0] for _ in range(400)]).bincount(minlength=6)
    assert drawn[0] == 400
    assert ((drawn[1:] - 160).abs() < 50).all()  # five standard deviations


@pytest.mark.parametrize("make", [lambda: ctrnn.glnn(3, 5, 2, "logistic"), lambda: ctrnn.gnn(3, 5, 2, bias=False)])
def test_a_saved_network_keeps_its_graph(make, tmp_path):
    field, x, h = make(), torch.randn(2, 3), torch.randn(2, 5)
    ctrnn.save(tmp_path / "model.safetensors", moved(field))
    assert_close(ctrnn.load(tmp_path / "model.safetensors")(x, h), field(x, h), rtol=0, atol=1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@torch.no_grad()
def test_at_the_start_units_are_sums_over_the_past_that_fade_by_one_minus_mu(activation):
    field, nu = ctrnn.glnn(3, 6, activation=activation), torch.tensor([0.5, 0.3, 0.2])
    field.reset_parameters(nu)
    mu, rest = 1 / torch.arange(2.0, 8.0), field.resting_state(1)
    slopes = torch.eye(6) + field.jacobian(field.project(nu[None]), rest)[0]
    assert_close(slopes, torch.diag(1 - mu), **ROUNDING)  # eqs. (72), (75)
    assert_close(field(nu[None], rest), torch.zeros(1, 6), **ROUNDING)  # eq. (71): at rest on the mean symbol
    logistic = activation == "logistic"
    moves = field(torch.eye(3), rest.expand(3, 6)) / (field.incoming.squash.width * mu / 4)  # u less its mean, eq. (32)
    assert 0.1 < (moves.amax(0) - moves.amin(0)).mean() < 1
    assert_close(field.visible(rest), torch.zeros(1, 6) - torch.sqrt(1 - 2 * mu) * 0.5**logistic + 0.5 * logistic, **ROUNDING)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ctrnn.glnn(3, 5, 6), "`edges` is 6, but a unit hears at most all 5 units"),
        (lambda: ctrnn.gnn(3, 5, 0), "`edges` must be at least 1"),
        (lambda: ctrnn.glnn(0, 5), "`input_size` must be at least 1"),
        (lambda: ctrnn.glnn(3, 5, activation="relu"), "`activation` must be one of 'tanh', 'logistic'"),
        (lambda: ctrnn.glnn(3, 5, bias=False).incoming.rewrite_(Sigmoidal()), "has no `bias`"),
    ],
)
def test_what_makes_no_network_is_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
