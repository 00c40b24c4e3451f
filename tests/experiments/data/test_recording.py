"""What is taken as a recording, and what is said of everything else."""

import itertools

import numpy as np
import pytest

from experiments.data import recording
from experiments.data.recording import load
from experiments.usage import UsageError


def noise(*shape):
    return np.random.default_rng(0).normal(size=shape)


def saved(folder, values, name="file.npy"):
    np.save(folder / name, values, allow_pickle=True)
    return folder / name


def written(folder, text, name="file.csv"):
    (folder / name).write_text(text)
    return folder / name


def rows(values, separator=","):
    return "\n".join(separator.join(repr(float(v)) for v in row) for row in values)


def test_the_eeg_is_ten_seconds_of_four_channels():
    eeg = load(None, None)
    assert (eeg.xs.shape, eeg.rate, eeg.seconds) == ((800, 4), 80.0, 10.0)
    # Read in another order, neighbouring samples would differ as much as distant ones do.
    assert np.all(np.abs(np.diff(eeg.xs, axis=0)).mean(0) < 0.5)


def test_a_constant_channel_becomes_zero_and_is_named(tmp_path):
    values = noise(20, 3)
    values[:, 1] = 0.1 + 0.2
    read = load(saved(tmp_path, values), 1.0)
    assert read.constant == ("2",)
    assert not read.xs[:, 1].any()


def test_of_a_long_file_only_the_first_samples_are_read(tmp_path):
    values = noise(1000, 2)
    values[900] = np.nan  # never looked at
    from_npy = load(saved(tmp_path, values), 1.0)
    from_csv = load(written(tmp_path, rows(values)), 1.0)
    for read in (from_npy, from_csv):
        assert (len(read.xs), read.total) == (800, 1000)
    np.testing.assert_array_equal(from_npy.xs, from_csv.xs)


def test_a_csv_file_may_have_a_row_of_names(tmp_path):
    for k, (separator, header) in enumerate(itertools.product([",", ";", "\t"], ["", "left{}right\n", "\ufeffleft{}right\n"])):
        folder = tmp_path / str(k)
        folder.mkdir()
        values = noise(20, 2)
        read = load(written(folder, header.format(separator) + rows(values, separator)), 1.0)
        assert read.channels == (("left", "right") if header else ("1", "2"))
        np.testing.assert_array_equal(read.xs, load(saved(folder, values), 1.0).xs)


def test_files_are_read_and_channels_standardized(tmp_path):
    # Channels are standardized.
    read = load(saved(tmp_path, 7 + 3 * noise(40, 3)), 10.0)
    np.testing.assert_allclose(read.xs.mean(0), 0, atol=1e-14)
    np.testing.assert_allclose(read.xs.std(0), 1, rtol=1e-13)
    assert read.seconds == 4.0


def test_standardizing_survives_the_largest_numbers(tmp_path):
    values = noise(40, 1)
    np.testing.assert_allclose(load(saved(tmp_path, 1e307 * values / abs(values).max()), 1.0).xs.std(0), 1)


def test_one_channel_may_be_a_vector(tmp_path):
    assert load(saved(tmp_path, np.arange(20, dtype=np.int16)), 1.0).xs.shape == (20, 1)


def test_blank_lines_are_skipped_but_of_one_channel_where_they_may_be_missing_samples(tmp_path):
    assert load(written(tmp_path, "\n\n".join(["1,2", "2,-4", "3,9", "4,1"] * 5) + "\n\n"), 1.0).xs.shape == (20, 2)
    assert load(written(tmp_path, "\n".join("1234" * 5) + "\n\n"), 1.0).xs.shape == (20, 1)
    with pytest.raises(UsageError, match="line 2 is blank, a row without its value or none at all"):
        load(written(tmp_path, "\n\n".join("1234" * 5)), 1.0)


