r"""Many networks of the same code in one call: their weights stacked, (networks, ...), and everything done to all at once.

    ensemble([f_1, ..., f_N])(x) = stack([f_1(x), ..., f_N(x)])

By `torch.func.vmap` over `functional_call`: a product is one batched product instead of N, and where a sequence has a kernel that
is one call for all networks and samples. Seeds, or settings that are tensors, may differ; code, sizes and other settings not.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_flatten, tree_map

from ctrnn import checks
from discretize.compiler.recording import copied_with
from discretize.ensembles.alike import checked_networks
from discretize.fused.eligibility import networks_mapped, transform_reason

__all__ = ["Ensemble", "ensemble"]


class Ensemble(nn.Module):
    r"""Networks of one code with weights of their own, called like one of them.

    Args:    networks: modules of the same code, sizes, settings and hooks; their weights are copied. What may differ is the
             numbers in parameters and buffers.
    Call:    ensemble(*arguments, each=()): the arguments are those of one network, and all networks are given the same; those
             named in `each`, one name or several, have a first axis of networks more, and each network is given its own:
             `ensemble(x)`, `ensemble(xs, each="x")`, `ensemble(x, h_n, each="h_0")`. Outputs are stacked, (networks, ...).
             `ensemble.stats` tells what ran, as that of a `DiscreteRNN`; where torch cannot do all networks at once (solves that
             choose their steps, code that branches on values) they run one after another, and "engine_why" says so.
    Weights: under the names of the modules, after "stacked.", with a first axis of networks. `ensemble[k]` is a plain module with
             a copy of the weights of network k, `separate()` are all of them. Random numbers (dropout) are torch's, drawn for
             each network by itself; they are not those that a loop over the modules draws.
    Shape:   as the modules, with (networks, ...) before outputs, weights and the arguments in `each`.
    Raises:  TypeError, ValueError for modules that differ, naming which and in what; and at the call for what does not fit.
    Source:  this project; torch.func.stack_module_state for weights alone.
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        modules = checked_networks(networks)
        self.stacked = copied_with(modules[0], _stacked(modules))
        self._count = len(modules)

    def forward(self, *arguments: Any, each: str | Iterable[str] = (), **keywords: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            from discretize.compiling import run_uncompiled  # noqa: PLC0415 - loads the compiler

            return run_uncompiled(Ensemble.forward, self, *arguments, each=each, **keywords)
        if not isinstance(each, Iterable):
            raise TypeError(f'`each` must be names of arguments, as in `each="x"`, got {each!r}.')
        call = _Call(self, arguments, keywords, [each] if isinstance(each, str) else list(each))
        self._why = self._alone()
        if self._why is None:
            try:
                return self._together(call)
            except (RuntimeError, TypeError, ValueError) as error:
                # Either torch cannot map this code, or the call is wrong, which the first network then says by itself.
                said = str(error).strip().partition("\n")[0]
                self._why = f"networks run one after another, for torch cannot do all at once: {said}"
        return self._one_by_one(call)

    def _together(self, call: _Call) -> Any:
        def one(weights: dict[str, Tensor], arguments: Any, keywords: Any) -> tuple[Any, dict[str, Tensor]]:
            given = dict(weights)
            with networks_mapped():
                output = functional_call(self.stacked, weights, arguments, keywords)
            return output, {name: tensor for name, tensor in weights.items() if tensor is not given[name]}

        dims = (0, call.dims, call.keyword_dims)
        given = _tensors(self.stacked), call.arguments, call.keywords
        output, replaced = vmap(one, in_dims=dims, randomness="different")(*given)
        self._keep(replaced)
        return output

    def _one_by_one(self, call: _Call) -> Any:
        weights = {name: tensor.unbind() for name, tensor in _tensors(self.stacked).items()}
        outputs, after = [], []
        for k in range(len(self)):
            mine = {name: tensors[k] for name, tensors in weights.items()}
            after.append(mine)
            outputs.append(functional_call(self.stacked, mine, *call.of_network(k)))
        changed = [name for name, tensors in weights.items() if any(tensors[k] is not after[k][name] for k in range(len(self)))]
        self._keep({name: torch.stack([mine[name] for mine in after]) for name in changed})
        return tree_map(lambda *each: torch.stack(each), *outputs)

    def _keep(self, replaced: dict[str, Tensor]) -> None:
        """What a call has put in place of buffers, `self.mean = ...`; `functional_call` leaves it in the dict it was given."""
        if transform_reason():  # a transform's tensors do not outlive it
            return
        for name, tensor in replaced.items():
            owner, _, last = name.rpartition(".")
            setattr(self.stacked.get_submodule(owner), last, tensor)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, k: int) -> nn.Module:
        """Network k as a plain module, its weights copied."""
        if isinstance(k, bool) or not isinstance(k, int):
            raise TypeError(f"An ensemble is asked for one network, `ensemble[k]`, got {k!r}; `separate()` gives all.")
        if not -len(self) <= k < len(self):
            raise IndexError(f"There are {len(self)} networks, got {k}.")
        weights = _tensors(self.stacked).values()
        return copied_with(self.stacked, {id(each): _like(each, each.detach()[k].clone()) for each in weights})

    def __iter__(self) -> Iterator[nn.Module]:
        return (self[k] for k in range(len(self)))

    def separate(self) -> list[nn.Module]:
        """Plain modules with copies of the weights."""
        return list(self)

    @property
    def networks(self) -> list[nn.Module]:
        """As `separate()`; what the constructor takes."""
        return self.separate()

    @property
    def stats(self) -> dict[str, Any]:
        """What ran at the last call: "engine" and "engine_why" of the modules, and why they ran one by one if so."""
        found = [vars(part).get("stats") or {} for part in self.stacked.modules()]
        engines = dict.fromkeys(each["engine"] for each in found if "engine" in each)
        reasons = dict.fromkeys([self._why, *(each.get("engine_why") for each in found)])
        return {"engine": ", ".join(engines) or None, "engine_why": "; ".join(filter(None, reasons)) or None}

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        r"""Clip the gradient of each network by its own norm, as `torch.nn.utils.clip_grad_norm_` that of one; before the
        optimizer's step.

        Args:    max_norm: of a network's gradient, all its parameters together.
        Shape:   -> the norms before, (networks,).
        """
        largest = checks.positive_number("max_norm", max_norm)
        gradients = [weight.grad for weight in self.parameters() if weight.grad is not None]
        if not gradients:
            return torch.zeros(len(self))
        norms = torch.stack([torch.linalg.vector_norm(each.reshape(len(self), -1), dim=1) for each in gradients]).norm(dim=0)
        scale = (largest / (norms + 1e-6)).clamp(max=1)  # as in torch
        for each in gradients:
            each.mul_(scale.to(each).reshape(-1, *[1] * (each.dim() - 1)))
        return norms

    def extra_repr(self) -> str:
        return f"{len(self)} networks"

    _why: str | None = None  # the networks ran one by one

    def _alone(self) -> str | None:
        """Why networks run one by one, where that is known before."""
        for part in self.stacked.modules():
            if getattr(getattr(part, "settings", None), "adaptive", False):
                return f"networks run one after another: {part.settings.method} chooses the steps of each by its states"  # type: ignore[union-attr]
        return None


