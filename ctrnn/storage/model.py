r"""Models in files: what they are in words, their weights as safetensors; nothing in a file is executed.

ctrnn.save("model.safetensors", model)          model = ctrnn.load("model.safetensors")
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.storage.comparison import difference, named_tensors, overlap
from ctrnn.storage.description import ROOTS, Known, described, rebuilt
from ctrnn.storage.tensors import check_dtypes, read_tensors, write_tensors

__all__ = ["load", "save"]

FORMAT = 1  # one more where `load` of a former version would misread the file; former ones are read, tests keep a file of each
MOST_SAID = 400  # characters of what is wrong with a file, which may hold anything
INSTEAD = "save its `state_dict()` and build it yourself."
KEEP = (
    "A file says the arguments of a constructor, as they are kept under their names, and the tensors that are registered: keep "
    "each argument as it was given, and what is set later as a buffer."
)
KEYS = {"format": int, "model": dict, "frozen": list, "shared": dict, "training": bool, "others": list}


def save(path: str | os.PathLike[str] | None, model: nn.Module, known: Known | None = None) -> None:
    r"""Write a model into one file, whole or not at all: its classes and their settings, and its weights, as they are.

    Args:    path: the file, which is replaced; None writes none, and only says, by an error, whether one could be written;
             model: a field, a part, a cell, a sequence module, layers, a `SequenceModel`, and what of these is made of one
             another and of torch's Linear, Embedding, LayerNorm, Dropout, Sequential and activations; known: classes of your own
             by the names that the file has for them, as `load` is given them again. Such a class keeps each argument of its
             constructor under the argument's name.
    Raises:  TypeError for what a file cannot name, or say, with the way out, and where what `load` would make of it differs from
             the model in a class, an attribute, a flag or a hook; OSError.
    """
    if isinstance(path, nn.Module):
        raise TypeError("`save` takes the path first, `ctrnn.save(path, model)`; torch.save takes what it saves first.")
    named = _checked(known)
    checks.instance("model", model, nn.Module)
    try:
        words = described(model, named)
        weights, text = _saved(model, words)
        made = _made(text, {name: tensor.detach() for name, tensor in weights.items()}, named)  # as `load` will
    except ValueError as error:
        raise TypeError(
            f"`model` was changed after it was made, or its constructor needs values: a file cannot say how ({error}); {INSTEAD}"
        ) from error
    if other := difference(model, made, tuple(ROOTS)):
        raise TypeError(f"`model` would come back as another one: {other}. {KEEP} Or {INSTEAD}")
    if path is not None:
        write_tensors(Path(path), weights, text)


def _saved(model: nn.Module, words: object) -> tuple[dict[str, Tensor], str]:
    """Return the tensors and the text of a file. Raises: TypeError for tensors that a file cannot hold."""
    weights, shared = _weights(model)
    parts = model.named_modules(remove_duplicate=False)
    others = [name for name, part in parts if part.training != model.training]
    frozen = [name for name, tensor in weights.items() if isinstance(tensor, nn.Parameter) and not tensor.requires_grad]
    about = {"format": FORMAT, "model": words, "frozen": frozen, "shared": shared, "training": model.training, "others": others}
    return weights, json.dumps(about)


def _weights(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return tensors by the first of their names, and for each other name that first one. Raises: TypeError."""
    weights: dict[str, Tensor] = {}
    shared: dict[str, str] = {}
    first: dict[int, str] = {}
    for name, tensor in named_tensors(model).items():
        if type(tensor) not in (Tensor, nn.Parameter) or tensor.is_meta or tensor.layout != torch.strided:
            raise TypeError(f"`{name}` is no tensor with values, and cannot be saved.")
        if id(tensor) in first:
            shared[name] = first[id(tensor)]
            continue
        for other, known in weights.items():
            if overlap(known, tensor):
                raise TypeError(
                    f"`{other}` and `{name}` are views of the same memory, which they would not be in what is loaded; register "
                    "one tensor under both names, or compute one of the other in `forward`."
                )
        first[id(tensor)], weights[name] = name, tensor
    check_dtypes(weights)
    return weights, shared


def load(path: str | os.PathLike[str], known: Known | None = None) -> nn.Module:
    r"""Read the model that `save` has written, on the CPU, with the dtypes it had.

    Args:    path: a file, perhaps from somebody else: only public classes of this project and a few of torch.nn are made of what
             it says, and those that are `known`.
    Raises:  OSError for what cannot be read, links and pipes among them; ValueError for what is damaged, is of a newer version,
             or holds a class that is not known.
    """
    named = _checked(known)
    try:
        return _made(*read_tensors(Path(path)), named)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {str(error)[:MOST_SAID].rstrip('.')}.") from error


def _made(text: str, tensors: dict[str, Tensor], known: Known) -> nn.Module:
    """Make the model of a file's text and tensors. Raises: ValueError."""
    about = _about(text)
    model = rebuilt(about["model"], known)
    if not isinstance(model, nn.Module):
        raise ValueError("it holds no model")
    shared = {name: of for name, of in about["shared"].items() if isinstance(of, str) and of in tensors}
    _check_names(model, tensors | {name: tensors[of] for name, of in shared.items()})
    _take(model, tensors, shared, about["frozen"])
    model.train(about["training"])
    for name, part in model.named_modules():
        if name in about["others"]:
            part.training = not about["training"]
    return model


def _checked(known: object) -> Known:
    if known is None:
        return {}
    if not isinstance(known, Mapping) or not all(isinstance(n, str) and isinstance(kind, type) for n, kind in known.items()):
        raise TypeError(f"`known` must be a dictionary of classes by their names, {{'MyField': MyField}}, got {known!r}.")
    return known


def _about(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and type(found.get("format")) is int and found["format"] > FORMAT:
        raise ValueError(
            f"a newer ctrnn has written it, in format {found['format']}, and this one reads {FORMAT}; "
            "`pip install --upgrade ctrnn-ode`"
        )
    found = {"others": [], **found} if isinstance(found, dict) else {}  # parts in another mode, of which early files say nothing
    if any(type(found.get(key)) is not kind for key, kind in KEYS.items()):
        raise ValueError("its description is damaged")
    return found


def _check_names(model: nn.Module, there: Mapping[str, Tensor]) -> None:
    wanted = named_tensors(model)
    if missing := [name for name in wanted if name not in there]:
        raise ValueError(f"its model has {missing[0]!r}, and there is no such tensor")
    if more := [name for name in there if name not in wanted]:
        raise ValueError(f"it has a tensor {more[0][:80]!r}, and its model none")
    for name, tensor in wanted.items():
        if there[name].shape != tensor.shape:
            raise ValueError(f"its tensor {name!r} is {tuple(there[name].shape)}, and {tuple(tensor.shape)} in its model")


def _take(model: nn.Module, tensors: dict[str, Tensor], shared: Mapping[str, str], frozen: list[str]) -> None:
    """Put the tensors in their places; shared ones are one parameter again."""
    placed: dict[str, Tensor] = {}
    for name in named_tensors(model):
        source = shared.get(name, name)
        owner_name, _, leaf = name.rpartition(".")
        owner = model.get_submodule(owner_name)
        if source not in placed:
            value = tensors[source]
            if leaf in owner._parameters:
                if not value.is_floating_point() and source not in frozen:
                    raise ValueError(f"its parameter {name!r} is {value.dtype}")
                value = nn.Parameter(value, requires_grad=source not in frozen)
            placed[source] = value
        setattr(owner, leaf, placed[source])
