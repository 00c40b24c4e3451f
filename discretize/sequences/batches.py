r"""Join sequences of different lengths, with stamps and missing values, into batches that sequence modules read.

lengths 3, 1       xs  a b c       ts  0 1 5        a sequence that is over keeps its last time
                       d 0 0           2 2 2
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ctrnn import checks, hold_missing
from ctrnn.calls import AnsweredInit

__all__ = ["IGNORED", "Batch", "Collate"]

NAMES: dict[int, tuple[str, ...]] = {1: ("x",), 2: ("x", "target"), 3: ("x", "ts", "target")}
FORMS = 'x, (x, target), (x, ts, target) or a dict with "x" and perhaps "ts" and "target"'
IGNORED = -100  # the class that torch's cross_entropy leaves out, where nothing else is said


@dataclass(frozen=True, eq=False)
class Batch:
    r"""Holds sequences, their targets, and where these count.

        output, h_n = rnn(batch.xs, ts=batch.ts, lengths=batch.lengths)

    Shape:   xs (time, batch, input); targets (batch, ...) of sequences, or (time, batch, ...) of samples, or None; counts
             (time, batch) of 0 and 1, where losses look, None for everywhere; ts edges (time + 1,) or (time + 1, batch), or
             stamps, one fewer, None for one unit a sample; lengths (batch,), None for all of xs. If batch_first, (batch, time)
             in place of (time, batch).
    """

    xs: Tensor
    targets: Any = None
    counts: Tensor | None = None
    ts: Tensor | None = None
    lengths: Tensor | None = None
    batch_first: bool = False

    @property
    def size(self) -> int:
        """Return how many sequences there are."""
        return self.xs.shape[0 if self.batch_first else 1]

    def to(self, device: torch.device | str) -> Batch:
        """Copy to a device; times and lengths, which are numbers, stay."""
        return self._moved(lambda part: part.to(device))

    def pin_memory(self) -> Batch:
        """Copy to pinned memory, as `DataLoader(pin_memory=True)` asks for it."""
        return self._moved(Tensor.pin_memory)

    def last(self, outputs: Tensor) -> Tensor:
        """Take the outputs at each sequence's own last sample: (time, batch, outputs) -> (batch, outputs)."""
        outputs = outputs.transpose(0, 1) if self.batch_first else outputs
        if self.lengths is None:
            return outputs[-1]
        lengths = self.lengths.to(outputs.device)
        return outputs[lengths - 1, torch.arange(len(lengths), device=outputs.device)]

    def _moved(self, move: Callable[[Tensor], Tensor]) -> Batch:
        targets, counts = (part if part is None else move(part) for part in (self.targets, self.counts))
        return replace(self, xs=move(self.xs), targets=targets, counts=counts)


class Collate(AnsweredInit):
    r"""Makes a `Batch` of sequences of any lengths: the `collate_fn` of a `torch.utils.data.DataLoader`.

        loader = DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=discretize.Collate(missing="mask"))

    The dataset gives x, (x, target), (x, ts, target), or a dict with "x" and perhaps "ts" and "target".

        >>> batch = Collate()([(torch.randn(3, 2), 0), (torch.randn(5, 2), 1)])
        >>> batch.xs.shape, batch.lengths.tolist(), batch.targets.tolist()
        (torch.Size([5, 2, 2]), [3, 5], [0, 1])

    Args:    missing: what becomes of nan in x. None: it stays, and sequence modules refuse it. "mask": x is [values, seen], the
             value 0 and seen 0 where one is missing, as models that jump read it. "hold": the same with the last value seen in
             place of a missing one, as `ctrnn.inputs.hold_missing` has it.
             targets: "sequence", one for each sequence, all of one shape; or "sample", a row for each sample of x. Beyond the
             end of a sequence rows are 0, of whole numbers -100, which torch's cross_entropy leaves out, and `batch.counts`
             is 0 there. batch_first: axes, as in torch.nn.
    Shape:   x (n, feature), a tensor or an array, ts (n,) stamps or (n + 1,) edges, target (...) or (n, ...)
             -> xs (time, batch, feature), or twice as many features with `missing`, ts (time, batch) or (time + 1, batch) in
             float64, lengths (batch,), targets (batch, ...) or (time, batch, ...). Beyond the end of a sequence, where modules do
             not look, xs is 0 or not seen, and ts its last time.
    Raises:  TypeError, ValueError for samples that do not fit, alone or together, by their number in the batch.
    """

    def __init__(
        self,
        missing: Literal["mask", "hold"] | None = None,
        targets: Literal["sequence", "sample"] = "sequence",
        batch_first: bool = False,
    ) -> None:
        self.missing: str | None = missing if missing is None else checks.one_of("missing", missing, ("mask", "hold"))
        self.targets: str = checks.one_of("targets", targets, ("sequence", "sample"))
        self.batch_first: bool = checks.is_flag("batch_first", batch_first)

    def __call__(self, samples: Sequence[object]) -> Batch:
        read = [_read(sample, f"samples[{k}]") for k, sample in enumerate(samples)]
        if not read:
            raise ValueError("`samples` is empty; a batch has at least one sequence.")
        for k, parts in enumerate(read):
            _check_alike(parts, read[0], f"samples[{k}]")
        lengths = torch.tensor([len(parts["x"]) for parts in read], device="cpu")
        xs = self._padded([parts["x"] for parts in read], math.nan if self.missing else 0.0)
        if self.missing:
            seen, held = ~xs.isnan(), self.missing == "hold"
            values = hold_missing(xs, seen, batch_first=self.batch_first)[0] if held else torch.where(seen, xs, 0.0)
            xs = torch.cat([values, seen.to(xs)], -1)
        targets = counts = ts = None
        if "target" in read[0]:
            targets = self._targets(read)
            if self.targets == "sample":
                counts = self._padded([parts["x"].new_ones(len(parts["x"])) for parts in read], 0.0)
        if "ts" in read[0]:
            longest = max(len(parts["ts"]) for parts in read)
            columns = [torch.cat([t := parts["ts"], t[-1:].expand(longest - len(t))]) for parts in read]
            ts = torch.stack(columns, 0 if self.batch_first else 1)
        return Batch(xs, targets, counts, ts, lengths, self.batch_first)

    def _targets(self, read: list[dict[str, Tensor]]) -> Tensor:
        rows, each_sample = [parts["target"] for parts in read], self.targets == "sample"
        for k, (row, parts) in enumerate(zip(rows, read, strict=True)):
            shape, first, samples = tuple(row.shape), tuple(rows[0].shape), len(parts["x"])
            if each_sample and shape[:1] != (samples,):
                raise ValueError(f"`target of samples[{k}]` has shape {shape}; give a row for each of its {samples} samples.")
            if shape[each_sample:] != first[each_sample:]:
                hint = '; `targets="sample"` is for rows that go with those of x' if shape[:1] == (samples,) else ""
                raise ValueError(f"`target of samples[{k}]` has shape {shape}, that of samples[0] {first}{hint}.")
        if not each_sample:
            return torch.stack(rows)
        if rows[0].is_floating_point():
            return self._padded(rows, 0.0)
        return self._padded([row.long() for row in rows], IGNORED)  # bytes and truth values have no number for it

    def _padded(self, rows: list[Tensor], value: float) -> Tensor:
        return pad_sequence(rows, self.batch_first, value)

    def __repr__(self) -> str:
        return f"Collate(missing={self.missing!r}, targets={self.targets!r}, batch_first={self.batch_first})"