class _Call:
    """The arguments of a call, and which of them have an axis of networks: 0 for those, None for those that all share."""

    def __init__(self, ensemble: Ensemble, arguments: tuple[Any, ...], keywords: dict[str, Any], each: list[str]) -> None:
        self.arguments, self.keywords = arguments, keywords
        parameters = inspect.signature(ensemble.stacked.forward).parameters
        places = [name for name, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
        known = [*parameters, *(key for key in keywords if key not in parameters)]
        for name in each:
            if name not in known:
                raise ValueError(f"`each` names {name!r}, which is no argument of the modules; these are {', '.join(known)}.")
        named = [*zip(places, arguments, strict=False), *keywords.items()]
        for name, value in named:
            _check_leaves(name, value, len(ensemble) if name in each else None)
        own = {name for name, value in named if name in each and value is not None}
        of_places = tuple(0 if name in own else None for name in places[: len(arguments)])
        self.dims = of_places + (None,) * (len(arguments) - len(of_places))
        self.keyword_dims = {key: 0 if key in own else None for key in keywords}

    def of_network(self, k: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def mine(value: Any, axis: int | None) -> Any:
            return value if axis is None else tree_map(lambda tensor: tensor[k], value)

        arguments = tuple(mine(*each) for each in zip(self.arguments, self.dims, strict=True))
        return arguments, {key: mine(value, self.keyword_dims[key]) for key, value in self.keywords.items()}


def _check_leaves(name: str, value: Any, networks: int | None) -> None:
    if isinstance(value, PackedSequence):
        raise TypeError(f"`{name}` is a PackedSequence, and an ensemble reads padded samples; give those and `lengths`.")
    if networks is None or value is None:
        return
    for leaf in tree_flatten(value)[0]:
        if not isinstance(leaf, Tensor) or leaf.dim() == 0 or len(leaf) != networks:
            came = f"shape {tuple(leaf.shape)}" if isinstance(leaf, Tensor) else f"a {type(leaf).__name__}"
            raise ValueError(
                f"`{name}` is named in `each`: it needs a tensor with a first axis of {networks} networks, got {came}."
            )


def ensemble(networks: Iterable[nn.Module]) -> Ensemble:
    """Networks of the same code, in one call; see `Ensemble`."""
    return Ensemble(networks)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _stacked(modules: list[nn.Module]) -> dict[int, Tensor]:
    """By the ids of the first module's tensors, those of all."""
    every = [_tensors(module) for module in modules]
    return {id(old): _like(old, torch.stack([each[name].detach() for each in every])) for name, old in every[0].items()}


def _like(old: Tensor, new: Tensor) -> Tensor:
    return nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new
