r"""Sends what a run measures to trackers as it goes: TensorBoard, Weights & Biases, MLflow, or an object of the user's.

start(settings)   scalars(step, {"loss": 0.1, "evaluation_loss": 0.2})   ...   finish("completed")

A tracker gets the rows of metrics.csv, and at the end test_loss and its like. logs.json in the folder of the run says by which id
it knows the run, and up to which step it has the rows: a run that goes on continues its log, and what one missed it gets later.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ctrnn.extras import needed_by
from experiments.files import read_json, write_json
from experiments.runs.checkpoints import State
from experiments.runs.configuration import Configuration
from experiments.runs.folder import LOGS, METRICS, read_result
from experiments.runs.record import RunRecord
from experiments.runs.stopping import StoppedError
from experiments.settings import words_of
from experiments.usage import UsageError, check_word

__all__ = ["LoggedRecord", "Logger", "Logs", "checked_logs", "logged", "send_rest"]

PROJECT = "ctrnn"  # of Weights & Biases, and the experiment of MLflow, where the environment names none
MOST_METRICS, MOST_PARAMS = 1000, 100  # that MLflow takes in one call


@runtime_checkable
class Logger(Protocol):
    """Receives a run: its settings by their keys, numbers by their names after a step, and how it ended."""

    def start(self, settings: Mapping[str, Any]) -> object: ...

    def scalars(self, step: int, values: Mapping[str, float]) -> object: ...

    def finish(self, status: str) -> object: ...


Logs = str | Logger | Sequence["str | Logger"]


class _Tracker:
    """Logs to a tracker that `--log` names; run: the id of the run in that tracker, "" before there is one."""

    def __init__(self, folder: Path, run: str = "") -> None:
        self.folder, self.run = folder, run

    def flush(self) -> None:
        """Hand over what was given so far."""


class TensorBoard(_Tracker):
    """Writes event files to the folder of the run; rows that come again after a kill take the place of those before."""

    module = "torch.utils.tensorboard"

    def start(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.writer: Any = None

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra
            from torch.utils.tensorboard.summary import hparams  # noqa: PLC0415

            self.writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=step + ("loss" not in values))
            *begins, self.ends = hparams(dict(self.settings), {"evaluation_loss": 0.0})  # the name of a measure
            for summary in begins:
                self.writer.file_writer.add_summary(summary)
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def flush(self) -> None:
        if self.writer is not None:
            self.writer.flush()

    def finish(self, status: str) -> None:
        if self.writer is not None:
            if status == "completed":
                self.writer.file_writer.add_summary(self.ends)
            self.writer.close()


class WeightsAndBiases(_Tracker):
    """Logs to the project that WANDB_PROJECT names; WANDB_MODE=offline keeps all in the folder of the run for `wandb sync`."""

    module = "wandb"

    def start(self, settings: Mapping[str, Any]) -> None:
        import wandb  # noqa: PLC0415 - an extra

        self.tracked = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=os.environ.get("WANDB_NAME", str(self.folder)),
            dir=os.environ.get("WANDB_DIR", str(self.folder)),
            id=self.run or None,
            resume="allow",
            reinit="create_new",  # beside a run of the user's in this process
            settings=wandb.Settings(console="off"),
        )
        self.run = self.tracked.id
        self.tracked.config.update(dict(settings), allow_val_change=True)  # a run may get longer
        self.tracked.define_metric("*", step_metric="step")
        self.last = int(self.tracked.summary.get("step") or 0)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        if step >= self.last:  # rows that come again after a kill are there
            self.tracked.log({"step": step, **values})

    def finish(self, status: str) -> None:
        self.tracked.finish(exit_code=int(status != "completed"))


class MLflow(_Tracker):
    """Logs to the server or folder that MLFLOW_TRACKING_URI names, in the experiment of MLFLOW_EXPERIMENT_NAME or _ID."""

    module = "mlflow"

    def start(self, settings: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient  # noqa: PLC0415 - an extra
        from mlflow.entities import Param, RunTag  # noqa: PLC0415

        self.rows: list[Any] = []
        self.client, self.last = MlflowClient(), 0
        words = {key: str(value) for key, value in settings.items()}
        if self.run:
            before = self.client.get_run(self.run).data.params  # MLflow refuses to change a parameter
            longer = [RunTag(key, value) for key, value in words.items() if before.get(key) != value]
            self.client.log_batch(self.run, tags=longer)
            self.client.update_run(self.run, status="RUNNING")
            self.last = max((each.step for each in self.client.get_metric_history(self.run, "loss")), default=0)
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        if not (experiment := os.environ.get("MLFLOW_EXPERIMENT_ID")):
            found = self.client.get_experiment_by_name(name)
            experiment = found.experiment_id if found else self.client.create_experiment(name)
        self.run = self.client.create_run(experiment, run_name=os.environ.get("MLFLOW_RUN_NAME", str(self.folder))).info.run_id
        params = [Param(key, value) for key, value in words.items()]
        for k in range(0, len(params), MOST_PARAMS):
            self.client.log_batch(self.run, params=params[k : k + MOST_PARAMS])

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric  # noqa: PLC0415 - an extra

        if len(self.rows) + len(values) > MOST_METRICS:
            self.flush()
        if step > self.last or "loss" not in values:
            self.rows += [Metric(name, value, int(1000 * time.time()), step) for name, value in values.items()]
        if any(name.startswith("evaluation_") for name in values):
            self.flush()

    def flush(self) -> None:
        if self.rows:
            self.client.log_batch(self.run, metrics=self.rows)
            self.rows = []

    def finish(self, status: str) -> None:
        try:
            self.flush()
        finally:
            self.client.set_terminated(self.run, {"completed": "FINISHED", "interrupted": "KILLED"}.get(status, "FAILED"))


TRACKERS: dict[str, type[TensorBoard | WeightsAndBiases | MLflow]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


def checked_logs(log: Logs | None) -> list[str | Logger]:
    r"""Return what to log to, each once.

    Raises:  UsageError for a name that is not known, and what is no logger; `MissingPackageError`, which says what to type.
    """
    found: list[str | Logger] = []
    for each in [log] if isinstance(log, str) or not isinstance(log, Sequence) else log:
        if isinstance(each, str):
            check_word("log", each, TRACKERS)
            with needed_by(f"--log {each}"):
                import_module(TRACKERS[each].module)
        elif each is None:
            continue
        elif isinstance(each, type) or not isinstance(each, Logger):
            raise UsageError(
                f"log is one or several of {', '.join(TRACKERS)}, or an object with start(settings), scalars(step, values) and "
                f"finish(status); got {each!r}."
            )
        if each not in found:
            found.append(each)
    return found


class _Sender:
    """Passes rows on to one logger, until it fails; step: the last of the rows that were sent, as in logs.json."""

    def __init__(self, log: str | Logger, folder: Path) -> None:
        known = (read_json(folder / LOGS) or {}).get(log) if isinstance(log, str) else None
        known = known if isinstance(known, dict) else {}
        self.name, self.folder, self.works = log if isinstance(log, str) else "", folder, True
        self.logger: Any = TRACKERS[log](folder, str(known.get("run", ""))) if isinstance(log, str) else log
        step = known.get("step")
        self.step, self.complete = step if isinstance(step, int) else 0, known.get("status") == "completed"

    def start(self, configuration: Configuration) -> None:
        """Begin before training does. Raises: UsageError where that fails."""
        settings = {"folder": str(self.folder), **configuration.named()}
        plain = {key: value if isinstance(value, int | float | str) else words_of(value) for key, value in settings.items()}
        try:
            self.logger.start(plain)
        except Exception as error:
            if self.name:
                with suppress(Exception):  # closes a tracker that began before the error; fails for one that did not
                    self.logger.finish("failed")
            again = f"; without --log {self.name} the run is the same, and --resume --log {self.name} sends all of it later"
            raise UsageError(f"log {self._called} cannot begin ({_words(error)}){again if self.name else ''}.") from error

    def catch_up(self, to: int) -> None:
        """Send the rows of metrics.csv that a tracker has not; an object of the user's gets those of this process."""
        for step, values in _rows(self.folder, self.step, to) if self.name else ():
            self.send(step, values)
        self.keep(to)

    def send(self, step: int, values: Mapping[str, float]) -> None:
        self._try(f"at step {step}", lambda: self.logger.scalars(step, values))

    def keep(self, step: int) -> None:
        """Hand over all up to a step, and note it."""
        self._try(f"at step {step}", lambda: self._keep(step))

    def _keep(self, step: int, status: str = "") -> None:
        if self.name:
            if not status:
                self.logger.flush()
            about = {"run": self.logger.run, "step": step, **({"status": status} if status else {})}
            write_json(self.folder / LOGS, (read_json(self.folder / LOGS) or {}) | {self.name: about})
        self.step = step

    def finish(self, status: str) -> None:
        """End the log, also one that failed before: a run of a tracker would stay open."""
        if not self.works:
            with suppress(Exception):
                self.logger.finish(status)
        self._try("at the end", lambda: self.logger.finish(status))
        self._try("at the end", lambda: self._keep(self.step, status))

    @property
    def _called(self) -> str:
        return self.name or type(self.logger).__name__

    def _try(self, when: str, call: Callable[[], object]) -> None:
        if not self.works:
            return
        try:
            call()
        except Exception as error:  # no error of a tracker may cost a run
            self.works = False
            later = f", and --resume --log {self.name} sends what is missing" if self.name else ""
            print(
                f"log {self._called} failed {when} ({_words(error)}); training goes on without it. All is in "
                f"{self.folder / METRICS}{later}.",
                file=sys.stderr,
            )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")


