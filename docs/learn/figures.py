"""Draws the figures of the tutorials anew: runs their code in an empty folder, and puts what it saved into docs/figures."""

import re
import tempfile
from contextlib import chdir
from pathlib import Path

from ctrnn_experiments import svg

HERE = Path(__file__).resolve().parent
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

if __name__ == "__main__":
    for page in [*sorted(HERE.glob("*.md")), HERE.parent / "fitting.md", HERE.parent / "dynamics.md"]:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            exec(compile("\n".join(CODE.findall(page.read_text())), page.name, "exec"), {"__name__": "__main__"})
            for figure in Path(folder).glob("*.svg"):
                drawn = svg.with_dark_colours(figure.read_text(encoding="utf-8"))
                (HERE.parent / "figures" / figure.name).write_text(drawn, encoding="utf-8")
                print(page.name, figure.name)
