r"""A field's `flow` and its derivatives along directions, written out in Triton for solves by a Rosenbrock pair.

flow      f(x, h)
along     (df/dh) v, of [h, v]: columns of a Jacobian, and on the way back the derivative along what a stage is solved for
in time   (df/dx) v, of [x, v]: how fast an input that moves changes the slope; none where it stands still
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from discretize.kernels.triton.passes import Pass
from discretize.kernels.triton.solving.backward import BACKWARD
from discretize.kernels.triton.solving.elimination import ELIMINATION, units_of
from discretize.kernels.triton.solving.forward import FORWARD
from discretize.kernels.triton.solving.helpers import GIVE, HELPERS, KEEP, READ
from discretize.kernels.triton.solving.recorded import Recorded, Sums
from discretize.kernels.triton.solving.rosenbrock import RATES, ROSENBROCK, STAGE
from discretize.kernels.triton.solving.rosenbrock_back import ROSENBROCK_BACK, TIME_BACK, rows_kept
from discretize.kernels.triton.solving.writing import SolveText, kernel, lines_of, report, text_of
from discretize.kernels.triton.writing import filled

__all__ = ["stiff_text"]

RATE = "rate = tl.load(rates + here, mask=inside, other=0.0)"
DRIFT = f"""
{RATE}
rise = changing(projected + first_row, batch * COLUMNS, through, rate, seen, TERMS, CHEBYSHEV)
tl.store(at_input + COLUMNS + C_COLUMNS, rise, mask=seen)
tl.debug_barrier()
$IN_TIME
tl.debug_barrier()
"""
GIVE_RISE = """
of_x = tl.load(at_of_x + COLUMNS + C_COLUMNS, mask=seen, other=0.0)
give_changing(of_projected + first_row, batch * COLUMNS, through, rate, of_x, seen, TERMS, CHEBYSHEV)
tl.debug_barrier()
"""


def stiff_text(programs: Sequence[Recorded], dtype: torch.dtype) -> SolveText:
    """Of flow, along and, where the input moves, in time."""
    forward, text = _forward(*programs)
    backward, kept, back = _backward(*programs)
    whole = HELPERS + RATES + ELIMINATION + text + back
    return text_of(whole, dtype, forward, backward, programs[0].columns, kept)


def _forward(field: Recorded, along: Recorded, in_time: Recorded | None = None) -> tuple[Pass, str]:
    flow = field.evaluation("at_y", "at_x", "at_slope")
    last, stage = _derivatives(along, in_time, flow)
    lines = {"$FLOW": flow.out.step, "$REPORT": report(), "$READ": lines_of(READ, field.columns)} | stage
    method = {word: _with_stage(part, in_time) for word, part in ROSENBROCK.items()}
    return last, kernel(FORWARD, method, last, lines, _widths(field, in_time))


def _backward(field: Recorded, along: Recorded, in_time: Recorded | None = None) -> tuple[Pass, list[Sums], str]:
    replay = field.replay("at_kept", "at_slope")
    last, found = field.back("at_kept", "at_q", "at_of_h", "at_of_x", replay)
    kept = [found]
    lines = {"$REPLAY": replay.out.step, "$BACK": last.out.step, "$READ": lines_of(READ, field.columns)}
    lines |= {"$KEEP": lines_of(KEEP, field.columns), "$GIVE": _gives(field)}
    last, stage = _derivatives(along, in_time, last)
    lines |= stage
    for program, name in ((along, "ALONG"), (in_time, "IN_TIME")):
        if program is not None:
            replay = program.replay("at_kept", "at_slope", last)
            last, found = program.back("at_kept", "at_q", "at_of_h", "at_of_x", replay)
            kept.append(found)
            keep = lines_of(KEEP.replace("INPUT_PLACE", str(program.state)), program.columns)
            lines |= {f"$KEEP_{name}": keep, f"$REPLAY_{name}": replay.out.step, f"$BACK_{name}": last.out.step}
            lines |= {f"$GIVE_{name}": _gives(program)}
    if in_time is not None:
        lines["$KEEP_IN_TIME"] += [RATE]
        lines["$GIVE_IN_TIME"] += lines_of(GIVE_RISE) if "x" in in_time.gradients else []
    method = {word: _with_stage(part, in_time) for word, part in ROSENBROCK_BACK.items()}
    method["$ROWS"] = rows_kept(in_time is not None)
    widths = _widths(field, in_time) | {"KEPT": kept[0].kept, "OPERANDS": kept[0].operands}
    for name, found in zip(("ALONG", "IN_TIME"), kept[1:], strict=False):
        widths |= {f"KEPT_{name}": found.kept, f"OPERANDS_{name}": found.operands}
    return last, kept, kernel(BACKWARD, method, last, lines, widths)


def _derivatives(along: Recorded, in_time: Recorded | None, behind: Pass) -> tuple[Pass, dict[str, list[str]]]:
    """A column of the Jacobian, and the derivative by the time."""
    column = along.evaluation("at_along", "at_x", "at_column", behind)
    if in_time is None:
        return column, {"$ALONG": column.out.step}
    drift = in_time.evaluation("at_along", "at_input", "at_drift", column)
    return drift, {"$ALONG": column.out.step, "$IN_TIME": drift.out.step}


def _with_stage(part: str, in_time: Recorded | None) -> str:
    drift = lines_of(DRIFT) if in_time else []
    stage = lines_of(filled(STAGE, {"$DRIFT": drift}))
    return filled(part, {"$STAGE": stage, "$TIME_BACK": lines_of(TIME_BACK) if in_time else []})


def _gives(program: Recorded) -> list[str]:
    return lines_of(GIVE, program.columns if "x" in program.gradients else 0)


def _widths(field: Recorded, in_time: Recorded | None) -> dict[str, int]:
    state = field.state
    return {
        "STATE": state, "COLUMNS": field.columns, "INPUT_PLACE": state, "UNITS": units_of(state), "MOVES": in_time is not None
    }  # fmt: skip
