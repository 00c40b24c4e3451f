r"""Many networks of the same code in one call: their weights stacked, (networks, ...), and everything done to all at once.

    ensemble([f_1, ..., f_N])(x) = stack([f_1(x), ..., f_N(x)])

By `torch.func.vmap` over `functional_call`: a product is one batched product instead of N, and where a sequence has a kernel that
is one call for all networks and samples. Seeds, or settings that are tensors, may differ; code, sizes and other settings not.
"""

from __future__ import annotations

import inspect
import itertools
import math
import os
from collections.abc import Iterable, Iterator
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils.rnn import PackedSequence

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.own_code import HOOKS
from discretize import compat
from discretize.ensembles.shared import (
    RANDOM_NUMBERS,
    SharedState,
    buffers_of,
    change_words,
    check_attached,
    checked_networks,
    overlap,
    parameter_names,
    tensors_of,
)
from discretize.kernels.eligibility import is_plain, networks_mapped, transform_reason
from discretize.kernels.record.copies import copied_with
from discretize.kernels.record.guards import attached
from discretize.kernels.shown import read_of_networks
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.along import HeldProblem

if TYPE_CHECKING:
    from discretize.kernels.plan import ModulePlan

__all__ = ["Ensemble", "ensemble"]

MOST_UNPLANNED = 4  # of which no other is tried to be planned: it takes as long as a call


