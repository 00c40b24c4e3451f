r"""Train a model on a task: steps of gradient descent, evaluations, and the state that a checkpoint keeps.

    batch -> outputs -> loss -> gradient -> clip -> step;  now and then  evaluate -> rate, and checkpoint

Everything a step reads, noise included, is in the state or a function of (seed, step), so a run that goes on from a checkpoint is
the run that was never interrupted, to the bit, on the same machine and number of threads.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from discretize import SequenceModel, SolverError, StepError, compat
from discretize.kernels.price import kernels_at_once
from discretize.progress import progress_bar
from experiments.models.gap_gru import GapGRU
from experiments.models.jumps import count_seen, expects, outputs_and_surprise
from experiments.runs.checkpoints import NEWEST, DamagedError, State, read_state
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.runs.evaluation import answers, evaluate, noise_of, torch_defaults
from experiments.runs.failures import advice, failures_explained, refuse_non_finite, refuse_unmeasured
from experiments.runs.far_worse import far_worse
from experiments.runs.folder import check_same_run, held_folder, read_configuration, read_result, refused_misfits
from experiments.runs.logs import LoggedRecord, Logs, checked_logs, logged, send_rest
from experiments.runs.loop import Evaluated, Loop, Progress, sign_of
from experiments.runs.optimizers import factor, learned, optimizer, threads_for
from experiments.runs.processes import ALONE, MeanGradients, Processes, device_for, joined
from experiments.runs.rates import GDtSummary
from experiments.runs.record import NoRecord, RunRecord
from experiments.runs.stopping import Status, StoppedError
from experiments.seeds import drawing, generator
from experiments.tasks.task import Batch, Task
from experiments.usage import UsageError

__all__ = ["Outcome", "Training", "train"]


@dataclass(frozen=True)
class Outcome:
    r"""Holds what a completed run ended with.

    Args:    measures: on the split "test"; seconds: that all steps took; steps: taken in all; already: whether the run was
             completed before, so that nothing was left to do; far_worse: in words, than a guess without memory, and what to
             try; "" where it is not; beside: measures of what was trained to compare with, if anything was.
    """

    model: SequenceModel
    measures: dict[str, float]
    seconds: float
    steps: int
    already: bool = False
    status: Status = "completed"
    far_worse: str = ""
    beside: dict[str, float] | None = None


def train(
    configuration: Configuration,
    folder: Path | str,
    *,
    resume: bool = True,
    progress: Progress | bool | None = None,
    evaluated: Evaluated | None = None,
    log: Logs | None = None,
) -> Outcome:
    r"""Train in a folder, from where it is: from nothing, from its newest checkpoint, or not at all if it is finished.

    Args:    resume: False refuses a folder that holds a run; progress: called with step, loss and rate after every step, or
             True, for a bar; evaluated: with the step, and what was measured on "validation", after every evaluation. What they
             raise ends training, and the run goes on from its newest checkpoint; log: "tensorboard", "wandb", "mlflow", an object
             with start(settings), scalars(step, values) and finish(status), or several of them, which get the rows of
             metrics.csv and the measures of the test. What they raise once training has begun is printed, and ends their log.
    Raises:  UsageError for a folder that cannot be used, a log that cannot begin, and at the first evaluation for a measure to
             keep by that is no number there; `MissingPackageError` for a log that is not installed; StoppedError for a loss or
             a gradient that is not finite, a solve that fails, a disk or a memory that is full, files that are damaged: what was
             saved before is kept.
    Source:  Tallec and Ollivier 2018, sec. 3.
    """
    folder, processes = Path(folder), joined(configuration.training.batch)
    logs = checked_logs(log)
    before = processes.by_first(lambda: _already(configuration, folder, logs)) if resume else None
    if processes.any(before is not None):
        return before or Outcome(configuration.untrained_model(), {}, 0.0, configuration.training.steps, already=True)
    run = _begun(configuration, processes)
    with ExitStack() as until_done:

        def opened() -> LoggedRecord:
            until_done.enter_context(held_folder(folder, configuration, resume))
            senders = until_done.enter_context(logged(folder, configuration, logs))
            record = RunRecord(folder, configuration, run.threads, run.device.type, processes.size)
            return LoggedRecord(until_done.enter_context(record), senders)

        record = processes.by_first(opened)
        if record is None:
            return _carried_out(run, folder, NoRecord())
        show = until_done.enter_context(progress_bar("train", progress is True, configuration.training.steps, "step"))
        told = (lambda step, loss, rate: show(step)) if progress is True else progress or None
        return _carried_out(run, folder, record, told, evaluated, configuration)


def _already(configuration: Configuration, folder: Path, logs: Sequence[Any]) -> Outcome | None:
    """The outcome of a run that is finished, whose logs get the rest of its rows; None of one that is not."""
    before = _completed(configuration, folder)
    if before is not None and logs:
        with held_folder(folder, configuration, resume=True):
            send_rest(folder, configuration, logs)
    return before


def _begun(configuration: Configuration, processes: Processes = ALONE) -> Training:
    with failures_explained(0):
        model = configuration.untrained_model()
        return Training(model, configuration.task, configuration.training, processes)


def _carried_out(
    run: Training,
    folder: Path,
    record: LoggedRecord | NoRecord,
    progress: Progress | None = None,
    evaluated: Evaluated | None = None,
    configuration: Configuration | None = None,
) -> Outcome:
    processes = run.processes
    with torch_defaults(record.threads or run.threads, torch.float32), kernels_at_once():
        begin = record.restore() or (run.state() if processes.size > 1 else None)
        run.load(processes.from_first(begin), folder)
        try:
            run.run(record, progress, evaluated)
        except StoppedError as error:
            if error.status == "diverged":
                where = {"status": error.status, "message": str(error), "at": error.step, "g_dt": run.rates.row()}
                record.write_stopped({**where, "seconds": run.seconds, "steps": run.step, "engines": run.engines})
            raise
        if not run.finished:  # the signal came to another process
            raise StoppedError(
                f"step {run.step}: another process was interrupted; all up to here is saved.", "interrupted", run.step
            )
        run.choose()
        measures = run.measured("test")
        test_g_dt = run.rates.row()
        worse = far_worse(run.task, measures["loss"], run.answers("test"), run.settings)
        beside = _beside(configuration) if configuration and run.settings.beside else None
        about: dict[str, Any] = {
            "seconds": run.seconds,
            "steps": run.step,
            "best": run.best,
            "engines": run.engines,
            "largest_g_dt": run.largest_g_dt(),
            **({"test_g_dt": test_g_dt} if test_g_dt else {}),
            **({"waited": run.waited.tolist()} if processes.size > 1 else {}),
            **({"far_worse": worse} if worse else {}),
            **({"beside": beside} if beside else {}),
        }
        record.write_result({"status": "completed", "split": "test", "measures": measures, **about})
    return Outcome(run.model, measures, run.seconds, run.step, far_worse=worse, beside=beside)


def _beside(configuration: Configuration) -> dict[str, float] | None:
    """Train what a run is compared with, in the same way, and measure it on "test"; None where that does not end well."""
    task, settings = configuration.task, configuration.training
    sizes = task.input_size, configuration.field_settings.hidden, task.output_size
    other: Any = GapGRU(*sizes, generator(settings.seed, "beside"))
    run = Training(other, task, replace(settings, frozen="", likelihood=0.0))
    try:
        run.run()
        run.choose()
        return run.measured("test")
    except StoppedError as error:
        print(f"{settings.beside}, which is trained beside the run, stopped: {error}", file=sys.stderr)
        return None


LOOKED_AT = {"longest", "modes", "size"}  # of a watch, by which it says where to look again


class Training(Loop):
    r"""Trains a model on a task by gradient descent; `state` is all that changes in it.

    Args:    model: called model(xs, ts=, lengths=), trained in place; processes: that share each batch; batch_at: makes the batch
             of a step, by default drawn from the task by the seed and the step.
    Raises:  UsageError for a device that is not there, names of frozen parameters that fit none, and a measure to keep by that
             the task does not have.
    """

    def __init__(
        self,
        model: SequenceModel,
        task: Task,
        settings: TrainingSettings,
        processes: Processes = ALONE,
        batch_at: Callable[[int], Batch] | None = None,
    ) -> None:
        super().__init__()
        self.task, self.settings, self.processes = task, settings, processes
        self.keep_by, self.checkpoint_every = settings.keep_by, settings.checkpoint_every
        if self.keep_by not in task.measured:
            raise UsageError(f"keep_by is {self.keep_by!r}, and this task measures {', '.join(task.measured)}.")
        smoothed: dict[str, Any] = {"label_smoothing": settings.label_smoothing} if settings.label_smoothing else {}
        if smoothed and not ("accuracy" in task.measured and "label_smoothing" in signature(task.loss).parameters):
            raise UsageError(f"label_smoothing is for classes, and {type(task).__name__} predicts something else here.")
        self.loss: Callable[[Tensor, Batch], Tensor] = partial(task.loss, **smoothed)
        self.batch_at = batch_at or partial(_batch, task, settings)
        self.waited = torch.zeros(processes.size, dtype=torch.float64)  # seconds, of each process for the slowest in each step
        self.device = device_for(settings, processes)
        self.model = model.to(self.device)
        if settings.likelihood and not expects(model):
            raise UsageError("likelihood is for gru-ode-bayes, whose states say what values they expect.")
        self.watch = getattr(self.model.rnn, "watch", None)
        self.rates = GDtSummary.of(self.model.rnn)
        self.parameters = learned(self.model, settings.frozen)
        self.threads = settings.threads or threads_for(self.parameters, settings.batch)
        self.rate = settings.lr  # the plateau's rate, before the schedule's factor
        self.optimizer = optimizer(settings, self.parameters)
        self.mean_gradients = MeanGradients(self.model) if processes.size > 1 else None
        self.kept: dict[str, Tensor] | None = None  # weights at the best evaluation, where these are to be kept
        self.engines: list[str] = []  # of the steps taken, on which bits depend
        self.resumed = False

    @property
    def finished(self) -> bool:
        """Return whether all steps are taken, or `patience` evaluations in a row were no better than the best before, or this one
        came to the goal."""
        settings = self.settings
        since = self.step // settings.evaluate_every - int(self.best.get("step", 0)) // settings.evaluate_every
        patient = settings.patience is None or since < settings.patience
        return self.step >= settings.steps or not patient or self.at_goal

    @property
    def at_goal(self) -> bool:
        """Return whether an evaluation was as good as the goal."""
        goal, sign = self.settings.goal, sign_of(self.keep_by)
        return goal is not None and self.keep_by in self.best and sign * self.best[self.keep_by] <= sign * goal

    def stopped(self, interrupted: bool) -> bool:
        return self.processes.any(interrupted)

    def learn(self) -> dict[str, float]:
        begun, mine, error = time.perf_counter(), None, None
        self.optimizer.zero_grad()
        due = self.rates.due(self.step)
        looked_at: AbstractContextManager[None] = self.rates.looking(self.step + 1) if due else nullcontext()
        try:
            with failures_explained(self.step + 1, self.advised), looked_at:
                mine = self._backward([self.batch_at(k).to(self.device) for k in self._batches()])
        except StoppedError as stopped:
            error = stopped
        waited, largest, loss = self.processes.agree(error, begun, self.step + 1, self.largest_g_dt(), mine or 0.0)
        self.waited += waited
        if self.watch is not None:
            self.watch.largest = largest
        if self.mean_gradients is not None:
            self.mean_gradients()
        norm = nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])
        refuse_non_finite(self.step + 1, self.advised, loss=loss, gradient=norm.item())
        if self.settings.clip is not None:
            nn.utils.clip_grads_with_norm_(self.parameters, self.settings.clip, norm)
        rate = self.rate * factor(self.settings, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        if engine := self.model.rnn.stats.get("engine"):  # none where nothing of this share counts
            self.note_engine(engine)
        return {
            "rate": rate,
            "loss": math.nan if mine is None else loss,
            "gradient_norm": norm.item(),
            **(self.rates.row() if due else {}),
        }

    def _batches(self) -> range:
        """Return the numbers of the batches of the next step."""
        count = self.settings.accumulate
        return range(self.step * count, (self.step + 1) * count)

    def _backward(self, batches: Sequence[Batch]) -> float | None:
        """Compute the loss of this process's share of a step's batches, and its gradients; their means over processes are those
        of the batches, by what counts in them; of a likelihood, by the values that are seen. Of a share of nothing they
        are 0, and none; of batches in which nothing counts the loss is None."""
        task, total = self.task, torch.zeros((), device=self.device)
        whole, all_seen = (sum(map(count, batches)) / self.processes.size for count in (task.weight, self._seen))
        self._count_calls()
        for k, batch in zip(self._batches(), batches, strict=True):
            part, noise = batch, noise_of(self.model, batch.size, self.settings.seed, "train", k)
            if self.processes.size > 1:
                mine = self.processes.share(batch.size)
                part, noise = task.part(batch, mine), {name: keys[mine] for name, keys in noise.items()}
            share, seen = task.weight(part) / (whole or 1.0), self._seen(part) / (all_seen or 1.0)
            if share or seen:
                masks = drawing(generator(self.settings.seed, "drawn", k, self.processes.rank))  # of dropout
                with masks, torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
                    outputs, surprise = self._answered(part, noise)
                loss = torch.zeros((), device=self.device)
                if share:  # a mean over nothing is no number
                    loss = share * self.loss(outputs if self.settings.precision == "float32" else outputs.float(), part)
                if seen:
                    loss = loss + seen * (self.settings.likelihood * surprise)
                loss.backward()
                total = total + loss.detach()
        return total.item() if whole or all_seen else None

    def _seen(self, batch: Batch) -> float:
        """Count the values whose likelihood is a part of the loss."""
        return count_seen(self.model, batch) if self.settings.likelihood else 0.0

    def _answered(self, part: Batch, noise: dict[str, Any]) -> tuple[Tensor, Tensor | float]:
        if self.settings.likelihood:
            return outputs_and_surprise(self.model, part)
        return self.model(part.xs, ts=part.ts, lengths=part.lengths, **noise), 0.0

    def note_engine(self, engine: str) -> None:
        """Record the engine of a step, and print where a run goes on by another one."""
        if engine in self.engines:
            return
        if self.resumed and self.engines:
            before = " and ".join(self.engines)
            print(f"The run was begun with the engine {before}, this is {engine}: last bits may differ.", file=sys.stderr)
        self.engines.append(engine)

    def largest_g_dt(self) -> float | None:
        """Return the largest rate times length that the model's watch has seen; None when solved, or without a declared leak."""
        return None if self.watch is None else self.watch.largest or None

    def evaluate(self) -> dict[str, float]:
        return {} if self.step % self.settings.evaluate_every else self.measured("validation")

    def note(self, better: bool) -> None:
        """Keep the best weights, or halve the rate on a plateau.

        Source:  Tallec and Ollivier 2018, sec. 3: "divided by 2 each time the evaluation loss has not decreased after 100
                 batches", read as: looked at every 100 batches, compared with the lowest.
        """
        if better and self.settings.keep == "best":
            self.kept = {name: weights.clone() for name, weights in self.model.state_dict().items()}
        elif not better and self.settings.schedule == "plateau":
            self.rate /= 2

    def choose(self) -> None:
        """Put the weights that are kept in the model's place, once training is over."""
        if self.kept is not None:
            self.model.load_state_dict(self.kept)

    def _count_calls(self) -> None:
        """Count calls of the model by steps: the watch then looks at the same ones, however often the run is interrupted."""
        if self.watch is not None:
            self.watch.calls = self.step

    def measured(self, split: str) -> dict[str, float]:
        self._count_calls()
        looked_at = self.rates.looking(self.step) if split == "test" else nullcontext()
        with failures_explained(self.step, self.advised), looked_at:
            found = evaluate(self.model, self.task, split, self.settings.evaluation, self.settings.seed, self.settings.batch)
        found = self.processes.from_first(found)
        refuse_non_finite(self.step, self.advised, **{f"{split} loss": found["loss"]})
        if split == "validation":
            refuse_unmeasured(self.keep_by, found)
        return found

    def advised(self) -> str:
        """Say what to try, of a step that failed, once its g dt is looked at."""
        if not self.rates.due(self.step):
            with suppress(SolverError, StepError), torch.no_grad(), self.rates.looking(self.step + 1):
                batch = self.batch_at(self._batches()[0]).to(self.device)
                self._answered(batch, noise_of(self.model, batch.size, self.settings.seed, "train", self._batches()[0]))
        return advice(self.settings, self.model.rnn, self.rates, learned=self.step > 0)

    def answers(self, split: str) -> Iterator[tuple[Batch, Tensor]]:
        """Yield the batches that are measured on a split, and the outputs for each."""
        settings = self.settings
        return answers(self.model, self.task, split, settings.evaluation, settings.seed, settings.batch)

    def state(self) -> State:
        return {
            **super().state(),
            "model": _on_cpu(dict(self.model.state_dict())),
            **({} if self.kept is None else {"kept": _on_cpu(self.kept)}),
            "optimizer": _on_cpu(self.optimizer.state_dict()),
            "schedule": {"rate": self.rate},
            "engines": self.engines,
            "largest_g_dt": self.largest_g_dt(),
            **self.rates.state(),
            **({} if self.watch is None else {"looked_at": {name: getattr(self.watch, name) for name in LOOKED_AT}}),
        }

    def load(self, state: State | None, folder: Path) -> None:
        """Restore the state of a checkpoint; None is the start. Raises: StoppedError for the state of another model."""
        if state is None:
            return
        with refused_misfits(folder):
            self.step, self.seconds, self.best = state["step"], state["seconds"], state["best"]
            self.model.load_state_dict(state["model"])
            self.kept = state.get("kept")
            self.optimizer.load_state_dict(state["optimizer"])
            if self.settings.schedule == "plateau":
                self.rate = state["schedule"]["rate"]
        if self.watch is not None:
            self.watch.largest = state.get("largest_g_dt")
            self.rates.load(state)
            for name in LOOKED_AT & state.get("looked_at", {}).keys():  # not there in the first checkpoints of all
                setattr(self.watch, name, state["looked_at"][name])
        self.engines, self.resumed = list(state.get("engines", [])), True  # not there in the first checkpoints of all


