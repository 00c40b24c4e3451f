r"""Clocks that stop and go: which discrete cells can wait exactly, told when, and how well learned gates find out.

told      the gate times the step, 0 or 1: h + 0 (f - h) is h, to the bit       trained unwarped, played on repeated symbols
learned   no step: cells trained on repeated symbols, and the clock that their gates have made
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from experiments.models.fields import FieldSettings
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.seeds import generator
from experiments.studies.learned_clocks import at_change, on_held_symbols
from experiments.studies.oracle import STEPS, StopAndGo
from experiments.studies.oracle_clocks import DTYPES, SEQUENCES, SYMBOLS, UNTOLD, UNWARPED, accuracy_held, symbols_of, told_clock
from experiments.studies.records import NotEnoughError, Record, Spread, markdown, number, setting, spread
from experiments.studies.study import Run, Study, Verdict
from experiments.tasks.recall import Recall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.models.sequence_model import SequenceModel

__all__ = ["EXACT", "LEARNED", "StopAndGoStudy"]

# Cell -> clocks on which it is exactly invariant, by result 10; the others have no gate or read their state where it waits.
EXACT: dict[str, tuple[str, ...]] = {
    "gated": STEPS,
    "gated-global": STEPS,
    "gru": STEPS,
    "gated-power": STEPS,
    "lstm-blind-output": ("first",),
    "lstm": (),
    "leaky": (),
    "plain": (),
}
LEARNED = ("gated", "gated-global", "gru", "lstm", "lstm-blind-output", "leaky")
GATELESS = ("leaky", "plain")
DRAWN = ("gated", "gated-global", "gru", "lstm", "leaky")
WORDS = {"lstm-blind-output": "LSTM, blind output", "lstm": "LSTM", "gru": "GRU"}
MOVED = 1e-3  # of states in [-1, 1], and cells c of about that size: what is called not exact differs by more
# hidden units; unwarped: length, steps; repeated at most so often: length, steps; held-out sequences; seeds; and how
SIZES: dict[str, tuple[Any, ...]] = {
    "smoke": (16, (12, 30), 3, (24, 30), 32, 1, ("adam", 1e-2, 1.0)),
    "small": (32, (40, 300), 8, (120, 600), 256, 3, ("adam", 1e-2, 1.0)),
    "paper": (64, (500, 4689), 10, (500, 4689), 10_000, 5, ("rmsprop", 1e-3, None)),
}
REPEATS = (1, 2, 3, 4, 6, 8, 12, 16)
LONGEST = REPEATS[-1]


class StopAndGoStudy(Study):
    """Eight cells under oracle gates, and six that learn theirs."""

    name = "stop-and-go"
    question = "Which discrete cells can wait exactly when told that their clock stands, and how near do learned gates come?"
    claim = (
        "The gated RNN, the GRU (its z gated) and the gated power-decay cell are exactly invariant to a clock that stops and "
        "goes; the LSTM only without the recurrent weights of its output gate; the plain RNN and the leaky cell with a fixed "
        "alpha are not. The gate equal to floor c(t + 1) - floor c(t) reproduces the unwarped trajectory exactly."
    )
    source = "This project, results 10 and 11, proved in the ledger for two units; here with trained weights."
    resolutions = (
        "Exact means bit for bit: after every sample the state is, in float32 and in float64, that of the unwarped sequence "
        "after as many symbols as the clock has read.",
        "Two clocks: going at a symbol's first repetition, which is causal, and at its last, as result 11 has it. While the "
        "second waits, the next symbol is shown already, and an output gate that reads it moves h: so the LSTM without output "
        "recurrence is exact on the first only.",
        "Plain and leaky cells have no gate that an oracle could multiply: shown is what they make of repeated symbols, at "
        "their last repetition. A leaky alpha multiplied by the step would be a gate.",
        "The exponent of the power decay is 0.5. With 2 its Euler step throws states beyond the square root of 2 further out: at "
        "the rates tried, 1e-2 and 2e-3, the loss was not finite in 6 of 7 trainings within 300 steps, and 6e6 in the other.",
        "The GLNN of result 10 is no cell of this library and is left out.",
        "Learned gates are those after training on symbols repeated 1 to 8 times at random (smoke: 1 to 3, paper: 1 to 10). They "
        f"are measured with every symbol repeated 1 to 16 times, on {SEQUENCES} sequences of {SYMBOLS} symbols.",
    )
    minutes: ClassVar = {"smoke": 0.5, "small": 2, "paper": 900}
    captions: ClassVar = {
        "told": "Largest difference of a unit's state from the unwarped trajectory, over all samples, in float64. Exactly zero "
        "is left of the dashed line.",
        "learned": "Time that passes on the learned clock within one symbol, by the time at one repetition; the median over "
        "units, the mean over seeds and a band from the least to the largest. Invariant is flat; the leaky cell's constant "
        "gate takes as many times as long as there are repetitions.",
    }

    def runs(self, scale: str) -> list[Run]:
        hidden, (length, steps), most, (long, longer), held_out, seeds, (optimizer, rate, clip) = SIZES[scale]

        def run(kind: str, cell: str, seed: int, task: Recall, steps: int) -> Run:
            training = TrainingSettings(
                steps=steps, seed=seed, optimizer=optimizer, rate=rate, clip=clip, evaluate_every=max(10, steps // 5),
                evaluation=held_out, checkpoint_every=max(10, steps // 5), threads=1,
            )  # fmt: skip
            fields = FieldSettings(hidden=hidden, alpha=0.5, exponent=0.5)
            return Run(f"{kind}-{cell}-{seed}", Configuration(task, cell, "euler", fields, training=training))

        unwarped, warped = Recall(length=length), Recall("variable", warp=most, length=long)
        return [
            *(run("told", cell, seed, unwarped, steps) for seed in range(seeds) for cell in EXACT),
            *(run("learned", cell, seed, warped, longer) for seed in range(seeds) for cell in LEARNED),
        ]

    @torch.no_grad()
    def measure(self, run: Run, model: SequenceModel) -> list[dict[str, Any]]:
        torch.set_num_threads(1)  # one sample at a time is no work for several, which wait for one another
        task, seed = run.configuration.task, run.configuration.training.seed
        warp: int = task.warp  # type: ignore[attr-defined]
        symbols, targets = symbols_of(seed)
        clock = StopAndGo.random(SYMBOLS, SEQUENCES, max(warp, 4), generator(seed, "stop-and-go", "clock"))
        if warp == 1:
            return [row for name in DTYPES for row in told_clock(model, symbols, targets, clock, name)]
        field = copy.deepcopy(model.field).double()
        found = on_held_symbols(field, symbols.double(), REPEATS)
        for row in found:
            row["accuracy"] = accuracy_held(model, symbols, targets, row["repeats"])
        return [*found, at_change(field, symbols.double(), clock)]

    def headline(self, record: Record) -> str:
        told = [row for row in record["rows"] if row["kind"] == "told" and row["dtype"] == "float64"]
        if told:
            return "off by " + ", ".join(f"{number(row['largest'])} ({row['clock']})" for row in told)
        return super().headline(record)

    def verdict(self, records: Sequence[Record]) -> Verdict:
        found = _differences(records)
        absent = [cell for cell in EXACT if cell not in {name for name, _ in found}]
        if absent:
            raise NotEnoughError(f"no unwarped run of {', '.join(absent)} is done yet")
        judged = {at: largest for at, largest in found.items() if at[1] != UNTOLD or at[0] in GATELESS}
        as_proved = [at for at, largest in judged.items() if (largest == 0 if at[1] in EXACT[at[0]] else largest > MOVED)]
        word: Literal["reproduced", "partly", "not"]
        word = "reproduced" if len(as_proved) == len(judged) else "partly" if as_proved else "not"
        exact = [at for at in judged if at[1] in EXACT[at[0]]]
        zero = sum(judged[at] == 0 for at in exact)
        least = min(judged[at] for at in judged if at not in exact)
        sentence = (
            f"Told the clock, {zero} of the {len(exact)} pairs of cell and clock that should be exact are so to the bit, in "
            f"float32 and float64; those that should not be differ by at least {number(least)}. {_learned_in_words(records)}"
        )
        return Verdict(word, sentence.strip(), {f"{cell}, {clock}": largest for (cell, clock), largest in judged.items()})

    def table(self, records: Sequence[Record]) -> str:
        parts = [part for part in (_told_table(records), _learned_table(records)) if part]
        if not parts:
            raise NotEnoughError("no run is done yet")
        return "\n\n".join(parts)

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        from experiments.reports.bands import bands  # noqa: PLC0415
        from experiments.reports.log_dots import zero_dots  # noqa: PLC0415

        drawn: dict[str, Figure] = {}
        found = _differences(records, "float64")
        if found:
            clocks = {"first": "goes at the first", "last": "goes at the last", UNTOLD: "told nothing"}
            rows = {
                _name(cell): {words: found[cell, clock] for clock, words in clocks.items() if (cell, clock) in found}
                for cell in EXACT
                if any(name == cell for name, _ in found)
            }
            drawn["told"] = zero_dots(rows, "largest difference of a state")
        lines = {}
        for cell in DRAWN:
            mine = [record for record in records if setting(record, "field") == cell and _has(record, "held")]
            if mine:
                repeats = [row["repeats"] for row in mine[0]["rows"] if row["kind"] == "held"]
                lines[_name(cell)] = {float(n): _of(mine, "held", "elapsed", repeats=n) for n in repeats}
        if lines:
            levels = {"invariant": 1.0}
            drawn["learned"] = bands(
                {"": lines}, "repetitions of a symbol", "time elapsed in a symbol", x_log=True, y_log=True, levels=levels
            )
        return drawn


def _told_table(records: Sequence[Record]) -> str:
    found, shares = _differences(records), _accuracies(records)
    rows: list[tuple[object, ...]] = []
    for cell, exact in EXACT.items():
        for clock in (*STEPS, UNTOLD):
            if (cell, clock) in found:
                proved = "exact" if clock in exact else None if clock == UNTOLD and cell not in GATELESS else "not exact"
                largest = found[cell, clock] or "0, every bit"
                rows.append((_name(cell), clock, proved, largest, shares[cell, clock], shares[cell, UNWARPED]))
    if not rows:
        return ""
    return (
        "Trained unwarped, played on repeated symbols. Largest difference of any unit from the unwarped trajectory, over both "
        "dtypes and all seeds; accuracy where the clock goes (untold: at last repetitions), and unwarped.\n\n"
    ) + markdown(("cell", "clock goes at the", "by the theorem", "largest difference", "accuracy", "unwarped"), rows)


def _learned_table(records: Sequence[Record]) -> str:
    learned = [record for record in records if _has(record, "gate")]
    if not learned:
        return ""
    most = int(setting(learned[0], "task_settings.warp"))
    rows = [
        (
            _name(cell),
            spread(record["measures"]["accuracy"] for record in mine),
            *(_of(mine, "gate", key) for key in ("first", "others", "correlation")),
            *(_of(mine, "held", key, repeats=most) for key in ("elapsed", "least_elapsed", "deviation")),
            _of(mine, "held", "deviation", repeats=LONGEST),
            _of(mine, "held", "accuracy", repeats=LONGEST),
        )
        for cell in LEARNED
        if (mine := [record for record in learned if setting(record, "field") == cell])
    ]
    head = (
        "cell", "accuracy", "g, first", "g, others", "correlation", f"elapsed at {most}", "least of a unit",
        f"deviation at {most}", f"at {LONGEST}", f"accuracy at {LONGEST}",
    )  # fmt: skip
    return (
        f"Trained on symbols repeated 1 to {most} times, told nothing. Gate (1 - f of the LSTM) at a symbol's first repetition "
        "and at the others, the best unit's correlation with the clock that goes at the first; time elapsed within a symbol by "
        "that at one repetition, the median and the least over units (invariant: 1; a constant gate: the number of repetitions); "
        "deviation from the states at one repetition (1: as far as other sequences).\n\n"
    ) + markdown(head, rows)


def _rows(records: Sequence[Record], kind: str) -> list[tuple[str, dict[str, Any]]]:
    return [(setting(record, "field"), row) for record in records for row in record["rows"] if row["kind"] == kind]


def _has(record: Record, kind: str) -> bool:
    return any(row["kind"] == kind for row in record["rows"])


def _differences(records: Sequence[Record], dtype: str | None = None) -> dict[tuple[str, str], float]:
    """(cell, clock) -> the largest over seeds and dtypes; what is not a number counts as infinitely far."""
    found: dict[tuple[str, str], float] = {}
    for cell, row in _rows(records, "told"):
        if dtype in (None, row["dtype"]):
            at, largest = (cell, row["clock"]), row["largest"] if row["largest"] == row["largest"] else float("inf")
            found[at] = max(found.get(at, 0.0), largest)
    return found


def _accuracies(records: Sequence[Record]) -> dict[tuple[str, str], Spread]:
    shares: dict[tuple[str, str], list[float]] = {}
    for cell, row in _rows(records, "told"):
        shares.setdefault((cell, row["clock"]), []).append(row["accuracy"])
        shares.setdefault((cell, UNWARPED), []).append(row["unwarped_accuracy"])
    return {at: spread(values) for at, values in shares.items()}


def _of(records: Sequence[Record], kind: str, key: str, **where: Any) -> Spread:
    """A number of the rows of that kind that agree with `where`, over records."""
    return spread(row[key] for _, row in _rows(records, kind) if all(row[name] == value for name, value in where.items()))


def _learned_in_words(records: Sequence[Record]) -> str:
    learned = [record for record in records if _has(record, "gate")]
    told = []
    for cell in LEARNED:
        mine = [record for record in learned if setting(record, "field") == cell]
        if mine:
            most = int(setting(mine[0], "task_settings.warp"))
            passed, off = (_of(mine, "held", key, repeats=most) for key in ("elapsed", "deviation"))
            told.append(f"{_name(cell)} {number(passed.mean, 2)} and {number(off.mean, 2)}")
    if not told:
        return ""
    return (
        f"On learned clocks {most} repetitions of a symbol take so many times as long as one (invariant: 1, a constant gate: "
        f"{most}), and move the states so far (invariant: 0, other sequences: 1): {'; '.join(told)}."
    )


def _name(cell: str) -> str:
    return WORDS.get(cell, cell)
