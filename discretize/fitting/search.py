"""SciPy's least squares from several starts, which wait for one another so that one solve serves them all."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

__all__ = ["Ask", "least_squares_from", "together"]

PRECISION = 1e-8  # share of chi2, and of the unknowns in their sizes, by which the last step changes them

Ask = Callable[[str, np.ndarray], np.ndarray]  # a question of one start -> its answer
Answer = Callable[[str, np.ndarray], np.ndarray]  # the same question of several, stacked -> answers, stacked


def together(answer: Answer, jobs: list[Callable[[Ask], Any]]) -> list[Any]:
    """Run jobs in threads, and answer their questions in this one, in one call where all that still run have asked."""
    if len(jobs) == 1:
        return [jobs[0](lambda kind, x: answer(kind, x[None])[0])]
    events: queue.SimpleQueue[tuple[str, np.ndarray, Future] | None] = queue.SimpleQueue()
    over = threading.Event()

    def ask(kind: str, x: np.ndarray) -> np.ndarray:
        question: tuple[str, np.ndarray, Future] = (kind, x.copy(), Future())
        events.put(question)
        if over.is_set():
            raise RuntimeError("The search has ended.")
        return question[2].result()

    def run(job: Callable[[Ask], Any]) -> Any:
        try:
            return job(ask)
        finally:
            events.put(None)

    waiting: list[tuple[str, np.ndarray, Future]] = []
    with ThreadPoolExecutor(len(jobs)) as pool:
        try:
            results, running = [pool.submit(run, job) for job in jobs], len(jobs)
            while running:
                event = events.get()
                running, waiting = (running - 1, waiting) if event is None else (running, [*waiting, event])
                if running and len(waiting) == running:
                    for kind in sorted({kind for kind, *_ in waiting}):
                        asked = [each for each in waiting if each[0] == kind]
                        for (*_, future), found in zip(asked, answer(kind, np.stack([x for _, x, _ in asked])), strict=True):
                            future.set_result(found)
                    waiting = []
        except BaseException as error:  # also of the keyboard: threads that wait would never end
            over.set()
            while not events.empty():
                waiting += [event for event in [events.get()] if event]
            for *_, future in waiting:
                if not future.done():
                    future.set_exception(error)
            raise
    return [result.result() for result in results]


def least_squares_from(
    answer: Answer, starts: np.ndarray, low: np.ndarray, high: np.ndarray, max_nfev: int, held: int | None = None
) -> list[Any]:
    """Run SciPy's `least_squares` from each start (starts, unknowns); None for one whose residuals or derivatives are not finite.

    A step to where the solve fails, and residuals are nan, is taken back by SciPy and halved. held: an unknown that stays.
    """
    from scipy.optimize import OptimizeResult, least_squares  # noqa: PLC0415 - of an extra

    free = np.arange(starts.shape[1]) != held

    def job(start: np.ndarray) -> Callable[[Ask], Any]:
        def whole(x: np.ndarray) -> np.ndarray:
            point = start.copy()
            point[free] = x
            return point

        def run(ask: Ask) -> Any:
            def jacobian(x: np.ndarray) -> np.ndarray:
                matrix = ask("jacobian", whole(x))[:, free]
                if not np.isfinite(matrix).all():
                    raise FloatingPointError
                return matrix

            first = ask("residuals", start)
            if not np.isfinite(first).all():
                return None
            if not free.any():
                return OptimizeResult(x=start, cost=np.square(first).sum() / 2)
            try:
                result = least_squares(
                    lambda x: first if np.array_equal(whole(x), start) else ask("residuals", whole(x)),
                    start[free],
                    jacobian,
                    bounds=(low[free], high[free]),
                    x_scale="jac",
                    ftol=PRECISION,
                    xtol=PRECISION,
                    gtol=None,  # of no unit
                    max_nfev=max_nfev,
                )
            except FloatingPointError:
                return None
            result.x = whole(result.x)
            return result

        return run

    return together(answer, [job(np.clip(start, low, high)) for start in starts])
