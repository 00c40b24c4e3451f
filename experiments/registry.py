"""Finds things by name: those of this project, those that installed packages offer by entry points, and those that were added."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from experiments.code_files import file_of, imported, named_in
from experiments.usage import UsageError, nearest

__all__ = ["Registry", "add_from", "field_name"]


class Registry(Mapping[str, Any]):
    r"""Maps names to what they stand for: a thing, or module:name, where it is imported from when it is asked for.

    Args:    kind: what a thing is called in messages; group: of entry points, such as "ctrnn.tasks"; own: this project's, whose
             names nobody else can take.
    """

    def __init__(self, kind: str, group: str, own: Mapping[str, object]) -> None:
        self.kind, self.group, self.own = kind, group, own
        self._added: dict[str, Any] = {}
        self.files: dict[str, str] = {}  # of what was added from a file, by name
        self._offered: dict[str, EntryPoint] | None = None

    def __getitem__(self, name: str) -> Any:
        for home in (self.own, self._added):
            if name in home:
                return home[name]
        return self._of_packages()[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.own, *self._added, *self._of_packages()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _of_packages(self) -> dict[str, EntryPoint]:
        if self._offered is None:
            self._offered = {entry.name: entry for entry in entry_points(group=self.group)}
        return self._offered

    def check(self, name: str) -> None:
        """Refuse a name that is not there. Raises: UsageError, with the nearest, or else with all."""
        if name not in self:
            raise UsageError(f"there is no {self.kind} {nearest(name, self)} One of your own comes with --plugin FILE.py.")

    def named(self, name: str) -> Any:
        """Return the thing itself. Raises: UsageError for a name that is not there, and for what cannot be imported."""
        self.check(name)
        value = self[name]
        if not isinstance(value, str):
            return value
        if name in self.own:
            return resolve_name(value)
        try:
            return resolve_name(value)
        except Exception as error:  # whatever code of somebody else's raises
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise UsageError(f"the {self.kind} {name}, {value}, could not be imported: {why}") from error

    def add(self, name: str, thing: object, file: str | None = None) -> None:
        """Add a thing of the user's, by that name, perhaps from a file. Raises: UsageError for a name that is taken."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
            raise UsageError(f"a {self.kind} is named by a-z, 0-9, '.' and '-', beginning with a letter or digit; got {name!r}.")
        if name in self.own:
            raise UsageError(f"there is a {self.kind} {name!r} already; give yours another name.")
        self._added[name] = thing
        if file is not None:
            self.files[name] = file

    def name_of(self, thing: Any) -> str | None:
        """Return the name of a class or function; None where it has none."""
        place = f"{thing.__module__}:{thing.__qualname__}"
        return next((name for name in self if self[name] is thing or self[name] == place), None)

    def name_for(self, thing: Any) -> str:
        """Return its name; one that has none is added by that of its class or function, in small letters with hyphens.

        Where that is one of ours it is added as "package.name": `ctrnn.gru` is "ctrnn.gru".
        """
        if (name := self.name_of(thing)) is None:
            name = _hyphenated(thing.__name__)
            name = f"{_hyphenated(thing.__module__.partition('.')[0])}.{name}" if name in self.own else name
            if self._added.get(name, thing) is not thing:
                raise UsageError(f"there is a {self.kind} {name!r} already, another one; rename one of them.")
            self.add(name, thing)
        return name


def field_name(place: str, fields: Registry) -> str:
    """Return the name of the field that is FILE.py:NAME: NAME in small letters with hyphens, file.NAME where that is ours."""
    name = _hyphenated(named_in(place))
    return f"{_hyphenated(Path(file_of(place)).stem)}.{name}" if name in fields.own else name


def _hyphenated(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "-", name).strip("-").lower()


def add_from(files: Iterable[str], registries: Mapping[str, Registry]) -> None:
    r"""Run files, and add what they have by the names of these registries, TASKS = {"odd-ones": OddOnes}.

    FILE.py:NAME adds one field, that has no such dictionary, by the name that `field_name` gives.

    Raises:  UsageError for a file that cannot be run, or has nothing to add.
    """
    for file in files:
        module, name = imported(file_of(file)), named_in(file)
        if name:
            if not callable(getattr(module, name, None)):
                there = [known for known, thing in vars(module).items() if callable(thing) and known[:1] != "_"]
                raise UsageError(f"{file_of(file)} has no class or function {nearest(name, there)}")
            registries["FIELDS"].add(field_name(file, registries["FIELDS"]), getattr(module, name), file)
            continue
        found = {table: getattr(module, table) for table in registries if hasattr(module, table)}
        if not found:
            raise UsageError(f"{file} has none of {', '.join(registries)}, dictionaries of what it adds, by name.")
        for table, things in found.items():
            if not isinstance(things, Mapping):
                raise UsageError(f"{table} in {file} must be a dictionary of classes by name, got {type(things).__name__}.")
            for name, thing in things.items():
                if not callable(thing):
                    raise UsageError(f"{table} in {file} has {name!r}, which is no class or function: {type(thing).__name__}.")
                registries[table].add(str(name), thing, file)
