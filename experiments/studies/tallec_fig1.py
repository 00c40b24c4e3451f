r"""Figure 1 of Tallec and Ollivier 2018: the character before, on four kinds of clocks, by networks with and without gates.

                 uniform                variable
    warped   A A A B B B C C C      A A A B C C        every character w times; 1 to w times
    padded   A - - B - - C - -      A - - B C -        once, and dummies for the rest of its time

    loss     cross entropy in nats on held-out sequences, over maximum_warping w
    solved   a mean loss of at most 0.1 nats; without memory it is 2.1 to 2.2

A constant leak can be the speed of a uniform clock, and a gate that of any clock: so runs the theory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from experiments.studies.records import NotEnoughError, Record, Spread, grouped, markdown, number, spread, spreads
from experiments.studies.study import Run, Study, Verdict
from experiments.studies.tallec import MODELS, PAPER, STEPS, TRAINING_SET, Part, judged, trained
from experiments.tasks.recall import Recall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.models.sequence_model import SequenceModel

__all__ = ["TallecFigure1"]

PANELS = {  # as they are printed, from top left to bottom right
    "uniform warping": ("uniform", False),
    "uniform padding": ("uniform", True),
    "variable warping": ("variable", False),
    "variable padding": ("variable", True),
}
UNIFORM, VARIABLE = tuple(PANELS)[:2], tuple(PANELS)[2:]
SOLVED = 0.1  # nats
TESTED = 10  # times as many sequences as in an evaluation on the way: 10,000 at the paper's scale
MODERATE = 10  # "moderate warping coefficients": from here on
Losses = Mapping[str, Mapping[int, Mapping[str, Spread]]]  # panel -> warp -> model


class Sizes(NamedTuple):
    """How much of everything; `batches` None: fresh sequences at every step."""

    hidden: int
    length: int
    warps: tuple[int, ...]
    rate: float
    steps: int
    every: int
    held_out: int
    seeds: int
    batches: int | None


SCALES = {
    "smoke": Sizes(16, 24, (10,), 1e-2, 10, 5, 32, 1, None),
    "small": Sizes(64, 200, (1, 20, 40), 3e-3, 1000, 100, 256, 3, None),
    "paper": Sizes(64, 500, (1, *range(10, 101, 10)), 1e-3, STEPS, 100, 1000, 5, TRAINING_SET),
}


class TallecFigure1(Study):
    """Plain, leaky and gated networks on uniform and variable warps, repeated or padded."""

    name = "tallec-fig1"
    question = "Which of plain, leaky and gated networks learn to recall a character on a clock that is slower, or irregular?"
    claim = (
        "Gated architectures significantly outperform RNNs as soon as moderate warping coefficients are involved. As expected "
        "from theory, leaky RNNs perfectly solve uniform time warpings, but fail to achieve optimal behavior with variable "
        "warpings, to which they are not invariant. Gated RNNs, which are quasi invariant to general time warpings, achieve "
        "perfect performance in both setups for all values of maximum_warping."
    )
    source = f"{PAPER}, sec. 3 and fig. 1."
    resolutions = (
        "The first rate is not given: 1e-3 (small: 3e-3, smoke: 1e-2).",
        "“Divided by 2 each time the evaluation loss has not decreased after 100 batches” is read as: looked at every 100 "
        "batches, on 1000 held-out sequences, and halved where it is no new lowest.",
        "How gates start is not given for these tasks: as sec. 2 suggests, at 1/T, with T uniform on 2 to maximum_warping for "
        "each unit, and the leaky units' alpha = sigma(a) likewise.",
        "Which warps are tried is not printed but for the axis: 1, 10, 20, ..., 100.",
        "In padded sequences only the answers at characters count (“each time the input is nonzero”).",
        f"“Perfect” and “solve” are a mean loss of at most {SOLVED} nats; “moderate” is a warp of {MODERATE} or more; "
        "“significantly” is less than half of the loss, with no run of the better as high as any of the other, which has not "
        "solved it.",
        "At smaller scales sequences are shorter and fresh at every step. The small one stops after 1000 steps; leaky and plain "
        "networks go on learning the padded tasks after that, and what is compared is how far each has come.",
    )
    minutes: ClassVar = {"smoke": 0.3, "small": 12, "paper": 990}
    captions: ClassVar = {
        "losses": "Held-out loss over maximum_warping: the mean over runs, a band from least to largest, and what is lost "
        "without any memory. Where gates are worth something, their line stays on the ground."
    }

    def runs(self, scale: str) -> list[Run]:
        sizes = SCALES[scale]
        return [
            Run(
                f"{panel.replace(' ', '-')}-{warp}-{model}-{seed}",
                trained(
                    Recall(warping=warping, padded=padded, warp=warp, length=sizes.length),  # type: ignore[arg-type]
                    model,
                    warp,
                    sizes,
                    seed,
                ),
            )
            for seed in range(sizes.seeds)
            for warp in reversed(sizes.warps)
            for panel, (warping, padded) in PANELS.items()
            for model in MODELS
        ]

    def measure(self, run: Run, model: SequenceModel) -> list[dict[str, Any]]:
        """The test, on as many sequences as the scale has, and what a memoryless guess loses."""
        from experiments.runs.training import evaluate  # noqa: PLC0415

        task, settings = run.configuration.task, run.configuration.training
        tested = TESTED * settings.evaluation
        found = evaluate(model, task, "test", tested, settings.seed, settings.batch)
        return [{"sequences": tested, **found, **task.baselines()}]

    def verdict(self, records: Sequence[Record]) -> Verdict:
        losses = self._losses(records)
        warped = {panel: {w: found for w, found in losses[panel].items() if w >= MODERATE} for panel in PANELS}
        absent = [panel for panel in PANELS if not any(_complete(found) for found in warped[panel].values())]
        if absent:
            raise NotEnoughError(f"no warp of {MODERATE} or more has runs of all three models yet for {', '.join(absent)}")
        cells = {(panel, w): found for panel in PANELS for w, found in warped[panel].items() if _complete(found)}
        largest = {panel: max(w for of, w in cells if of == panel) for panel in PANELS}
        ends = {panel: cells[panel, w] for panel, w in largest.items()}
        numbers = {
            f"loss, {panel}, warp {largest[panel]}, {model}": str(ends[panel][model]) for panel in PANELS for model in MODELS
        }
        return judged([_beats_plain(cells), _leaky(losses, ends), _gated(losses)], numbers)

    def table(self, records: Sequence[Record]) -> str:
        losses, guesses = self._losses(records), _guesses(records)
        rows = [
            (panel, warp, *(found.get(model) for model in MODELS), guesses[panel, warp], sum(s.count for s in found.values()))
            for panel, by_warp in losses.items()
            for warp, found in sorted(by_warp.items())
        ]
        lengths = ", ".join(str(length) for (length,) in grouped(records, "task_settings.length"))
        return f"Test loss in nats, sequences of length {lengths}; mean (least–largest) over runs.\n\n" + markdown(
            ("clock", "maximum_warping", *MODELS, "memoryless", "runs"), rows
        )

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        from experiments.reports.bands import bands  # noqa: PLC0415

        losses, guesses = self._losses(records), _guesses(records)
        panels: dict[str, dict[str, dict[float, Spread]]] = {panel: {} for panel in losses}
        for panel, by_warp in losses.items():
            for model in MODELS:
                if points := {float(w): found[model] for w, found in by_warp.items() if model in found}:
                    panels[panel][model] = points
            if by_warp:
                panels[panel]["memoryless guess"] = {float(w): spread([guesses[panel, w]]) for w in by_warp}
        return {"losses": bands(panels, "maximum_warping", "test loss, nats", y_limits=(-0.08, 2.4))}

    def headline(self, record: Record) -> str:
        return f"test loss {number(record['rows'][0]['loss'])}"

    @staticmethod
    def _losses(records: Sequence[Record]) -> Losses:
        by = ("task_settings.warping", "task_settings.padded", "task_settings.warp", "field")
        found = spreads(records, by, lambda record: float(record["rows"][0]["loss"]))
        losses: dict[str, dict[int, dict[str, Spread]]] = {panel: {} for panel in PANELS}
        names = {settings: panel for panel, settings in PANELS.items()}
        for (warping, padded, warp, model), value in found.items():
            losses[names[warping, padded]].setdefault(warp, {})[model] = value
        return losses


def _guesses(records: Sequence[Record]) -> dict[tuple[str, int], float]:
    names = {settings: panel for panel, settings in PANELS.items()}
    by = ("task_settings.warping", "task_settings.padded", "task_settings.warp")
    return {
        (names[warping, padded], warp): float(same[0]["rows"][0]["memoryless"])
        for (warping, padded, warp), same in grouped(records, *by).items()
    }


def _complete(found: Mapping[str, Spread]) -> bool:
    return all(model in found for model in MODELS)


def _far_below(ours: Spread, theirs: Spread) -> bool:
    """Not where both have solved it: then a ratio of losses says little."""
    return theirs.mean > SOLVED and ours.high < theirs.low and ours.mean < theirs.mean / 2


def _beats_plain(cells: Mapping[tuple[str, int], Mapping[str, Spread]]) -> Part:
    """Gated against plain wherever both were tried at a moderate warp."""
    won = [cell for cell, found in cells.items() if _far_below(found["gated"], found["plain"])]
    lost = [f"{panel} {w}" for panel, w in cells if (panel, w) not in won]
    told = f"in {len(won)} of {len(cells)} cases" + (f", not in {', '.join(lost)}" if lost else "")
    return Part(f"gated far below plain at warps from {MODERATE} on", not lost, told)


def _leaky(losses: Losses, ends: Mapping[str, Mapping[str, Spread]]) -> Part:
    """Solves what is uniform, and is left far behind by the gated network at the largest variable warps."""
    uniform = [found["leaky"].mean for panel in UNIFORM for found in losses[panel].values() if "leaky" in found]
    behind = all(_far_below(ends[panel]["gated"], ends[panel]["leaky"]) for panel in VARIABLE)
    against = ", ".join(f"{panel} {ends[panel]['leaky']} against {ends[panel]['gated']} of the gated" for panel in VARIABLE)
    return Part(
        "leaky solves uniform clocks and is far above gated at the largest variable warp",
        max(uniform) <= SOLVED and behind,
        f"at most {number(max(uniform))} nats on uniform clocks; {against}",
    )


def _gated(losses: Losses) -> Part:
    """Solves everything."""
    found = {(panel, w): cell["gated"].mean for panel in PANELS for w, cell in losses[panel].items() if "gated" in cell}
    panel, warp = max(found, key=lambda cell: found[cell])
    return Part(
        "gated solves every clock", found[panel, warp] <= SOLVED, f"at most {number(found[panel, warp])} nats, {panel} {warp}"
    )
