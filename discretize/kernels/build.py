r"""Compile C++ to a shared library with a plain C interface at first use; `cache` keeps it and ctypes loads it.

    key     SHA-256 of source and headers, flags with the definitions, the compiler, the processor

The compiler is the one that CXX names, perhaps with arguments, else the first of c++, g++, clang++. CTRNN_CXXFLAGS adds flags
after ours, where the last of a kind counts: -march=x86-64 for the baseline instead of this processor, sanitizers and the like.
The compiler runs in a private folder, on a copy of what the key was made of. So paths in either variable are absolute ones.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from discretize.kernels.cache import Cache, loaded, private_folder

__all__ = ["Libraries", "CppSource", "Unavailable", "begin", "compiler", "is_built", "library", "toolchain"]

COMPILERS = ("c++", "g++", "clang++")
# No -ffast-math: it drops nan and inf, and linking it changes the arithmetic of the whole process. -Wno-psabi: gcc has a note
# for every function that takes vectors, on an interface between versions of gcc that no two of our libraries share.
FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-pthread"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fvisibility=hidden", "-Wno-psabi"),
)
# In the order of trying. Compilers for ARM may know no -march=native, and old assemblers not what it leads to.
TUNINGS: tuple[tuple[str, ...], ...] = (("-march=native",), ())
ENVIRONMENT = ("CXX", "CTRNN_CXXFLAGS", "PATH")  # what a library is made with
TIMEOUT = 120.0  # seconds for one call of the compiler
OUTPUT = "library.so"
# Lines of /proc/cpuinfo that say what code can run and what it is tuned for; the others change from moment to moment.
PROCESSOR = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "flags"}
    | {"CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features", "features"}
    | {"cpu", "isa", "uarch"}
)
SLOWER = "Everything works without compiled kernels, slower."
WINDOWS = f"Kernels are not compiled on Windows: they use vector types of gcc and clang. {SLOWER}"
INSTALL = f"Install one (Debian: `apt install g++`; macOS: `xcode-select --install`) or name one in CXX. {SLOWER}"


class Unavailable(RuntimeError):  # noqa: N818, it is an answer, and callers go on without
    """Raised where kernels cannot be compiled; says why, and what to do."""


@dataclass(frozen=True)
class CppSource:
    """A file of C++ to compile.

    Args:    path: the .cpp; written: names and texts of headers that are in no file; flags: for the compiler, after those of
             all sources; headers: the folder whose .h files it may include by their names, by default its own.
    """

    path: Path
    written: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()
    headers: Path | None = None

    def texts(self) -> dict[str, bytes]:
        """Everything that the compiler reads, by name."""
        files = [self.path, *(self.headers or self.path.parent).glob("*.h")]
        return {path.name: path.read_bytes() for path in files} | {name: text.encode() for name, text in self.written}


Libraries = Sequence[tuple[CppSource, Mapping[str, str | int]]]  # sources, and their definitions


@dataclass(frozen=True)
class Compiler:
    """A compiler's command, real path and version string."""

    command: tuple[str, ...]
    resolved: str
    version: str


# Libraries, or why there is none. The locks are for threads (not filelock's: processes need none, see above); they carry the
# process in their key, because a child forked during a build must not wait for a thread that it has not got.
_made: dict[tuple[object, ...], ctypes.CDLL | str] = {}
_locks: dict[tuple[int, tuple[object, ...]], threading.Lock] = {}
_told: dict[tuple[int, str], object] = {}  # lines on stderr


def library(source: CppSource, definitions: Mapping[str, str | int]) -> ctypes.CDLL:
    r"""The library of a source for one set of definitions, made where there is none yet.

    A process remembers its libraries, and failures too, until one of the variables CXX, CTRNN_CXXFLAGS and PATH changes; files
    are not read again. The first that is compiled is told in a line on stderr.

    Args:    definitions: macros by name, as in {"REAL": "double", "WIDTH": 4}.
    Raises:  Unavailable.
    """
    if sys.platform == "win32":
        raise Unavailable(WINDOWS)
    defined = _defined(definitions)
    request = (source, defined, *map(os.environ.get, ENVIRONMENT))
    made = _made.get(request)
    if made is None:
        with _locks.setdefault((os.getpid(), request), threading.Lock()):
            made = _made.get(request)
            if made is None:
                made = _made[request] = _attempt(source, defined)
    if isinstance(made, str):
        raise Unavailable(made)
    return made


def is_built(source: CppSource, definitions: Mapping[str, str | int]) -> bool:
    """Whether a library is loaded or kept on disk, so that no compiler has to run for it."""
    defined, cache = _defined(definitions), Cache()
    if isinstance(_made.get((source, defined, *map(os.environ.get, ENVIRONMENT))), ctypes.CDLL):
        return True
    try:
        keys = _flags_by_key(source, defined, source.texts(), _compiler())
    except (Unavailable, OSError):
        return False
    return any(True for key in keys for _ in cache.contents(key))


def begin(source: CppSource, definitions: Mapping[str, str | int]) -> None:
    """Start to build a library in a thread, for a call of `library` to come."""

    def made() -> None:
        with suppress(Unavailable):  # as that call will say
            library(source, definitions)

    threading.Thread(target=made, name="ctrnn build").start()


def compiler() -> str:
    """Name the compiler, with the first line of what it says of itself. Raises: Unavailable."""
    if sys.platform == "win32":
        raise Unavailable(WINDOWS)
    return _called(_compiler())


def toolchain() -> str:
    """Digest of the compiler, its flags and the processor; "" where there is no compiler."""
    try:
        return _digest(ascii((FLAGS, TUNINGS, _words("CTRNN_CXXFLAGS"), _compiler(), _processor())).encode())
    except (Unavailable, OSError):
        return ""


