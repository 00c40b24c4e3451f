"""Shows how far a call is, on stderr or as a bar of the notebook, where it was asked to.

`progress=True` is asked for: the bar is shown where stderr is a file too, and in Jupyter, whose stderr is no terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ctrnn import checks
from ctrnn.extras import needed_by

__all__ = ["DELAY", "progress_bar"]

DELAY = 0.2  # seconds: what is done sooner needs no bar


@contextmanager
def progress_bar(call: str, shown: object, total: int | None = None, unit: str = "it") -> Iterator[Callable[[int], Any]]:
    """Yield a function that takes how many units are done.

    Args:    call: its name, as it is typed; shown: whether there is a bar; total: how many units there are, if that is known.
    Raises:  TypeError if `shown` is no flag; MissingPackageError without tqdm.
    """
    if not checks.is_flag("progress", shown):
        yield lambda done: None
        return
    with needed_by(f"{call}(progress=True)"):
        from tqdm.auto import tqdm  # noqa: PLC0415 - which calls without a bar do not need
    with tqdm(desc=call, total=total, unit=unit, leave=False, delay=DELAY) as bar:
        yield lambda done: bar.update(done - bar.n)
