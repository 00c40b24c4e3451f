"""Checkpoints: a whole one at every moment, and damage never mistaken for a state."""

import errno
import io
import os
import zipfile
from pathlib import PurePosixPath

import pytest
import torch

from ctrnn.storage import files
from experiments.digests import digest
from experiments.runs.checkpoints import Checkpoints, DamagedError, read_state
from experiments.runs.stopping import StoppedError


def state(step, size=40):
    weights = torch.randn(size, 3, generator=torch.Generator().manual_seed(step), dtype=torch.float32)
    averages = {
        "state": {0: {"step": torch.tensor(3.0), "square_avg": weights**2}},
        "param_groups": [{"lr": 1e-3, "params": [0]}],
    }
    return {"step": step, "model": {"w": weights}, "optimizer": averages, "schedule": {"rate": 0.1}, "best": {}}


def test_users_read_a_checkpoint_with_torch_alone(tmp_path):
    Checkpoints(tmp_path).save(state(5))
    found = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert torch.equal(found["state"]["model"]["w"], state(5)["model"]["w"])
    assert found["state"]["step"] == 5


def test_a_pickle_that_would_run_code_is_not_run(tmp_path):
    class Runs:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save({"format": 1, "state": {"x": Runs()}, "sha256": ""}, tmp_path / "checkpoint.pt")
    with pytest.raises(DamagedError):
        read_state(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "ran").exists()


def test_flipped_bytes_never_give_another_state_and_those_of_the_weights_are_always_found(tmp_path):
    path = tmp_path / "checkpoint.pt"
    Checkpoints(tmp_path).save(state(5))
    whole, true = path.read_bytes(), digest(state(5))
    weights = state(5)["model"]["w"].numpy().tobytes()
    begin, refused = whole.index(weights), set()
    for k in range(0, len(whole), 11):
        path.write_bytes(whole[:k] + bytes([whole[k] ^ (1 << k % 8)]) + whole[k + 1 :])
        try:
            assert digest(read_state(path)) == true, k
        except DamagedError:
            refused.add(k)
    assert refused > {k for k in range(begin, begin + len(weights)) if k % 11 == 0}


def test_the_previous_one_is_kept_and_taken_with_a_line_where_the_newest_is_damaged(tmp_path, capsys):
    tmp_path = tmp_path / "kept"
    tmp_path.mkdir()
    assert Checkpoints(tmp_path).load() is None
    ours = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        ours.save(state(step))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "previous.pt"]
    path = tmp_path / "checkpoint.pt"
    whole = path.read_bytes()
    for cut in (0, 1, -100, -1):
        path.write_bytes(whole[:cut])
        assert Checkpoints(tmp_path).load()["step"] == 2
        said = capsys.readouterr().err
        assert said.startswith(f"{path} is damaged (")
        assert said.count("\n") == 1
        assert "empty" in said or cut
    path.unlink()
    assert Checkpoints(tmp_path).load()["step"] == 2  # a missing one is no damage
    assert capsys.readouterr().err == ""


def test_a_damaged_one_never_takes_the_place_of_a_whole_one(tmp_path, monkeypatch):
    for step in (1, 2):
        Checkpoints(tmp_path).save(state(step))
    (tmp_path / "checkpoint.pt").write_bytes(b"damaged")
    ours = Checkpoints(tmp_path)
    assert ours.load()["step"] == 1
    seen = []
    monkeypatch.setattr(
        os, "replace", lambda *names: seen.append(read_state(tmp_path / "previous.pt")["step"]) or replace(*names)
    )
    ours.save(state(3))
    assert seen == [1]
    assert read_state(tmp_path / "checkpoint.pt")["step"] == 3
    assert read_state(tmp_path / "previous.pt")["step"] == 1
    ours.save(state(4))
    assert read_state(tmp_path / "previous.pt")["step"] == 3


replace = os.replace


def test_two_damaged_ones_are_an_error_and_stay(tmp_path):
    for step in (1, 2):
        Checkpoints(tmp_path).save(state(step))
    for name in ("checkpoint.pt", "previous.pt"):
        (tmp_path / name).write_bytes(b"damaged")
    with pytest.raises(StoppedError, match=r"checkpoint.pt is damaged .* .*previous.pt is damaged .*Nothing was deleted"):
        Checkpoints(tmp_path).load()
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"damaged", b"damaged"]


