"""Images read pixel by pixel, beside loops over their bytes; the order of pixels; and what stands in for recordings."""

import hashlib
import json

import pytest
import torch
from datasets import make_mnist

from experiments.data.mnist import read_mnist
from experiments.data.stand_in import digits, windows
from experiments.runs.configuration import configuration
from experiments.runs.training import train
from experiments.tasks.recorded.har import HAR, HELD_OUT
from experiments.tasks.recorded.pixels import Pixels, permutation
from experiments.usage import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("mnist")
    make_mnist(made)
    return str(made)


def blocks(image, side):
    """Means of square blocks, line by line, from 0 to 1, in plain Python."""
    n = 28 // side
    corners = [(n * i, n * j) for i in range(side) for j in range(side)]
    return [sum(image[a + i][b + j] for i in range(n) for j in range(n)) / n**2 / 255 for a, b in corners]


@pytest.mark.parametrize("side", [28, 7])
def test_a_sequence_is_of_means_of_blocks_line_by_line_or_in_one_other_order(folder, side):
    images, order = read_mnist(folder, "test"), permutation(side**2, 5).tolist()
    expected = torch.tensor([blocks(image, side) for image in images.xs.tolist()])
    for task in (Pixels(data=folder, side=side), Pixels(data=folder, side=side, order="permuted", permutation=5)):
        (batch,) = task.evaluation("test", 99, 99, seed=0)
        assert batch.xs.shape == (side**2, 10, 1)
        read = expected if task.order == "rows" else expected[:, order]
        assert torch.allclose(batch.xs[..., 0].T, read, rtol=0, atol=1e-15)
        assert batch.targets.tolist() == images.labels.tolist()
        assert (batch.ts, batch.lengths) == (None, None)


def test_the_last_sixth_of_the_training_images_is_held_out_and_no_image_is_in_two_splits(folder):
    seen = {}
    for split, count in (("train", 20), ("validation", 4), ("test", 10)):
        (batch,) = Pixels(data=folder).evaluation(split, 99, 99, seed=0)
        seen[split] = [tuple(sequence) for sequence in batch.xs[..., 0].T.tolist()]
        assert len(seen[split]) == count
    assert len({sequence for split in seen.values() for sequence in split}) == 34
    assert [round(255 * x[1]) for x in seen["train"] + seen["validation"]] == list(range(24))


def test_an_image_is_played_at_other_speeds_as_it_is_read(folder):
    (own,) = Pixels(data=folder, order="permuted").evaluation("test", 3, 3, seed=0)
    (fast,) = Pixels(data=folder, order="permuted", speed=4, clock_given=True).evaluation("test", 3, 3, seed=0)
    assert torch.allclose(fast.xs, own.xs.unflatten(0, (196, 4)).mean(1))
    assert fast.ts.tolist() == [4.0 * k for k in range(197)]


def test_a_permutation_is_a_bijection_and_the_same_on_every_machine():
    for count in (1, 49, 196, 784):
        for seed in (0, 1):
            assert sorted(permutation(count, seed).tolist()) == list(range(count))
    assert not torch.equal(permutation(784, 0), permutation(784, 1))
    first = permutation(784, 0).tolist()
    assert first[:8] == [61, 341, 629, 728, 608, 547, 386, 564]  # as another process had it
    assert first == sorted(range(784), key=lambda k: int(hashlib.sha256(b"0 %d" % k).hexdigest(), 16))


# stand-ins


def test_stand_ins_are_the_same_on_every_machine_and_have_the_shapes_of_what_they_stand_for():
    for split, images, people in (("train", 1200, range(10, 31)), ("test", 200, range(1, 10))):
        assert digits(split).xs.shape == (images, 28, 28)
        assert digits(split).xs.dtype == torch.uint8
        assert torch.bincount(digits(split).labels).tolist() == [images // 10] * 10
        made = windows(split)
        assert (made.xs.shape, made.xs.dtype) == ((128, 24 * len(people), 9), torch.float32)
        assert made.subjects.unique().tolist() == list(people)
        assert torch.bincount(made.labels).tolist() == [4 * len(people)] * 6
    assert set(HELD_OUT) < set(range(10, 31))
    torch.set_default_dtype(torch.float32)
    assert [kind(data="stand-in").fingerprint()[:16] for kind in (Pixels, HAR)] == ["7975383a0020877b", "f005b61688a62e85"]


@pytest.mark.parametrize("task", [Pixels(data="stand-in", side=14), HAR(data="stand-in")])
def test_in_a_stand_in_test_sequences_look_like_training_sequences_of_their_class(task):
    known, asked = ((b.xs.transpose(0, 1).flatten(1), b.targets) for b in (one(task, "train"), one(task, "test")))
    nearest = torch.cdist(asked[0], known[0]).argmin(1)
    assert float((known[1][nearest] == asked[1]).double().mean()) > 0.9


def one(task, split):
    (batch,) = task.evaluation(split, 9999, 9999, seed=0)
    return batch


def test_a_run_on_a_stand_in_says_so_and_missing_data_are_not_replaced_by_one(tmp_path):
    chosen = configuration("pixels", "leaky", "euler", data="stand-in", side=7)
    assert '"data": "stand-in"' in json.dumps(chosen.to_json())  # as config.json has it
    assert "data=stand-in" in chosen.command(tmp_path)
    for folder in (tmp_path, tmp_path / "stand-in"):  # a folder of that name is named by its path
        folder.mkdir(exist_ok=True)
        for task in ("pixels", "har"):
            with pytest.raises(UsageError, match="holds neither"):
                train(configuration(task, "leaky", "euler", data=str(folder)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