class Ensemble(AnsweredInit, nn.Module):
    r"""Calls networks of one code, each with its own weights, like one of them.

    Args:    networks: modules of the same code, sizes, settings and hooks; their weights are copied. What may differ is the
             numbers in parameters and buffers. Each network has its own afterwards, also where the modules shared some.
    Call:    ensemble(*arguments, each=()): the arguments are those of one network, and all networks are given the same; those
             named in `each`, one name or several, have a first axis of networks more, and each network is given its own:
             `ensemble(x)`, `ensemble(xs, each="x")`, `ensemble(x, h_n, each="h_0")`. Outputs are stacked, (networks, ...).
             `ensemble.stats` tells what ran, as that of a `DiscreteRNN`; where torch cannot do all networks at once (solves that
             choose their steps, code that branches on values) they run one after another, and "engine_why" says so.
    Weights: under the names of the modules, after "stacked.", with a first axis of networks. `ensemble[k]` is a plain module with
             a copy of the weights of network k, `separate()` are all of them. Random numbers (dropout) are torch's, drawn for
             each network by itself; they are not those that a loop over the modules draws. Networks that draw by Python's or
             NumPy's global `random` run one after another, as in a loop. Noise is that of its seed:
             with `seed=7` all networks have the same, with keys (networks, batch) and `each="seed"` each its own.
    State:   buffers that a call writes or replaces are each network's own, as in a loop over the networks. All else that modules
             keep is shared; a call that changes it (`self.last = h`, a counter, a list, a hook's closure, an argument's default,
             a global that their code names) is refused by name. Globals of installed packages are left to those, and so is what
             an executor of `concurrent.futures` keeps of its work, which must have ended when the call does.
    Memory:  outputs of 4 MiB and more lie in memory that later calls use again once no tensor reads it; as with tensors of
             `torch.from_numpy`, `resize_` cannot make their storage larger.
    Shape:   as the modules, with (networks, ...) before outputs, weights and the arguments in `each`.
    Raises:  TypeError, ValueError for modules that differ or cannot be stacked (views of weights, locks, files), naming which and
             in what; and at the call for what does not fit, and for state that is in no buffer.
    Source:  this project; torch.func.stack_module_state for weights alone.
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        modules = checked_networks(networks)
        self.stacked: nn.Module = copied_with(modules[0], *_stacked(modules))
        self._count = len(modules)

    def forward(self, *arguments: object, each: str | Iterable[str] = (), **keywords: object) -> Any:
        if torch.compiler.is_dynamo_compiling():
            from discretize.compiling import run_uncompiled  # noqa: PLC0415 - loads the compiler

            return run_uncompiled(Ensemble.forward, self, *arguments, each=each, **keywords)
        if not isinstance(each, Iterable):
            raise TypeError(f'`each` must be names of arguments, as in `each="x"`, got {each!r}.')
        each = [each] if isinstance(each, str) else list(each)
        if len(arguments) == 1 and not keywords and (ran := self._as_planned(arguments[0], each)) is not None:
            return ran
        with self._turns:
            return self._newly_run(arguments, keywords, each)

    def _newly_run(self, arguments: tuple[object, ...], keywords: dict[str, object], each: list[str]) -> Any:
        """Run a call as if none had been before it: while it runs the module has the weights of a network in their places."""
        call = _Call(self, arguments, keywords, each)
        if self._refused:
            raise ValueError(self._refused)
        self._why = self._alone()
        if self._why is None:
            shared = SharedState(self.stacked, writes=True)
            try:
                with shared:
                    output, buffers = self._together(call)
            except (RuntimeError, TypeError, ValueError) as error:
                # Either torch cannot map this code, or the call is wrong, which the first network then says by itself.
                said = str(error).strip().partition("\n")[0]
                self._why = f"networks run one after another, for torch cannot do all at once: {said}"
            if shared.changed == RANDOM_NUMBERS:
                self._why = "networks run one after another, for each draws by Python's or NumPy's `random`"
            else:
                self._refuse(shared)
                if shared.filled:
                    self._look_again(call)
        if self._why is not None:
            output, buffers = self._one_by_one(call)
        self._keep(buffers)
        if self._why is None and len(arguments) == 1 and not keywords and (plan := self._plan_for(*arguments)):
            self._plan = plan.after(self._plan)
        return output

    def _look_again(self, call: _Call) -> None:
        """Refuse a call that writes into what was not there before it, by running it once more."""
        again = SharedState(self.stacked, writes=True)
        devices = {tensor.device for tensor in (*self.parameters(), *self.buffers()) if tensor.device.type == "cuda"}
        with torch.random.fork_rng(devices), again:
            self._together(call)
        self._refuse(again)

    def _plan_for(self, x: object) -> ModulePlan | None:
        """How later calls like one that has run may run, without `vmap`: all networks in one run of a compiled kernel."""
        rnn = self.stacked
        if not isinstance(rnn, DiscreteRNN) or rnn.noisy or rnn.stats.get("engine") != "compiled":
            return None
        if not isinstance(x, Tensor) or x.dim() < 3 or self._unplanned == MOST_UNPLANNED:
            return None
        from discretize.kernels.plan import plan_of_networks  # noqa: PLC0415 - loads kernels

        xs = x.transpose(-3, -2) if rnn.batch_first else x
        starts = xs.new_empty(len(self), xs.shape[-2], rnn.field.state_size)
        plan = plan_of_networks(rnn, HeldProblem(rnn.field, rnn.step, xs, starts, rnn.dt, rnn.substeps), rnn.fused, rnn.stats)
        self._unplanned = 0 if plan else self._unplanned + 1
        return plan

    def _as_planned(self, x: object, each: list[str]) -> tuple[Tensor, Tensor] | None:
        """Run a call as one before it was; None for one that is not like it, or is to be refused."""
        plan, axes = self._plan, 4 if each else 3
        rnn: Any = self.stacked
        if plan is None or each not in ([], ["x"]) or self._refused or type(x) is not Tensor or x.dim() != axes:
            return None
        if (each and len(x) != len(self)) or torch.compiler.is_compiling() or any(vars(rnn)[name] for name in HOOKS):
            return None
        xs = x.transpose(-3, -2) if rnn.batch_first else x
        plan = plan.like(xs)
        if plan is None or not (plan.is_of(rnn) and plan.takes(plan.field, xs) and math.isfinite(xs.detach().sum().item())):
            return None
        if looped := plan.looped(xs):
            (output, ends), rnn.stats = looped
        else:
            h0 = xs.new_zeros(len(self), xs.shape[-2], plan.field.state_size)
            if (found := plan.run(xs, h0)) is None:
                return None
            states, rnn.stats = found
            output, ends = read_of_networks(states, plan.field.hidden_size)
        rnn.watch.calls += 1
        return output.transpose(1, 2) if rnn.batch_first else output, ends

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_plan"}

    def _together(self, call: _Call) -> tuple[Any, _Buffers]:
        given, after = self._with_own_buffers(self._weights()), _Buffers()

        def one(weights: dict[str, Tensor], arguments: object, keywords: object) -> tuple[Any, dict[str, Tensor]]:
            with networks_mapped():
                output = after.of_call(self.stacked, weights, arguments, keywords)
            return output, {name: tensor for name, tensor in after.tensors.items() if tensor is not None}

        dims = (0, call.dims, call.keyword_dims)
        output, filled = vmap(one, in_dims=dims, randomness="different")(
            self._with_own_buffers(self._weights()), call.arguments, call.keywords
        )
        after.tensors.update(filled)
        after.refuse_views(given)
        return output, after

    def _one_by_one(self, call: _Call) -> tuple[Any, _Buffers]:
        weights = self._weights()
        parts, outputs, each = {id(tensor): tensor.unbind() for tensor in weights.values()}, [], []
        for k in range(len(self)):
            after, shared = _Buffers(), SharedState(self.stacked, writes=False)  # into what all are views of
            mine = self._with_own_buffers({name: parts[id(tensor)][k] for name, tensor in weights.items()})
            with shared:
                outputs.append(after.of_call(self.stacked, mine, *call.of_network(k)))
            self._refuse(shared)
            each.append(after)
        return compat.tree_map(lambda *each: torch.stack(each), *outputs), _Buffers.stacked(each)

    def _weights(self) -> dict[str, Tensor]:
        tensors = tensors_of(self.stacked)
        for name, tensor in tensors.items():
            if tensor.dim() == 0 or len(tensor) != len(self):
                raise ValueError(f"`stacked.{name}` needs a first axis of {len(self)} networks, got shape {tuple(tensor.shape)}.")
        return tensors

    def _with_own_buffers(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Copy buffers: a call that fails writes into none, no network into another's."""
        if transform_reason():  # inside of which torch itself refuses to write into them
            return weights
        learned = parameter_names(self.stacked)
        copies = {id(tensor): tensor if name in learned else tensor.clone() for name, tensor in weights.items()}
        return {name: copies[id(tensor)] for name, tensor in weights.items()}

    def _keep(self, after: _Buffers) -> None:
        """Keep what a call has written into buffers, or put in their place (`self.mean = ...`)."""
        if transform_reason():  # a transform's tensors do not outlive it
            return
        for name, tensor in after.tensors.items():
            buffers, key = buffers_of(self.stacked, name), name.rpartition(".")[2]
            before = buffers.get(key)
            if tensor is None or before is None or name in after.replaced:
                buffers[key] = tensor if tensor is None else tensor.contiguous()
            elif not before.is_meta and not (is_plain(tensor) and torch.equal(before, tensor)):
                before.copy_(tensor)

    def _refuse(self, shared: SharedState) -> None:
        """Raise if a call changed what networks share; from then on always, if that could not be undone."""
        if not shared.changed:
            return
        name, learned = shared.changed, shared.changed in parameter_names(self.stacked)
        said = (
            f"A call of the networks writes into the parameter `{name}`, and they run one by one, or did not end at once; "
            "compute what is used by a parametrization of torch.nn.utils.parametrize, or call the networks in a loop."
            if learned
            else change_words(name)
        )
        self._refused = said if shared.lasting else None
        raise ValueError(said)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, k: int) -> nn.Module:
        """Return network k as a plain module, its weights copied."""
        if isinstance(k, bool) or not isinstance(k, int):
            raise TypeError(f"An ensemble is asked for one network, `ensemble[k]`, got {k!r}; `separate()` gives all.")
        if not -len(self) <= k < len(self):
            raise IndexError(f"There are {len(self)} networks, got {k}.")
        weights = tensors_of(self.stacked).values()
        return copied_with(self.stacked, weights, [_like(each, each.detach()[k].clone()) for each in weights])

    def __iter__(self) -> Iterator[nn.Module]:
        return (self[k] for k in range(len(self)))

    def separate(self) -> list[nn.Module]:
        """Return plain modules with copies of the weights."""
        return list(self)

    @property
    def networks(self) -> list[nn.Module]:
        """The networks as `separate()` gives them, which the constructor takes."""
        return self.separate()

    @property
    def stats(self) -> dict[str, Any]:
        """What ran at the last call: "engine" and "engine_why" of the modules, and why they ran one by one if so."""
        parts = [vars(part).get("stats") or {} for part in self.stacked.modules()]
        engines = dict.fromkeys(each["engine"] for each in parts if "engine" in each)
        reasons = dict.fromkeys([self._why, *(each.get("engine_why") for each in parts)])
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

    _turns: ClassVar = RLock()  # of threads
    _plan: ModulePlan | None = None
    _unplanned: int = 0  # calls in a row
    _why: str | None = None  # the networks ran one by one
    _refused: str | None = None

    def _alone(self) -> str | None:
        """Return why networks run one by one, if that is known before."""
        for part in self.stacked.modules():
            if getattr(getattr(part, "settings", None), "adaptive", False):
                return f"networks run one after another: {part.settings.method} chooses the steps of each by its states"  # type: ignore[union-attr]
            if getattr(part, "events", ()):
                return "networks run one after another: events are found by the numbers of each"
        return None


