"""What `ctrnn bench` is asked for, checked before anything is imported that takes time: the peers, and the output file.

torch        torch.nn.RNN, GRU, LSTM                         loop       a loop in Python over torch.nn.GRUCell
torchdiffeq  as users write it, and with its best flags      torchode   a batch whose samples step on their own
diffrax      compiled by JAX                                 torchsde   of fields with noise
torchdde     of fields with delays
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from experiments.files import check_output
from experiments.usage import UsageError, check_word

__all__ = ["PEERS", "absent", "check_out", "chosen"]

ENDINGS = (".json", ".md", ".svg", ".png")  # of the output file

# What must be importable, and how to install it; torchode's own requirements contradict those of tyro, and are not needed.
NEEDS: dict[str, tuple[tuple[str, ...], str]] = {
    "torch": (("torch",), "pip install torch"),
    "loop": (("torch",), "pip install torch"),
    "torchdiffeq": (("torchdiffeq",), "pip install torchdiffeq"),
    "torchode": (("torchode", "torchtyping"), "pip install --no-deps torchode torchtyping"),
    "diffrax": (("diffrax", "jax"), "pip install diffrax jax"),
    "torchsde": (("torchsde",), "pip install torchsde"),
    "torchdde": (("torchdde", "jaxtyping"), "pip install torchdde"),
}
PEERS = tuple(NEEDS)


def chosen(against: str | None) -> tuple[str, ...]:
    """Return the peers of a list "name,name", in the order of `PEERS`; all without a list. Raises: UsageError."""
    if against is None:
        return PEERS
    names = [name.strip() for name in against.split(",") if name.strip()]
    for name in names:
        check_word("peer", name, PEERS)
    if not names:
        raise UsageError(f"--against names nobody; there is {', '.join(PEERS)}.")
    return tuple(name for name in PEERS if name in names)


def absent(name: str) -> str | None:
    """Say why a peer cannot be compared here, and what to install; None if it can."""
    modules, how = NEEDS[name]
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"{' and '.join(missing)} not installed: {how}" if missing else None


def check_out(out: Path) -> None:
    """Refuse a file that cannot be written, or of another kind. Raises: UsageError."""
    check_output(out)
    check_word("file ending", out.suffix, ENDINGS)
