r"""Settings as the prompt and a file write them, read as the types of dataclass fields.

    KEY=VALUE      steps=1000   rate=1e-3   padded=true   init=chrono   sizes=1,2,3   clip=none

A key belongs to one dataclass of those asked; a value is an int, float, bool, str, one of a Literal's words, a tuple of such,
or none where the type allows None. Nothing is evaluated.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from experiments.usage import UsageError, did_you_mean

__all__ = ["LARGEST", "assigned", "made", "read_json", "setting_types", "value_of", "words_of"]

T = TypeVar("T")
LARGEST = 2**31 - 1  # of any count: what is larger fits no index of a kernel, and no memory
NONE = "none"
TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def assigned(assignments: Sequence[str], kinds: Sequence[type]) -> list[dict[str, Any]]:
    r"""For each dataclass the keywords that `KEY=VALUE` assignments give it.

    Raises:  UsageError for what is no assignment, for a key that is not there, with the nearest, or there twice, and for a
             value of another type.
    """
    hints = [setting_types(kind) for kind in kinds]
    found: list[dict[str, Any]] = [{} for _ in kinds]
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not (equals and key):
            raise UsageError(f"--set takes KEY=VALUE, got {assignment!r}.")
        home = next((k for k, known in enumerate(hints) if key in known), None)
        if home is None:
            raise _unknown(key, [name for known in hints for name in known])
        if key in found[home]:
            raise UsageError(f"--set gives {key} twice; leave one of them out.")
        found[home][key] = value_of(key, text, hints[home][key])
    return found


def made(kind: type[T], keywords: Mapping[str, Any]) -> T:
    """The dataclass with those settings; what it refuses itself is wrong usage. Raises: UsageError."""
    try:
        return kind(**keywords)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error


def read_json(kind: type[T], values: object) -> T:
    """The dataclass from a JSON object, with the same checks. Raises: UsageError."""
    hints = setting_types(kind)
    if not isinstance(values, dict):
        raise UsageError(f"the settings of {kind.__name__} must be an object, got {type(values).__name__}.")
    keywords = {}
    for key, value in values.items():
        if key not in hints:
            raise _unknown(key, hints)
        try:
            keywords[key] = _from_json(value, hints[key])
        except ValueError:
            raise UsageError(f"{key} is {_in_words(hints[key])}, got {value!r}.") from None
    return made(kind, keywords)


def setting_types(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields, by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def value_of(key: str, text: str, hint: Any) -> Any:
    """The text read as the type. Raises: UsageError that says what was asked and what came."""
    try:
        return _read(text.strip(), hint)
    except ValueError:
        raise UsageError(f"{key} is {_in_words(hint)}, got {text!r}.") from None


def words_of(value: object) -> str:
    """A value as `value_of` reads it."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(words_of, value))
    return str(value)


def _unknown(key: str, known: Sequence[str] | Mapping[str, Any]) -> UsageError:
    hint = did_you_mean(key, known) or f"; there is {', '.join(known)}."
    return UsageError(f"there is no setting {key!r}{hint}")


def _read(text: str, hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        return None if text.lower() == NONE and len(others) < len(arguments) else _first(_read, text, others)
    if origin is Literal:
        return _looked_up({words_of(word): word for word in arguments}, text)
    if origin is tuple:
        parts = text.split(",") if text else []
        return tuple(_read(part.strip(), each) for part, each in zip(parts, _parts(arguments, len(parts)), strict=True))
    if hint is bool:
        return _looked_up(TRUTHS, text.lower())
    if hint in (int, str):
        return hint(text)
    if hint is float:
        return _finite(float(text))
    raise TypeError(f"settings of the type {hint!r} cannot be read.")


def _from_json(value: object, hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _first(_from_json, value, arguments)
    if origin is tuple and isinstance(value, list):
        return tuple(_from_json(part, each) for part, each in zip(value, _parts(arguments, len(value)), strict=True))
    if origin is Literal and any(value is word or (type(value) is type(word) and value == word) for word in arguments):
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(float(value))
    if isinstance(hint, type) and type(value) is hint:
        return value
    raise ValueError("another type")


def _first(read: Any, value: object, hints: Sequence[Any]) -> Any:
    """Read as the first of the types that it can be read as."""
    for hint in hints:
        try:
            return read(value, hint)
        except ValueError:
            continue
    raise ValueError("none of the types")


def _looked_up(table: Mapping[str, Any], word: str) -> Any:
    if word not in table:
        raise ValueError("no such word")
    return table[word]


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def _parts(arguments: tuple[Any, ...], count: int) -> list[Any]:
    """The types of a tuple's parts: `tuple[int, ...]` or `tuple[int, float]`."""
    return [arguments[0]] * count if len(arguments) == 2 and arguments[1] is ... else list(arguments)


def _in_words(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(NONE if argument is type(None) else _in_words(argument) for argument in arguments)
    if origin is Literal:
        return " or ".join(map(words_of, arguments))
    if origin is tuple:
        every = len(arguments) == 2 and arguments[1] is ...
        return f"{WORDS[arguments[0]]} or several, with commas between" if every else ",".join(WORDS[each] for each in arguments)
    return WORDS[hint]