def _on_cpu(state: dict[str, Any]) -> dict[str, Any]:
    """Copy a state to the CPU, so that any machine can read it."""
    return compat.tree_map_only(Tensor, Tensor.cpu, state)


def _batch(task: Task, settings: TrainingSettings, step: int) -> Batch:
    """Make the batch of a step: the task's own, or from a training set in an order of each epoch's own."""
    if settings.batches is None:
        return task.batch_at(step, settings.batch, settings.seed)
    epoch, place = divmod(step, settings.batches)
    order = torch.randperm(settings.batches, generator=generator(settings.seed, "epoch", epoch))
    return task.batch(settings.batch, generator(settings.seed, "batch", int(order[place])), "train")


def _completed(configuration: Configuration, folder: Path) -> Outcome | None:
    """Load a completed run of this configuration; writes nothing. Raises: UsageError for another configuration."""
    result, before = read_result(folder), read_configuration(folder)
    if result is None or before is None:
        return None
    check_same_run(folder, before, configuration)
    try:
        state = read_state(folder / NEWEST)
    except (OSError, DamagedError):
        return None  # the run goes on from the checkpoint that is whole, and says so
    if state["step"] != result["steps"]:
        return None
    run = _begun(replace(configuration, training=replace(configuration.training, device="cpu")))  # any machine has a CPU
    run.load(state, folder)
    if not run.finished:
        return None
    run.choose()
    about: Any = {"far_worse": str(result.get("far_worse", "")), "beside": result.get("beside")}
    return Outcome(run.model, result["measures"], result["seconds"], result["steps"], already=True, **about)