@pytest.mark.parametrize("name", ["checkpoint.pt", "previous.pt"])
def test_one_that_cannot_be_read_is_an_error_and_nothing_takes_its_place(tmp_path, name):
    """It may be whole, and newer than the one before."""
    for step in (1, 2):
        Checkpoints(tmp_path).save(state(step))
    (tmp_path / "checkpoint.pt").unlink()
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    with pytest.raises(StoppedError, match=rf"{name} cannot be read \(it is a folder, not a file\); nothing was changed"):
        Checkpoints(tmp_path).load()
    assert (tmp_path / name).is_dir()


def test_a_digest_tells_apart_what_differs():
    zeros = torch.zeros(2, 3)
    states = [
        {"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": None}, {"b": 1}, {1: 1}, {"1": 1}, {"a": [1]}, {"a": {0: 1}},
        {"a": [1, [2]]}, {"a": [[1], 2]}, {"a": [1, 2]}, {"a": (1, 2)}, {"a": {"b": 1}, "c": 2}, {"a": {"b": 1, "c": 2}},
        {"a": zeros}, {"a": zeros.T.contiguous()}, {"a": zeros.float()}, {"a": zeros.int()}, {"a": zeros.flatten()},
        {"a": -zeros}, {"a": zeros, "b": zeros}, {"a": torch.tensor(0.0)}, {"a": torch.zeros(1)}, {"a": torch.zeros(0)}, {},
    ]  # fmt: skip
    assert len({digest(each) for each in states}) == len(states)


def test_a_digest_sees_values_and_not_how_they_lie_in_memory():
    rows = torch.arange(12.0).reshape(3, 4)
    assert digest({"a": rows.T, "b": 1}) == digest({"b": 1, "a": rows.T.contiguous()})


def test_another_file_of_torch_is_no_checkpoint(tmp_path):
    for k, content in enumerate([{}, {"format": 1}, {"format": "1", "state": {}, "sha256": ""}, [1, 2], torch.zeros(3)]):
        folder = tmp_path / str(k)
        folder.mkdir()
        torch.save(content, folder / "checkpoint.pt")
        with pytest.raises(DamagedError):
            read_state(folder / "checkpoint.pt")


def test_a_digest_of_what_a_checkpoint_does_not_hold_is_refused():
    with pytest.raises(TypeError, match="got PurePosixPath at /'a'/0"):
        digest({"a": [PurePosixPath()]})


def test_a_save_that_fails_leaves_the_last_ones(tmp_path, monkeypatch):
    for k, failing in enumerate(["write", "fsync", "replace", "open"]):
        folder = tmp_path / str(k)
        folder.mkdir()
        for step in (1, 2):
            Checkpoints(folder).save(state(step))

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        ours = Checkpoints(folder)
        with monkeypatch.context() as patch:
            patch.setattr(files.os, failing, full)
            with pytest.raises(OSError, match="No space left"):
                ours.save(state(3))
        assert Checkpoints(folder).load()["step"] == 2
        assert not list(folder.glob(".*"))
        ours.save(state(3))
        assert Checkpoints(folder).load()["step"] == 3


def test_the_bytes_are_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    done = []

    def noted(name, call):
        return lambda *given: done.append(name) or call(*given)

    for name in ("write", "fsync", "replace"):
        monkeypatch.setattr(files.os, name, noted(name, getattr(os, name)))
    Checkpoints(tmp_path).save(state(1))
    done.clear()
    Checkpoints(tmp_path).save(state(2))
    assert done == ["write", "fsync", "replace", "replace", "fsync"]


def test_a_checkpoint_that_unpacks_to_more_than_it_has_is_damaged(tmp_path):
    zeros = {"step": 3, "model": {"weight": torch.zeros(1_000_000)}}
    whole, packed = io.BytesIO(), io.BytesIO()
    torch.save({"format": 1, "state": zeros, "sha256": digest(zeros)}, whole)
    with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other:
        for member in archive.infolist():
            other.writestr(member.filename, archive.read(member))
    (tmp_path / "checkpoint.pt").write_bytes(whole.getvalue())
    assert read_state(tmp_path / "checkpoint.pt")["step"] == 3
    (tmp_path / "checkpoint.pt").write_bytes(packed.getvalue())
    with pytest.raises(DamagedError, match="it is packed"):
        read_state(tmp_path / "checkpoint.pt")