class _Buffers:
    """Holds buffers after a call by name, None for one that is gone; and which of them are other tensors than before."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor | None] = {}
        self.replaced: set[str] = set()

    def of_call(self, module: nn.Module, weights: dict[str, Tensor], arguments: object, keywords: Any) -> Any:
        """Return the module's output with these tensors. Raises: ValueError if its code replaces parameters by others."""
        given, places = dict(weights), {name: _place(tensor) for name, tensor in weights.items()}
        own = {name: attached(tensor) for name, tensor in tensors_of(module).items()}
        for name, tensor in weights.items():
            vars(tensor).update(own[name])
        output = functional_call(module, weights, arguments, keywords, tie_weights=False)
        for name, tensor in given.items():
            check_attached(name, own[name], attached(tensor))
        self.replaced = {name for name, tensor in weights.items() if tensor is not given[name] or _place(tensor) != places[name]}
        learned = parameter_names(module)
        if wrong := sorted(learned & self.replaced):
            raise ValueError(
                f"A call of the networks puts another tensor in the place of the parameter `{wrong[0]}`; write into it instead, "
                "under `torch.no_grad()`, or compute what is used by a parametrization of torch.nn.utils.parametrize."
            )
        self.tensors = {name: tensor for name, tensor in weights.items() if name not in learned}
        for name, tensor in tensors_of(module).items():
            if name not in weights and name not in learned:  # there was none
                self.tensors[name] = tensor
                self.replaced.add(name)
                buffers_of(module, name)[name.rpartition(".")[2]] = None
        self.refuse_views(weights)
        return output

    def refuse_views(self, weights: dict[str, Tensor]) -> None:
        """Raise ValueError if the call has made a buffer a view of another one or of a parameter."""
        every = {**weights, **self.tensors}
        for name, other in itertools.product(sorted(self.replaced), every):
            mine, theirs = every[name], every[other]
            if name != other and mine is not None and theirs is not None and overlap(mine, theirs):
                raise ValueError(
                    f"A call of the networks makes `{name}` and `{other}` views of the same memory; put a copy there, `.clone()`."
                )

    @classmethod
    def stacked(cls, each: list[_Buffers]) -> _Buffers:
        """Stack the buffers of all networks."""
        ensemble = cls()
        ensemble.replaced = set().union(*(one.replaced for one in each))
        for name in dict.fromkeys(name for one in each for name in one.tensors):
            tensors = [one.tensors.get(name) for one in each]
            there = [tensor for tensor in tensors if tensor is not None]
            if there and (len(there) < len(tensors) or len({(tensor.shape, tensor.dtype) for tensor in there}) > 1):
                words = ", ".join("none" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in tensors)
                raise ValueError(f"The networks' buffers `{name}` cannot be stacked after a call, their sizes are {words}.")
            ensemble.tensors[name] = torch.stack(there) if there else None
        return ensemble