def _read(sample: object, where: str) -> dict[str, Tensor]:
    """Return what a sample of a dataset holds, by name, each checked alone."""
    if isinstance(sample, Mapping):
        parts = dict(sample)
    else:
        given = sample if isinstance(sample, tuple) else (sample,)
        parts = dict(zip(NAMES.get(len(given), ()), given, strict=False))
    if "x" not in parts or not parts.keys() <= {*NAMES[3]}:
        came = f"the keys {', '.join(map(repr, parts))}" if isinstance(sample, Mapping) else f"a tuple of {len(given)}"
        raise ValueError(f"`{where}` must be {FORMS}, got {came}.")
    parts = {name: part for name, part in parts.items() if part is not None}
    x = _as_tensor(f"x of {where}", parts.get("x"))
    if x.dim() != 2 or not len(x):
        raise ValueError(f"`x of {where}` must be (samples, features), at least one sample, got shape {tuple(x.shape)}.")
    if not x.is_floating_point():
        raise TypeError(f"`x of {where}` must be floating point, got {x.dtype}; convert it, for instance with `x.float()`.")
    read = {"x": x}
    if "ts" in parts:
        read["ts"] = checks.are_times(f"ts of {where}", parts["ts"])
        checks.say_if_rounded("ts", read["ts"], checks.dtype_of(parts["ts"]))  # once, and not with each sample's number
        if len(read["ts"]) - len(x) not in (0, 1):
            came = f"got {len(read['ts'])} for {len(x)} samples"
            raise ValueError(f"`ts of {where}` must have a stamp for each sample, or one edge more, {came}.")
    return read | ({"target": _as_tensor(f"target of {where}", parts["target"])} if "target" in parts else {})


def _check_alike(parts: dict[str, Tensor], first: dict[str, Tensor], where: str) -> None:
    """Check that a sample fits the first one."""
    if parts.keys() != first.keys():
        raise ValueError(f"`{where}` has {', '.join(parts)}, `samples[0]` has {', '.join(first)}; all must have the same.")
    if parts["x"].shape[1] != first["x"].shape[1]:
        raise ValueError(f"`x of {where}` has {parts['x'].shape[1]} features, that of samples[0] {first['x'].shape[1]}.")
    for name, part in parts.items():
        if part.dtype != first[name].dtype:
            raise TypeError(f"`{name} of {where}` is {part.dtype}, that of samples[0] {first[name].dtype}.")
    if "ts" in parts and len(parts["ts"]) - len(parts["x"]) != len(first["ts"]) - len(first["x"]):
        raise ValueError(f"`{where}` and `samples[0]` differ in `ts`: give stamps for all, one a sample, or edges, one more.")


def _as_tensor(name: str, value: object) -> Tensor:
    try:
        return torch.as_tensor(checks.writable(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"`{name}` must be a tensor, an array or numbers, got {type(value).__name__}.") from error
