"""Run the notebooks of the docs, without Jupyter, and write down what their cells show.

python tools/run_notebooks.py
"""

import ast
import base64
import contextlib
import io
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# How a value shows itself, the richest first; what it says in plain text may have numbers of the machine in it.
SHOWN = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_latex_": "text/latex",
    "_repr_png_": "image/png",
}


def code_cells(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict) -> list[list[dict]]:
    """The outputs of its code cells, run in order in one namespace."""
    namespace: dict = {"__name__": "__main__"}
    return [_outputs("".join(cell["source"]), number, namespace) for number, cell in enumerate(code_cells(notebook), 1)]


def _outputs(source: str, number: int, namespace: dict) -> list[dict]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)
    outputs: list[dict] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        outputs.append({"data": _data(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _data(value: object) -> dict:
    for method, kind in SHOWN.items():
        shown = getattr(value, method, lambda: None)()
        if shown is not None:
            return {kind: base64.b64encode(shown).decode() + "\n" if isinstance(shown, bytes) else _lines(shown)}
    return {"text/plain": _lines(repr(value))}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    for file in NOTEBOOKS:
        notebook = json.loads(file.read_text(encoding="utf-8"))
        for number, (cell, outputs) in enumerate(zip(code_cells(notebook), run(notebook), strict=True), 1):
            cell["execution_count"], cell["outputs"] = number, outputs
        file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
