r"""Reads settings, as the prompt, a file and Python give them, as the types of dataclass fields.

    KEY=VALUE      steps=1000   lr=1e-3     padded=true   init=chrono   sizes=1,2,3   clip=none

A value is an int, float, bool, str, one of a Literal's words, a tuple of such, or none where the type allows None. Nothing is
evaluated. What a type does not say, the least and largest count, stands beside it: Annotated[int, Bounds(2)].
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import re
import shutil
import textwrap
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from experiments.usage import UsageError, nearest

__all__ = [
    "CONSTANTS",
    "LARGEST",
    "Bounds",
    "Checked",
    "Count",
    "assignments",
    "check_one_of",
    "check_whole",
    "described",
    "setting_types",
    "settings_from",
    "value_of",
    "words_of",
]

T = TypeVar("T")
LARGEST = 2**31 - 1  # of any count: what is larger fits no index of a kernel, and no memory
CONSTANTS = {"true": True, "yes": True, "false": False, "no": False, "none": None}
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", types.NoneType: "none"}


def assignments(words: Iterable[str]) -> dict[str, str]:
    """Split `KEY=VALUE` words into keys and values. Raises: UsageError for what is no assignment, and for a key given twice."""
    values: dict[str, str] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not (equals and key):
            raise UsageError(f"--set takes KEY=VALUE, got {word!r}.")
        if key in values:
            raise UsageError(f"--set gives {key} twice; leave one of them out.")
        values[key] = text
    return values


def settings_from(kind: type[T], values: Mapping[str, object], *, as_text: bool = False, others: Iterable[str] = ()) -> T:
    r"""Make the dataclass with those settings.

    Args:    values: by key, of the fields' own types, lists for tuples; as_text: each is text, as at the prompt;
             others: keys of other dataclasses, named too where a key is not known.
    Raises:  UsageError for a key that is not there, with the nearest, for a value of another type, and for what the dataclass
             itself refuses.
    """
    hints = setting_types(kind)
    keywords = {}
    for key, value in values.items():
        if key not in hints:
            raise UsageError(f"there is no setting {nearest(key, [*hints, *others])}")
        try:
            keywords[key] = _read(value, hints[key], as_text)
        except (ValueError, OverflowError):
            words = _in_words(hints[key])
            raise UsageError(f"{key} is {words if as_text else words.replace('none', 'None')}, got {value!r}.") from None
    try:
        return kind(**keywords)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error


_type_hints = functools.cache(get_type_hints)  # a study makes hundreds of configurations


def setting_types(kind: type, *, with_bounds: bool = False) -> Mapping[str, Any]:
    """Return the types of a dataclass's fields by name, with the `Bounds` in their annotations or without."""
    hints = _type_hints(kind, include_extras=with_bounds)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def described(kind: type) -> list[str]:
    r"""Return for each setting of a dataclass its key, its default, and the words for it in the docstring, its own or inherited.

    Args:    seed: of weights and data; rtol, atol: of the solver      ->    seed=0   of weights and data
    """
    known = {setting.name: setting for setting in fields(kind) if setting.init}
    words: dict[str, str] = {}
    for each in kind.__mro__:
        words = _words_for(known, each.__doc__ or "") | words
    defaults = {key: "" if setting.default is MISSING else words_of(setting.default) for key, setting in known.items()}
    width = shutil.get_terminal_size().columns
    return [
        textwrap.fill(f"  {f'{key}={defaults[key]}':<23}  {words.get(key, '')}".rstrip(), width, subsequent_indent=27 * " ")
        for key in known
    ]


def _words_for(keys: Iterable[str], docstring: str) -> dict[str, str]:
    text = " ".join(inspect.cleandoc(docstring).split()).partition("Args: ")[2]
    found, named = dict[str, str](), list[str]()
    for clause in re.split("Raises: |Source: |Shape: ", text)[0].strip().rstrip(".").split("; "):
        names, colon, said = clause.partition(": ")
        if colon and set(keys) >= set(names.split(", ")):
            named = names.split(", ")
            found |= dict.fromkeys(named, said.strip())
        else:
            found |= {key: f"{found[key]}; {clause}" for key in named}
    return found


