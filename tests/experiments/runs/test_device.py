"""Training on a device, played by the CPU: the weights that the CPU ends on, and checkpoints that any machine reads."""

import os
from dataclasses import replace

import pytest
import torch
from fake_device import DEVICE, FakeDevice
from torch.testing import assert_close

from experiments.runs import training
from experiments.runs.checkpoints import read_state
from experiments.runs.configuration import configuration_from_words
from experiments.runs.processes import Processes
from experiments.runs.training import train
from experiments.usage import UsageError

SMALL = ["hidden=4", "batch=3", "evaluation=5", "threads=1", "checkpoint_every=2", "evaluate_every=2", "steps=5", "keep=best"]
RUNS = [
    ("recall", ["warp=2", "length=6"], "gated", "euler"),
    pytest.param("adding", ["T=6", "optimizer=adam"], "leaky", "exact", marks=pytest.mark.slow),
    pytest.param("recall", ["warp=2", "length=6", "noise=0.3"], "leaky", "euler-maruyama", id="noise"),
]


def killed(step, loss, rate):
    if step == 3:
        raise KeyboardInterrupt


@pytest.mark.parametrize(("task", "settings", "field", "integrator"), RUNS)
def test_a_device_trains_as_the_cpu_does(task, settings, field, integrator, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)
    on_device = configuration_from_words(task, field, integrator, [*SMALL, *settings, "device=cuda"])
    on_cpu = replace(on_device, training=replace(on_device.training, device="cpu"))
    wanted = train(on_cpu, tmp_path / task / "cpu")
    with FakeDevice(), monkeypatch.context() as patched:
        patched.setattr(training, "device_for", lambda *_: DEVICE)
        patched.setattr(torch.cuda, "get_device_name", lambda: "played by the CPU")
        with pytest.raises(KeyboardInterrupt):
            train(on_device, tmp_path / task / "device", progress=killed)
        found = train(on_device, tmp_path / task / "device")
    state = read_state(tmp_path / task / "device" / "checkpoint.pt")
    assert {value.device.type for value in (*state["model"].values(), *state["kept"].values())} == {"cpu"}
    assert found.measures == pytest.approx(wanted.measures, rel=1e-4)
    # Read again without the device, which another machine has not.
    again = train(on_device, tmp_path / task / "device")
    assert again.already
    assert_close(dict(again.model.state_dict()), dict(wanted.model.state_dict()), rtol=1e-4, atol=1e-6)


def test_devices_that_are_not_there_are_refused(monkeypatch):
    settings = configuration_from_words("recall", "gated", "euler", ["device=cuda"]).training
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="torch finds no GPU here"):
        training.device_for(settings, Processes())
    with pytest.raises((UsageError, ValueError), match="device"):
        configuration_from_words("recall", "gated", "euler", ["device=gpu"])


def test_each_of_several_processes_has_a_gpu_of_its_own(monkeypatch):
    asked, auto = (configuration_from_words("recall", "gated", "euler", [f"device={name}"]).training for name in ("cuda", "auto"))
    of = Processes(5, 8)  # the second of four on the second machine
    monkeypatch.setattr(Processes, "any", lambda self, here: here)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    with pytest.raises(UsageError, match=r"4 processes share 3 GPU\(s\) of this machine; take 3"):
        training.device_for(asked, of)
    assert training.device_for(auto, of) == torch.device("cpu")
    taken = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: taken[-1])
    assert [training.device_for(each, of) for each in (asked, auto)] == [torch.device("cuda", 1)] * 2
    monkeypatch.setattr(Processes, "any", lambda self, here: True)  # another machine has none
    assert training.device_for(auto, of) == torch.device("cpu")
    assert training.device_for(asked, Processes()) == torch.device("cuda")