def _rows(folder: Path, after: int, to: int) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the rows of metrics.csv of some steps, without its empty cells."""
    with (folder / METRICS).open(newline="") as file:
        for row in csv.DictReader(file):
            step = int(row.pop("step"))
            if after < step <= to:
                yield step, {name: float(text) for name, text in row.items() if text and name != "seconds"}


class LoggedRecord:
    """Takes the place of a `RunRecord`, and passes on what it writes."""

    def __init__(self, record: RunRecord, senders: list[_Sender]) -> None:
        self.record, self.senders = record, senders
        self.threads, self.write_stopped = record.threads, record.write_stopped

    def restore(self) -> State | None:
        state = self.record.restore()
        for each in self.senders:
            each.catch_up(state["step"] if state else 0)
        return state

    def write_row(self, step: int, seconds: float, row: Mapping[str, float], found: Mapping[str, float]) -> None:
        self.record.write_row(step, seconds, row, found)
        for each in self.senders:
            each.send(step, {**row, **{f"evaluation_{name}": value for name, value in found.items()}})

    def save(self, state: State) -> None:
        self.record.save(state)
        for each in self.senders:
            each.keep(int(state["step"]))

    def write_result(self, result: Mapping[str, Any]) -> None:
        self.record.write_result(result)
        for each in self.senders:
            each.send(result["steps"], {f"test_{name}": value for name, value in result["measures"].items()})


@contextmanager
def logged(folder: Path, configuration: Configuration, log: Sequence[str | Logger]) -> Iterator[list[_Sender]]:
    """Begin the logs of a run in a folder that this process holds, and end them as the run ends. Raises: UsageError."""
    senders = [_Sender(each, folder) for each in log]
    with ExitStack() as ends:
        status = "interrupted"
        for each in senders:
            each.start(configuration)
            ends.callback(lambda sender: sender.finish(status), each)
        try:
            yield senders
            status = "completed"
        except StoppedError as error:
            status = error.status
            raise


def send_rest(folder: Path, configuration: Configuration, log: Sequence[str | Logger]) -> None:
    """Send of a completed run what its trackers have not."""
    names = [each for each in log if isinstance(each, str) and not _Sender(each, folder).complete]
    result = read_result(folder)
    if names and result is not None:
        with logged(folder, configuration, names) as senders:
            for each in senders:
                each.catch_up(result["steps"])
                each.send(result["steps"], {f"test_{name}": value for name, value in result["measures"].items()})
