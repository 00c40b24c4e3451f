"""Collect the globals that code reads: what it names outside of its module, also in modules that it imports.

They are noted as the code runs, and compared at each call.
"""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from types import CodeType, FrameType, ModuleType
from typing import Any

from discretize.kernels.record.attributes import PLACES, PLAIN, Attributes, ById, attributes_read, stays_as_is, what_shows
from discretize.kernels.record.guards import Guards
from discretize.kernels.record.watched import Unwatched, asked_by_call, asked_in, is_installed
from discretize.solvers.captured import CapturedGlobals, all_globals

__all__ = ["GlobalReads"]


@dataclass(frozen=True)
class _Reads:
    """What code reads of globals: their names, the modules that it imports itself, and the attributes that it asks for."""

    globals: dict[str, Any]
    names: tuple[str, ...]
    imported: tuple[str, ...]
    attributes: tuple[str, ...]

    @classmethod
    def of(cls, code: CodeType, namespace: dict[str, Any]) -> _Reads:
        # Words too, for getattr(module, "name") and globals()["name"]; those in tuples are of class patterns.
        consts = [each for const in code.co_consts for each in (const if isinstance(const, tuple) else (const,))]
        words = [word for word in consts if isinstance(word, str)]
        told = [(each.opname, each.argval) for each in dis.get_instructions(code)]
        names = {name for how, name in told if how in ("LOAD_GLOBAL", "LOAD_NAME")}
        packages = ["", *accumulate(str(namespace.get("__package__") or "").split("."), "{}.{}".format)]  # of relative imports
        imported = [f"{package}.{name}".strip(".") for how, name in told if how == "IMPORT_NAME" for package in packages]
        names |= {*words} if "globals" in names else set()
        names -= {*namespace} if isinstance(namespace, CapturedGlobals) else set()  # which are the module's
        return cls(all_globals(namespace), tuple(sorted(names)), tuple(imported), (*code.co_names, *words))

    def now(self, guards: Guards) -> Iterator[Any]:
        guards.names(self.globals, self.names)
        guards.names(sys.modules, self.imported)
        yield from map(self.globals.get, self.names)
        yield from map(sys.modules.get, self.imported)


def _is_import(code: CodeType) -> bool:
    """Whether a module is imported: what it runs then, it runs once in a process."""
    return code.co_name == "_find_and_load" and code.co_filename.startswith("<frozen importlib")


def _is_of_the_collector(code: CodeType) -> bool:
    """Whether code is a callback of the garbage collector, which runs it in the midst of any other."""
    return any(code is _code_of(callback) for callback in gc.callbacks)


def _code_of(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    return getattr(function if hasattr(function, "__code__") else type(function).__call__, "__code__", None)


class GlobalReads:
    """Which globals code names, and those of modules by their attributes: a module may be named by one function and read by
    another, so of each module all names count that any of them asks for."""

    def __init__(self) -> None:
        self.reads: dict[CodeType, _Reads] = {}
        self.attributes: dict[str, None] = {}

    @contextmanager
    def noted(self, *others: str) -> Iterator[None]:
        r"""Of all code that runs meanwhile in this thread.

        Args:    others: the beginnings of paths of files whose code is not looked at.
        Raises:  Unwatched before code does what cannot be watched.
        """
        reasons, libraries, aside = list[str](), (*PLACES, *others), list[FrameType]()

        def look(frame: FrameType, event: str, argument: object) -> None:
            why, file = None, frame.f_code.co_filename
            if aside:
                if event == "return" and frame is aside[0]:
                    aside.clear()
            elif event == "call" and (_is_import(frame.f_code) or (gc.callbacks and _is_of_the_collector(frame.f_code))):
                aside.append(frame)
            elif event == "call" and not file.startswith(libraries) and not is_installed(file):
                why = self._note(frame)
            elif event == "c_call" and frame.f_code in self.reads:
                why = asked_by_call(frame, argument)
            elif event == "call" and frame.f_back is not None and frame.f_back.f_code in self.reads:
                why = asked_by_call(frame)
            if why is not None:
                reasons.append(why)
                raise Unwatched(why)

        before = sys.getprofile()
        sys.setprofile(look)
        try:
            yield
        finally:
            sys.setprofile(before)
        if reasons:  # and the code has caught that
            raise Unwatched(reasons[0])

    def _note(self, frame: FrameType) -> str | None:
        """Why what the code of a frame reads cannot be watched."""
        code = frame.f_code
        if code in self.reads:
            return None
        self.reads[code] = _Reads.of(code, frame.f_globals)
        self.attributes |= dict.fromkeys(self.reads[code].attributes)
        return asked_in(code, all_globals(frame.f_globals), frame.f_locals)

    def now(self, guards: Guards | None = None) -> Attributes | str:
        """Their current values, or why they cannot be compared. guards: collects what must stay."""
        guards = guards or Guards()
        return attributes_read([*self._found(guards)], guards)

    def values_now(self, *others: object) -> list[Any]:
        """Their current values and those of others, and what shows of those that cannot be compared."""
        return what_shows([*self._found(Guards())], others)

    def _found(self, guards: Guards) -> Iterator[Any]:
        seen = set[int]()
        for each in self.reads.values():
            for value in each.now(guards):
                if not isinstance(value, ModuleType):
                    yield value
                elif id(value) not in seen:
                    yield from self._of_module(value, seen, guards)

    def _of_module(self, module: ModuleType, seen: set[int], guards: Guards) -> Iterator[Any]:
        seen.add(id(module))
        stays = stays_as_is(module.__name__)
        guards.kind(module)
        guards.names(vars(module), self.attributes)
        for value in map(vars(module).get, self.attributes):
            if isinstance(value, ModuleType):
                yield from self._of_module(value, seen, guards) if id(value) not in seen else ()
            else:
                yield value if isinstance(value, (*PLAIN, type)) or not stays else ById(value)
