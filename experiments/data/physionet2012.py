r"""PhysioNet 2012: the first 48 hours of patients in intensive care, each measured at times of its own.

    Time,Parameter,Value
    00:00,RecordID,132539
    00:00,Age,54              at 00:00 what is known of the patient; -1 is missing
    00:07,HR,73               then what is measured; rows of the same time are one stamp

A stamp is a time at which something was observed, so rows that only say -1 make none. Of several values of one parameter at
one time (7508 in sets A and B, half of them MAP) the last is kept. A weight at 00:00 is a descriptor and an observation too.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from ctrnn import checks
from experiments.data.untrusted import LimitedFile, lines, number, quoted
from experiments.usage import UsageError

__all__ = ["DESCRIPTORS", "PARAMETERS", "Patient", "read_physionet2012"]

ARCHIVE = "physionet2012_set-a_set-b.tar.xz"
SETS = ("set-a", "set-b")
DESCRIPTORS = ("Age", "Gender", "Height", "ICUType", "Weight")
NAMES = (
    "Albumin ALP ALT AST Bilirubin BUN Cholesterol Creatinine DiasABP FiO2 GCS Glucose HCO3 HCT HR K Lactate Mg MAP MechVent Na "
    "NIDiasABP NIMAP NISysABP PaCO2 PaO2 pH Platelets RespRate SaO2 SysABP Temp TroponinI TroponinT Urine WBC Weight"
)
PARAMETERS = tuple(NAMES.split())
COLUMNS = {name: k for k, name in enumerate(PARAMETERS)}
KNOWN = {"RecordID", *DESCRIPTORS, *PARAMETERS}
MISSING = -1.0
MOST_BYTES = 1 << 20  # of a patient; the largest has 23,508, and the outcomes of a set 79,219
MOST_IN_ARCHIVE, MOST_MEMBERS = 512 << 20, 20_000  # 58 MB and 8004
BLOCK = 512
MEMBER = re.compile(r"(?:\./)?set-[ab]/(\d{1,9})\.txt", re.ASCII)
PASSED_OVER = re.compile(r"\.|(?:\./)?(?:set-[ab]|Outcomes-[ab]\.txt)")
TIME = re.compile(r"(\d\d):([0-5]\d)", re.ASCII)


@dataclass(frozen=True, eq=False)
class Patient:
    r"""One record: when something was observed, what, and what was known from the start.

    Shape:   ts (n,) hours since admission, increasing; xs (n, 37) in the order of `PARAMETERS`, nan where not observed; n is 0
             for the few patients of whom nothing was. Both float64.
    """

    record: int
    ts: Tensor
    xs: Tensor
    static: dict[str, float]  # the `DESCRIPTORS`, nan where missing


def read_physionet2012(folder: str | Path, limit: int | None = None) -> Iterator[Patient]:
    r"""The patients of sets A and B one after the other, each read when the iteration comes to it.

    Args:    folder: holds physionet2012_set-a_set-b.tar.xz, or else the folders set-a and set-b, or one of them;
             limit: so many patients at most. An archive gives them in its own order, folders by number.
    Raises:  UsageError for files that are not there or not what they should be, when it comes to them.
    Source:  Silva et al. 2012, "Predicting in-hospital mortality of ICU patients: the PhysioNet/Computing in Cardiology
             challenge 2012".
    """
    if limit is not None:
        limit = checks.positive_size("limit", limit)
    archive = Path(folder) / ARCHIVE
    sets = [Path(folder) / name for name in SETS if (Path(folder) / name).is_dir()]
    if not archive.exists() and not sets:
        raise UsageError(f"{folder}: holds neither {ARCHIVE} nor a folder {' or '.join(SETS)}.")
    return islice(_patients(_packed(archive) if archive.exists() else _loose(sets), folder), limit)


def _patients(files: Iterator[tuple[str, bytes]], folder: str | Path) -> Iterator[Patient]:
    seen: set[int] = set()
    for name, data in files:
        patient = _patient(name, data)
        if patient.record in seen:
            raise UsageError(f"{name}: patient {patient.record} is there twice.")
        seen.add(patient.record)
        yield patient
    if not seen:
        raise UsageError(f"{folder}: no patients in it.")


def _loose(sets: list[Path]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the patients' files in folders; other files are not looked at."""
    for folder in sets:
        paths = [path for path in folder.iterdir() if MEMBER.fullmatch(f"{folder.name}/{path.name}")]
        for path in sorted(paths, key=lambda path: int(path.stem)):
            with LimitedFile(path, MOST_BYTES) as file:
                yield str(path), file.whole()


