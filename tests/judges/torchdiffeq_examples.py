r"""Run torchdiffeq's examples by it and by `discretize.torchdiffeq`, the import changed and nothing else.

    python tests/judges/torchdiffeq_examples.py FOLDER        `examples` of its repository; cnf.py needs scikit-learn

Printed are the last number of each example's output under both, and the seconds of processor time of the program.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["EXAMPLES", "run"]

# The sizes, and what is read off: the last match in the output.
EXAMPLES = {
    "ode_demo.py": ("--niters 100 --test_freq 50", r"Total Loss ([\d.]+)"),
    "ode_demo.py, adjoint": ("--niters 100 --test_freq 50 --adjoint", r"Total Loss ([\d.]+)"),
    "latent_ode.py": ("--niters 10", r"avg elbo: (-?[\d.]+)"),
    "latent_ode.py, adjoint": ("--niters 10 --adjoint True", r"avg elbo: (-?[\d.]+)"),
    "learn_physics.py": ("--num_iterations 21", r"^20 ([\d.]+)"),
    "learn_physics.py, no events": ("--num_iterations 11 --no_events", r"^10 ([\d.]+)"),
    "bouncing_ball.py": ("4", r"Gradient check (passed)"),
    "cnf.py": ("--niters 10 --num_samples 128", r"avg loss: ([\d.]+)"),
    "cnf.py, adjoint": ("--niters 10 --num_samples 128 --adjoint", r"avg loss: ([\d.]+)"),
}
PROGRAM = """
import runpy, sys, warnings
import numpy, torch
if {ours}:
    import discretize.torchdiffeq
    sys.modules["torchdiffeq"] = discretize.torchdiffeq
torch.manual_seed(0), numpy.random.seed(0), torch.set_num_threads(1)
sys.path.insert(0, {folder!r})
sys.argv = [{file!r}, *{words!r}]
runpy.run_path({folder!r} + "/" + {file!r}, run_name="__main__")
"""


def run(folder: Path, example: str, ours: bool) -> tuple[str, float]:
    """Run an example; return the number that is read off, and the seconds."""
    words, pattern = EXAMPLES[example]
    code = PROGRAM.format(ours=ours, folder=str(folder), file=example.partition(",")[0], words=words.split())
    with tempfile.TemporaryDirectory() as place:
        began = _processor_time()
        done = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False)
        seconds = _processor_time() - began
    if done.returncode:
        return done.stderr.strip().splitlines()[-1], seconds
    return re.findall(pattern, done.stdout, re.MULTILINE)[-1], seconds


def _processor_time() -> float:
    """Return the seconds of programs that have ended, those that they started included: a compiler, once."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(folder: Path) -> None:
    print("| example | arguments | torchdiffeq | here | seconds | here |\n|---|---|---|---|---|---|")
    for example, (words, _) in EXAMPLES.items():
        (theirs, before), (mine, after) = (run(folder, example, ours) for ours in (False, True))
        print(f"| {example} | `{words}` | {theirs} | {mine} | {before:.1f} | {after:.1f} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
