"""Values, moduli, metrics and steps against autograd on networks of a few units, with parameters of their own at each time."""

from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.riemannian.directions import backpropagated, read_out_direction, transition_direction
from discretize.riemannian.network import network_of

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
T, A, N = 9, 3, 4


def model_of(make, edges, activation="tanh"):
    model = discretize.SymbolModel(make(A, N, edges, activation))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def data(batch=2, time=T):
    symbols = torch.randint(A, (time, batch))
    return symbols, (torch.rand(time, batch) < 0.8).to(torch.get_default_dtype())


def unfolded(model, symbols, mask):
    """Every state, and every parameter of every time, as a leaf of its own: what the paper calls dummy parameters."""
    field, batch = model.field, symbols.shape[1]
    part = network_of(field).edges.part
    leaky = isinstance(field, ctrnn.GLNNField)
    state, total = model.start.detach().expand(batch, -1).clone().requires_grad_(), 0.0
    states, weights, biases = [state], [], []
    for t, x in enumerate(symbols):
        activity = part.squash(state) if leaky or t > 0 else state  # of GNNs the start is the activity
        pi = torch.softmax(activity @ model.read_out.weight.mT + model.read_out.bias, -1)
        total = total + (mask[t] * pi[range(batch), x].log()).sum()
        weights.append(part.weight.detach()[x].clone().requires_grad_())
        biases.append(part.bias.detach()[x].clone().requires_grad_())
        heard = biases[-1] + (weights[-1] * activity[:, part.sources]).sum(-1)
        state = state + heard if leaky else heard
        state.retain_grad()
        states.append(state)
    total.backward()
    found = [torch.stack([torch.zeros_like(p) if p.grad is None else p.grad for p in each]) for each in (states, weights, biases)]
    return SimpleNamespace(total=total.detach(), values=found[0], slopes=torch.cat([found[2][..., None], found[1]], -1))


def back_of(model, symbols, mask):
    activity = model.activities(symbols).detach()
    pi = model.read_out(activity).softmax(-1).detach()
    return backpropagated(network_of(model.field), model.read_out.weight.detach(), symbols, activity, pi, mask)


KINDS = [(ctrnn.glnn, None, "tanh"), (ctrnn.glnn, 2, "logistic"), (ctrnn.gnn, 2, "tanh"), (ctrnn.gnn, None, "logistic")]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_autograds_derivatives_in_every_state(kind):
    model, (symbols, mask) = model_of(*kind), data()
    unfold = unfolded(model, symbols, mask)
    assert_close(model.log_likelihood(symbols, mask), unfold.total, **CLOSE)
    assert_close(back_of(model, symbols, mask).values, unfold.values[:-1], **CLOSE)  # eq. (22)
    assert not unfold.values[-1].any()


@pytest.mark.parametrize("kind", KINDS)
def test_moduli_go_back_by_the_squares_of_all_slopes(kind):
    model, (symbols, mask) = model_of(*kind), data(batch=1)
    field, network = model.field, network_of(model.field)
    squash, leaky = network.edges.part.squash, network.on_v

    def following(V, x):
        heard = network.edges.part.heard(network.edges.part.project(torch.eye(A)[x]), squash(V))
        return V + heard if leaky else heard

    def log_pi(V):
        return torch.log_softmax(model.read_out(squash(V)), -1)

    V, expected, steps = model.start.detach(), torch.zeros(N), []
    for t, x in enumerate(symbols[:, 0]):
        if not (leaky or t):
            V = None  # the start of a GNN is an activity, and has no V
            steps.append((x, None))
            V = network.edges.part.heard(network.edges.part.project(torch.eye(A)[x]), model.start.detach()).detach()
            continue
        steps.append((x, V))
        V = following(V, x).detach()
    for t in range(T - 1, 0 if not leaky else -1, -1):
        x, V = steps[t]
        slopes = torch.autograd.functional.jacobian(lambda v: following(v, x), V)  # noqa: B023
        scores = torch.autograd.functional.jacobian(log_pi, V)
        fisher = (log_pi(V).exp()[:, None] * scores**2).sum(0)  # eqs. (58)-(60)
        expected = mask[t, 0] * fisher + (slopes**2).mT @ expected  # eqs. (24), (63)
        assert_close(back_of(model, symbols, mask).moduli[t, 0], expected.detach(), **CLOSE)
    assert field.hidden_size == N


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_unit_adds_to_all_symbols_alike_changes_nothing(kind):
    model, (symbols, mask) = model_of(*kind), data()
    before = back_of(model, symbols, mask)
    activity = model.activities(symbols).detach()
    pi = model.read_out(activity).softmax(-1).detach()
    writing = model.read_out.weight.detach() + 1e7 * torch.arange(1.0, 1.0 + N)
    found = backpropagated(network_of(model.field), writing, symbols, activity, pi, mask)
    assert_close(found.values, before.values, rtol=1e-6, atol=1e-7)  # of the weights 1e-16 * 1e7 is left
    assert_close(found.moduli, before.moduli, rtol=1e-6, atol=1e-7)


