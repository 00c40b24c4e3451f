r"""Hands out runs to a Ray cluster: the same folders, by workers wherever the cluster has them.

    waiting  ->  at most `size` tasks at a time  ->  done, busy elsewhere, or failed
                      |
                      its worker dies: Ray starts it once more, and it goes on from its last checkpoint; then it has failed

A run that raises is no death: it is told, and not tried again. The cluster's machines see the same folder, and have ctrnn
installed. Without an address Ray is started on this machine, and ends with the command.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ctrnn.extras import install_line
from experiments.runs.pool import GRACE, TRIES, End, Work
from experiments.usage import UsageError

__all__ = ["RayPool", "connected"]


def connected(address: str | None, threads: int) -> int:
    """Start Ray here or connect to an address; return how many runs of so many threads it holds at a time. Raises: UsageError."""
    try:
        import ray  # noqa: PLC0415
    except ImportError:
        raise UsageError(f"--on ray needs Ray: {install_line('cluster')}") from None
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="error")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"--on ray:{address}: {str(error).splitlines()[0]}") from error
    return max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)


@dataclass
class RayPool:
    """Hands out work as `WorkerPool` does, on Ray."""

    size: int
    work: Work
    tick: Callable[[list[Any]], None] = lambda keys: None
    every: float | None = None

    def carry_out(self, keys: Sequence[object]) -> Generator[End, None, None]:
        """Yield how each ends, as it is known. However this is left, no task is."""
        import ray  # noqa: PLC0415

        task = ray.remote(num_cpus=self.work.threads, max_retries=TRIES - 1, retry_exceptions=False)(_carried_out)
        waiting, at_work = deque(keys), dict[Any, Any]()
        try:
            while waiting or at_work:
                while waiting and len(at_work) < self.size:
                    key = waiting.popleft()
                    at_work[task.remote(self.work, key)] = key
                self.tick(list(at_work.values()))
                for reference in ray.wait(list(at_work), timeout=self.every)[0]:
                    key = at_work.pop(reference)
                    try:
                        yield End(key, ray.get(reference))
                    except ray.exceptions.RayError as error:
                        yield End(key, lost=f"its worker was lost, {TRIES} times: {str(error).strip().splitlines()[0]}")
        finally:
            for reference in at_work:
                ray.cancel(reference, force=False)  # acts as Ctrl-C does: a training saves and ends
            if at_work:
                ray.wait(list(at_work), num_returns=len(at_work), timeout=GRACE)
            ray.shutdown()


def _carried_out(work: Work, key: object) -> Any:
    import torch  # noqa: PLC0415

    torch.set_num_threads(work.threads)
    return _begun(work)(key)


@cache
def _begun(work: Work) -> Callable[[Any], Any]:
    """Begin the work once in a worker, which takes many runs."""
    return work.begun()
