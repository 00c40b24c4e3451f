"""Tables as people and programs write them: read as what is meant, or refused with the cell and what to do."""

import bz2
import gzip
import io
import lzma
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

from experiments.data import delimited
from experiments.data import table as table_of
from experiments.data.columns import Notation
from experiments.data.numerals import numeral
from experiments.data.table import read_table
from experiments.data.untrusted import read_arrays
from experiments.tasks.recorded.table import TableTask
from experiments.usage import UsageError

ROWS = 40
K = np.arange(ROWS)


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)


def rows(*columns, names="t;x", sign=";"):
    """A table of columns, each a function of the row."""
    names = names.replace(";", sign)
    return "\n".join([names, *(sign.join(str(column(k)) for column in columns) for k in range(ROWS))]) + "\n"


def columns_of(folder, text, name="a.csv", **notation):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(folder / name, Notation(**notation))


def said_of(folder, text, name="a.csv", **settings):
    """What a table is understood as, or why it is refused, by the file's name alone."""
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        return TableTask(data=str(folder / name), **settings).look()
    except UsageError as error:
        return f"refused: {str(error).replace(str(folder) + '/', '')}"


# Numbers

WRITTEN = {
    "decimal commas": (lambda k: f"{k},5", K + 0.5),
    "decimal commas and points between thousands": (lambda k: f"{k + 1}.000,5", 1000 * (K + 1) + 0.5),
    "points between thousands twice": (lambda k: f"1.000.{k:03d}", 1e6 + K),
    "a mark that another cell explains": (lambda k: f"{k + 1}.000" if k else "0.25", np.where(K, K + 1.0, 0.25)),
    "spaces between thousands": (lambda k: f"1 {k:03d},25", 1000 + K + 0.25),
    "spaces that do not break": (lambda k: f"1\u202f{k:03d}", 1000.0 + K),
    "apostrophes": (lambda k: f"1'{k:03d}.5", 1000 + K + 0.5),
    "lakhs": (lambda k: f"1,00,{k:03d}", 1e5 + K),
    "a minus of Unicode": (lambda k: f"\u2212{k}", -1.0 * K),
    "exponents": (lambda k: f"{k},5e-3", (K + 0.5) * 1e-3),
    "per cent": (lambda k: f"{k},5 %", K + 0.5),
    "money": (lambda k: f"-€{k}.25", -K - 0.25),
    "nothing in some cells": (
        lambda k: k if k % 5 else ["", "NaN", "n/a", "-", "None", "NULL", "<NA>", "?"][k // 5],
        np.where(K % 5, K, np.nan),
    ),
    "truths": (lambda k: "TRUE" if k % 2 else "false", K % 2 * 1.0),
    "integers of zeros": (lambda k: f"{k:05d}", K * 1.0),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_are_read_as_they_are_meant(name, tmp_path):
    write, expected = WRITTEN[name]
    columns = columns_of(tmp_path, rows(lambda k: k, write))
    np.testing.assert_allclose(columns.numbers("x"), expected, rtol=1e-15)


def test_quoted_numbers_with_the_separator_in_them_are_numbers(tmp_path):
    text = "t,x\n" + "".join(f'{k},"{k + 1},{k:03d}.5"\n' for k in range(ROWS))
    np.testing.assert_allclose(columns_of(tmp_path, text).numbers("x"), 1000 * (K + 1) + K + 0.5)


OPEN = rows(lambda k: k, lambda k: f"{k % 9 + 1}.000")


@pytest.mark.parametrize("cells", ["{}.000", "10{}.125"])
def test_cells_that_are_a_thousand_or_one_are_refused_with_what_to_say(tmp_path, cells):
    one = cells.format(1)
    said = said_of(tmp_path, rows(lambda k: k, lambda k: cells.format(k % 9 + 1)), time="t")
    assert f"x: row 1 has '{one}', which is {one} or {one.replace('.', '')}, and no other cell of the table says which" in said
    assert "say it by decimal=point or decimal=comma" in said


@pytest.mark.parametrize(("decimal", "factor"), [("point", 1), ("comma", 1000)])
def test_a_thousand_or_one_is_what_the_setting_says(tmp_path, decimal, factor):
    np.testing.assert_array_equal(columns_of(tmp_path, OPEN, decimal=decimal).numbers("x"), factor * (K % 9 + 1))


@pytest.mark.parametrize(("other", "factor"), [("0,5", 1000), ("0.5", 1), ("2.000.000", 1000), ("1 000.5", 1)])
def test_a_thousand_or_one_is_what_another_column_says(tmp_path, other, factor):
    text = rows(lambda k: f"{k % 9 + 1}.000", lambda k: other, names="x;y")
    np.testing.assert_array_equal(columns_of(tmp_path, text).numbers("x"), factor * (K % 9 + 1))


def test_a_thousand_or_one_is_refused_where_two_columns_say_otherwise(tmp_path):
    text = rows(lambda k: f"{k % 9 + 1}.000", lambda k: "0,5", lambda k: "0.5", names="x;y;z")
    assert "'1.000', which is 1.000 or 1000" in said_of(tmp_path, text)


@pytest.mark.parametrize("cut", [",", " "], ids=["commas", "spaces"])
def test_a_point_is_decimal_where_commas_or_spaces_cut_the_rows(cut, tmp_path):
    # As numpy.savetxt writes with "%.3f"; a comma that is decimal would have cut its own numbers, or stands in quotes.
    text = f"t{cut}x\n" + "".join(f"{k}.000{cut}{k % 9 + 1}.125\n" for k in range(ROWS))
    np.testing.assert_array_equal(columns_of(tmp_path, text).numbers("x"), K % 9 + 1.125)
    assert "1 apart" in said_of(tmp_path, text, time="t")
    quoted = "t,x\n" + "".join(f'{k},"{k % 9 + 1},125"\n' for k in range(ROWS))
    assert "'1,125', which is" in said_of(tmp_path, quoted)
    other = "t,x,y\n" + "".join(f'{k},{k % 9 + 1}.125,"0,5"\n' for k in range(ROWS))
    np.testing.assert_array_equal(columns_of(tmp_path, other).numbers("x"), 1000 * (K % 9 + 1) + 125)


@pytest.mark.parametrize("before", ["# ", ""], ids=["a remark of names", "names"])
@pytest.mark.parametrize("form", ["%.3f", "%.18e", "%d", "%8.3f"])
@pytest.mark.parametrize("cut", [",", " ", "\t", ", "], ids=["commas", "spaces", "tabs", "commas and spaces"])
def test_what_savetxt_writes_is_read_with_names_in_a_remark_or_without(cut, form, before, tmp_path):
    values = np.random.default_rng(0).normal(size=(ROWS, 3)) * 3
    np.savetxt(tmp_path / "a.csv", values, fmt=form, delimiter=cut, header=cut.join("tab"), comments=before)
    columns = read_table(tmp_path / "a.csv")
    expected = np.loadtxt(tmp_path / "a.csv", delimiter=cut.strip(" ") or None, skiprows=1)
    assert columns.names == list("tab")
    np.testing.assert_array_equal(np.stack([columns.numbers(name) for name in columns.names], 1), expected)


REFUSED = {
    "two marks": (
        rows(lambda k: k, lambda k: "1.5" if k else "2,5"),
        "x: '1.5' in row 2 and '2,5' in row 1 have a decimal point and a decimal comma",
    ),
    "two units": (rows(lambda k: k, lambda k: f"{k} %" if k else "5"), "'5' in row 1 and '1 %' in row 2 are in two units"),
    "a unit in each cell": (rows(lambda k: k, lambda k: f"{k} mg"), "x: row 1 has '0 mg', which begins as a number and is none"),
    "limits": (rows(lambda k: k, lambda k: "<0.5" if k % 3 else k), "x: row 2 has '<0.5', and row 1 has the number '0'; mend it"),
    "an error of Excel": (
        rows(lambda k: k, lambda k: "#DIV/0!" if k == 3 else k),
        "row 4 has '#DIV/0!', and most of this column are",
    ),
    "a row of units": (rows(lambda k: k if k else "s", lambda k: k if k else "m"), "Is it a second row of names, as of units?"),
    "dates among the inputs": (rows(lambda k: k, lambda k: "2024-05-31"), "If it is a date or a time of day, say time=x"),
    "more digits than a float": (
        rows(lambda k: k, lambda k: 2**53 + k),
        "has '9007199254740993', more digits than a number keeps",
    ),
    "bins": (rows(lambda k: k, lambda k: f"{k}-{k + 1}"), "x: row 1 has '0-1', which begins as a number and is none"),
    "a row that is cut off": (
        rows(lambda k: k, lambda k: k) + "7\n",
        "row 41, line 42 of the file, has 1 cell, '7', and the first row",
    ),
    "a line of sums": (
        rows(lambda k: k, lambda k: k, lambda k: k, names="t;x;y") + "sum;9\n",
        "line 42 of the file, has 2 cells, 'sum'",
    ),
    "decimal commas between commas": (rows(lambda k: k, lambda k: f"{k},5", sign=","), "are they numbers with decimal commas?"),
    "one column of decimal commas": ("x\n" + "".join(f"{k},5\n" for k in K), "row 1, line 2 of the file, has 2 cells, '0', '5'"),
    "a quote without an end": (rows(lambda k: k, lambda k: k) + '7;"8\n9;3\n', "line 43 cannot be cut into cells"),
    "two signs that cut": ("a;b,c;d\n" + "1;2,3;4\n" * ROWS, "rows may be cut by comma or by semicolon; say which by separator="),
    "a column without a name": ("t;;x\n" + "1;2;3\n" * ROWS, "column 2 has no name, and row 1 has '2' in it; name it"),
    "an index that is none": (
        ";x\n" + "".join(f"2024-01-{k + 1:02};{k}\n" for k in range(28)),
        "column 1 has no name, and row 1 has",
    ),
    "a blank line in one column": ("x\n1\n\n2\n3\n", "line 3 is blank, a row without its value or none at all"),
    "remarks alone": ("# a\n# b\n", "has no names of columns"),
    "a workbook": (b"PK\x03\x04....", "is not text, but a zip archive or a workbook"),
    "letters of Windows": (
        rows(lambda k: k, lambda k: k, names="t;Füll").encode("cp1252"),
        "has the byte 0xfc; save it in UTF-8, or say",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_one_meaning_is_refused_with_its_place_and_what_to_do(name, tmp_path):
    text, message = REFUSED[name]
    said = said_of(tmp_path, text)
    assert said.startswith("refused: a.csv: ")
    assert message in said


@pytest.mark.parametrize("name", ["klingon", "base64"])
def test_an_encoding_that_is_none_is_refused(tmp_path, name):
    said = said_of(tmp_path, "a\n1\n", encoding=name)
    assert f"encoding is the name of an encoding, as cp1252 or utf-16, got '{name}'" in said


def test_rows_that_nothing_cuts_alike_are_refused(tmp_path):
    assert "nothing cuts all rows into as many cells as there are names, and '1,2' is taken" in said_of(tmp_path, "1,2\n3\n4,5\n")


def test_a_column_of_kinds_that_look_like_numbers_is_words_if_that_is_said(tmp_path):
    text = rows(lambda k: k, lambda k: f"{k % 3}-{k % 3 + 1}")
    assert "inputs: t, x (one of 3)" in said_of(tmp_path, text, words=("x",))
    text = rows(lambda k: k, lambda k: k % 3)
    assert "inputs: t, x (one of 3)" in said_of(tmp_path, text, words=("x",))
    assert "inputs: t, x\n" in said_of(tmp_path, text)


CELLS = {
    "1.000e3": 1000,  # what has an exponent is no thousand
    "€-5.25": -5.25,
    "-€5.25": -5.25,
    "$5%": None,
    "€5€": None,
    "1,000,5": None,  # a sign between thousands is no decimal mark too
    "1.000.5": None,
    "0.125": 0.125,  # no thousand begins with 0
    "\u2212inf": -np.inf,
}


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_a_number_or_none(cell):
    read = numeral(cell, "")
    assert (None if read is None else float(read.text)) == CELLS[cell]
    assert read is None or (read.says, read.open) == ("" if "inf" in cell else ".", False)


def test_every_way_to_write_nothing_is_missing_among_numbers(tmp_path):
    absent = ["-nan", "#N/A", "NA", "nil", "NaT", "--", "—", "-", "none", "<NA>"]
    found = columns_of(tmp_path, rows(lambda k: k, lambda k: absent[k] if k < len(absent) else k)).numbers("x")
    np.testing.assert_array_equal(found, np.where(len(absent) > K, np.nan, K))


# Words: sequences and classes


@pytest.mark.parametrize(
    "ids", [["001", "002", "010"], [str(2**53), str(2**53 + 1), str(2**53 + 2)], ["a", "A", "b"], ["1_0", "10", "2"]]
)
def test_names_of_sequences_are_told_apart_to_the_letter(tmp_path, ids):
    text = rows(lambda k: ids[k % 3], lambda k: k, names="who;x")
    assert ", 3 sequence(s)" in said_of(tmp_path, text, sequence="who")


@pytest.mark.parametrize("same", [["01", "1"], ["1", "1.0"], ["1e3", "1000"], ["True", "TRUE"]])
def test_two_names_for_one_value_are_refused_unless_they_are_words(tmp_path, same):
    text = rows(lambda k: same[k % 2], lambda k: k, names="who;x")
    said = said_of(tmp_path, text, sequence="who")
    assert f"who: row 1 has '{same[0]}' and row 2 '{same[1]}', two words for one value" in said
    assert ", 2 sequence(s)" in said_of(tmp_path, text, sequence="who", words=("who",))


def test_a_sequence_may_be_called_as_a_missing_cell_is(tmp_path):
    text = rows(lambda k: -k // 20, lambda k: -1 if k == 3 else k, names="who;x")
    said = said_of(tmp_path, text, sequence="who", missing=("-1",))
    assert ", 3 sequence(s)" in said
    assert "missing: x 2.5 %" in said


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["01", "02"], ["01", "02"]),
        (["1.0", "2.0"], ["1", "2"]),
        (["yes", "no"], ["no", "yes"]),
        (["-1", "+1"], ["+1", "-1"]),
    ],
)
def test_classes_are_named_as_they_are_written(tmp_path, words, names):
    text = rows(lambda k: k, lambda k: words[k % 2], names="x;y")
    assert f"y, 2 classes: {names[0]} 50 %, {names[1]} 50 %" in said_of(tmp_path, text, target=("y",), predict="class")


def test_two_words_for_one_class_are_refused(tmp_path):
    text = rows(lambda k: k, lambda k: ["1", "01"][k % 2], names="x;y")
    assert "y: row 1 has '1' and row 2 '01'" in said_of(tmp_path, text, target=("y",), predict="class")


DECLARED = rows(
    lambda k: k, lambda k: ["-1", "-1.00", "-999"][k % 3] if k % 4 == 0 else k, lambda k: -1 if k == 1 else k, names="t;x;y"
)


@pytest.mark.parametrize("name", ["x", "y"])
def test_cells_that_are_declared_missing_are_missing_among_numbers(tmp_path, name):
    plain = rows(lambda k: k, lambda k: "" if k % 4 == 0 else k, lambda k: "" if k == 1 else k, names="t;x;y")
    found = columns_of(tmp_path, DECLARED, missing=("-1", "-999")).numbers(name)
    np.testing.assert_array_equal(found, columns_of(tmp_path, plain).numbers(name))


def test_cells_may_be_declared_missing_in_one_column(tmp_path):
    columns = columns_of(tmp_path, DECLARED, missing=("x:-1", "x:-999"))
    assert columns.numbers("y")[1] == -1
    assert np.isnan(columns.numbers("x")).sum() == ROWS / 4


def test_a_column_in_which_cells_are_declared_missing_may_have_colons_in_its_name(tmp_path):
    columns = columns_of(tmp_path, rows(lambda k: k, lambda k: k - 1, names="a:b;x"), missing=("a:b:3",))
    np.testing.assert_array_equal(columns.numbers("a:b"), np.where(K == 3, np.nan, K))
    assert not np.isnan(columns.numbers("x")).any()


def test_numbers_of_an_array_may_be_declared_missing(tmp_path):
    np.savez(tmp_path / "a.npz", t=K, x=np.where(K % 4, K, -999.0))
    columns = read_table(tmp_path / "a.npz", Notation(missing=("x:-999",)))
    np.testing.assert_array_equal(columns.numbers("x"), np.where(K % 4, K, np.nan))


def test_words_that_are_declared_missing_are_missing_and_a_time_is_a_time(tmp_path):
    text = rows(lambda k: k - 1, lambda k: ["a", "gone"][k % 2], names="t;w")
    said = said_of(tmp_path, text, time="t", inputs=("w",), target=("t",), predict="number", missing=("-1", "gone"))
    assert "inputs: w (one of 1)\nmissing: w 50 %" in said


# Layouts

SAME = {
    "sep=": (lambda text: "sep=;\n" + text, {}),
    "remarks with a sign": (lambda text: "# made on Monday\n% by hand; at home\n\n" + text, {}),
    "remarks without one": (lambda text: "Station 4; upstream\nExport\n\n" + text, {}),
    "separators at the ends": (lambda text: text.replace("\n", ";\n"), {}),
    "separators at the ends of rows": (lambda text: text.replace("\n", ";\n").replace(";\n", "\n", 1), {}),
    "empty rows at the end": (lambda text: text + ";;;\n;;;\n", {}),
    "ends of lines of Windows": (lambda text: text.replace("\n", "\r\n"), {}),
    "ends of lines of old Macs": (lambda text: text.replace("\n", "\r"), {}),
    "UTF-16": (lambda text: text.encode("utf-16"), {}),
    "UTF-16 without a mark": (lambda text: text.encode("utf-16-le"), {}),
    "UTF-16 without a mark, the other way round": (lambda text: text.encode("utf-16-be"), {}),
    "UTF-8 with a mark": (lambda text: text.encode("utf-8-sig"), {}),
    "a code page": (lambda text: text.replace("Füll", "Füll").encode("cp1252"), {"encoding": "cp1252"}),
    "bars": (lambda text: text.replace(";", "|"), {}),
    "tabs": (lambda text: text.replace(";", "\t"), {}),
    "spaces": (lambda text: text.replace(";", "   "), {}),
    "spaces and a sign before the names": (lambda text: "# " + text.replace(";", "  "), {}),
    "quotes": (lambda text: "\n".join('"' + line.replace(";", '";"') + '"' for line in text.splitlines()), {}),
    "blank lines": (lambda text: text.replace("\n", "\n\n"), {}),
    "an index of pandas": (
        lambda text: "\n".join(f"{k - 1 if k else ''};{line}" for k, line in enumerate(text.splitlines())),
        {},
    ),
    "said": (lambda text: text.replace(";", "\t"), {"separator": "tab"}),
}


@pytest.mark.parametrize("name", SAME)
def test_a_table_is_the_same_however_it_is_laid_out(name, tmp_path):
    text = rows(lambda k: k, lambda k: f"{k},25", lambda k: "ab"[k % 2], names="t;Füll;w")
    change, notation = SAME[name]
    columns = columns_of(tmp_path, change(text), **notation)
    assert columns.names == ["t", "Füll", "w"]
    np.testing.assert_array_equal(columns.numbers("Füll"), K + 0.25)
    assert columns.words("w").tolist() == ["ab"[k % 2] for k in range(ROWS)]
    assert len(columns) == ROWS


def test_remarks_are_told(tmp_path):
    text = rows(lambda k: k, lambda k: k)
    assert "above the names: '# made on Monday'" in said_of(tmp_path, "# made on Monday\n" + text, time="t")


def test_a_first_row_may_be_long(tmp_path):
    names = [f"channel {k:05}" for k in range(8000)]  # 112 kB
    text = "\n".join([",".join(names), *(",".join([f"{k}.5"] * len(names)) for k in range(3))])
    assert columns_of(tmp_path, text).numbers("channel 07999").tolist() == [0.5, 1.5, 2.5]


def test_a_remark_of_two_cells_is_no_row_of_names_where_the_third_is_empty_in_half_of_the_rows(tmp_path):
    table = rows(lambda k: k, lambda k: k, lambda k: k if k % 2 else "", names="t;x;y")
    text = "Station 4; upstream\n" + table[: table.index("\n39;") + 1]  # below the remark as many lines of two cells as of three
    assert columns_of(tmp_path, text).names == ["t", "x", "y"]


def test_a_sign_that_cuts_the_rows_down_to_a_quote_alone_does_not_cut_them(tmp_path):
    columns = columns_of(tmp_path, 'a,b;c\n1,2;3\n"4,5";6\n')
    assert columns.names == ["a,b", "c"]
    assert columns.numbers("c").tolist() == [3, 6]


def test_rows_above_a_row_of_words_are_no_remarks(tmp_path):
    said = said_of(tmp_path, "1;2\n3;4\nab;cd\n5;6\n")
    assert "the first row names the columns, and '1' is a number; add a row of names" in said


@pytest.mark.parametrize(("lines", "found"), [(50, True), (51, False)])
def test_prose_is_no_table_whatever_comes_below_it(tmp_path, lines, found):
    page = "of station 4\n" * lines + "t;x\n" + "".join(f"{k};{k}\n" for k in range(3 * ROWS))
    said = said_of(tmp_path, page)
    assert said.startswith("refused") is not found
    assert ("inputs: t, x" in said) is found


QUOTED = "t;w\n" + "".join(f"{k};a\n" for k in range(190)) + '190;"' + "b\n" * 30 + '"\n191;c\n'


def test_a_quoted_cell_may_go_on_below_the_lines_that_are_looked_at(tmp_path):
    assert columns_of(tmp_path, QUOTED).words("w").iloc[-2:].tolist() == ["b\n" * 29 + "b", "c"]


def test_a_quoted_cell_does_not_go_on_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "MOST_IN_A_LINE", 40)
    assert "a row has more than 40 characters; is a quote missing?" in said_of(tmp_path, QUOTED)


def test_rows_are_bounded_each_and_not_together(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "MOST_IN_A_LINE", 40)
    np.testing.assert_array_equal(columns_of(tmp_path, rows(lambda k: k, lambda k: k)).numbers("x"), K)


def test_blank_lines_around_a_single_column_are_no_rows(tmp_path):
    assert columns_of(tmp_path, "x\n\n1\n2\n\n").numbers("x").tolist() == [1, 2]


# Times

TIMES = {
    "dates": (lambda k: f"2024-05-{k % 28 + 1:02} {k // 28:02}:00:00", lambda k: f"2024-05-{k % 28 + 1:02}T{k // 28:02}:00", {}),
    "the day first": (lambda k: f"2024-{k // 28 + 1:02}-{k % 28 + 1:02}", lambda k: f"{k % 28 + 1}.{k // 28 + 1}.2024", {}),
    "the month first": (lambda k: f"2024-{k // 28 + 1:02}-{k % 28 + 1:02}", lambda k: f"{k // 28 + 1}/{k % 28 + 1}/2024", {}),
    "open dates that are said": (
        lambda k: f"2024-{k % 4 + 1:02}-{k // 4 + 1:02}",
        lambda k: f"{k // 4 + 1}/{k % 4 + 1}/2024",
        {"dates": "day-first"},
    ),
    "names of months": (
        lambda k: f"2024-0{k // 28 + 1}-{k % 28 + 1:02}",
        lambda k: f"{k % 28 + 1} {['Jan', 'February'][k // 28]} 2024",
        {},
    ),
    "noon and midnight": (
        lambda k: f"2024-05-{k // 24 + 20} {k % 24:02}:30",
        lambda k: f"5/{k // 24 + 20}/2024 {(k - 1) % 12 + 1}:30 {'ap'[k % 24 // 12]}m",
        {},
    ),
    "offsets": (
        lambda k: f"2024-05-20 {k % 20 + 2:02}:{k // 20}0Z",
        lambda k: f"2024-05-20T{k % 20 + 4:02}:{k // 20}0:00+02:00" if k % 20 < 19 else f"2024-05-20 {k % 20 + 2}:{k // 20}0 UTC",
        {},
    ),
    "a clock": (lambda k: 90 * k, lambda k: f"{90 * k // 3600}:{90 * k // 60 % 60:02}:{90 * k % 60:02}", {}),
    "hours and minutes": (lambda k: 1800 * k, lambda k: f"{k // 2:02}:{30 * (k % 2):02}", {}),
    "minutes and seconds": (lambda k: 30 * k, lambda k: f"{k // 2:02}:{30 * (k % 2):02}", {"clock": "mm:ss"}),
    "days and hours": (
        lambda k: 5400 * k,
        lambda k: f"{5400 * k // 86400} days {5400 * k // 3600 % 24:02}:{5400 * k // 60 % 60:02}:00",
        {},
    ),
    "before and after zero": (lambda k: 60 * k, lambda k: f"{'-' if k < 20 else ''}0:{abs(k - 20):02}:00", {}),
    "nanoseconds since 1970": (lambda k: 3 * k, lambda k: 1_700_000_000_000_000_000 + 3 * k, {}),
    "many digits": (lambda k: k / 64, lambda k: f"1700000000,{k * 15625:06d}", {}),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_are_read_as_they_are_meant(name, tmp_path):
    plain, written, notation = TIMES[name]
    expected = pd.Series([plain(k) for k in range(ROWS)])
    if expected.dtype == object or pd.api.types.is_string_dtype(expected):
        stamps = pd.to_datetime(expected, utc=True)
        expected = (stamps - stamps.min()).dt.total_seconds()
    found = columns_of(tmp_path, rows(written, lambda k: k), **notation).stamps("t").times
    np.testing.assert_allclose(found, expected, rtol=1e-15)


NO_TIMES = {
    "days or months": (
        lambda k: f"0{k % 9 + 1}.0{k // 9 + 1}.2024",
        "'01.01.2024' is a date with the day first or the month, and no other",
    ),
    "days and months": (lambda k: "13/1/2024" if k else "1/13/2024", "'13/1/2024' has the day first, and '1/13/2024' the month"),
    "years of two digits": (
        lambda k: f"{k % 28 + 1}.1.24",
        "row 1: '1.1.24' is no number and no date like 2024-05-31 13:45:00; years are",
    ),
    "no such day": (lambda k: f"{31 - k % 3}.{k // 3 % 12 + 1:02}.2024", "'31.02.2024' is no number and no date"),
    "no such hour before noon": (lambda k: f"2024-05-20 0:{k:02} AM", "'2024-05-20 0:00 AM' is no number and no date"),
    "past midnight": (lambda k: f"{(k + 20) % 24}:00", "t: goes back from '23:00' in row 4 to '0:00' in row 5; past midnight"),
    "hours or minutes": (
        lambda k: f"{k}:30",
        "t: row 26 has '25:30', hours and minutes or minutes and seconds; say which by clock=hh:mm",
    ),
    "two and three parts": (
        lambda k: f"0:{k:02}" if k < 30 else f"0:{k}:00",
        "t: row 1 has '0:00' and row 31 '0:30:00'; say by clock=",
    ),
    "a word": (lambda k: "soon" if k == 2 else k, "t: row 3: 'soon' is no number and no date"),
    "a thousand or one": (lambda k: f"{k + 1}.000", "t: row 1 has '1.000', which is 1.000 or 1000"),
}


@pytest.mark.parametrize("name", NO_TIMES)
def test_what_is_no_time_or_two_is_refused(name, tmp_path):
    write, message = NO_TIMES[name]
    assert message in said_of(tmp_path, rows(write, lambda k: k), time="t")


@pytest.mark.parametrize(("unit", "one"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_stamps_since_1970_are_told_with_their_unit(tmp_path, unit, one):
    said = said_of(tmp_path, rows(lambda k, one=one: (1_325_376_600 + 300 * k) * one, lambda k: k), time="t")
    assert f"{300 * one:.4g} {unit} apart" in said
    assert "seconds since 1970" in said


def test_stamps_that_begin_at_0_are_not_since_1970(tmp_path):
    assert columns_of(tmp_path, rows(lambda k: k * 4 * 10**7, lambda k: k)).stamps("t").unit == ""


def test_a_gap_begins_a_new_piece_if_that_is_said(tmp_path):
    text = rows(
        lambda k: k + 100 * (k >= 12),
        np.sin,
        lambda k: "train" if k < 25 else "validation" if k < 32 else "test",
        names="t;x;p",
    )
    settings = {"data": str(tmp_path / "a.csv"), "time": "t", "split": "p"}
    said = said_of(tmp_path, text, **{k: v for k, v in settings.items() if k != "data"}, gap=50.0)
    assert "1 gap(s) of more than 50 begin a new piece" in said
    said = said_of(tmp_path, text, time="t", split="p", gap=101.0)  # as long as the gap, and not longer
    assert "0 gap(s) of more than 101 begin" in said
    (bridged,) = TableTask(**settings).evaluation("train", 9, 9, 0)
    (cut,) = TableTask(**settings, gap=50.0).evaluation("train", 9, 9, 0)
    assert bridged.lengths.tolist() == [25]
    assert sorted(cut.lengths.tolist()) == [12, 13]
    assert float(cut.ts.max()) == 12.0
    short = cut.lengths.argmin()  # what comes after the gap is not asked for before it
    assert cut.targets[11, short].isnan().all()
    assert not bridged.targets[11].isnan().any()
    with pytest.raises(ValueError, match="`gap` is for stamps"):
        TableTask(data="a.csv", gap=2.0)
    text = rows(lambda k: k // 8, lambda k: k % 8 + 9 * (k % 8 > 4), lambda k: k, lambda k: "uv"[k // 8 % 2], names="s;t;x;y")
    said = said_of(tmp_path, text, sequence="s", time="t", target=("y",), gap=5.0)
    assert "the target is of whole sequences, which gap=5 would cut" in said


def test_a_missing_word_does_not_make_a_measurement_of_a_row(tmp_path):
    text = "who,t,posture,HR\n" + "".join(f"{who},{k},sit,{k}\n{who},{k},,{k}\n" for who in range(9) for k in range(5))
    said = said_of(tmp_path, text, sequence="who", time="t")
    assert "rows 1 and 2 have one t, 0 in one who; say by sequence=COLUMN" in said


def test_a_row_a_measurement_is_told_and_turned_by_pandas(tmp_path):
    long = pd.DataFrame(
        [(who, 0.5 * k, name, who + k) for who in range(9) for k in range(5) for name in ("HR", "MAP")],
        columns=["who", "t", "name", "value"],
    )
    said = said_of(tmp_path, long.to_csv(index=False), sequence="who", time="t")
    assert "rows 1 and 2 have one t, 0.0 in one who, and name 'HR' and 'MAP'; is a row a measurement?" in said
    turn = said.split("by pandas, ")[1].split(", as docs")[0].replace("values=...", "values='value'")
    wide = eval(turn, {"frame": long})
    assert "inputs: HR, MAP" in said_of(tmp_path, wide.to_csv(index=False), sequence="who", time="t")


# Bounds


def packed(data, name):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.csv", data)
    return {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zip": lambda _: archive.getvalue()}[name](data)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zip"])
def test_packed_tables_are_read_and_bounded_in_what_they_unpack_to(suffix, tmp_path):
    text = rows(lambda k: k, lambda k: k).encode()
    assert "40 rows" in said_of(tmp_path, packed(text, suffix), f"a.csv{suffix}", time="t")
    for broken in (packed(text, suffix)[:-30], b"\x00" * 50):
        assert f"a.csv{suffix}: cannot be unpacked" in said_of(tmp_path, broken, f"a.csv{suffix}")
    small = packed(b"t,x\n" + b"0,1\n" * 10_000, suffix)  # much packed, and little all the same
    assert len(columns_of(tmp_path, small, f"a.csv{suffix}")) == 10_000
    bomb = packed(b"t,x\n" + b"0,1\n" * 500_000, suffix)
    assert "unpacks to more than 100 times as many" in said_of(tmp_path, bomb, f"a.csv{suffix}")


def npz(**arrays):
    """An archive of headers that claim a shape, and of data."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, (shape, kind, data) in arrays.items():
            begin = io.BytesIO()
            np.lib.format.write_array_header_1_0(begin, {"descr": kind, "fortran_order": False, "shape": shape})
            file.writestr(f"{name}.npy", begin.getvalue() + data)
    return archive.getvalue()


BOMBS = {
    "a header of 1e12 numbers": (npz(x=((10**12,), "<f8", b"")), "says that it has 1,000,000,000,000 values of float64"),
    "a header of 1e30 numbers": (npz(x=((10**30,), "<f8", b"12345678")), "and 8 are there; it is damaged"),
    "fewer numbers than are there": (npz(x=((1,), "|i1", b"xy")), "which are 1 bytes, and 2 are there"),
    "fewer than none": (npz(x=((-5,), "<f8", b"")), "it is damaged"),
    "numbers that unpack to a thousand times as many": (
        npz(x=((10**6,), "<f8", bytes(8 * 10**6))),
        "unpacks to more than 100 times",
    ),
    "words of no letters": (npz(x=((10**9,), "|S0", b"")), "has 1,000,000,000 rows of 1 columns"),
    "objects": (npz(x=((1,), "|O", b"x")), "cannot be read: it is damaged, or no .npz file"),
    "columns of unlike length": (
        npz(x=((1,), "|i1", b"x"), y=((2,), "|i1", b"xx")),
        "columns have as many rows each; got x 1, y 2",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_arrays_are_bounded_before_they_are_made(name, tmp_path):
    data, message = BOMBS[name]
    said = said_of(tmp_path, data, "a.npz")
    assert said.startswith("refused: a.npz: ")
    assert message in said


def test_arrays_are_bounded_together(tmp_path):
    np.savez(tmp_path / "a.npz", x=K, y=K)
    with pytest.raises(UsageError, match=r"a\.npz: its arrays have 896 bytes, at most 895 are expected"):
        read_arrays(tmp_path / "a.npz", 895)
    assert set(read_arrays(tmp_path / "a.npz", 896)) == {"x", "y"}


def test_what_a_mac_adds_to_an_archive_is_no_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        for name in ("folder/", "folder/a.csv", "__MACOSX/folder/._a.csv"):
            archive.writestr(name, "" if name.endswith("/") else "x\n1\n2\n")
    assert read_table(tmp_path / "a.csv.zip").numbers("x").tolist() == [1, 2]
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "a") as archive:
        archive.writestr("b.csv", "x\n1\n2\n")
    with pytest.raises(UsageError, match="has 2 files in it, and one is read"):
        read_table(tmp_path / "a.csv.zip")


def test_tables_are_bounded_in_rows_cells_and_lines(tmp_path, monkeypatch):
    text = rows(lambda k: k, lambda k: k)
    assert "a line has more than 16,777,216 characters" in said_of(tmp_path, "a," * (9 << 20) + "\n1\n")
    monkeypatch.setattr(table_of, "MOST_ROWS", 30)
    assert "has 40 rows of 2 columns or more, at most 30 rows" in said_of(tmp_path, text)
    monkeypatch.setattr(table_of, "MOST_ROWS", 10**7)
    monkeypatch.setattr(table_of, "MOST_CELLS", {"text": 70, "numbers": 70})
    assert "70 cells of text are read" in said_of(tmp_path, text)
    monkeypatch.setattr(table_of, "MOST_BYTES", 100)
    assert "more than 100 bytes in it" in said_of(tmp_path, text)


# Numbers of other readers, and columns that are no text


def test_arrays_of_bytes_truths_and_dates_are_columns(tmp_path):
    stamps = np.datetime64("2024-05-20") + K.astype("m8[h]")
    np.savez(tmp_path / "a.npz", t=stamps, x=K > 20, w=np.array([b"a", b"b"] * 20), big=(2**60 + K))
    columns = read_table(tmp_path / "a.npz")
    assert columns.stamps("t").times.tolist() == (3600.0 * K).tolist()
    assert columns.numbers("x").tolist() == (K > 20).tolist()
    assert columns.words("w").tolist() == ["a", "b"] * 20
    assert columns.words("big").nunique() == ROWS
    assert columns.stamps("big").times.tolist() == K.tolist()


def test_a_parquet_file_is_read_by_its_types(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    made = arrow.table(
        {
            "t": arrow.array(np.datetime64("2024-05-20", "s") + 3600 * K.astype("m8[s]")),
            "decimal": arrow.array([Decimal(f"{k}.25") for k in K]),
            "text": arrow.array([f"{k},5" for k in K]),
            "gaps": arrow.array([None if k == 3 else int(k) for k in K]),
            "kind": arrow.array(["ab"[k % 2] for k in K]).dictionary_encode(),
            "who": arrow.array([2**53 + k // 8 for k in K.tolist()]),
            "lists": arrow.array([[1, 2]] * ROWS),
        }
    )
    parquet.write_table(made.drop_columns("lists"), tmp_path / "a.parquet")
    columns = read_table(tmp_path / "a.parquet")
    np.testing.assert_array_equal(columns.stamps("t").times, 3600 * K)
    np.testing.assert_array_equal(columns.numbers("decimal"), K + 0.25)
    np.testing.assert_array_equal(columns.numbers("text"), K + 0.5)
    np.testing.assert_array_equal(columns.numbers("gaps"), np.where(K == 3, np.nan, K))
    assert columns.words("kind").tolist() == ["ab"[k % 2] for k in K]
    assert columns.words("who").nunique() == 5
    parquet.write_table(made, tmp_path / "b.parquet")
    with pytest.raises(UsageError, match="lists holds list<element: int64> in a cell, and a cell has one number or word"):
        read_table(tmp_path / "b.parquet")
    parquet.write_table(arrow.table([K, K], names=["x", "x"]), tmp_path / "d.parquet")
    with pytest.raises(UsageError, match="two columns are called 'x'"):
        read_table(tmp_path / "d.parquet")
    parquet.write_table(arrow.table({"x": np.zeros(5_000_000)}), tmp_path / "c.parquet")
    with pytest.raises(UsageError, match="unpacks to more than 100 times"):
        read_table(tmp_path / "c.parquet")


def test_a_numeral_is_the_number_that_python_reads_where_it_is_plain():
    draw = np.random.default_rng(0)
    for value in np.concatenate([draw.normal(size=50) * 10.0 ** draw.integers(-12, 12, 50), [0.0, 1e300, 5e-324]]).tolist():
        for text in (repr(value), f"{value:.3e}", f"{value:.17g}"):
            read = numeral(text, ".")
            assert read is not None
            assert float(read.text) == float(text)


def test_batches_of_a_table_are_the_same_in_another_dialect(tmp_path):
    draw = np.random.default_rng(0)
    made = pd.DataFrame(
        {"who": np.repeat(range(20), 10), "t": np.tile(np.arange(10), 20), "x": draw.normal(size=200).round(3) * 1000}
    )
    made.to_csv(tmp_path / "a.csv", index=False)
    other = made.assign(
        who=[f"{who:02}" for who in made.who],
        t=[f"{t + 1}.5.2024" if t else "1.5.2024" for t in made.t],
        x=[f"{x:,.2f}".replace(",", "\u00a0").replace(".", ",").replace("-", "\u2212") for x in made.x],
    )
    (tmp_path / "b.csv").write_text("sep=|\n" + other.to_csv(index=False, sep="|"), encoding="utf-16")
    batches = []
    for name, more in (("a.csv", {}), ("b.csv", {"dates": "day-first"})):
        (batch,) = TableTask(data=str(tmp_path / name), sequence="who", time="t", **more).evaluation("train", 99, 99, 0)
        batches.append(batch)
    assert_close(batches[0].xs, batches[1].xs)
    assert_close(batches[0].ts, batches[1].ts)