def brute_force(model, symbols, mask, metric):
    """Gradients and unitwise metrics of each unit and symbol as sums over dummy parameters: (A, N, 1 + d), with another 1 + d."""
    slopes, back = unfolded(model, symbols, mask).slopes, back_of(model, symbols, mask)
    part = network_of(model.field).edges.part
    activity = model.activities(symbols).detach()
    signals = torch.cat([torch.ones(*activity.shape, 1), activity[..., part.sources]], -1)
    k = signals.shape[-1]
    gradient, matrices = torch.zeros(A, N, k), torch.zeros(A, N, k, k)
    for t in range(T):
        for b, x in enumerate(symbols[t]):
            gradient[x] += slopes[t, b]
            for j in range(N):
                if metric == "ruop":
                    matrices[x, j] += torch.outer(slopes[t, b, j], slopes[t, b, j])  # eq. (55)
                elif t + 1 < T:
                    matrices[x, j] += back.moduli[t + 1, b, j] * torch.outer(signals[t, b, j], signals[t, b, j])  # eq. (67)
    return gradient, matrices


def direction_of(model, symbols, mask, *settings):
    found = transition_direction(model, symbols, mask, model.activities(symbols).detach(), *settings)
    part = network_of(model.field).edges.part
    return torch.cat([found[part.bias][..., None], found[part.weight]], -1), found[model.start]


@pytest.mark.parametrize("kind", KINDS)
def test_transition_steps_are_the_inverse_metrics_on_autograds_gradient(kind):
    model, (symbols, mask) = model_of(*kind), data()
    start = unfolded(model, symbols, mask).values[0]
    moduli = {"rbpm": back_of(model, symbols, mask).moduli[0], "ruop": start**2}
    for metric in ("ruop", "rbpm"):
        gradient, matrices = brute_force(model, symbols, mask, metric)
        dampened = matrices + 0.3 * torch.eye(matrices.shape[-1])
        step, at_start = direction_of(model, symbols, mask, metric, "full", 0.3)  # eqs. (25)-(28)
        assert_close(step, torch.linalg.solve(dampened, gradient), **CLOSE)
        assert_close(at_start, start.sum(0) / (moduli[metric].sum(0) + 0.3), **CLOSE)  # eq. (29)
        quasi, _ = direction_of(model, symbols, mask, metric, "quasi", 0.3)
        constant = gradient[..., 0] / dampened[..., 0, 0]
        for i in range(1, gradient.shape[-1]):
            pair = dampened[..., [0, i], :][..., [0, i]]
            own = torch.linalg.solve(pair, gradient[..., [0, i]])[..., 1]  # unit i with unit 0 alone
            assert_close(quasi[..., i], own, **CLOSE)
            constant = constant - dampened[..., 0, i] / dampened[..., 0, 0] * own
        assert_close(quasi[..., 0], constant, **CLOSE)
        alone, _ = direction_of(model, symbols, mask, metric, "diagonal", 0.3)
        assert_close(alone, gradient / dampened.diagonal(dim1=-2, dim2=-1), **CLOSE)