def test_a_missing_eeg_is_told_with_a_way_out(monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "get_sample_data", lambda *args, **kwargs: tmp_path / "eeg.dat")
    with pytest.raises(UsageError, match=r"no such file.*--input FILE --sampling-rate HZ"):
        load(None, None)
    (tmp_path / "eeg.dat").write_bytes(b"short")
    with pytest.raises(UsageError, match=r"5 bytes instead of 25600"):
        load(None, None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (noise(40, 2) + 1j, "complex"),
        (np.array(["a", "b"] * 10), "not numeric"),
        (np.array([{}] * 20), "Python objects"),
        (noise(20, 2, 2), r"shape \(20, 2, 2\)"),
        (np.array(1.0), r"shape \(\)"),
        (noise(0, 2), r"shape \(0, 2\)|empty"),
        (noise(15, 2), "15 samples, at least 16"),
        (noise(4, 800), "800 channels and only 4 samples; transpose it"),
        (np.where(np.arange(40).reshape(20, 2) == 13, np.nan, 1.0), "nan in sample 7, channel 2"),
        (np.where(np.arange(40).reshape(20, 2) == 13, np.inf, 1.0), "inf in sample 7, channel 2"),
    ],
)
def test_a_bad_array_is_refused_by_what_is_wrong_with_it(tmp_path, values, message):
    with pytest.raises(UsageError, match=message):
        load(saved(tmp_path, values), 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n", "has no rows below the names"),
        ("1\n" * 15, "15 samples, at least 16"),
        ("a,b\n1,2\n3,x\n", "b: row 2 has 'x', and most of this column are numbers"),
        ("a,b\n" + "1,2\n" * 20 + "3,\n", "nan in sample 21, channel b; fill or drop"),
        ("a,b\n" + "1,2\n" * 20 + "NA,4\n", "nan in sample 21, channel a; fill or drop"),
        ("1,2\n3\n", "row 2, line 2 of the file, has 1 cell, '3'"),
        ("1,2\n3,-inf\n", "2: row 2 is infinite"),
        ("1,2+3j\n", "2: row 1 has '2\\+3j', which begins as a number and is none"),
        ("a,b\n1,calm\n2,fast\n", "b holds words, and a channel is of numbers; name the channels by inputs="),
        ("a,b\n1,2024-05-31\n2,2024-06-01\n", "If it is a date or a time of day, say time=b"),
        ("a,b\n1,2\n", "1 sample, at least 16 are needed"),
        (",".join("1" * 50) + "\n", "50 channels and only 1 sample; transpose it"),
    ],
)
def test_a_bad_table_is_refused_by_line_and_column(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        load(written(tmp_path, text), 1.0)


@pytest.mark.parametrize("content", [b"1,2\n3,4\n", b"", b"\x93NUMPY", b"PK\x03\x04", None], ids=repr)
def test_a_file_that_is_not_what_its_suffix_says_is_refused(tmp_path, content):
    whole = saved(tmp_path, noise(40, 2)).read_bytes()
    (tmp_path / "file.npy").write_bytes(whole[:-8] if content is None else content)
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "file.npy", 1.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file.csv", "not text"), ("file.edf", r"\.npy or \.csv file, not \.edf"), ("no.csv", "cannot be read"),
        ("no.npy", "cannot be read"), ("folder.csv", "cannot be read"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_text_or_is_not_there_is_refused(tmp_path, name, message):
    (tmp_path / "file.csv").write_bytes(b"\xff\xfe\x00\x01\x80")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError, match=message):
        load(tmp_path / name, 1.0)


DIALECTS = {
    "decimal commas": lambda a, b: f"{a:.3f};{b:.3f}".replace(".", ","),
    "spaces": lambda a, b: f" {a:.3f}   {b:.3f}",
    "points between thousands": lambda a, b: f"{a:,.3f};{b:,.3f}".translate({44: ".", 46: ","}),
    "commas between thousands": lambda a, b: f'"{a:,.3f}","{b:,.3f}"',
    "a minus of Unicode": lambda a, b: f"{a:.3f}\t{b:.3f}".replace("-", "\u2212"),
}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_recording_in_another_dialect_is_the_same(name, encoding, tmp_path):
    values = 3000 * noise(30, 2).round(6)
    plain = load(written(tmp_path, "\n".join(f"{a:.3f},{b:.3f}" for a, b in values)), 1.0)
    path = tmp_path / "other.csv"
    path.write_text("\n".join(DIALECTS[name](a, b) for a, b in values), encoding=encoding)
    np.testing.assert_array_equal(load(path, 1.0).xs, plain.xs)


def test_two_channels_of_whole_numbers_are_two_channels(tmp_path):
    assert load(written(tmp_path, "\n".join(f"{k},{k * k}" for k in range(20))), 1.0).xs.shape == (20, 2)


OPEN = {  # between two whole numbers and a fraction
    "a 0 in front": [(0, f"{k:03}") for k in range(20)],
    "nothing but 0": [(2224693 + k, 0) for k in range(20)],
    "one digit": [(36, k % 7) for k in range(20)],
    "as few digits as there can be": [(-k, 0 if k % 5 == 0 else 11 * k + k % 10 + 1) for k in range(9)] * 2,
}


@pytest.mark.parametrize("cells", OPEN.values(), ids=OPEN.keys())
def test_whole_numbers_that_may_be_fractions_are_asked_about_and_then_read_as_is_said(cells, tmp_path):
    path = written(tmp_path, "\n".join(f"{a},{b}" for a, b in cells))
    with pytest.raises(UsageError, match="in row 1 is two channels, or one with a decimal comma; say separator=comma"):
        load(path, 1.0)
    two = load(path, 1.0, ["separator=comma"])
    one = load(path, 1.0, ["separator=none", "decimal=comma"])
    np.save(tmp_path / "two.npy", np.array(cells, float))
    np.save(tmp_path / "one.npy", np.array([float(f"{a}.{b}") for a, b in cells]))
    np.testing.assert_allclose(two.xs, load(tmp_path / "two.npy", 1.0).xs, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.xs, load(tmp_path / "one.npy", 1.0).xs, rtol=1e-12, atol=1e-12)
    assert load(path, 1.0, ["separator=comma", "inputs=2"]).channels == ("2",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n".join(f"0,{k:03}" for k in range(20)), "'0,000' in row 1 is two channels, or one with a decimal comma"),
        (
            "\n".join(f"{k};1.000" if k % 2 else f"{k};2" for k in range(20)),
            "row 2 has '1.000', which is 1.000 or 1000, and no other cell of the table says which; say it by decimal=point",
        ),
        (
            "\n".join("1.5;2" if k % 2 else "1,5;2" for k in range(20)),
            "'1.5' in row 2 and '1,5' in row 1 have a decimal point",
        ),
    ],
)
def test_a_recording_that_has_two_meanings_is_refused(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        load(written(tmp_path, text), 1.0)


def test_a_table_is_read_as_the_task_csv_reads_it(tmp_path):
    values = noise(20, 2).round(3)
    lines = [f"2024-05-31 12:00:{3 * k:02};p{k};{a};{b}".replace(".", ",") for k, (a, b) in enumerate(values)]
    path = written(tmp_path, "# of station 4\ntime;place;left;right\n" + "\n".join(lines))
    read = load(path, None, ["time=time", "inputs=left,right"])
    assert (read.channels, read.total, read.rate) == (("left", "right"), 20, pytest.approx(1 / 3))
    np.testing.assert_array_equal(read.xs, load(saved(tmp_path, values), 1.0).xs)
    with pytest.raises(UsageError, match="--sampling-rate is 80, and by its stamps"):
        load(path, 80.0, ["time=time", "inputs=left,right"])
    values[3] = -99
    with pytest.raises(UsageError, match="nan in sample 4, channel 1"):
        load(written(tmp_path, rows(values)), 1.0, ["missing=-99"])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([*range(19), 30], "rows are 1 to 12 apart, and a recording has one rate"),
        ([*range(19), 18], "row 20 is not later than the row before it"),
        (range(20), "Its stamps have no unit"),
    ],
)
def test_stamps_that_say_no_rate_are_refused(times, message, tmp_path):
    path = written(tmp_path, "t,x\n" + "\n".join(f"{t},{t * t}.5" for t in times))
    with pytest.raises(UsageError, match=message):
        load(path, None, ["time=t"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["input=a"], "there is no setting 'input'; did you mean 'inputs'"),
        (["inputs=left"], "there is no column 'left'"),
        (["decimal=dot"], "decimal"),
    ],
)
def test_settings_of_a_recording_are_checked(words, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        load(written(tmp_path, "a,b\n" + rows(noise(20, 2))), 1.0, words)
    with pytest.raises(UsageError):
        load(saved(tmp_path, noise(20, 2)), 1.0, words)
