r"""Hands out runs to Slurm: one array of jobs, a job a run, of which at most `size` are at work at a time.

A job whose time is up, or that is preempted, is put back into the queue by submitit, and its run goes on from its last
checkpoint. Partition, account, time and memory are what sbatch's own variables say, such as SBATCH_PARTITION=gpu: they stand
before what is asked for here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctrnn.extras import needed_by
from derivations.processes.pool import End, Work, ended
from experiments.usage import UsageError

__all__ = ["SlurmPool", "check_slurm"]

AGAIN = 100  # times that a job may reach its time
MINUTES = 60  # of a job where SBATCH_TIMELIMIT says nothing
LOOKS = 2.0  # seconds


def check_slurm() -> None:
    """Refuse a machine from which nothing can be handed to Slurm. Raises: UsageError."""
    with needed_by("--on slurm"):
        import submitit  # noqa: PLC0415

    if submitit.SlurmExecutor.affinity() < 0:
        raise UsageError("--on slurm hands jobs to sbatch, which is not here; run it where it is.")


@dataclass
class SlurmPool:
    """Hands out work as `WorkerPool` does, to Slurm. `folder`: of logs, which the cluster's machines see; `cluster`: submitit's
    word for where jobs run."""

    size: int
    work: Work
    tick: Callable[[list[Any]], None] = lambda keys: None
    every: float | None = None
    folder: Path = Path("slurm")
    cluster: str = "slurm"

    def carry_out(self, keys: Sequence[object]) -> Generator[End, None, None]:
        """Yield how each ends, as it is known. However this is left, no job is."""
        import submitit  # noqa: PLC0415

        if not keys:
            return
        executor = submitit.AutoExecutor(self.folder, cluster=self.cluster, slurm_max_num_timeout=AGAIN)
        executor.update_parameters(
            name="ctrnn", timeout_min=MINUTES, cpus_per_task=self.work.threads, slurm_array_parallelism=self.size
        )
        try:
            with executor.batch():
                at_work = [(key, executor.submit(_Job(self.work, key))) for key in keys]
        except submitit.core.utils.FailedJobError as error:
            raise UsageError(f"--on slurm: sbatch refuses ({str(error).strip().splitlines()[-1]}).") from error
        try:
            while at_work:
                done = [each for each in at_work if each[1].done()]
                at_work = [each for each in at_work if each not in done]
                for key, job in done:
                    try:
                        yield job.result()
                    except Exception as error:
                        yield End(key, lost=f"its job {job.job_id} was lost: {str(error).strip().splitlines()[0]}")
                self.tick([key for key, job in at_work if job.state == "RUNNING"])
                if at_work and not done:
                    time.sleep(LOOKS if self.every is None else self.every)
        finally:
            for _, job in at_work:
                job.cancel()


@dataclass
class _Job:
    """Does one piece of work in a job; called again where the job is queued again."""

    work: Work
    key: object

    def __call__(self) -> End:
        import torch  # noqa: PLC0415

        torch.set_num_threads(self.work.threads)

        def do(key: object) -> Any:
            return self.work.begun()(key)  # within `ended`, so that an error of a plugin is told, and is no lost job

        return ended(do, self.key)

    def checkpoint(self) -> Any:
        from submitit.helpers import DelayedSubmission  # noqa: PLC0415

        return DelayedSubmission(self)