class Bounds(NamedTuple):
    """Says from where to where a whole number may be, and why not below; in the annotation of a dataclass's field."""

    least: int = 1
    why: str = ""
    most: int = LARGEST


Count = Annotated[int, Bounds()]


class Checked:
    r"""Checks the fields of a dataclass of settings against their types, once it is made.

    Raises:  ValueError for another word than those of a `Literal`, and for a count beyond its `Bounds`; TypeError for what is
             no whole number where there are bounds, and no truth value where there should be one.
    """

    def __post_init__(self) -> None:
        for name, hint in setting_types(type(self), with_bounds=True).items():
            value, bounds = getattr(self, name), getattr(hint, "__metadata__", ())
            if get_origin(hint) is Literal:
                check_one_of(name, value, get_args(hint))
            elif hint is bool and not isinstance(value, bool):
                raise TypeError(f"`{name}` must be True or False, got {value!r}.")
            elif bounds and value is not None:
                check_whole(name, value, *bounds[0])


def check_whole(name: str, value: int, least: int = 1, why: str = "", most: int = LARGEST) -> None:
    """Refuse what is no whole number from `least` to `most`; `why` follows in the message. Raises: TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be a whole number, got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}, got {value}{why and f': {why}'}.")
    if value > most:
        raise ValueError(f"`{name}` must be at most {most}, got {value}.")


def check_one_of(name: str, value: str, words: Sequence[str]) -> None:
    """Refuse a value that is none of the words. Raises: ValueError."""
    if value not in words:
        raise ValueError(f"`{name}` must be {' or '.join(map(repr, words))}, got {value!r}.")


def words_of(value: object) -> str:
    """Write a value as text, as `settings_from` reads it."""
    if isinstance(value, tuple):
        return ",".join(map(words_of, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def value_of(text: str) -> int | float | bool | str | None:
    """Read a value where no type is known: none, a whole number, a number, true or false, or else text."""
    return cast("int | float | bool | str | None", _read(text, int | float | bool | str | None, True))


def _read(value: Any, hint: object, as_text: bool) -> Any:
    """Read the value, of that type. Raises: ValueError, OverflowError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if as_text:
        value = value.strip()
    if origin in (Union, types.UnionType):
        return _first(value, sorted(arguments, key=lambda each: each is not types.NoneType), as_text)
    if origin is tuple:
        parts = (value.split(",") if value else []) if as_text else value
        if not isinstance(parts, list | tuple):
            raise ValueError("no sequence")
        return tuple(_read(part, each, as_text) for part, each in zip(parts, _parts(arguments, len(parts)), strict=True))
    if as_text and hint in (bool, types.NoneType):
        value = CONSTANTS.get(value.lower(), value)
    if hint is float and (as_text or type(value) is int):
        value = float(value)
    if as_text and hint is int:
        value = int(value)
    known = value in arguments if origin is Literal and isinstance(value, str) else type(value) is hint
    if not known or (hint is float and not math.isfinite(value)):
        raise ValueError("another type")
    return value


def _first(value: object, hints: Sequence[object], as_text: bool) -> Any:
    """Read as the first of the types that it can be read as."""
    for hint in hints:
        try:
            return _read(value, hint, as_text)
        except ValueError:
            continue
    raise ValueError("none of the types")


def _parts(arguments: tuple[object, ...], count: int) -> list[Any]:
    """Return the types of a tuple's parts: `tuple[int, ...]` or `tuple[int, float]`."""
    return [arguments[0]] * count if arguments[-1] is ... else list(arguments)


def _in_words(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_in_words, arguments))
    if origin is Literal:
        return " or ".join([*filter(None, map(words_of, arguments)), *["empty"] * ("" in arguments)])
    if origin is tuple:
        several = f"{_in_words(arguments[0])} or several, with commas between"
        return several if arguments[-1] is ... else ",".join(map(_in_words, arguments))
    return WORDS[hint]
