"""C++ is compiled once for each thing it depends on, nothing half made or foreign is loaded, and failures say what to do."""

import ctypes
import errno
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from discretize.kernels import build, cache
from discretize.kernels.build import CppSource, Unavailable, is_built, library

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is compiled there")

ROOT = Path(__file__).resolve().parents[3]
CODE = """
#include "tiny.h"
extern "C" __attribute__((visibility("default"))) REAL tiny(REAL x) { return shifted(FACTOR * x); }
extern "C" REAL hidden(REAL x) { return x; }
"""
HEADER = "static REAL shifted(REAL x) { return x + REAL(0.5); }\n"
# In a process of its own: what the library says of 3.
ASK = """
import ctypes, sys
from pathlib import Path
from discretize.kernels.build import CppSource, library
made = library(CppSource(Path(sys.argv[1], "tiny.cpp")), {"REAL": "double", "FACTOR": 2})
made.tiny.restype, made.tiny.argtypes = ctypes.c_double, [ctypes.c_double]
print(made.tiny(3.0))
"""
REAL = next(filter(None, map(shutil.which, build.COMPILERS)), None)


PATIENCE = 300  # seconds: only what hangs takes so long, on a busy machine too
STARTED = []  # processes of the running test


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """A cache and a folder for temporary files, which every test leaves empty; nothing remembered from other tests."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for name in ("CXX", "CTRNN_CXXFLAGS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CTRNN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    forget(monkeypatch)
    yield
    (tmp_path / "stop").touch()  # what compilers that wait look out for, should a test have failed
    while STARTED:
        with STARTED.pop() as process:  # closes its pipes
            process.kill()
    assert not list(temporary.iterdir())


@pytest.fixture
def source(tmp_path):
    (tmp_path / "tiny.cpp").write_text(CODE)
    (tmp_path / "tiny.h").write_text(HEADER)
    return CppSource(tmp_path / "tiny.cpp")


def forget(monkeypatch):
    """As in a new process."""
    monkeypatch.setattr(build, "_made", {})
    build._version.cache_clear()


class Wrapper:
    """A compiler that logs its arguments, those for its version aside, and then runs the shell script `does`."""

    def __init__(self, folder, monkeypatch, does='exec "$real" "$@"', name="wrapper", version='exec "$real" --version'):
        if REAL is None:
            pytest.skip("there is no compiler here")
        self.path, self.log = folder / name, folder / f"{name}.log"
        self.path.write_text(
            f"#!/bin/sh\nreal={shlex.quote(REAL)}\nfolder={shlex.quote(str(folder))}\n"
            f'case "$*" in *--version*) {version};; esac\n'
            f'echo "$*" >> {shlex.quote(str(self.log))}\n{does}\n'
        )
        self.path.chmod(0o755)
        self.use(monkeypatch)

    def use(self, monkeypatch):
        monkeypatch.setenv("CXX", shlex.quote(str(self.path)))

    @property
    def calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def counting(tmp_path, monkeypatch):
    return Wrapper(tmp_path, monkeypatch)


def answer(source, x=3.0, factor=2):
    made = library(source, {"REAL": "double", "FACTOR": factor})
    made.tiny.restype, made.tiny.argtypes = ctypes.c_double, [ctypes.c_double]
    return made.tiny(x)


def anew(source, monkeypatch):
    forget(monkeypatch)
    return answer(source)


def ask(folder):
    """The answer for 3 in a new process."""
    return answer_of(start(folder))


def start(folder, script=ASK):
    pipe = subprocess.PIPE
    STARTED.append(subprocess.Popen([sys.executable, "-c", script, str(folder)], cwd=ROOT, stdout=pipe, stderr=pipe, text=True))
    return STARTED[-1]


def answer_of(process):
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    return float(said)


def entries(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache").iterdir())


# What is made


def test_a_library_is_built_once_it_is_loaded_or_on_disk_and_no_compiler_is_asked(source, counting, monkeypatch):
    given = {"REAL": "double", "FACTOR": 2}
    assert not is_built(source, given)
    assert not counting.calls
    answer(source)
    assert is_built(source, given)
    assert not is_built(source, given | {"FACTOR": 3})
    forget(monkeypatch)
    assert is_built(source, given)
    shutil.rmtree(os.environ["CTRNN_CACHE"])
    assert not is_built(source, given)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not is_built(source, given)
    assert len(counting.calls) == 1


def test_a_library_computes_what_its_source_and_definitions_say(source, counting):
    for real, kind in (("double", ctypes.c_double), ("float", ctypes.c_float)):
        made = library(source, {"REAL": real, "FACTOR": 7})
        made.tiny.restype, made.tiny.argtypes = kind, [kind]
        assert made.tiny(3.0) == 21.5
        assert not hasattr(made, "hidden")


def test_the_flags_are_the_agreed_ones_and_never_fast_math(source, counting):
    library(source, {"REAL": "double", "FACTOR": 2, "ON": True})
    (call,) = counting.calls
    agreed = "-std=c++17 -O3 -march=native -fPIC -shared -pthread -ffp-contract=fast -fno-math-errno -fvisibility=hidden"
    assert set(agreed.split()) | {"-DREAL=double", "-DFACTOR=2", "-DON=1"} <= set(call.split())
    assert "fast-math" not in call
    assert "-Ofast" not in call


def test_the_first_compiler_on_path_is_used_without_cxx(source, counting, tmp_path, monkeypatch):
    monkeypatch.delenv("CXX")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "g++").symlink_to(counting.path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert build._compiler().command == (str(tmp_path / "bin" / "g++"),)
    assert build._compiler().resolved == str(counting.path.resolve())


def test_what_is_compiled_is_what_was_read(source, tmp_path, monkeypatch):
    Wrapper(tmp_path, monkeypatch, does='echo changed meanwhile >> "$folder/tiny.cpp"\nexec "$real" "$@"')
    assert answer(source) == 6.5


# How often


def test_a_process_builds_each_library_once(source, counting, tmp_path):
    build.begin(source, {"REAL": "double", "FACTOR": 2})
    first = library(source, {"REAL": "double", "FACTOR": 2})
    assert library(source, {"FACTOR": "2", "REAL": "double"}) is first
    assert len(counting.calls) == 1
    assert [ask(tmp_path), ask(tmp_path)] == [6.5, 6.5]
    assert len(entries(tmp_path)) == len(counting.calls) == 1
    assert [answer(source, factor=factor) for factor in (3, 2)] == [9.5, 6.5]
    assert len(counting.calls) == len(entries(tmp_path)) == 2


def test_the_first_build_of_a_process_is_told_in_a_line_on_stderr(source, counting, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "_told", {})
    line = f"ctrnn: compiling kernels for this processor, 1 to 5 s each, kept in {tmp_path / 'cache'}\n"
    answer(source)
    answer(source, factor=3)
    assert capsys.readouterr() == ("", line)
    forget(monkeypatch)
    monkeypatch.setattr(build, "_told", {})
    answer(source, factor=3)
    assert capsys.readouterr() == ("", "")  # what is kept is not compiled
    monkeypatch.setenv("CTRNN_CACHE", "/proc/none")
    forget(monkeypatch)
    answer(source)
    said = capsys.readouterr()
    assert "each, for this process only: /proc/none cannot be used" in said.err
    assert said.err.endswith("CTRNN_CACHE can name a folder to keep it in\n")
    assert said.out == ""


def test_threads_that_ask_at_once_build_once(source, tmp_path, monkeypatch):
    slow = Wrapper(tmp_path, monkeypatch, does='sleep 0.3; exec "$real" "$@"')  # long enough that all ask meanwhile, mostly
    ready, made = threading.Barrier(4), []

    def work():
        ready.wait()
        made.append(library(source, {"REAL": "double", "FACTOR": 2}))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(slow.calls) == 1
    assert len(made) == 4
    assert len(set(map(id, made))) == 1


def change_source(source, monkeypatch):
    source.path.write_text(CODE + "// and more\n")


def change_header(source, monkeypatch):
    source.path.with_suffix(".h").write_text(HEADER + "// and more\n")


def change_flag(source, monkeypatch):
    monkeypatch.setenv("CTRNN_CXXFLAGS", "-O1 -DNOTHING='a b'")


def change_argument_of_compiler(source, monkeypatch):
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -DNOTHING")


def change_place_of_compiler(source, monkeypatch):
    other = source.path.parent / "other"
    other.mkdir()
    shutil.copy(shlex.split(os.environ["CXX"])[0], other)  # the same file under the same name
    monkeypatch.setenv("CXX", shlex.quote(str(other / "wrapper")))


def change_version_of_compiler(source, monkeypatch):
    wrapper = Path(shlex.split(os.environ["CXX"])[0])
    wrapper.write_text(wrapper.read_text().replace('exec "$real" --version', "echo 99; exit"))


def change_processor(source, monkeypatch):
    monkeypatch.setattr(build, "_processor", lambda: ("another one",))


CHANGES = [
    change_source,
    change_header,
    change_flag,
    change_argument_of_compiler,
    change_place_of_compiler,
    change_version_of_compiler,
    change_processor,
]


def test_whatever_a_library_depends_on_builds_it_anew(source, counting, tmp_path, monkeypatch):
    for builds, change in enumerate([lambda *_: None, *CHANGES], 1):
        change(source, monkeypatch)
        for _ in range(2):
            assert anew(source, monkeypatch) == 6.5
            assert len(counting.calls) == builds, change
            assert len(entries(tmp_path)) == builds, change


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/cpuinfo")
def test_a_processor_is_known_by_what_it_can_run_not_by_its_clock(monkeypatch):
    text = (
        "processor : 0\nmodel name : A\ncpu MHz : 1000.0\nflags : sse avx2\n\nprocessor : 1\nmodel name : A\nflags : sse avx2\n"
    )

    def identity(text):
        build._processor.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_text", lambda *_, **__: text)
            return build._processor()

    first = identity(text)
    assert identity(text.replace("1000.0", "3000.0")) == first
    assert len({first, identity(text.replace("avx2", "avx512f")), identity(text.replace("A\n", "B\n"))}) == 3
    build._processor.cache_clear()
    assert any("flags" in line or "Features" in line or "isa" in line for line in build._processor())


def test_four_processes_at_once_all_answer_and_leave_one_entry(source, tmp_path, monkeypatch):
    # Nobody is done before all have begun.
    waiting = Wrapper(
        tmp_path,
        monkeypatch,
        does='until [ $(wc -l < "$folder/wrapper.log") -ge 4 ] || [ -e "$folder/stop" ]; do sleep 0.02; done\nexec "$real" "$@"',
    )
    processes = [start(tmp_path) for _ in range(4)]
    assert [answer_of(process) for process in processes] == [6.5] * 4
    assert len(waiting.calls) == 4
    assert len(entries(tmp_path)) == 1


# Where it is kept


def test_the_folder_is_the_first_of_those_named(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.Cache().folder == tmp_path / "cache"
    monkeypatch.delenv("CTRNN_CACHE")
    assert cache.Cache().folder == tmp_path / "xdg" / "ctrnn"
    for relative in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        monkeypatch.setattr(sys, "platform", "linux")
        assert cache.Cache().folder == home / ".cache" / "ctrnn"
        monkeypatch.setattr(sys, "platform", "darwin")
        assert cache.Cache().folder == home / "Library" / "Caches" / "ctrnn"
    assert {(home / name).stat().st_mode & 0o777 for name in (".cache", ".cache/ctrnn")} == {0o700}


def test_without_a_usable_home_a_library_is_built_for_this_process_alone(source, counting, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CTRNN_CACHE")
    for home in ("", ".", str(tmp_path / "lost"), str(tmp_path / "file")):
        monkeypatch.setenv("HOME", home)
        assert cache.Cache().folder is None, home
    monkeypatch.setenv("CTRNN_CACHE", str(tmp_path / "file"))
    for builds in (1, 2):
        assert anew(source, monkeypatch) == 6.5
        assert len(counting.calls) == builds
    assert not (tmp_path / "lost").exists()
    assert not (tmp_path / ".cache").exists()
    assert (tmp_path / "file").read_text() == ""


def test_a_full_disk_leaves_nothing_in_the_folder_and_an_answer(source, counting, tmp_path, monkeypatch):
    def full(*words):
        raise OSError(errno.ENOSPC, "No space left on device")

    for step in ("fdopen", "replace"):
        forget(monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            assert answer(source) == 6.5
        assert entries(tmp_path) == []


def plant(tmp_path, monkeypatch, source):
    """Put another library, which answers 9.5, where that of the source will be looked for."""
    answer(source, factor=3)
    (foreign,) = (tmp_path / "cache").iterdir()
    content, digest = foreign.read_bytes(), foreign.name.partition("-")[2]
    foreign.unlink()
    answer(source)
    (own,) = (tmp_path / "cache").iterdir()
    own.unlink()
    planted = own.parent / f"{own.name.partition('-')[0]}-{digest}"
    planted.write_bytes(content)
    planted.chmod(0o600)
    return planted


def test_a_library_that_others_could_have_planted_is_not_loaded(source, counting, tmp_path, monkeypatch):
    planted = plant(tmp_path, monkeypatch, source)

    def again():
        found = anew(source, monkeypatch)
        for name in set(entries(tmp_path)) - {planted.name}:
            (tmp_path / "cache" / name).unlink()
        return found

    assert again() == 9.5  # from a folder of ours: only whose it is keeps it from being loaded
    for path, modes in ((planted.parent, (0o770, 0o707, 0o1777)), (planted, (0o620, 0o602))):
        mode = path.stat().st_mode
        for open_to_others in modes:
            path.chmod(open_to_others)
            assert again() == 6.5, oct(open_to_others)
        path.chmod(mode)
    planted.rename(tmp_path / "elsewhere.so")
    planted.symlink_to(tmp_path / "elsewhere.so")
    assert again() == 6.5


def test_a_library_exchanged_after_it_was_compared_is_not_loaded(source, counting, tmp_path, monkeypatch):
    content = plant(tmp_path, monkeypatch, source).read_bytes()
    (tmp_path / "cache" / entries(tmp_path)[0]).unlink()
    forget(monkeypatch)
    answer(source)
    (entry,) = (tmp_path / "cache").iterdir()

    def compared(given, really=hashlib.sha256):
        entry.write_bytes(content)  # now the file is another one
        return really(given)

    monkeypatch.setattr(hashlib, "sha256", compared)
    found = cache.Cache().library(entry.name.partition("-")[0])
    found.tiny.restype, found.tiny.argtypes = ctypes.c_double, [ctypes.c_double]
    assert found.tiny(3.0) == 6.5


@pytest.mark.parametrize("anonymous", [True, False])
def test_libraries_loaded_one_after_the_other_are_all_there_and_leave_no_file(source, monkeypatch, anonymous):
    def forbidden(name):
        raise OSError(errno.EACCES, "Permission denied")

    def opened():
        return sorted(os.listdir("/proc/self/fd")) if sys.platform == "linux" else []

    forget(monkeypatch)
    if not anonymous:
        monkeypatch.setattr(os, "memfd_create", forbidden, raising=False)
    before = opened()
    # Descriptors are used again, and the loader knows libraries by their paths.
    assert [answer(source, factor=factor) for factor in range(3)] == [3.0 * factor + 0.5 for factor in range(3)]
    assert opened() == before


def test_a_folder_that_others_could_exchange_is_not_used(tmp_path, monkeypatch):
    above, stat = tmp_path / "above", Path.stat
    monkeypatch.setenv("CTRNN_CACHE", str(above / "cache"))
    assert cache.Cache().folder == above / "cache"
    for mode in (0o755, 0o1777, 0o1775):  # the second is that of /tmp
        above.chmod(mode)
        assert cache.Cache().folder == above / "cache"
    for mode in (0o777, 0o775, 0o757):
        above.chmod(mode)
        assert cache.Cache().folder is None
        assert cache.Cache().why.startswith(f"others can change what is in {above}; CTRNN_CACHE can name")
    above.chmod(0o755)
    for other in (above, above / "cache"):  # of another user

        def of_another(path, other=other, **settings):
            found = stat(path, **settings)
            return os.stat_result((*found[:4], found.st_uid + 1, *found[5:])) if path == other else found

        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", of_another)
            assert cache.Cache().folder is None


def test_where_others_can_change_temporary_files_a_library_is_built_in_the_cache(source, counting, tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.chmod(0o777)
    made = []
    with cache.private_folder(tmp_path) as folder:
        assert folder.parent == tmp_path
    monkeypatch.setattr(build, "_run", lambda command, where, run=build._run: made.append(where.parent) or run(command, where))
    monkeypatch.setattr(build, "_version", lambda command: "1")
    assert answer(source) == 6.5
    assert made == [tmp_path / "cache"]
    assert len(entries(tmp_path)) == 1
    monkeypatch.setenv("CTRNN_CACHE", "/proc/none")
    monkeypatch.setattr(build, "_made", {})
    with pytest.raises(Unavailable, match=f"others can change what is in {place}, .*TMPDIR can name another"):
        answer(source)
    place.chmod(0o700)


def cut(content):
    return content[: len(content) // 2]


def flip(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_a_damaged_library_is_built_again_before_it_is_loaded(source, counting, tmp_path):
    ask(tmp_path)  # in a process of its own, which half a library may crash
    (path,) = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()
    for builds, damage in enumerate([cut, flip, lambda content: b""], 2):
        path.write_bytes(damage(whole))
        assert ask(tmp_path) == 6.5
        assert len(counting.calls) == builds
        assert path.read_bytes() == whole
        assert entries(tmp_path) == [path.name]


def test_an_entry_that_is_whole_and_cannot_be_loaded_is_passed_over(source, counting, tmp_path, monkeypatch):
    # From a folder mounted noexec, say, no library can.
    answer(source)
    (path,) = (tmp_path / "cache").iterdir()
    for content in (str(number).encode() for number in range(9999)):  # until its name comes before that of the library
        nonsense = path.with_name(f"{path.name.partition('-')[0]}-{hashlib.sha256(content).hexdigest()}.so")
        if nonsense < path:
            break
    nonsense.write_bytes(content)
    nonsense.chmod(0o600)
    assert anew(source, monkeypatch) == 6.5
    assert len(counting.calls) == 1
    path.unlink()
    assert anew(source, monkeypatch) == 6.5
    assert len(counting.calls) == 2


# What can go wrong


NO_COMPILER = r"c\+\+, g\+\+ and clang\+\+ are not on PATH.*apt install g\+\+.*xcode-select --install.*CXX.*works without"
FAILURES = {  # the environment, what is appended to the source, and what the error says
    "no compiler": ({"CXX": "", "PATH": ""}, "", NO_COMPILER),
    "not there": ({"CXX": "no-such-compiler -O1"}, "", "CXX names 'no-such-compiler', which is not on PATH"),
    "no program": ({"CXX": "{folder}/c++"}, "", "Exec format error"),
    "open quotation": ({"CXX": "c++ 'of"}, "", 'CXX is not a line of shell words .*"c\\+\\+ \'of"'),
    "open quotation in flags": ({"CTRNN_CXXFLAGS": "'of"}, "", "CTRNN_CXXFLAGS is not a line of shell words"),
    "wrong source": ({}, "int broken = ;\n", r"tiny\.cpp:5.*expected"),
    "no output": ({"CXX": "true"}, "", "made no library of"),
    "no source": ({}, None, r"No such file or directory: .*tiny\.cpp"),
}


@pytest.mark.parametrize(("environment", "code", "words"), FAILURES.values(), ids=FAILURES)
def test_what_fails_is_said_with_what_to_do(source, tmp_path, monkeypatch, environment, code, words):
    (tmp_path / "c++").write_bytes(b"\x7fELF of another machine")
    (tmp_path / "c++").chmod(0o755)
    source.path.unlink() if code is None else source.path.write_text(CODE + code)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value.format(folder=tmp_path))
    with pytest.raises(Unavailable) as caught:
        answer(source)
    assert re.search(words, str(caught.value), re.DOTALL), caught.value


def test_on_windows_nothing_is_compiled_and_that_is_said(source, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Unavailable, match=r"not compiled on Windows.*works without"):
        answer(source)


def test_a_compiler_that_fails_is_quoted_and_remembered(source, tmp_path, monkeypatch):
    failing = Wrapper(tmp_path, monkeypatch, does="echo the tape is torn; echo; echo no more >&2; exit 3")
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"(?s)exit code 3\)\n    the tape is torn\n    no more\n.*works without"):
            answer(source)
        assert len(failing.calls) == 2  # once with -march=native, once without, and never again
    assert entries(tmp_path) == []
    Wrapper(tmp_path, monkeypatch, name="another")
    assert answer(source) == 6.5


def test_a_compiler_that_refuses_the_processor_builds_for_all_of_them(source, tmp_path, monkeypatch):
    refusing = Wrapper(
        tmp_path, monkeypatch, does='case "$*" in *-march=*) echo "bad value native" >&2; exit 1;; esac\nexec "$real" "$@"'
    )
    for _ in range(2):
        assert anew(source, monkeypatch) == 6.5
    assert ["-march=native" in call for call in refusing.calls] == [True, False]
    assert len(entries(tmp_path)) == 1


@pytest.fixture
def alive(tmp_path, monkeypatch):
    """A compiler that hangs: the pipe that it, and all that it starts, hold open while they run."""
    os.mkfifo(tmp_path / "alive")
    # It starts once somebody waits for it, has a child of its own, as the drivers of compilers have, and half of an output.
    waited_for = 'until [ -e "$folder/waited for" ] || [ -e "$folder/stop" ]; do sleep 0.02; done'
    child = '(until [ -e "$folder/stop" ]; do sleep 0.1; done) &'
    does = f'{waited_for}\necho half > library.so\necho still thinking\nexec 3>"$folder/alive"\necho started >&3\n{child}\nwait'
    hanging = Wrapper(tmp_path, monkeypatch, does=does)
    build._compiler()  # its version is known, in whatever time
    return hanging, tmp_path / "alive"


def test_a_compiler_that_hangs_is_stopped_with_all_it_has_started(source, tmp_path, monkeypatch, alive):
    hanging, pipe = alive
    communicate, opened = subprocess.Popen.communicate, []

    def after_its_start(process, **_):
        (tmp_path / "waited for").touch()
        opened.append(pipe.open())
        assert opened[0].readline() == "started\n"
        return communicate(process, timeout=1)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "communicate", after_its_start)
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"did not end within 120 s\n    still thinking"):
                answer(source)
    with opened[0]:
        assert opened[0].read() == ""  # comes when nothing is left that could write
    assert len(hanging.calls) == 1
    assert entries(tmp_path) == []


# What runs in the background of a shell is started deaf to interrupts, and so is all that it starts.
HEEDS_INTERRUPTS = """
import pathlib, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
communicate = subprocess.Popen.communicate
def waits(process, **settings):
    if "--version" not in process.args:  # an interrupt before it is waited for would come while it is being started
        pathlib.Path(sys.argv[1], "waited for").touch()
    return communicate(process, **settings)
