r"""PhysioNet 2012: the first 48 hours of patients in intensive care, each measured at times of its own.

    Time,Parameter,Value
    00:00,RecordID,132539
    00:00,Age,54              at 00:00 what is known of the patient; -1 is missing
    00:07,HR,73               then what is measured; rows of the same time are one stamp

    RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death
    132539,6,1,5,-1,0         how it ended: 1 for a death in hospital

A stamp is a time at which something was observed, so rows that only say -1 make none. Of several values of one parameter at
one time (7508 in sets A and B, half of them MAP) the last is kept. A weight at 00:00 is a descriptor and an observation too.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from ctrnn import checks
from experiments.data.untrusted import lines, number, quoted, read_bytes
from experiments.settings import check_one_of
from experiments.usage import UsageError

__all__ = ["DESCRIPTORS", "PARAMETERS", "Patient", "read_deaths2012", "read_physionet2012"]

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
MOST_IN_ARCHIVE = 512 << 20  # 58 MB
MEMBER = {sets: re.compile(rf"(?:\./)?set-[{sets}]/(\d{{1,9}})\.txt", re.ASCII) for sets in ("ab", "a")}
OUTCOMES = re.compile(r"(?:\./)?Outcomes-[ab]\.txt")
OUTCOMES_HEADER = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death"
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


def read_physionet2012(folder: str | Path, limit: int | None = None, sets: str = "ab") -> Iterator[Patient]:
    r"""Yield the patients of sets A and B one after the other, each read when the iteration comes to it.

    Args:    folder: holds physionet2012_set-a_set-b.tar.xz, or else the folders set-a and set-b, or one of them;
             limit: so many patients at most; sets: "ab", or "a" for set A alone. An archive gives them in its own order,
             folders by number.
    Raises:  UsageError for files that are not there or not what they should be, when it comes to them.
    Source:  Silva et al. 2012, "Predicting in-hospital mortality of ICU patients: the PhysioNet/Computing in Cardiology
             challenge 2012".
    """
    if limit is not None:
        limit = checks.positive_size("limit", limit)
    check_one_of("sets", sets, [*MEMBER])
    return islice(_patients(_files(Path(folder), MEMBER[sets]), folder), limit)


def read_deaths2012(folder: str | Path) -> dict[int, bool]:
    r"""Read who of sets A and B died in hospital, by the number of the record.

    Args:    folder: as for `read_physionet2012`, in which Outcomes-a.txt and Outcomes-b.txt stand beside the folders of the sets.
    Raises:  UsageError for files that are not there or not what they should be.
    Source:  Silva et al. 2012.
    """
    deaths: dict[int, bool] = {}
    for name, data in _files(Path(folder), OUTCOMES):
        for where, cells in _rows(name, data, OUTCOMES_HEADER):
            if not cells[0].isdecimal() or cells[-1] not in ("0", "1"):
                raise UsageError(f"{where}: {quoted(','.join(cells))} is no RecordID with an In-hospital_death of 0 or 1.")
            if int(cells[0]) in deaths:
                raise UsageError(f"{where}: patient {cells[0]} is there twice.")
            deaths[int(cells[0])] = cells[-1] == "1"
    if not deaths:
        raise UsageError(f"{folder}: holds no outcomes; they are in Outcomes-a.txt and Outcomes-b.txt.")
    return deaths


def _files(folder: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files of such names, of an archive or else of folders."""
    archive, sets = folder / ARCHIVE, [folder / name for name in SETS if (folder / name).is_dir()]
    if not archive.exists() and not sets:
        raise UsageError(f"{folder}: holds neither {ARCHIVE} nor a folder {' or '.join(SETS)}.")
    return _packed(archive, wanted) if archive.exists() else _loose(folder, sets, wanted)


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


def _loose(folder: Path, sets: list[Path], wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files in a folder and those of the sets; others are not looked at."""
    for part in (folder, *sets):
        paths = [path for path in part.iterdir() if wanted.fullmatch(path.relative_to(folder).as_posix())]
        for path in sorted(paths, key=lambda path: (len(path.name), path.name)):  # sorts by number, since no name begins with 0
            yield str(path), read_bytes(path, MOST_BYTES)


def _packed(archive: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files in an archive; others are not looked at, and nothing is written anywhere."""
    data = read_bytes(archive, MOST_IN_ARCHIVE)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for member in tar:
                if member.isreg() and wanted.fullmatch(member.name) and (file := tar.extractfile(member)):
                    yield f"{archive}: {member.name}", file.read()
            # At a header that it cannot read tarfile ends as at the end, which is a block of zeros or more.
            if len(data) < tar.offset + tarfile.BLOCKSIZE or data[tar.offset :].strip(b"\0"):
                raise tarfile.ReadError(f"no header at byte {tar.offset}")
    except tarfile.TarError as error:
        raise UsageError(f"{archive}: is damaged or not a tar archive ({error}); fetch it again.") from None


def _patient(name: str, data: bytes) -> Patient:
    record = Path(name).stem
    static, stamps = dict.fromkeys(DESCRIPTORS, torch.nan), dict[int, list[float]]()
    named, before = False, 0
    for where, (time, parameter, text) in _rows(name, data, "Time,Parameter,Value"):
        clock, value = TIME.fullmatch(time), number(text, where)
        minutes = 60 * int(clock[1]) + int(clock[2]) if clock else -1
        if minutes < before:
            raise UsageError(f"{where}: {quoted(time)} is not a time HH:MM, or goes back.")
        if parameter not in KNOWN or (minutes and parameter not in COLUMNS):
            raise UsageError(f"{where}: {quoted(parameter)} is no parameter of these data, or belongs to 00:00.")
        before = minutes
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


def _rows(name: str, data: bytes, header: str) -> Iterator[tuple[str, list[str]]]:
    """Yield place and cells of every row below a header, as many cells as it has. Raises: UsageError."""
    rows = lines(data, name)
    where, found = next(rows, (name, ""))
    if found != header:
        raise UsageError(f"{where}: {quoted(found) if found else 'nothing'} instead of {header!r}.")
    for where, line in rows:
        cells = line.split(",")
        if len(cells) != header.count(",") + 1:
            raise UsageError(f"{where}: {quoted(line)} is not {header}.")
        yield where, cells
