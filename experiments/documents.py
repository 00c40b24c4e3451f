"""Opens these pages in a browser: those of the package, or as `make docs` built them in a copy of the repository."""

import sys
import webbrowser
from pathlib import Path

__all__ = ["open_pages"]

ROOT = Path(__file__).resolve().parents[1]


def open_pages() -> int:
    """Open them, and write where they are; the exit code of the command."""
    copied = (ROOT / "docs" / "conf.py").exists()
    page = (ROOT / "out" / "docs" if copied else ROOT / "experiments" / "site") / "index.html"
    if not page.exists():
        why = "the pages are not built yet" if copied else "this package was made without the pages"
        where = ROOT if copied else "a copy of the repository"
        print(f"ctrnn docs: {why}; run `make docs` in {where}.", file=sys.stderr)
        return 2
    print(page, flush=True)
    webbrowser.open(page.as_uri())
    return 0