subprocess.Popen.communicate = waits
"""


def test_an_interrupt_leaves_no_half_file_and_no_compiler(tmp_path, source, alive):
    process = start(tmp_path, HEEDS_INTERRUPTS + ASK)
    with alive[1].open() as pipe:
        assert pipe.readline() == "started\n"
        process.send_signal(signal.SIGINT)  # to this process alone: from a terminal it would reach the compiler too
        assert pipe.read() == ""  # comes when nothing is left that could write
    _, error = process.communicate(timeout=PATIENCE)
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert entries(tmp_path) == []  # and nothing temporary, see `_own_folders`


def test_an_interrupted_build_can_be_asked_for_again(source, tmp_path, monkeypatch):
    waited_for = []

    def interrupted(process, **_):
        waited_for.append(process)
        process._sigint_wait_secs = 0  # as `communicate` leaves it after having waited for a while
        raise KeyboardInterrupt

    Wrapper(tmp_path, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "communicate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            answer(source)
    assert waited_for[0].returncode is not None
    assert answer(source) == 6.5


def test_what_cannot_be_loaded_is_refused_and_not_kept(source, tmp_path, monkeypatch):
    Wrapper(tmp_path, monkeypatch, does="echo nonsense > library.so")
    with pytest.raises(Unavailable, match=r"made cannot be loaded:\n    .*library\.so"):
        answer(source)
    assert entries(tmp_path) == []


# Forking


def test_a_child_forked_during_or_after_a_build_gets_the_library(source, tmp_path, monkeypatch):
    # The first call ends once the file "go" is there, so that the fork is in the middle of it on any machine.
    goes = '[ $(wc -l < "$folder/wrapper.log") -gt 1 ] || [ -e "$folder/go" ] || [ -e "$folder/stop" ]'
    waiting = Wrapper(tmp_path, monkeypatch, does=f'until {goes}; do sleep 0.02; done\nexec "$real" "$@"')
    forks = f"""
import os, signal, threading, time
from pathlib import Path
ASK, LOG, GO = {ASK!r}, Path({str(waiting.log)!r}), Path({str(tmp_path / "go")!r})
def child(work):
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm({PATIENCE})  # whoever waits for a lock that nobody holds
    os._exit(0 if work() == 6.5 else 1)
def work():
    exec(ASK, scope := dict())
    return scope["made"].tiny(3.0)
thread = threading.Thread(target=work)
thread.start()
while not LOG.exists():
    time.sleep(0.01)
assert child(work) == 0, "during"
GO.touch()
thread.join()
assert child(work) == 0, "after"
"""
    process = start(tmp_path, forks)
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    assert len(waiting.calls) == 2  # the first child has not got the thread that builds, so it builds; the second has the library