def _attempt(source: CppSource, defined: tuple[str, ...]) -> ctypes.CDLL | str:
    try:
        return _found_or_built(source, defined)
    except Unavailable as error:
        return str(error)
    except OSError as error:  # sources that cannot be read, no place for temporary files, a compiler that cannot be started
        return f"The kernels of {source.path.name} cannot be built: {error}. {SLOWER}"


def _found_or_built(source: CppSource, defined: tuple[str, ...]) -> ctypes.CDLL:
    texts, compiler, cache = source.texts(), _compiler(), Cache()
    flags_of = _flags_by_key(source, defined, texts, compiler)
    for key in flags_of:
        if found := cache.library(key):
            return found
    with private_folder(cache.folder) as place:
        for name, text in texts.items():
            (place / name).write_bytes(text)
        _announce(cache)
        for key, flags in flags_of.items():
            code, said = _run([*compiler.command, *flags, f"./{source.path.name}", "-o", OUTPUT], place)
            if code == 0 and (place / OUTPUT).is_file():
                content = (place / OUTPUT).read_bytes()
                found = _loaded(content, compiler)
                cache.keep(content, key)
                return found
    raise Unavailable(
        f"{_called(compiler)} made no library of {source.path.name} (exit code {code}){_quoted(said)}\n"
        f"Another compiler can be named in CXX. {SLOWER}"
    )


def _defined(definitions: Mapping[str, str | int]) -> tuple[str, ...]:
    return tuple(sorted(f"-D{name}={int(v) if isinstance(v, int) else v}" for name, v in definitions.items()))


def _flags_by_key(
    source: CppSource, defined: tuple[str, ...], texts: Mapping[str, bytes], compiler: Compiler
) -> dict[str, tuple[str, ...]]:
    """The compiler's flags in the order of trying, by the keys of what they make."""
    every = [(*FLAGS, *tuning, *source.flags, *defined, *_words("CTRNN_CXXFLAGS")) for tuning in TUNINGS]
    return {_key(texts, flags, compiler): flags for flags in every}


def _loaded(content: bytes, compiler: Compiler) -> ctypes.CDLL:
    try:
        return loaded(content)
    except OSError as error:
        raise Unavailable(f"What {_called(compiler)} made cannot be loaded:{_quoted(str(error))}\n{SLOWER}") from None


def _announce(cache: Cache) -> None:
    """Say on stderr, once a process, why a first call takes seconds."""
    kept = f"kept in {cache.folder}" if cache.folder else f"for this process only: {cache.why}"
    mine = object()
    if sys.stderr is not None and _told.setdefault((os.getpid(), kept), mine) is mine:
        print(f"ctrnn: compiling kernels for this processor, 1 to 5 s each, {kept}", file=sys.stderr, flush=True)


def _key(texts: Mapping[str, bytes], flags: tuple[str, ...], compiler: Compiler) -> str:
    return _digest(ascii((sorted(texts.items()), flags, compiler, _processor())).encode())[:32]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# The compiler


def _compiler() -> Compiler:
    words = _words("CXX")
    for name in words[:1] or COMPILERS:
        if path := shutil.which(name):
            # Called by its own name, not by that of the file behind: ccache, say, behaves by the name it is called.
            command = (os.path.abspath(path), *words[1:])
            return Compiler(command, os.path.realpath(path), _version(command))
    looked = f"CXX names {words[0]!r}, which is" if words else f"{', '.join(COMPILERS[:-1])} and {COMPILERS[-1]} are"
    raise Unavailable(f"No C++ compiler: {looked} not on PATH. {INSTALL}")


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    with private_folder() as place:
        return _run([*command, "--version"], place)[1]


def _words(variable: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(os.environ.get(variable, "")))
    except ValueError as error:
        raise Unavailable(f"{variable} is not a line of shell words ({error}): {os.environ[variable]!r}. {SLOWER}") from None


def _run(command: list[str], place: Path) -> tuple[int, str]:
    """Run a compiler; return exit code and output. On timeout or interrupt it is killed with all that it has started."""
    environment = dict(os.environ, LC_ALL="C", TMPDIR=str(place))  # English, and its own temporary files go with ours
    output, error = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=error, cwd=place, env=environment, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=TIMEOUT)
        except BaseException as reason:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()  # which the end of `with` leaves out after an interrupt
            if isinstance(reason, subprocess.TimeoutExpired):
                words = _quoted((reason.output or b"").decode(errors="replace"))
                raise Unavailable(f"{shlex.join(command)} did not end within {TIMEOUT:g} s{words}\n{SLOWER}") from None
            raise
    return process.returncode, said.decode(errors="replace")


def _called(compiler: Compiler) -> str:
    return f"{shlex.join(compiler.command)} ({(compiler.version.splitlines() or ['of no version'])[0][:80]})"


def _quoted(said: str) -> str:
    """Quote the first lines of a compiler's output."""
    lines = [line for line in said.splitlines() if line.strip()]
    return "".join(f"\n    {line[:200]}" for line in lines[:12]) if lines else " and said nothing."


@functools.cache
def _processor() -> tuple[str, ...]:
    """CPU features, part of the cache key."""
    lines: set[str] = set()  # of all cores, for they may differ, and which one asks must not matter
    if sys.platform == "linux":
        with suppress(OSError):
            text = Path("/proc/cpuinfo").read_text(errors="replace")
            lines = {line for line in text.splitlines() if line.partition(":")[0].strip() in PROCESSOR}
    return platform.machine(), *(sorted(lines) or [platform.processor()])