def _place(tensor: Tensor | None) -> int | None:
    """Return where a tensor's memory is, which `tensor.data = ...` changes."""
    return tensor.untyped_storage()._cdata if tensor is not None and tensor.layout == torch.strided and is_plain(tensor) else None


class _Call:
    """Holds the arguments of a call, and their axis of networks: 0, or None for those that all share."""

    def __init__(self, ensemble: Ensemble, arguments: tuple[object, ...], keywords: dict[str, Any], each: list[str]) -> None:
        self.arguments, self.keywords = arguments, keywords
        parameters = inspect.signature(ensemble.stacked.forward).parameters
        places = [name for name, p in parameters.items() if p.kind not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)]
        known = [*parameters, *(key for key in keywords if key not in parameters)]
        for name in each:
            if name not in known:
                raise ValueError(f"`each` names {name!r}, which is no argument of the modules; these are {', '.join(known)}.")
        named = [*zip(places, arguments, strict=False), *keywords.items()]
        if len(arguments) > len(places) and (nameless := [name for name in each if name not in dict(named)]):
            raise ValueError(f"`each` names {nameless[0]!r}, which is given by position; give it by name.")
        for name, value in named:
            _check_leaves(name, value, len(ensemble) if name in each else None)
        own = {name for name, value in named if name in each and value is not None}
        of_places = tuple(0 if name in own else None for name in places[: len(arguments)])
        self.dims = of_places + (None,) * (len(arguments) - len(of_places))
        self.keyword_dims = {key: 0 if key in own else None for key in keywords}

    def of_network(self, k: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def mine(value: object, axis: int | None) -> Any:
            return value if axis is None else compat.tree_map(lambda tensor: tensor[k], value)

        arguments = tuple(mine(*each) for each in zip(self.arguments, self.dims, strict=True))
        return arguments, {key: mine(value, self.keyword_dims[key]) for key, value in self.keywords.items()}


def _check_leaves(name: str, value: object, networks: int | None) -> None:
    if isinstance(value, PackedSequence):
        raise TypeError(f"`{name}` is a PackedSequence, and an ensemble reads padded samples; give those and `lengths`.")
    if networks is None or value is None:
        return
    for leaf in compat.tree_flatten(value)[0]:
        if not isinstance(leaf, Tensor) or leaf.dim() == 0 or len(leaf) != networks:
            came = f"shape {tuple(leaf.shape)}" if isinstance(leaf, Tensor) else f"a {type(leaf).__name__}"
            raise ValueError(
                f"`{name}` is named in `each`: it needs a tensor with a first axis of {networks} networks, got {came}."
            )


def ensemble(networks: Iterable[nn.Module]) -> Ensemble:
    """Return an `Ensemble` of networks of the same code."""
    return Ensemble(networks)


def _stacked(modules: list[nn.Module]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors of the first module, and those of all modules stacked."""
    # In lists: torch asks for one class of the outermost modules, and a parametrization makes a class for each.
    lists = [nn.ModuleList([module]) for module in modules]
    old = dict(itertools.chain(lists[0].named_parameters(), lists[0].named_buffers()))
    parameters, buffers = stack_module_state(lists)
    stacked = parameters | buffers
    return [old[name] for name in stacked], [_like(old[name], tensor) for name, tensor in stacked.items()]


def _like(old: Tensor, new: Tensor) -> Tensor:
    return nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new


def _after_fork() -> None:
    Ensemble._turns = RLock()  # the thread that held it is not in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