def test_an_rnn_has_one_matrix_a_unit_for_symbols_and_units_together():
    model, (symbols, mask) = discretize.SymbolModel(ctrnn.plain(A, N)), data()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    part, activity, total, rows, heard = model.field.candidate, model.start.detach().expand(2, -1), 0.0, [], []
    for t, x in enumerate(symbols):
        pi = torch.log_softmax(activity @ model.read_out.weight.mT + model.read_out.bias, -1)
        total = total + (mask[t] * pi[range(2), x]).sum()
        theta = torch.cat([part.bias[:, None], part.weight_x, part.weight_h], -1).detach()  # (8): each time its own
        rows.append(theta.expand(2, -1, -1).clone().requires_grad_())
        heard.append(torch.cat([torch.ones(2, 1), torch.eye(A)[x], activity], -1))
        activity = torch.tanh((rows[-1] * heard[-1][:, None]).sum(-1))
    assert_close(model.log_likelihood(symbols, mask), total)
    assert_close(network_of(model.field).activities(symbols, model.start), model.activities(symbols), **CLOSE)
    slopes = torch.stack(torch.autograd.grad(total, rows[:-1]))
    gradient = slopes.sum((0, 1))
    moduli, inputs = back_of(model, symbols, mask).moduli[1:], torch.stack(heard[:-1]).detach()
    matrices = {
        "ruop": torch.einsum("tbjk,tbjl->jkl", slopes, slopes),
        "rbpm": torch.einsum("tbj,tbk,tbl->jkl", moduli, inputs, inputs),
    }

    def moved(*settings):
        found = transition_direction(model, symbols, mask, model.activities(symbols).detach(), *settings)
        return torch.cat([found[part.bias][:, None], found[part.weight_x], found[part.weight_h]], -1)

    for metric, undampened in matrices.items():
        matrix = undampened + 0.2 * torch.eye(1 + A + N)
        assert_close(moved(metric, "full", 0.2), torch.linalg.solve(matrix, gradient), **CLOSE)
        own = matrix.diagonal(dim1=-2, dim2=-1)
        ratio = matrix[:, 0, 1:] / own[:, :1]
        quasi = (gradient[:, 1:] - gradient[:, :1] * ratio) / (own[:, 1:] - matrix[:, 0, 1:] * ratio)  # eq. (34)
        assert_close(moved(metric, "quasi", 0.2)[:, 1:], quasi, **CLOSE)
    often = torch.cat([torch.full((1,), 2 * T - 2), symbols[:-1].flatten().bincount(minlength=A), torch.full((N,), 2 * T - 2)])
    assert_close(moved("frequency", "full", 1.0), gradient / often, **CLOSE)


def test_baselines_are_the_gradient_and_what_is_divided():
    model, (symbols, mask) = model_of(ctrnn.glnn, 2), data()
    unfold = unfolded(model, symbols, mask)
    gradient, _ = brute_force(model, symbols, mask, "ruop")
    part = model.field.incoming
    loss = model.log_likelihood(symbols, mask)
    slopes = torch.autograd.grad(loss, [part.bias, part.weight, model.start])
    step, at_start = direction_of(model, symbols, mask, "gradient", "full", 1.0)
    assert_close(step, torch.cat([slopes[0][..., None], slopes[1]], -1), **CLOSE)
    assert_close(step, gradient, **CLOSE)
    assert_close(at_start, slopes[2], **CLOSE)
    often = symbols[:-1].flatten().bincount(minlength=A)
    assert_close(direction_of(model, symbols, mask, "frequency", "full", 1.0)[0], gradient / often[:, None, None], **CLOSE)
    squares = torch.zeros_like(gradient)
    for t in range(T):
        for b, x in enumerate(symbols[t]):
            squares[x] += unfold.slopes[t, b] ** 2
    assert_close(direction_of(model, symbols, mask, "rms", "full", 1.0)[0], gradient / squares.sqrt(), **CLOSE)


def test_read_out_steps_are_pairs_of_the_hessian_on_autograds_gradient():
    model, (symbols, mask) = model_of(ctrnn.glnn, 3), data()
    activity = model.activities(symbols).detach()

    def likelihood(w):  # w (A, 1 + N), w_0y first
        return (mask * torch.log_softmax(activity @ w[:, 1:].mT + w[:, 0], -1).gather(-1, symbols[..., None])[..., 0]).sum()

    w = torch.cat([model.read_out.bias[:, None], model.read_out.weight], -1).detach()
    gradient = torch.autograd.functional.jacobian(likelihood, w)
    hessian = -torch.autograd.functional.hessian(likelihood, w)
    often = symbols.flatten().bincount(minlength=A) / symbols.numel()
    found = read_out_direction(model, symbols, mask, activity, "quasi", 1.0)
    for y in range(A):
        h = hessian[y, :, y] + torch.diag((often[y] + torch.finfo(often.dtype).eps).expand(1 + N))  # eqs. (18), (19)
        own = [torch.linalg.solve(h[[0, i]][:, [0, i]], gradient[y, [0, i]])[1] for i in range(1, 1 + N)]
        assert_close(found[model.read_out.weight][y], torch.stack(own), **CLOSE)  # eq. (20)
        constant = gradient[y, 0] / h[0, 0] - sum(h[0, i] / h[0, 0] * s for i, s in enumerate(own, 1))
        assert_close(found[model.read_out.bias][y], constant, **CLOSE)  # eq. (21)
    alone = read_out_direction(model, symbols, mask, activity, "diagonal", 0.0)[model.read_out.weight]
    curvature = torch.stack([hessian[y, :, y].diagonal() for y in range(A)])
    assert_close(alone, (gradient / curvature)[:, 1:], **CLOSE)
    plain = read_out_direction(model, symbols, mask, activity, "gradient", 0.0)
    assert_close(plain[model.read_out.bias], gradient[:, 0], **CLOSE)
