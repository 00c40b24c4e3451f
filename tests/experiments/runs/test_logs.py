"""Logs of runs: each tracker has the rows of metrics.csv and the test, however a run was interrupted, and none costs a run.

TensorBoard, Weights & Biases and MLflow are played by doubles of their public calls; the slow tests take those installed.
"""

import csv
import json
import os
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

from experiments.__main__ import main
from experiments.runs import logs
from experiments.runs.checkpoints import read_state
from experiments.runs.configuration import configuration
from experiments.runs.stopping import StoppedError
from experiments.runs.training import Training, train
from experiments.usage import UsageError

SMALL = {
    "warp": 3,
    "length": 6,
    "hidden": 5,
    "batch": 4,
    "evaluation": 6,
    "threads": 1,
    "checkpoint_every": 3,
    "evaluate_every": 4,
}
NAMES = ["tensorboard", "wandb", "mlflow"]


def small(**settings):
    return configuration("recall", "gated", "euler", **{"steps": 10, **SMALL, **settings})


class KilledError(Exception):
    """As at a kill: nothing of the process is left but what it wrote."""


def killed_at(step):
    def progress(now, loss, rate):
        if now == step:
            raise KilledError

    return progress


def rows(folder):
    """Name -> step -> value of what a log should show: the rows of metrics.csv, and the test."""
    found = {}
    with (folder / "metrics.csv").open() as file:
        for row in csv.DictReader(file):
            step = int(row.pop("step"))
            for name, text in row.items():
                if text and name != "seconds":
                    found.setdefault(name, {})[step] = float(text)
    result = json.loads((folder / "result.json").read_text())
    return found | {f"test_{name}": {result["steps"]: value} for name, value in result["measures"].items()}


class Own:
    """A logger of the user's, which keeps what it gets."""

    def __init__(self):
        self.settings, self.ends, self.shown = [], [], {}

    def start(self, settings):
        self.settings.append(settings)

    def scalars(self, step, values):
        for name, value in values.items():
            self.shown.setdefault(name, {})[step] = value

    def finish(self, status):
        self.ends.append(status)


class Failing(Own):
    run = "a"

    def __init__(self, *, at):
        super().__init__()
        self.at = at

    def scalars(self, step, values):
        if step == self.at:
            raise ConnectionError("no route to host")
        super().scalars(step, values)

    def flush(self):
        pass


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def module(monkeypatch, name, **inside):
    monkeypatch.setitem(sys.modules, name, made := ModuleType(name))
    vars(made).update(inside)
    return made


