"""Networks as neuroscience writes them, here in words of our own with their names of weights: the same outputs once read."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize

X = torch.randn(9, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Signed(nn.Module):
    """Recurrent weights of fixed signs, without a diagonal."""

    def __init__(self, hidden, excite):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(hidden, hidden) / hidden**0.5), nn.Parameter(torch.randn(hidden))
        self.mask = torch.ones(hidden, hidden)
        self.mask[:, excite:] = -1
        self.mask.fill_diagonal_(0)

    def forward(self, r):
        return nn.functional.linear(r, self.weight.abs() * self.mask, self.bias)


class Loop(nn.Module):
    """What is copied from a tutorial: a loop over Euler steps of dt/tau."""

    def __init__(self, inputs, hidden, dt, form, excite=None):
        super().__init__()
        self.tau, self.form = 100, form
        self.alpha = dt / self.tau
        self.input2h = nn.Linear(inputs, hidden)
        self.h2h = nn.Linear(hidden, hidden) if excite is None else Signed(hidden, excite)

    def forward(self, xs, start=None):
        state, outputs = torch.zeros(xs.shape[1], self.input2h.out_features) if start is None else start, []
        for x in xs:
            if self.form == "rates":
                state = (1 - self.alpha) * state + self.alpha * torch.relu(self.input2h(x) + self.h2h(state))
                outputs.append(state)
            else:
                state = (1 - self.alpha) * state + self.alpha * (self.input2h(x) + self.h2h(torch.relu(state)))
                outputs.append(torch.relu(state))
        return torch.stack(outputs)


class Read(nn.Module):
    """A loop and a read-out of its first units."""

    def __init__(self, rnn, units, outputs=2, bias=True):
        super().__init__()
        self.rnn, self.units, self.fc = rnn, units, nn.Linear(units, outputs, bias=bias)

    def forward(self, xs):
        return self.fc(self.rnn(xs)[..., : self.units])


NOT_COMPARED = "its outputs could not be compared, because "


def read(network, **words):
    return discretize.from_ctrnn(network, **words)


@pytest.mark.parametrize("form", ["rates", "potentials"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_loop_with_a_read_out_gives_its_outputs_and_gradients(form, bias):
    network = Read(Loop(3, 10, 20, form), 10, bias=bias)
    model = read(network, form=form)
    assert (model.rnn.dt, ctrnn.timescales(model.field)[0].item()) == pytest.approx((20.0, 100.0))
    assert_close(model(X), network(X), rtol=1e-12, atol=1e-12)
    for outputs in (model(X), network(X)):
        outputs.square().mean().backward()
    assert_close(model.field.candidate.weight_h.grad, network.rnn.h2h.weight.grad, rtol=1e-9, atol=1e-12)
    assert_close(read(network.rnn, form=form)(X)[0], network.rnn(X), rtol=1e-12, atol=1e-12)
    with pytest.warns(
        UserWarning, match=NOT_COMPARED + r"arrays have no code.*\(10, 10\), were read by rows, \[i, j\] to unit i"
    ):
        alone = read(network.state_dict(), form=form, alpha=0.2)
    assert_close(alone(X), network(X), rtol=1e-12, atol=1e-12)


class Tanh(Loop):
    def forward(self, xs):
        state, outputs = torch.zeros(xs.shape[1], 10), []
        for x in xs:
            state = (1 - self.alpha) * state + self.alpha * torch.tanh(self.input2h(x) + self.h2h(state))
            outputs.append(state)
        return torch.stack(outputs), state


class BatchFirst(Loop):
    def forward(self, xs):
        return super().forward(xs.transpose(0, 1)).transpose(0, 1)


class Asking(Loop):
    def forward(self, xs, mask):
        raise AssertionError("is not called without its mask")


class Last(Loop):
    def forward(self, xs):
        return super().forward(xs)[-1]


@pytest.mark.parametrize(
    ("kind", "form", "words"),
    [
        (Tanh, "rates", r"with relu and the form 'rates', by \d+% of a unit's largest.*another `nonlinearity`"),
        (Loop, "potentials", "gives other outputs"),
        (BatchFirst, "rates", r"\(time, batch, input\)"),
        (Asking, "rates", NOT_COMPARED + "its `forward` takes no samples .* missing 1 required positional"),
        (Last, "rates", NOT_COMPARED + r"it gives nothing of the shape \(7, 3, 10\) for samples \(7, 3, 3\)"),
    ],
)
def test_a_forward_that_is_another_network_than_was_read_is_warned_of(kind, form, words):
    with pytest.warns(UserWarning, match=words):
        read(kind(3, 10, 20, form), form="rates")


def test_a_nonlinearity_that_is_given_is_read():
    network = Tanh(3, 10, 20, "rates")
    assert_close(read(network, form="rates", nonlinearity="tanh")(X)[0], network(X)[0], rtol=1e-12, atol=1e-12)


def test_one_unit_that_is_read_otherwise_is_told_beside_a_large_one():
    network = Read(Loop(3, 10, 20, "rates"), 10)
    with torch.no_grad():
        network.fc.weight[0] *= 1e6
    read(network, form="rates")  # warnings are errors here
    network.register_forward_hook(lambda module, given, output: output * torch.tensor([1.0, 1.01]))
    with pytest.warns(UserWarning, match="gives other outputs .* by 1% of a unit's largest"):
        read(network, form="rates")


@pytest.mark.parametrize("name", ["h0", "scale"])
def test_an_array_that_was_not_read_is_named(name):
    network = Loop(3, 10, 20, "rates")
    network.register_buffer(name, torch.zeros(10))
    with pytest.warns(UserWarning, match=f"`network` has arrays that were not read, {name}; what they do"):
        read(network, form="rates")


def test_excitation_and_inhibition_are_kept_and_inhibition_is_not_read_out():
    network = Read(Loop(3, 10, 10, "potentials", excite=8), 8)
    model = read(network)
    assert_close(model(X), network(X), rtol=1e-12, atol=1e-12)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    model(X).square().sum().backward()
    optimizer.step()
    weight = model.field.candidate.weight_h.detach()
    assert bool((weight[:, :8] >= 0).all())
    assert bool((weight[:, 8:] <= 0).all())
    assert_close(weight.diagonal(), torch.zeros(10))
    assert_close(model.read_out.weight[:, 8:], torch.zeros(2, 2))
    single = Read(Loop(3, 10, 10, "potentials", excite=8), 8).float()
    single.rnn.h2h.mask = single.rnn.h2h.mask.float()
    start = torch.zeros(4, 10, dtype=torch.float32)
    with pytest.warns(UserWarning, match=NOT_COMPARED + "its `forward` takes no samples"):  # it starts in double precision
        model = read(single)
    assert_close(model(X.float()), single.fc(single.rnn(X.float(), start)[..., :8]), rtol=1e-5, atol=1e-5)


def test_the_noise_of_others_has_the_deviation_of_their_steps():
    network = Loop(3, 10, 25, "potentials", excite=8)
    network._sigma_rec = math.sqrt(2 * network.alpha) * 0.1
    with pytest.warns(UserWarning, match=NOT_COMPARED + "it has noise"):
        rnn = read(network)
    assert not rnn.field.noise.sigma.requires_grad
    states = rnn(torch.zeros(1, 20_000, 3), seed=1)[1][0]
    assert_close(states.std(0), torch.full((10,), network._sigma_rec), rtol=0.03, atol=0)


SIGNS = torch.tensor([1.0] * 6 + [-1.0] * 2, dtype=torch.float64)
MASK = (torch.rand(8, 8, generator=torch.Generator().manual_seed(1)) < 0.5).double()


@pytest.mark.parametrize("given", [(), (SIGNS,), (SIGNS, MASK)], ids=["plain", "signs", "signs and a mask"])
def test_layers_with_signs_and_masks_are_read(given):
    network = Layered(*given)
    assert_close(read(network)(X), network(X), rtol=1e-12, atol=1e-12)


def test_noise_before_the_activation_enters_a_step_as_its_input_does():
    network = Layered()
    network.recurrent_layer.preact_noise = 0.3  # v' = (1 - alpha) v + alpha (... + 0.3 z)
    with pytest.warns(UserWarning, match=NOT_COMPARED + "it has noise"):
        rnn = read(network).rnn
    states = rnn(torch.zeros(1, 20_000, 3), seed=1)[1][0]
    assert_close(states.std(0), torch.full((8,), 0.3 * network.recurrent_layer.alpha), rtol=0.03, atol=0)


def test_a_network_that_says_dt_and_tau_alone_takes_steps_of_their_ratio():
    network = Loop(3, 10, 20, "rates")
    wanted = network(X)
    network.dt = 20.0
    del network.alpha
    with pytest.warns(UserWarning, match=NOT_COMPARED):  # its own forward reads alpha
        rnn = read(network, form="rates")
    assert_close(rnn(X)[0], wanted, rtol=1e-12, atol=1e-12)


def test_signs_and_masks_are_kept_as_parametrizations():
    model = read(Layered(SIGNS, MASK))
    assert [type(part).__name__ for part in model.field.candidate.parametrizations.weight_h] == ["Dale", "Mask"]


def arrays_of(dale):
    dice = np.random.default_rng(0)
    arrays = {name: dice.normal(size=shape) / 3 for name, shape in {"W_in": (6, 3), "W_rec": (6, 6), "W_out": (2, 6)}.items()}
    arrays |= {"b_rec": dice.normal(size=6), "b_out": dice.normal(size=2), "init_state": dice.normal(size=(1, 6))}
    arrays |= {"dale_ratio": np.array(None, dtype=object), "Dale_rec": np.diag(np.r_[np.ones(4), -np.ones(2)])}
    if dale:
        arrays |= {"W_rec": np.abs(arrays["W_rec"]) @ arrays["Dale_rec"], "dale_ratio": np.array(0.7)}
    return arrays


@pytest.mark.parametrize("dale", [False, True])
def test_arrays_that_were_saved_by_another_framework_are_read_without_their_objects(tmp_path, dale):
    np.savez(tmp_path / "weights.npz", **arrays_of(dale), transfer_function=np.array(np.tanh, dtype=object))
    with np.load(tmp_path / "weights.npz") as file, pytest.warns(UserWarning, match="not") as said:
        model = read(file, alpha=0.1, nonlinearity="tanh")
    words = ["an initial state that is not 0", "not read, transfer_function;", NOT_COMPARED + "arrays have no code to call"]
    assert all(word in str(warning.message) for word, warning in zip(words, said, strict=True))
    with np.load(tmp_path / "weights.npz") as file:
        w = {name: file[name] for name in ("W_in", "W_rec", "W_out", "b_rec", "b_out", "init_state")}
    xs, v, wanted = X.transpose(0, 1).numpy(), np.repeat(w["init_state"], 4, 0), []
    for k in range(xs.shape[1]):
        v = 0.9 * v + 0.1 * (np.tanh(v) @ w["W_rec"].T + xs[:, k] @ w["W_in"].T + w["b_rec"])
        wanted.append(np.tanh(v) @ w["W_out"].T + w["b_out"])
    found = model(X.transpose(0, 1), h_0=torch.from_numpy(w["init_state"]).expand(4, -1))
    assert_close(found, torch.from_numpy(np.stack(wanted, 1)), rtol=1e-12, atol=1e-12)
    assert ("Dale" in repr(model)) == dale


class Layered(nn.Module):
    """Weights by the names of nn4n, signs by clipping."""

    def __init__(self, signs=None, mask=None):
        super().__init__()
        self.recurrent_layer, self.readout_layer = nn.Module(), nn.Linear(8, 2)
        layer = self.recurrent_layer
        layer.alpha, layer.act, layer.preact_noise, layer.postact_noise = 0.1, "sigmoid", 0, 0
        layer.hidden_state = nn.Parameter(torch.zeros(8), requires_grad=False)
        layer.input_layer, layer.hidden_layer = nn.Linear(3, 8), nn.Linear(8, 8)
        layer.hidden_layer.ei_mask = None if signs is None else signs.expand(8, 8)
        layer.hidden_layer.sparsity_mask = mask
        with torch.no_grad():
            if signs is not None:
                layer.hidden_layer.weight.copy_((layer.hidden_layer.weight * signs).relu() * signs)
            if mask is not None:
                layer.hidden_layer.weight.mul_(mask)

    def forward(self, xs):
        layer, outputs = self.recurrent_layer, []
        v = torch.zeros(8)
        for x in xs:
            v = (1 - layer.alpha) * v + layer.alpha * (layer.hidden_layer(torch.sigmoid(v)) + layer.input_layer(x))
            outputs.append(self.readout_layer(torch.sigmoid(v)))
        return torch.stack(outputs)


class Scaled(nn.Module):
    """Weights by the names of LowRankRNN and FullRankRNN, batch first, each end with a scale; low rank over the units."""

    def __init__(self, rank, noise_std=0.0):
        super().__init__()
        sizes = {"wi": (3, 6), "si": (3,), "b": (6,), "wo": (6, 2), "so": (2,), "h0": (6,)}
        sizes |= {"m": (6, rank), "n": (6, rank)} if rank else {"wrec": (6, 6)}
        for name, size in sizes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(size) if name not in ("b", "h0") else torch.zeros(size)))
        for name in ("si", "so", "b", "h0"):
            self.get_parameter(name).requires_grad_(False)
        self.alpha, self.noise_std, self.non_linearity, self.output_non_linearity = 0.2, noise_std, torch.tanh, torch.tanh
        self.wi_full = (self.wi.T * self.si).T  # no leaf, so that torch does not copy it

    def forward(self, xs):
        rank = "m" in self._parameters
        weight, v, outputs = self.m @ self.n.T / 6 if rank else self.wrec, self.h0, []
        for x in xs.unbind(1):
            noise = self.noise_std * torch.randn(len(xs), 6)
            v = v + noise + self.alpha * (self.non_linearity(v + self.b) @ weight.T + x @ (self.wi.T * self.si).T - v)
            outputs.append(self.output_non_linearity(v) @ (self.wo * self.so) / (6 if rank else 1))
        return torch.stack(outputs, 1)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_networks_of_low_and_full_rank_with_scales_are_read_with_their_outputs_and_gradients(rank):
    network = Scaled(rank)
    with torch.no_grad():
        network.si.uniform_(0.5, 2)
        network.so.uniform_(0.5, 2)
    model = read(network)  # warnings are errors here
    assert_close(model(X), network(X), rtol=1e-10, atol=1e-12)
    part = model.field.candidate
    assert ("LowRank" in repr(part)) == (rank > 0)
    x = X.clone().requires_grad_()
    ours, theirs = (torch.autograd.grad(net(x).square().sum(), x)[0] for net in (model, network))
    assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    assert all(weight.requires_grad for weight in model.parameters())
    network.wi.requires_grad_(False)
    assert not read(network).field.candidate.weight_x.requires_grad
    with pytest.warns(UserWarning, match=NOT_COMPARED + "arrays have no code"):
        assert_close(read(network.state_dict(), alpha=0.2, nonlinearity="tanh")(X), network(X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "word"), [(nn.functional.relu, "relu"), (nn.Softplus(), "softplus"), (lambda h: h.tanh(), "tanh")]
)
def test_a_nonlinearity_of_a_network_with_scales_is_known_by_what_it_does(function, word):
    network = changed(Scaled(1), non_linearity=function, output_non_linearity=function)
    model = read(network)
    assert word in repr(model)
    assert_close(model(X), network(X), rtol=1e-10, atol=1e-12)


def test_a_network_with_scales_starts_where_it_says_and_has_its_noise():
    network = Scaled(1)
    network.h0.copy_(torch.randn(6))
    with pytest.warns(UserWarning, match="an initial state that is not 0"):  # and no other: outputs from it are the same
        model = read(network)
    assert_close(model(X, h_0=network.h0.expand(len(X), -1)), network(X), rtol=1e-10, atol=1e-12)
    with pytest.warns(UserWarning, match=NOT_COMPARED + "it has noise"):
        states = read(Scaled(1, noise_std=0.1)).rnn(torch.zeros(20_000, 1, 3), seed=1)[1][0]
    assert_close(states.std(0), torch.full((6,), 0.1), rtol=0.03, atol=0)


def changed(network, **attributes):
    for path, value in attributes.items():
        owner, _, name = path.rpartition("__")
        setattr(network.get_submodule(owner.replace("__", ".")), name, value)
    return network


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: read(Loop(3, 4, 20, "rates")), ValueError, "say how its `forward` steps.*is no step of an equation"),
        (lambda: read(nn.RNN(3, 4)), TypeError, "`discretize.layers_from_torch` reads it"),
        (
            lambda: read(nn.ModuleDict({"rnn": nn.RNN(3, 4), "fc": nn.Linear(4, 2)})),
            ValueError,
            "`network.rnn` is one of torch's own, a RNN, .* `discretize.layers_from_torch` reads its layers",
        ),
        (
            lambda: read(nn.Linear(3, 4)),
            ValueError,
            "not recognized by .*, weight, bias; known are .* Give a dict under",
        ),
        (lambda: read([1, 2]), TypeError, "must be a torch.nn.Module, its state_dict or arrays by name, got list"),
        (lambda: read(Loop(3, 4, 20, "rates").state_dict(), form="rates"), ValueError, "give `alpha`, which is dt/tau"),
        (
            lambda: read(Loop(3, 4, 20, "rates"), form="rates", alpha=0.1),
            ValueError,
            "`alpha` is 0.1, and that of the network is 0.2",
        ),
        (
            lambda: read(changed(Loop(3, 4, 20, "rates"), alpha=1e-10), form="rates", alpha=2e-10),
            ValueError,
            "`alpha` is 2e-10, and that of the network is 1e-10",
        ),
        (lambda: read(nn.Sequential(Loop(3, 4, 20, "rates"), nn.Linear(4, 2)), form="rates"), ValueError, "not known, 1;"),
        (lambda: read(changed(Layered(), recurrent_layer__postact_noise=0.1)), ValueError, "postact_noise"),
        (lambda: read(changed(Loop(3, 4, 20, "rates", excite=3), h2h__mask=torch.ones(4, 4))), ValueError, "diagonal of 0"),
        (lambda: read(changed(Scaled(1), b=nn.Parameter(torch.ones(6)))), ValueError, "adds `b` to its units within"),
        (lambda: read(changed(Scaled(1), non_linearity=torch.relu)), ValueError, "an `output_non_linearity` that are not one of"),
        (
            lambda: read(changed(Scaled(1), non_linearity=nn.ReLU6(), output_non_linearity=nn.ReLU6())),
            ValueError,
            "that are not one of tanh, relu",
        ),
        (lambda: read(changed(Scaled(1), wi=nn.Parameter(torch.ones(3, 2, 6)))), ValueError, "has shape .* weights of supports"),
        (lambda: read(Scaled(1).state_dict()), ValueError, "give `alpha`, which is dt/tau"),
        (lambda: read(changed(Scaled(1), n=nn.Parameter(torch.ones(5, 1)))), ValueError, r"should be \(6, 6\), got \(6, 5\)"),
        (lambda: read(arrays_of(False), alpha=-1.0), ValueError, "`alpha` must be positive"),
        (lambda: read(arrays_of(False) | {"W_rec": np.ones((6, 1))}, alpha=0.1), ValueError, r"should be \(6, 6\), got \(6, 1\)"),
        (lambda: read(arrays_of(False) | {"b_rec": np.ones(1)}, alpha=0.1), ValueError, r"bias should be \(6,\), got \(1,\)"),
        (lambda: read(arrays_of(False) | {"W_out": np.ones((2, 5))}, alpha=0.1), ValueError, "`W_out` reads 5 units"),
        (
            lambda: read(arrays_of(False) | {"W_in": np.full((6, 3), np.nan)}, alpha=0.1),
            ValueError,
            "weights of the input` must be",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("frozen", ["input2h", "h2h", "fc", "", "none"])
def test_frozen_weights_and_the_mode_of_a_network_come_along(frozen):
    network = Read(Loop(3, 10, 20, "rates"), 10).eval()
    for name, weight in network.named_parameters():
        weight.requires_grad_(frozen not in name)
    network.rnn.input2h.bias.requires_grad_(network.rnn.h2h.bias.requires_grad)
    model = read(network, form="rates")
    part = model.field.candidate
    pairs = [
        (part.weight_x, network.rnn.input2h.weight),
        (part.weight_h, network.rnn.h2h.weight),
        (part.bias, network.rnn.h2h.bias),
    ]
    pairs += [(model.read_out.weight, network.fc.weight), (model.read_out.bias, network.fc.bias)]
    assert [mine.requires_grad for mine, _ in pairs] == [theirs.requires_grad for _, theirs in pairs]
    assert not model.training
    with pytest.warns(UserWarning, match=NOT_COMPARED):
        assert all(weight.requires_grad for weight in read(network.state_dict(), form="rates", alpha=0.2).parameters())
