r"""Says in words how weights are parametrized, and registers it again: this project's, some of torch's, and known classes.

{"weight_h": [{"class": "ctrnn.parts.Dale", ...}, {"torch": "weight_norm", "dim": 0}]}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.utils import parametrizations, parametrize

__all__ = ["described_parametrizations", "is_parametrized_within", "register"]

# Functions of torch.nn.utils.parametrizations, the classes that they register, and what each keeps of their arguments.
OF_TORCH: dict[str, tuple[str, dict[str, Callable[[Any], Any]]]] = {
    "_WeightNorm": ("weight_norm", {"dim": lambda part: None if part.dim == -1 else part.dim}),
    "_SpectralNorm": (
        "spectral_norm",
        {"n_power_iterations": lambda part: part.n_power_iterations, "eps": lambda part: part.eps, "dim": lambda part: part.dim},
    ),
    "_Orthogonal": (
        "orthogonal",
        {
            "orthogonal_map": lambda part: part.orthogonal_map.name,
            "use_trivialization": lambda part: hasattr(part, "base"),
        },
    ),
}
Describe = Callable[[object, str], Any]


def is_parametrized_within(module: nn.Module) -> bool:
    return any(parametrize.is_parametrized(part) for part in module.modules())


def described_parametrizations(module: nn.Module, describe: Describe) -> dict[str, Any]:
    """Describe those of a module's own tensors, by name, in their order. Raises: as `describe`."""
    if not parametrize.is_parametrized(module):
        return {}
    lists: Any = module.parametrizations
    return {name: [_described(part, f"{name}[{k}]", describe) for k, part in enumerate(parts)] for name, parts in lists.items()}


def _described(part: nn.Module, where: str, describe: Describe) -> Any:
    kind = type(part)
    if kind.__module__ == parametrizations.__name__ and kind.__name__ in OF_TORCH:
        function, kept = OF_TORCH[kind.__name__]
        return {"torch": function, **{name: read(part) for name, read in kept.items()}}
    return describe(part, where)


def register(module: nn.Module, description: object, rebuild: Callable[[object], Any]) -> None:
    """Register what `described_parametrizations` has said. Raises: ValueError for what names none."""
    if not isinstance(description, dict) or not all(isinstance(parts, list) for parts in description.values()):
        raise ValueError("its parametrizations are damaged")
    known = {function for function, _ in OF_TORCH.values()}
    for name, parts in description.items():
        for part in parts:
            if isinstance(part, dict) and "torch" in part:
                if part["torch"] not in known:
                    raise ValueError(f"it has a parametrization {str(part['torch'])[:80]!r}, which is none of torch's here")
                given = {key: value for key, value in part.items() if key != "torch"}
                make = _orthogonal if part["torch"] == "orthogonal" else getattr(parametrizations, part["torch"])
                make(module, name, **given)
                continue
            made = rebuild(part)
            if not isinstance(made, nn.Module):
                raise ValueError("it has a parametrization that is no module")
            # Whether sizes and dtypes stay as they are is checked with the weights.
            parametrize.register_parametrization(module, name, made, unsafe=True)


def _orthogonal(module: nn.Module, name: str, orthogonal_map: str, use_trivialization: bool) -> None:
    """Register what torch's `orthogonal` does, which would factor the weight: here it has no values yet."""
    weight = getattr(module, name)
    made = parametrizations._Orthogonal(weight, parametrizations._OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    vars(made)["right_inverse"] = lambda values: values
    is_first = not parametrize.is_parametrized(module, name)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    del vars(made)["right_inverse"]
    if use_trivialization and is_first:
        size = max(weight.shape[-2:])
        made.base = weight.new_empty(*weight.shape[:-2], size, size)
