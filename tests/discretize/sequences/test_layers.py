"""Layers of sequence modules against torch's own modules, against their parts one after another, and in every direction."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteRNN, Euler, ExponentialEuler, Layers, layers_from_torch, layers_to_torch

ROUNDING = {"rtol": 0, "atol": 1e-12}
KINDS = [nn.RNN, nn.GRU, nn.LSTM]
RELU = functools.partial(nn.RNN, nonlinearity="relu")


@st.composite
def problems(draw):
    """A torch module, samples, a start or none, lengths or none, and whether they come packed."""
    torch.manual_seed(draw(st.integers(0, 99)))
    kind, size = draw(st.sampled_from([*KINDS, RELU])), st.integers(1, 4)
    inputs, hidden, layers, time, batch = draw(size), draw(size), draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(size)
    flags = [draw(st.booleans()) for _ in range(6)]
    bias, batch_first, bidirectional, starts, packs, ragged = flags
    theirs = kind(inputs, hidden, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional)
    x = torch.randn(*((batch, time) if batch_first else (time, batch)), inputs)
    states = torch.randn(2, layers * (1 + bidirectional), batch, hidden)
    start = None if not starts else tuple(states) if kind is nn.LSTM else states[0]
    lengths = [draw(st.integers(1, time)) for _ in range(batch)] if ragged or packs else None
    if packs and draw(st.booleans()):
        lengths = sorted(lengths, reverse=True)  # as torch's default, enforce_sorted, wants them
    return theirs, x, start, lengths, packs


def as_tuple(h):
    return h if isinstance(h, tuple) else (h,)


def packed(x, lengths, batch_first):
    in_order = lengths == sorted(lengths, reverse=True)
    return pack_padded_sequence(x, torch.tensor(lengths), batch_first, enforce_sorted=in_order)


def called(rnn, x, start, lengths, packs):
    """Output and final states, and the gradients of a weighted sum of all by x, the start and the weights, by name."""
    x = x.clone().requires_grad_()
    leaves = [part.clone().requires_grad_() for part in as_tuple(start)] if start is not None else []
    h_0 = None if start is None else tuple(leaves) if isinstance(start, tuple) else leaves[0]
    if packs or (lengths and isinstance(rnn, nn.RNNBase)):
        output, h_n = rnn(packed(x, lengths, rnn.batch_first), h_0)
        if packs:
            output = output.data
        else:
            output = pad_packed_sequence(output, rnn.batch_first, total_length=x.shape[1 if rnn.batch_first else 0])[0]
    else:
        output, h_n = rnn(x, h_0, **({"lengths": lengths} if lengths else {}))
    results = [output, *as_tuple(h_n)]
    torch.manual_seed(1)
    sum((result * torch.randn(result.shape)).sum() for result in results).backward()
    return results, [x.grad, *(leaf.grad for leaf in leaves)], [p.grad for p in rnn.parameters()]


@torch.no_grad()
def gradients_as_torch_has_them(theirs, gradients):
    """The gradients of a converted module, from those of torch's: `from_torch` is linear in the weights.

    Of torch's two biases that add, each of which gets the gradient of their sum, one is enough, but for the GRU's n.
    """
    for (name, parameter), gradient in zip(theirs.named_parameters(), gradients, strict=True):
        parameter.copy_(gradient)
        if name.startswith("bias_hh"):
            parameter[: 2 * theirs.hidden_size if isinstance(theirs, nn.GRU) else None] = 0
    return [p.detach() for p in layers_from_torch(theirs).parameters()]


@settings(max_examples=20)
@given(problems())
def test_a_converted_module_has_the_states_and_gradients_of_the_torch_module(problem):
    theirs, x, start, lengths, packs = problem
    ours = layers_from_torch(theirs)
    results, by_inputs, by_weights = called(ours, x, start, lengths, packs)
    expected, expected_by_inputs, expected_by_weights = called(theirs, x, start, lengths, packs)
    expected_by_weights = gradients_as_torch_has_them(theirs, expected_by_weights)
    for mine, wanted in ((results, expected), (by_inputs, expected_by_inputs), (by_weights, expected_by_weights)):
        for one, other in zip(mine, wanted, strict=True):
            assert_close(one, other, **ROUNDING)


@settings(max_examples=15)
@given(problems())
def test_there_and_back_gives_the_same_torch_module(problem):
    theirs, x, start, _, _ = problem
    again = layers_to_torch(layers_from_torch(theirs))
    assert type(again) is type(theirs)
    for name in ("mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(again, name) == getattr(theirs, name)
    for one, other in zip(again(x, start), theirs(x, start), strict=True):
        for part, wanted in zip(as_tuple(one), as_tuple(other), strict=True):
            assert_close(part, wanted, **ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_a_packed_sequence_keeps_its_order(kind, enforce_sorted):
    theirs = kind(3, 5, num_layers=2, bidirectional=True)
    lengths = [6, 4, 4, 1] if enforce_sorted else [4, 1, 6, 4]
    x = pack_padded_sequence(torch.randn(6, 4, 3), lengths, enforce_sorted=enforce_sorted)
    output, h_n = layers_from_torch(theirs)(x)
    expected, expected_n = theirs(x)
    assert isinstance(output, PackedSequence)
    for name in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        assert_close(getattr(output, name), getattr(expected, name))
    assert_close(output.data, expected.data, **ROUNDING)
    for part, wanted in zip(as_tuple(h_n), as_tuple(expected_n), strict=True):
        assert_close(part, wanted, **ROUNDING)
        assert part.is_contiguous()  # torch's modules refuse a start that is not


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_one_sequence_without_a_batch_axis_is_read_as_torch_reads_it(kind, bidirectional):
    theirs = kind(3, 5, num_layers=2, bidirectional=bidirectional)
    ours, x = layers_from_torch(theirs), torch.randn(7, 3)
    _, states = theirs(torch.randn(7, 3))
    for start in (None, states):
        (output, h_n), (expected, expected_n) = ours(x, start), theirs(x, start)
        assert_close(output, expected, **ROUNDING)
        for part, wanted in zip(as_tuple(h_n), as_tuple(expected_n), strict=True):
            assert_close(part, wanted, **ROUNDING)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_dropout_falls_between_layers_in_training_only_as_in_torch(bidirectional, batch_first):
    theirs = nn.GRU(3, 5, num_layers=3, dropout=0.4, bidirectional=bidirectional, batch_first=batch_first)
    ours, x = layers_from_torch(theirs), torch.randn(7, 4, 3)
    outputs = []
    for rnn in (theirs, ours):
        torch.manual_seed(7)
        outputs.append(rnn(x)[0])
    assert_close(outputs[0], outputs[1], **ROUNDING)  # torch draws its masks for whole layers, and so do we
    assert not torch.equal(ours(x)[0], ours(x)[0])
    assert_close(ours.eval()(x)[0], theirs.eval()(x)[0], **ROUNDING)
    assert not layers_from_torch(theirs).training


def test_layers_are_their_modules_one_after_another():
    fields = [ctrnn.gated(2, 3), ctrnn.gated(3, 3, decay=ctrnn.PowerDecay(2.0)), ctrnn.gru(3, 3)]
    modules = [DiscreteRNN(fields[0], ExponentialEuler(), substeps=2), DiscreteRNN(fields[1]), ContinuousRNN(fields[2])]
    x, ts, lengths = torch.randn(5, 2, 2), torch.tensor([0.0, 0.5, 2.0, 2.1, 4.0, 4.5]), [3, 5]
    output, h_n = Layers(modules)(x, ts=ts, lengths=lengths)
    below, last = x, []
    for module in modules:
        below, h = module(below, ts=ts, lengths=lengths)
        last.append(h)
    assert torch.equal(output, below)
    assert torch.equal(h_n, torch.cat(last))


def test_layers_know_their_sizes_as_modules_of_torch_do():
    theirs = nn.LSTM(3, 5, num_layers=2, bidirectional=True)
    ours = layers_from_torch(theirs)
    for name in ("input_size", "hidden_size", "num_layers", "bidirectional", "batch_first", "dropout"):
        assert getattr(ours, name) == getattr(theirs, name)
    one = DiscreteRNN(ctrnn.gated(3, 5))
    assert (one.input_size, one.hidden_size, one.num_layers, one.bidirectional) == (3, 5, 1, False)


def test_the_final_states_of_layers_are_a_start_for_their_next_call():
    ours, x = layers_from_torch(nn.LSTM(3, 5, num_layers=2)), torch.randn(8, 2, 3)
    first, states = ours(x[:4])
    second, last = ours(x[4:], states)
    whole, whole_last = ours(x)
    assert_close(torch.cat([first, second]), whole, **ROUNDING)
    assert_close(last, whole_last, **ROUNDING)
    joined = torch.cat(states, -1)
    assert torch.equal(ours(x[4:], joined)[0], second)


def test_layers_of_sizes_take_the_weights_of_the_torch_module_that_was_called_with_the_same_sizes():
    theirs = nn.GRU(3, 5, num_layers=2, bidirectional=True, batch_first=True)
    ours = Layers.of(ctrnn.gru, 3, 5, num_layers=2, bidirectional=True, batch_first=True)
    assert len({id(parameter) for parameter in ours.parameters()}) == 4 * len([*ours.layers[0][0].parameters()])
    ours.load_state_dict(layers_from_torch(theirs).state_dict())
    x = torch.randn(4, 7, 3)
    for one, other in zip(ours(x), theirs(x), strict=True):
        assert_close(one, other, **ROUNDING)


def test_one_module_becomes_a_torch_module_of_one_layer():
    ours, x = DiscreteRNN(ctrnn.lstm(3, 5), Euler(), batch_first=True), torch.randn(4, 7, 3)
    theirs = layers_to_torch(ours)
    assert isinstance(theirs, nn.LSTM)
    assert_close(theirs(x)[0], ours(x)[0], **ROUNDING)


def test_dropout_of_a_single_layer_of_torch_is_left_out_without_a_word():
    with pytest.warns(UserWarning, match="num_layers greater than 1"):  # torch's own
        theirs = nn.GRU(3, 5, dropout=0.5)
    ours, x = layers_from_torch(theirs), torch.randn(7, 4, 3)  # a warning is an error here
    assert ours.dropout == 0
    assert_close(ours(x)[0], theirs(x)[0], **ROUNDING)


def test_the_names_before_go_on_working():
    theirs, x = nn.GRU(3, 5), torch.randn(7, 4, 3)
    ours = discretize.from_torch(theirs)
    assert_close(ours(x)[0], theirs(x)[0], **ROUNDING)
    assert_close(discretize.to_torch(ours)(x)[0], theirs(x)[0], **ROUNDING)


@pytest.mark.parametrize("frozen", ["weight_ih_l0", "weight_hh_l1_reverse", "bias_ih_l1"])
def test_frozen_weights_stay_frozen_to_torch_and_back(frozen):
    theirs = nn.GRU(3, 5, num_layers=2, bidirectional=True)
    for name, weight in theirs.named_parameters():  # of two biases that add, one is frozen if both are
        weight.requires_grad_(name not in (frozen, frozen.replace("bias_ih", "bias_hh")))
    ours = layers_from_torch(theirs)
    frozen_here = [weight for weight in ours.parameters() if not weight.requires_grad]
    field = ours.layers[int(frozen.split("_l")[1][0])][frozen.endswith("reverse")].field
    assert frozen_here
    assert {id(weight) for weight in frozen_here} <= {id(weight) for weight in field.parameters()}
    again = layers_to_torch(ours)
    learned = {name for name, weight in again.named_parameters() if weight.requires_grad}
    assert learned == {name for name, weight in theirs.named_parameters() if weight.requires_grad}


@pytest.mark.parametrize("module", [DiscreteRNN, ContinuousRNN])
@pytest.mark.parametrize("own", [False, True])
def test_backwards_a_sample_lasts_as_long_as_forwards(module, own):
    lengths = [5, 2, 4]
    x, starts = torch.randn(5, 3, 2), torch.randn(2, 3, 4)
    ts = torch.rand(6, 3).cumsum(0) if own else torch.rand(6).cumsum(0)
    forward, backward = (module(ctrnn.gated(2, 4)) for _ in range(2))
    output, h_n = Layers([[forward, backward]])(x, starts, ts, lengths)
    for b, length in enumerate(lengths):
        edges = ts[: length + 1, b] if own else ts[: length + 1]
        around = torch.cat([edges.new_zeros(1), edges.diff().flip(0).cumsum(0)])
        alone, last = backward(x[:length, b].flip(0), starts[1, b], around)
        # Each step of an adaptive solve is rounded by the times it is taken at.
        assert_close(output[:length, b, 4:], alone.flip(0), rtol=0, atol=1e-10)
        assert_close(h_n[1, b], last[0], rtol=0, atol=1e-10)
    assert not output[2:, 1].any()
    output, h_n = Layers([[forward, backward]])(x, starts, ts)  # without lengths
    edges = ts if own else ts[:, None].expand(-1, 3)
    alone, last = backward(x.flip(0), starts[1], -edges.flip(0))
    assert_close(output[..., 4:], alone.flip(0), rtol=0, atol=1e-10)
    assert_close(h_n[1], last[0], rtol=0, atol=1e-10)


def test_gradients_of_both_directions_reach_the_times():
    layers = Layers([[DiscreteRNN(ctrnn.gated(1, 2)), DiscreteRNN(ctrnn.gated(1, 2))]])
    x, ts = torch.randn(4, 2, 1), torch.rand(5, 2).cumsum(0).requires_grad_()
    assert torch.autograd.gradcheck(lambda ts: layers(x, ts=ts, lengths=[4, 2])[0], ts)


def test_what_stands_beyond_an_end_is_not_looked_at_in_any_direction():
    layers = layers_from_torch(nn.LSTM(2, 3, num_layers=2, bidirectional=True))
    x = torch.randn(4, 2, 2)
    before = layers(x, lengths=[4, 2])
    x[2:, 1] = torch.nan
    after = layers(x, lengths=[4, 2])
    assert torch.equal(before[0], after[0])
    assert all(torch.equal(one, other) for one, other in zip(before[1], after[1], strict=True))


def test_a_packed_batch_takes_times_and_starts_in_the_order_of_its_user():
    layers = Layers([[DiscreteRNN(ctrnn.gated(2, 3)), ContinuousRNN(ctrnn.gated(2, 3))]], batch_first=True)
    x, ts, starts = torch.randn(3, 5, 2), torch.rand(3, 6).cumsum(1), torch.randn(2, 3, 3)
    lengths = [2, 5, 3]
    expected, expected_n = layers(x, starts, ts, lengths)
    output, h_n = layers(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False), starts, ts)
    assert_close(pad_packed_sequence(output, batch_first=True)[0], expected, **ROUNDING)
    assert_close(h_n, expected_n, **ROUNDING)


def rnn(inputs=3, hidden=5, **settings):
    return DiscreteRNN(ctrnn.gated(inputs, hidden), **settings)


@pytest.mark.parametrize("settings", [{"step": ExponentialEuler(), "substeps": 2}, {"method": "rk4", "max_step": 0.5}])
def test_layers_of_sizes_are_those_made_by_hand_and_saved_as_these(tmp_path, settings):
    given = {"dropout": 0.3, "pair": True, "hold": "backward", "open_interval": 2.0}
    kind = ContinuousRNN if "method" in settings else DiscreteRNN

    def field(inputs):
        return ctrnn.lstm(inputs, 5, bias=False, generator=generator)

    generator = torch.Generator().manual_seed(3)
    by_hand = Layers([[kind(field(n), **settings) for _ in range(2)] for n in (3, 10, 10)], **given)
    generator = torch.Generator().manual_seed(3)
    made = Layers.of(ctrnn.lstm, 3, 5, 3, bidirectional=True, bias=False, generator=generator, **given, **settings)
    assert repr(made) == repr(by_hand)
    assert made.state_dict().keys() == by_hand.state_dict().keys()
    ctrnn.save(tmp_path / "layers.safetensors", made)
    x, given = torch.randn(6, 4, 3), {"ts": torch.rand(6, 4).cumsum(0), "lengths": [6, 2, 1, 5]}
    expected, states = by_hand.eval()(x, **given)
    for again in (made, ctrnn.load(tmp_path / "layers.safetensors")):
        output, found = again.eval()(x, **given)
        assert all(torch.equal(*pair) for pair in zip((output, *found), (expected, *states), strict=True))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Layers.of(ctrnn.gru(3, 5), 3, 5), TypeError, "`make_field` must make fields.* got Relaxation; one field has"),
        (lambda: Layers.of(ctrnn.gru, 3), TypeError, r"`Layers.of` needs `hidden_size`\."),
        (lambda: Layers.of(ctrnn.gru, 3, 5, 2, True), TypeError, r"`Layers.of` takes make_field, input_size, hidden_size, num_"),
        (lambda: Layers.of(ctrnn.gru, 3, 5, stp=Euler()), TypeError, "`gru` takes no `stp`"),
        (lambda: Layers(ctrnn.gru), TypeError, "got function; `Layers.of` takes a constructor"),
        (lambda: Layers([]), ValueError, "`layers` is empty"),
        (lambda: Layers(rnn()), TypeError, "`layers` must be a sequence of sequence modules, got DiscreteRNN; put it in a list"),
        (lambda: Layers([ctrnn.gated(3, 5)]), TypeError, r"`layers\[0\]` must be made of .* got Relaxation"),
        (lambda: Layers([[rnn(), rnn(), rnn()]]), TypeError, r"`layers\[0\]` must be a sequence module, or a pair"),
        (lambda: Layers([rnn(), rnn()]), ValueError, r"`layers\[1\]` reads 3 features, `layers\[0\]` below it gives 5"),
        (lambda: Layers([[rnn(), rnn()], rnn(5)]), ValueError, r"`layers\[1\]` has 1 directions, `layers\[0\]` has 2"),
        (lambda: Layers([rnn(), rnn(5, 4)]), ValueError, r"`layers\[1\]` has 4 visible units of 4, `layers\[0\]` has 5 of 5"),
        (lambda: Layers([rnn(batch_first=True)]), ValueError, "batch-first; modules inside are time-first"),
        (lambda: Layers([rnn()], dropout=2.0), ValueError, "`dropout` must be a probability"),
        (lambda: Layers([rnn()], pair=True), ValueError, r"`pair` is for fields on \[h, c\]"),
        (lambda: Layers([rnn(), rnn(5)])(torch.randn(4, 2, 3), torch.zeros(2, 5)), ValueError, r"shape \(2, 2, 5\), got"),
        (lambda: layers_from_torch(nn.GRUCell(3, 5)), TypeError, "`ctrnn.from_torch` makes a field of a cell"),
        (lambda: layers_from_torch(nn.Linear(3, 5)), TypeError, "`module` must be an nn.RNN, nn.GRU or nn.LSTM, got Linear"),
        (lambda: layers_from_torch(nn.LSTM(3, 5, proj_size=2)), ValueError, "proj_size=2; no field here has a projected"),
        (lambda: layers_to_torch(ctrnn.gru(3, 5)), TypeError, "`ctrnn.to_torch` makes a cell of a field"),
        (lambda: layers_to_torch(rnn()), TypeError, "torch has a cell for plain, gru and lstm fields only"),
        (lambda: layers_to_torch(Layers([ContinuousRNN(ctrnn.gru(3, 5))])), TypeError, "solves where torch's modules step"),
        (lambda: layers_to_torch(DiscreteRNN(ctrnn.gru(3, 5), dt=0.5)), ValueError, "other steps than torch's"),
        (
            lambda: layers_to_torch(Layers([DiscreteRNN(ctrnn.gru(3, 5)), DiscreteRNN(ctrnn.plain(5, 5))])),
            TypeError,
            "fields of several kinds, GRUCell, RNNCell",
        ),
        (lambda: ctrnn.from_torch(nn.LSTM(3, 5, proj_size=2)), ValueError, r"proj_size=2.*No field has a projected state"),
        (lambda: ctrnn.plain(3, 5, "selu"), ValueError, "`nonlinearity` must be one of 'tanh', 'relu', got 'selu'"),
        (lambda: ctrnn.from_torch(nn.GRU(3, 5, num_layers=2)), ValueError, r"num_layers=2.*`discretize.layers_from_torch`"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_words(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_dropout_of_a_single_layer_is_warned_of_as_torch_does():
    with pytest.warns(UserWarning, match="`dropout` acts between layers"):
        Layers([rnn()], dropout=0.5)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("place", [(0, 1), (1, 0), (1, 1)])
def test_weights_that_a_hook_sets_are_refused_in_every_layer_and_direction(kind, place):
    layers, x = Layers.of(getattr(ctrnn, kind), 3, 5, num_layers=2, bidirectional=True), torch.randn(4, 2, 3).double()
    layers.double()(x)
    layer, direction = place
    part = next(part for part in layers.layers[layer][direction].field.modules() if hasattr(part, "weight_h"))
    prune.random_unstructured(part, "weight_h", 0.5)
    with pytest.raises(TypeError, match="has a hook, RandomUnstructured"):
        layers(x)
    prune.remove(part, "weight_h")
    layers(x)
