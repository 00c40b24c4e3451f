"""The page on other tools: each piece of code prints what the page shows, with the package that it is about, if that is here."""

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "do" / "with-what-you-have.md").read_text()
PIECE = re.compile(r"^## ([^\n]*)\n(?:(?!^## ).)*?^```py\n(.*?)^```\n(?:```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
PIECES = {name: (code, shown) for name, code, shown in PIECE.findall(PAGE)}
FIRST = re.search(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
NEEDS = {  # modules, in the order of the page
    "Trainer of transformers": ["transformers", "accelerate"],
    "accelerate": ["accelerate"],
    "skorch": ["skorch"],
    "Weights & Biases": ["wandb"],
    "MLflow": ["mlflow"],
    "TensorBoard": ["tensorboard", "matplotlib"],
    "Paths of torchcde": ["torchcde"],
    "The hub mixin": ["huggingface_hub"],
    "xarray": ["xarray"],
    "NWB": ["pynwb"],
}


def test_each_piece_is_short_and_about_a_package_of_the_table():
    assert [*PIECES] == [*NEEDS]
    for name, (code, _) in PIECES.items():
        assert len([line for line in code.splitlines() if line.strip()]) <= 20, name
    table = PAGE.split("## Versions")[1]
    for modules in NEEDS.values():
        assert re.search(rf"\| {modules[0]}(-skinny)? \| \d", table), modules[0]


@pytest.mark.filterwarnings("ignore")  # of packages that are not ours
@pytest.mark.parametrize(
    "name", [name if name == "Paths of torchcde" else pytest.param(name, marks=pytest.mark.slow) for name in NEEDS]
)
def test_a_piece_prints_what_the_page_shows(name, tmp_path, monkeypatch):
    for module in NEEDS[name]:
        pytest.importorskip(module, reason=f"pip install {module}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(ROOT / "tests")])  # where a `datasets` is
    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    code, shown = PIECES[name]
    namespace = {"__name__": "__main__"}
    exec(FIRST, namespace)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, f"with-what-you-have.md, {name}", "exec"), namespace)
    assert printed.getvalue().endswith(shown)  # some packages print, too