def _packed(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the patients' files in an archive, as it is unpacked; nothing is written anywhere."""
    with LimitedFile(archive, MOST_IN_ARCHIVE) as file:
        for member, data in _members(file):
            if member.isreg() and MEMBER.fullmatch(member.name):
                yield f"{archive}: {member.name}", data
            elif not (member.isreg() or member.isdir()) or not PASSED_OVER.fullmatch(member.name):
                raise UsageError(
                    f"{archive}: has a member {quoted(member.name)}{'' if member.isreg() else ' that is no plain file'}; members "
                    f"are named like set-a/132539.txt, set-b/142675.txt, Outcomes-a.txt."
                )


def _members(file: LimitedFile) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    # Block by block, for `TarFile` believes the sizes of its own extended headers, and takes a damaged one for the end.
    for _ in range(MOST_MEMBERS):
        header = file.exactly(BLOCK)
        if not any(header):
            _read_end(file)
            return
        try:
            member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise UsageError(f"{file.path}: is damaged or not a tar archive ({error}); fetch it again.") from None
        if not 0 <= member.size <= MOST_BYTES:
            raise UsageError(
                f"{file.path}: {quoted(member.name)} has {member.size:,} bytes, at most {MOST_BYTES:,} are expected."
            )
        data = file.exactly(member.size + -member.size % BLOCK)[: member.size]
        if member.type not in (tarfile.XHDTYPE, tarfile.XGLTYPE):  # dates and owners
            yield member, data
    raise UsageError(f"{file.path}: more than {MOST_MEMBERS:,} members.")


def _read_end(file: LimitedFile) -> None:
    while data := file.read(BLOCK):
        if any(data):
            raise UsageError(f"{file.path}: something follows the end of the archive; fetch it again.")


def _patient(name: str, data: bytes) -> Patient:
    record = Path(name).stem
    static, stamps = dict.fromkeys(DESCRIPTORS, torch.nan), dict[int, list[float]]()
    named = False
    for where, minutes, parameter, text in _rows(name, data):
        value = number(text, where)
        if parameter == "RecordID":
            named = True
            if value != int(record):
                raise UsageError(f"{where}: RecordID is {quoted(text)}, the file is named {record}.txt.")
        if value == MISSING:
            continue
        if parameter in static and minutes == 0:
            static[parameter] = value
        if parameter in COLUMNS:
            stamps.setdefault(minutes, [torch.nan] * len(PARAMETERS))[COLUMNS[parameter]] = value
    if not named:
        raise UsageError(f"{name}: no RecordID in it.")
    ts = torch.tensor(list(stamps), dtype=torch.float64) / 60
    xs = torch.tensor(list(stamps.values()), dtype=torch.float64).reshape(-1, len(PARAMETERS))
    return Patient(int(record), ts, xs, static)


def _rows(name: str, data: bytes) -> Iterator[tuple[str, int, str, str]]:
    """Where it stands, minutes, parameter and value of every row, in the order of time."""
    rows = lines(data, name)
    where, header = next(rows, (name, ""))
    if header != "Time,Parameter,Value":
        raise UsageError(f"{where}: {quoted(header) if header else 'nothing'} instead of 'Time,Parameter,Value'.")
    before = 0
    for where, line in rows:
        cells = line.split(",")
        if len(cells) != 3:
            raise UsageError(f"{where}: {quoted(line)} is not time, parameter and value.")
        time, parameter, value = cells
        if not (clock := TIME.fullmatch(time)):
            raise UsageError(f"{where}: {quoted(time)} is not a time HH:MM.")
        minutes = 60 * int(clock[1]) + int(clock[2])
        if minutes < before:
            raise UsageError(f"{where}: the time goes back to {time}.")
        if parameter not in KNOWN:
            raise UsageError(f"{where}: {quoted(parameter)} is no parameter of these data.")
        if minutes and parameter not in COLUMNS:
            raise UsageError(f"{where}: {parameter} at {time}; it belongs to 00:00.")
        before = minutes
        yield where, minutes, parameter, value
