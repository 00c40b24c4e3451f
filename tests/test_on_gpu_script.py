"""`tools/on_gpu.sh` at toy sizes by Triton's interpreter: its rows are written one by one, and its section is made of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # processes of their own, and an interpreter
ROOT = Path(__file__).resolve().parent.parent


def test_the_script_for_a_gpu_measures_and_writes_its_section(tmp_path):
    pytest.importorskip("triton")
    chosen = {"TOY": "1", "PARTS": "cells:300 shapes:300 nothing:60 memory:300", "SECONDS_LEFT": "900", "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "tools/on_gpu.sh", str(tmp_path)], cwd=ROOT, env=os.environ | chosen, capture_output=True, text=True, check=True
    )
    assert "nothing: ended with status 1" in done.stdout, done.stdout  # and the parts behind it were run
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [*dict.fromkeys(row["asked"] for row in rows)] == ["cells", "shapes", "memory"]
    assert all(value > 0 for row in rows if row["unit"] == "s" for value in row["values"])
    section = (tmp_path / "section.md").read_text()
    assert "no times of a GPU" in section
    for row in rows:
        assert f"| {row['candidate']} |" in section