@pytest.fixture
def doubles(monkeypatch):
    """What trackers were told, by the public calls of each: id of the run -> name -> step -> value, settings, how runs ended."""
    seen = SimpleNamespace(values={}, settings={}, ends=[])

    class SummaryWriter:
        def __init__(self, folder, purge_step):
            self.values = seen.values.setdefault("", {})
            for name, steps in self.values.items():
                self.values[name] = {step: value for step, value in steps.items() if step < purge_step}
            self.file_writer = SimpleNamespace(add_summary=seen.settings.update)

        def add_scalar(self, name, value, step):
            self.values.setdefault(name, {})[step] = value

        def flush(self):
            pass

        def close(self):
            seen.ends.append("closed")

    def init(*, project, name, dir, id, resume, reinit, settings):
        def update(given, allow_val_change):
            assert allow_val_change or not any(seen.settings.get(key, value) != value for key, value in given.items())
            seen.settings.update(given)

        config = SimpleNamespace(update=update)
        run = SimpleNamespace(id=id or "a", config=config)
        assert (project, resume, reinit) == ("ctrnn", "allow", "create_new")
        values = seen.values.setdefault(run.id, {})
        run.summary = {"step": max(values["loss"])} if values else {}
        run.define_metric = lambda name, step_metric: None

        def ended(exit_code):
            seen.ends.append(exit_code)

        def log(given):
            step = given.pop("step")
            for each, value in given.items():
                assert step not in values.get(each, {}) or step == max(values[each]), "a row came twice"
                values.setdefault(each, {})[step] = value

        run.log, run.finish = log, ended
        return run

    class MlflowClient:
        def get_experiment_by_name(self, name):
            return None

        def create_experiment(self, name):
            return name

        def create_run(self, experiment, run_name):
            assert experiment == "ctrnn"
            return SimpleNamespace(info=SimpleNamespace(run_id="b"))

        def get_run(self, run):
            return SimpleNamespace(data=SimpleNamespace(params={k: str(v) for k, v in seen.settings.items()}))

        def get_metric_history(self, run, name):
            return [SimpleNamespace(step=step) for step in seen.values[run].get(name, {})]

        def update_run(self, run, status):
            pass

        def log_batch(self, run, metrics=(), params=(), tags=()):
            assert len(metrics) <= 1000
            assert len(params) <= 100
            for name, value, _, step in metrics:
                assert step not in seen.values[run].setdefault(name, {}), "a row came twice"
                seen.values[run][name][step] = value
            seen.values.setdefault(run, {})
            seen.settings.update([*params, *tags])

        def set_terminated(self, run, status):
            seen.ends.append(status)

    board = module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=SummaryWriter)
    board.__path__ = []
    module(monkeypatch, "torch.utils.tensorboard.summary", hparams=lambda settings, measures: (settings, {}, {}))
    module(monkeypatch, "wandb", init=init, Settings=lambda **_: None)
    module(monkeypatch, "mlflow", MlflowClient=MlflowClient).__path__ = []
    pair = lambda *values: values  # noqa: E731
    module(monkeypatch, "mlflow.entities", Param=pair, RunTag=pair, Metric=pair)
    for name in ("WANDB_PROJECT", "WANDB_DIR", "WANDB_NAME", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_NAME"):
        monkeypatch.delenv(name, raising=False)
    return seen


def test_a_logger_of_ones_own_gets_settings_rows_and_the_test(tmp_path):
    own = Own()
    train(small(), tmp_path, log=own)
    assert own.shown == rows(tmp_path)
    assert (own.settings[0]["task"], own.settings[0]["hidden"], own.settings[0]["patience"]) == ("recall", 5, "none")
    assert own.ends == ["completed"]


@pytest.mark.parametrize("name", NAMES)
def test_a_log_goes_on_where_a_killed_run_does_also_one_that_gets_longer(name, tmp_path, doubles):
    with pytest.raises(KilledError):
        train(small(), tmp_path, log=name, progress=killed_at(8))  # 7 and 8 are taken again, from the checkpoint at 6
    assert json.loads((tmp_path / "logs.json").read_text())[name]["step"] == 6
    train(small(), tmp_path, log=name)
    train(small(), tmp_path, log=name)  # nothing is left to send
    (shown,) = doubles.values.values()
    assert shown == rows(tmp_path)
    train(small(steps=13), tmp_path, log=name)
    expected = rows(tmp_path)
    assert shown["loss"] == expected["loss"]
    assert shown["test_loss"][13] == expected["test_loss"][13]
    assert str(doubles.settings["steps"]) == "13"
    assert len(doubles.ends) == 3


@pytest.mark.parametrize("begun", [killed_at(8), None], ids=["a run", "a finished run"])
def test_a_tracker_that_comes_later_gets_the_rows_before(begun, tmp_path, doubles):
    if begun is None:
        train(small(), tmp_path)
    else:
        with pytest.raises(KilledError):
            train(small(), tmp_path, progress=begun)
    train(small(), tmp_path, log=["mlflow", "tensorboard"])
    assert doubles.values["b"] == doubles.values[""] == rows(tmp_path)


def test_a_tracker_that_fails_costs_nothing_and_gets_the_rest_later(tmp_path, monkeypatch, capsys):
    train(small(), tmp_path / "alone")
    first, second, other = Failing(at=8), Failing(at=None), Own()
    for logger in (first, second):
        monkeypatch.setitem(logs.TRACKERS, "played", made := (lambda folder, run="", logger=logger: logger))
        made.module = "json"
        train(small(), tmp_path / "run", log=["played", other])
    said = capsys.readouterr().err
    assert "log played failed at step 8 (ConnectionError: no route to host); training goes on without it." in said
    assert "--resume --log played sends what is missing" in said
    assert first.ends == second.ends == ["completed"]
    assert sorted(second.shown["loss"]) == [7, 8, 9, 10]
    assert {**first.shown["loss"], **second.shown["loss"]} == rows(tmp_path / "run")["loss"]
    assert second.shown["test_loss"] == rows(tmp_path / "run")["test_loss"]
    assert other.shown == rows(tmp_path / "run")
    weights = [read_state(tmp_path / each / "checkpoint.pt")["model"] for each in ("alone", "run")]
    assert all(weights[0][key].equal(weights[1][key]) for key in weights[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_killed_before_its_test_was_sent_keeps_all_rows_and_gets_the_test(name, tmp_path, doubles):
    train(small(), tmp_path, log=name)
    kept = json.loads((tmp_path / "logs.json").read_text())
    del kept[name]["status"]
    (tmp_path / "logs.json").write_text(json.dumps(kept))
    (shown,) = doubles.values.values()
    for measure in [measure for measure in shown if measure.startswith("test_")]:
        del shown[measure]
    train(small(), tmp_path, log=name)
    assert shown == rows(tmp_path)


def test_a_tracker_that_is_named_twice_gets_a_run_once(tmp_path, doubles):
    train(small(), tmp_path, log=["mlflow", "tensorboard", "mlflow"])
    assert sorted(doubles.ends) == ["FINISHED", "closed"]


def test_mlflow_gets_all_in_calls_of_what_it_takes_at_once(tmp_path, doubles, monkeypatch):
    client, calls = sys.modules["mlflow"].MlflowClient, []
    send = client.log_batch

    def log_batch(self, run, **given):
        calls.append({name: len(values) for name, values in given.items()})
        send(self, run, **given)

    monkeypatch.setattr(client, "log_batch", log_batch)
    monkeypatch.setattr(logs, "MOST_METRICS", 12)
    monkeypatch.setattr(logs, "MOST_PARAMS", 7)
    train(small(), tmp_path, log="mlflow")
    assert doubles.values["b"] == rows(tmp_path)
    assert {"folder", *small().named()} == doubles.settings.keys()
    assert max(call.get("metrics", 0) for call in calls) <= 12
    assert max(call.get("params", 0) for call in calls) <= 7


def test_trackers_hear_how_a_run_ended(tmp_path, doubles, monkeypatch):
    with pytest.raises(KilledError):
        train(small(), tmp_path / "run", log=["wandb", "mlflow"], progress=killed_at(8))
    train(small(), tmp_path / "run", log=["wandb", "mlflow"])

    def learn(run):
        raise StoppedError("nan", "diverged", 1)

    monkeypatch.setattr(Training, "learn", learn)
    with pytest.raises(StoppedError):
        train(small(), tmp_path / "other", log=["wandb", "mlflow"])
    assert doubles.ends == ["KILLED", 1, "FINISHED", 0, "FAILED", 1]


@pytest.mark.parametrize("kept", ["", "[]", '{"tensorboard": 3}', '{"tensorboard": {"step": "six"}}'])
def test_a_note_of_what_was_sent_that_is_damaged_sends_all_again(kept, tmp_path, doubles):
    train(small(), tmp_path, log="tensorboard")
    (tmp_path / "logs.json").write_text(kept)
    doubles.values.clear()
    train(small(), tmp_path, log="tensorboard")
    assert doubles.values[""]["loss"] == rows(tmp_path)["loss"]


@pytest.mark.parametrize(
    ("error", "status"), [(KilledError(), "interrupted"), (StoppedError("nan", "diverged", 1), "diverged")], ids=str
)
def test_a_logger_hears_how_a_run_ended(error, status, tmp_path, monkeypatch):
    def learn(run):
        raise error

    monkeypatch.setattr(Training, "learn", learn)
    own = Own()
    with pytest.raises(type(error)):
        train(small(), tmp_path, log=own)
    assert own.ends == [status]


@pytest.mark.parametrize("name", NAMES)
def test_a_tracker_that_is_not_installed_is_one_line_before_anything_is_written(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard")
    for package in NAMES:
        monkeypatch.setitem(sys.modules, package, None)
    words = ["train", "--task", "recall", "--field", "gated", "--out", str(tmp_path / "run"), "--log", name]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"--log {name} needs {'mlflow-skinny' if name == 'mlflow' else name}: " in said
    assert f"[{name}]'" in said
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_cannot_begin_stops_before_training_and_leaves_no_run(tmp_path, monkeypatch):
    class Closed(Own):
        def start(self, settings):
            raise PermissionError("no key")

    with pytest.raises(UsageError, match="log Closed cannot begin \\(PermissionError: no key\\)"):
        train(small(), tmp_path, log=Closed())
    train(small(), tmp_path, resume=False)


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
@pytest.mark.parametrize("when", ["begins", "trains"])
def test_a_run_of_a_tracker_that_fails_does_not_stay_open(name, when, tmp_path, doubles, monkeypatch):
    def refused(*given, **named):
        raise ConnectionError("no route to host")

    def failing(self, settings, start=logs.TRACKERS[name].start):
        start(self, settings)
        monkeypatch.setattr(self.tracked if name == "wandb" else self.client, "log" if name == "wandb" else "log_batch", refused)
        if when == "begins":
            refused()

    monkeypatch.setattr(logs.TRACKERS[name], "start", failing)
    with pytest.raises(UsageError, match="cannot begin") if when == "begins" else nullcontext():
        train(small(), tmp_path, log=name)
    assert doubles.ends == [{"wandb": int(when == "begins"), "mlflow": "FAILED" if when == "begins" else "FINISHED"}[name]]


@pytest.mark.parametrize(
    ("log", "words"), [("tensorbord", "did you mean 'tensorboard'"), (Own, "an object with start"), (3, "got 3")]
)
def test_what_is_no_log_is_refused(log, words, tmp_path):
    with pytest.raises(UsageError, match=words):
        train(small(), tmp_path / "run", log=log)
    assert not (tmp_path / "run").exists()


def test_each_run_of_a_sweep_has_a_log(tmp_path, doubles, capsys):
    words = [
        "train",
        "--task",
        "recall",
        "--field",
        "gated",
        "--out",
        str(tmp_path),
        "--log",
        "mlflow,tensorboard",
        "--log",
        "wandb",
    ]
    assert main([*words, "--set", *(f"{key}={value}" for key, value in SMALL.items()), "steps=1", "seed=0,1"]) == 0
    for seed in (0, 1):
        assert sorted(json.loads((tmp_path / f"seed-{seed}" / "logs.json").read_text())) == sorted(NAMES)


def _of_tensorboard(folder):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="pip install '.[tensorboard]'")
    found = events.EventAccumulator(str(folder / "tensorboard")).Reload()
    return {name: {each.step: each.value for each in found.Scalars(name)} for name in found.Tags()["scalars"]}


def _of_wandb(folder):
    """Read the records of offline files, in LevelDB's format of logs: blocks of 32 KiB, 7 bytes before each piece of a record."""
    from wandb.proto import wandb_internal_pb2 as records  # noqa: PLC0415

    shown = {}
    for file in sorted((folder / "wandb").glob("offline-run-*/*.wandb")):
        data, place, pieces = file.read_bytes(), 7, b""
        while place + 7 <= len(data):
            if 32768 - place % 32768 < 7:
                place += 32768 - place % 32768
            size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
            pieces += data[place + 7 : place + 7 + size]
            place += 7 + size
            if kind in (1, 4):  # a whole record, or its last piece
                (record := records.Record()).ParseFromString(pieces)
                row = {each.key or each.nested_key[0]: json.loads(each.value_json) for each in record.history.item}
                step, pieces = row.pop("step", None), b""
                for name, value in row.items():
                    if not name.startswith("_"):
                        shown.setdefault(name, {})[step] = value
    return shown


def _of_mlflow(folder):
    client = pytest.importorskip("mlflow", reason="pip install '.[mlflow]'").MlflowClient()
    run = json.loads((folder / "logs.json").read_text())["mlflow"]["run"]
    found = client.get_run(run)
    assert (found.info.status, found.data.params["hidden"]) == ("FINISHED", "5")
    return {name: {each.step: each.value for each in client.get_metric_history(run, name)} for name in found.data.metrics}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of packages that are not ours
@pytest.mark.parametrize("name", NAMES)
def test_the_log_of_a_killed_run_that_went_on_is_read_back_from_the_trackers_own_files(name, tmp_path, monkeypatch):
    pytest.importorskip(logs.TRACKERS[name].module, reason=f"pip install '.[{name}]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    with pytest.raises(KilledError):
        train(small(), tmp_path / "run", log=name, progress=killed_at(8))
    train(small(), tmp_path / "run", log=name)
    shown = {"tensorboard": _of_tensorboard, "wandb": _of_wandb, "mlflow": _of_mlflow}[name](tmp_path / "run")
    expected = rows(tmp_path / "run")
    assert shown.keys() == expected.keys()
    for key, steps in expected.items():
        assert shown[key] == pytest.approx(steps, rel=1e-6), key  # TensorBoard keeps float32
