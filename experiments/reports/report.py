"""What `ctrnn demo` and `ctrnn breakdown` share: lines in the terminal, how a page was made, its files, and the last words."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from ctrnn.storage.files import write_atomically
from experiments.files import not_writable
from experiments.interruption import checkpoint
from experiments.reports.machine import version_of
from experiments.reports.section import Section, page

__all__ = ["conclude", "facts", "failures_of", "now", "progress", "say", "versions"]


def say(line: str) -> None:
    """Print a line at once; an interrupt that came in between is raised here."""
    checkpoint()
    print(line, flush=True)


@contextmanager
def progress(label: str) -> Iterator[None]:
    """A line on stderr while something is worked on, where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(f"\x1b[K{label} ...\r")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\x1b[K")
        sys.stderr.flush()


def now() -> str:
    """Date and time."""
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


def versions(*packages: str) -> dict[str, str]:
    """Of Python and these packages."""
    return {"python": platform.python_version(), **{name: version_of(name) for name in packages}}


def facts(command: str, credit: str, seconds: Mapping[str, float], packages: Sequence[str]) -> dict[str, str]:
    """How a page was made, for its foot."""
    return {
        "Command": command,
        "Date": now(),
        "Time": ", ".join(f"{key} {value:.1f} s" for key, value in seconds.items()),
        "Versions": ", ".join(f"{name} {number}" for name, number in versions(*packages).items()),
        "Data": credit,
    }


def failures_of(sections: Sequence[Section]) -> list[str]:
    """Which checks failed, of all sections."""
    return [failure for section in sections for failure in section.failures]


def conclude(
    out: Path, sections: Sequence[Section], template: str, facts: Mapping[str, str], files: Mapping[str, str], took: float
) -> bool:
    """Write the page and its files, say what failed and where the page is; whether all checks passed. Raises: UsageError."""
    try:
        for name, text in {**files, "index.html": page(sections, facts, template)}.items():
            write_atomically(out / name, text)
    except OSError as error:
        raise not_writable(out, error) from None
    failures = failures_of(sections)
    for failure in failures:
        say(f"FAILED  {failure}")
    say("A check failed; the page says which." if failures else f"All checks passed, in {took:.0f} s.")
    say(f"{out / 'index.html'}")
    return not failures
