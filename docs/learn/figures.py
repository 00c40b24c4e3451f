"""Draws the figures of the tutorials anew: runs their code in an empty folder, and copies what it saved to docs/figures."""

import re
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path

HERE = Path(__file__).resolve().parent
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

if __name__ == "__main__":
    for page in sorted(HERE.glob("*.md")):
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            exec(compile("\n".join(CODE.findall(page.read_text())), page.name, "exec"), {"__name__": "__main__"})
            for figure in Path(folder).glob("learn-*.svg"):
                shutil.copy(figure, HERE.parent / "figures")
                print(page.name, figure.name)
