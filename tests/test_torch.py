"""The table of docs/torch.md: every tool of torch, with a cell, a sequence and solves, does what stands there."""

import copy
import functools
import io
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import torch.utils.checkpoint
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap
from torch.nn.utils.parametrize import register_parametrization

import ctrnn
from discretize import BackwardEuler, ContinuousRNN, DiscreteCell, DiscreteRNN, Taylor2, compat, integrate, unroll

TABLE = Path(__file__).resolve().parents[1] / "docs" / "torch.md"
TIME, BATCH, INPUT, HIDDEN = 4, 3, 2, 3


def field(seed=0, **settings):
    return ctrnn.gated(INPUT, HIDDEN, generator=torch.Generator().manual_seed(seed), **{"dtype": torch.float64, **settings})


MODELS = {
    "cell": DiscreteCell,
    "sequence": DiscreteRNN,
    "fixed steps": lambda f: ContinuousRNN(f, method="rk4"),
    "adaptive steps": lambda f: ContinuousRNN(f, rtol=1e-3, atol=1e-3),
}


def sample(kind, batch=BATCH, time=TIME):
    x = torch.randn(time, batch, INPUT, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    return x[0] if kind == "cell" else x


def out(model, x):
    found = model(x)
    return found if isinstance(found, torch.Tensor) else found[0]


def assert_close(found, expected, tolerance=1e-12):
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


def loss(model, weights, x):
    return out_of(model, weights, x).square().sum()


def out_of(model, weights, x):
    found = functional_call(model, weights, (x,))
    return found if isinstance(found, torch.Tensor) else found[0]


def weights_of(model):
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def gradients(model, x):
    return torch.autograd.grad(out(model, x).square().sum(), list(model.parameters()))


def finite_difference(f, x, direction, width=1e-6):
    return (f(x + width * direction) - f(x - width * direction)) / (2 * width)


def samples_of(kind):
    return {"in_dims": 0 if kind == "cell" else 1, "out_dims": 0 if kind == "cell" else 1}


# The items


def state_dict(kind, model, x):
    other = MODELS[kind](field(seed=1))
    assert not torch.allclose(out(other, x), out(model, x))
    other.load_state_dict(model.state_dict())
    assert_close(out(other, x), out(model, x), 0)


def copied(kind, model, x):
    assert_close(out(copy.deepcopy(model), x), out(model, x), 0)


def pickled(kind, model, x):
    file = io.BytesIO(pickle.dumps(model))
    assert_close(out(pickle.load(file), x), out(model, x), 0)


def hooks_outside(kind, model, x):
    seen = []
    model.register_forward_hook(lambda *given: seen.append(given))
    out(model, x)
    assert len(seen) == 1


def hooks_inside(kind, model, x):
    model.field.register_forward_hook(lambda *given: None)
    out(model, x)


def called_functionally(kind, model, x):
    doubled = {name: 2 * weight for name, weight in weights_of(model).items()}
    other = copy.deepcopy(model)
    other.load_state_dict(doubled)
    assert_close(out_of(model, doubled, x), out(other, x))


def checkpointed(kind, model, x):
    found = torch.utils.checkpoint.checkpoint(lambda x: out(model, x), x, use_reentrant=False).square().sum()
    assert_close(torch.autograd.grad(found, list(model.parameters())), gradients(model, x))


def mapped(kind, model, x):
    one = (lambda x: out(model, x)) if kind == "cell" else (lambda x: out(model, x[:, None])[:, 0])
    assert_close(vmap(one, **samples_of(kind))(x), out(model, x))


def gradient(kind, model, x):
    found = grad(lambda weights: loss(model, weights, x))(weights_of(model))
    assert_close(list(found.values()), gradients(model, x))


def per_sample(kind, model, x):
    axis = samples_of(kind)["in_dims"]

    def of_one(weights, x):
        return loss(model, weights, x.unsqueeze(axis))

    found = vmap(grad(of_one), in_dims=(None, axis))(weights_of(model), x)
    assert_close([one[1] for one in found.values()], list(gradients(model, x.narrow(axis, 1, 1))))


def per_sample_by_jacrev(kind, model, x):
    axis = samples_of(kind)["in_dims"]
    axes = [k for k in range(x.dim()) if k != axis]
    found = jacrev(lambda weights: out_of(model, weights, x).square().sum(axes))(weights_of(model))
    # Alone, a sample of an adaptive solve has the same steps, but for rounding.
    assert_close([one[1] for one in found.values()], list(gradients(model, x.narrow(axis, 1, 1))))


def forwards(kind, model, x):
    v = torch.cos(x)
    tangent = jvp(lambda x: out(model, x), (x,), (v,))[1]
    cotangent = torch.sin(tangent)
    (back,) = torch.autograd.grad(out(model, x.requires_grad_()), x, cotangent)
    assert_close((tangent * cotangent).sum(), (back * v).sum(), 1e-10)


def backwards(kind, model, x):
    v = torch.cos(x)
    found = jacrev(lambda x: out(model, x))(x)
    assert_close(torch.tensordot(found, v, v.dim()), jvp(lambda x: out(model, x), (x,), (v,))[1], 1e-10)


def second(kind, model, x):
    x = x[:2]

    def of(x):
        return out(model, x).square().sum()

    v = torch.cos(x)
    assert_close(torch.tensordot(hessian(of)(x), v, v.dim()), finite_difference(grad(of), x, v), 1e-6)


def double_backward(kind, model, x):
    x = x[:2].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: out(model, x), (x,), atol=1e-4, fast_mode=True)


def ensemble(kind, model, x):
    several = [MODELS[kind](field(seed)) for seed in range(3)]
    weights, _ = stack_module_state(several)
    found = vmap(lambda weights: out_of(model, weights, x))({name: weight.detach() for name, weight in weights.items()})
    assert_close(found, torch.stack([out(one, x) for one in several]))


def compiled(kind, model, x, backend="aot_eager", **settings):
    if settings.get("fullgraph") and kind == "sequence" and not compat.COMPILES_NODES:
        pytest.skip("torch 2.12 takes kernels into its graphs")
    torch.compiler.reset()
    other = torch.compile(model, backend=backend, **settings)
    assert_close(out(other, x), out(model, x))
    assert_close(gradients(other, x), gradients(model, x))


def compiled_whole(kind, model, x):
    compiled(kind, model, x, fullgraph=True)


def compiled_transform(kind, model, x):
    """A transform inside of what is compiled."""

    def of(x):
        return grad(lambda x: out(model, x).square().sum())(x)

    torch.compiler.reset()
    assert_close(torch.compile(of, backend="aot_eager")(x), of(x))


def exported(kind, model, x):
    names = {0: "batch"} if kind == "cell" else {0: "time", 1: "batch"}
    program = torch.export.export(model, (x,), dynamic_shapes=({k: torch.export.Dim(name) for k, name in names.items()},))
    for batch, time in ((BATCH, TIME), (5, 9), (1, 1)):
        other = sample(kind, batch, time)
        assert_close(out(program.module(), other), out(model, other))


def to_onnx(kind, model, x):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model, x = model.float().eval(), x.float()
    names = {0: "batch"} if kind == "cell" else {0: "time", 1: "batch"}
    program = torch.onnx.export(model, (x,), dynamo=True, dynamic_shapes=({k: torch.export.Dim(n) for k, n in names.items()},))
    file = io.BytesIO()
    program.save(file)
    session = runtime.InferenceSession(file.getvalue())
    for batch, time in ((BATCH, TIME), (5, 9)):
        other = sample(kind, batch, time).float()
        found = session.run(None, {session.get_inputs()[0].name: other.numpy()})[0]
        assert_close(torch.from_numpy(found), out(model, other).detach(), 1e-6)


def traced(kind, model, x):
    other = torch.jit.trace(model, (x,))
    assert_close(out(other, 2 * x), out(model, 2 * x))


def scripted(kind, model, x):
    torch.jit.script(model)


def shapes_only(kind, model, x):
    found = out(model.to("meta"), x.to("meta"))
    assert (found.device.type, found.shape) == ("meta", (*x.shape[:-1], HIDDEN))


def half(kind, model, x, dtype=torch.float16):
    expected = out(model, x)
    found = out(model.to(dtype), x.to(dtype))
    assert found.dtype == dtype
    assert_close(found.double(), expected, 32 * torch.finfo(dtype).eps)


def brain(kind, model, x):
    half(kind, model, x, torch.bfloat16)


class Doubled(torch.nn.Module):
    """2 w, and how often it was asked."""

    calls = 0

    def forward(self, w):
        self.calls += 1
        return 2 * w


def parametrized(kind, model, x):
    doubled, other = Doubled(), copy.deepcopy(model)
    with torch.no_grad():
        other.field.candidate.weight_h *= 2
    register_parametrization(model.field.candidate, "weight_h", doubled)
    doubled.calls = 0
    assert_close(out(model, x), out(other, x), 0)
    assert doubled.calls == 1
    assert getattr(model, "stats", {}).get("engine") == getattr(other, "stats", {}).get("engine")


def autocast(kind, model, x):
    expected = out(model, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = out(model.float(), x.bfloat16())
    assert_close(found.double(), expected, 16 * torch.finfo(torch.bfloat16).eps)


PROCESS = """
import runpy, sys
import torch
from torch.nn.parallel import DistributedDataParallel

test, folder, rank = sys.argv[1:]
here = runpy.run_path(test)
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=int(rank), world_size=2)
found = {}
for kind, make in here["MODELS"].items():
    model = DistributedDataParallel(make(here["field"]()))
    x = here["sample"](kind, batch=4).narrow(here["samples_of"](kind)["in_dims"], 2 * int(rank), 2)
    here["out"](model, x).square().sum().backward()
    found[kind] = [p.grad for p in model.parameters()]
torch.save(found, f"{folder}/{rank}.pt")
torch.distributed.destroy_process_group()
"""


@functools.cache
def in_two_processes():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROCESS, __file__, folder]
        processes = [subprocess.Popen([*command, str(rank)], cwd=Path(__file__).parent) for rank in range(2)]
        assert [process.wait() for process in processes] == [0, 0]
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(2)]


def distributed(kind, model, x):
    halves = [found[kind] for found in in_two_processes()]
    assert_close(halves[0], halves[1], 0)
    assert_close(halves[0], [one / 2 for one in gradients(model, sample(kind, batch=4))])  # the mean over processes


ITEMS = {
    "`state_dict`, `load_state_dict`": state_dict,
    "`copy.deepcopy`": copied,
    "`pickle`": pickled,
    "hooks of the module": hooks_outside,
    "hooks inside the field": hooks_inside,
    "`torch.nn.utils.parametrize`": parametrized,
    "`torch.autocast`": autocast,
    "`torch.utils.checkpoint`": checkpointed,
    "`DistributedDataParallel`": distributed,
    "`torch.func.functional_call`": called_functionally,
    "`torch.func.grad`": gradient,
    "`torch.func.vmap`": mapped,
    "`vmap(grad(...))`": per_sample,
    "`jacrev` of each sample's loss": per_sample_by_jacrev,
    "`torch.func.jvp`": forwards,
    "`torch.func.jacrev`": backwards,
    "`torch.func.hessian`": second,
    "double backward": double_backward,
    "`stack_module_state`": ensemble,
    "`torch.compile`": compiled,
    "`torch.compile(fullgraph=True)`": compiled_whole,
    "`torch.compile` of a transform": compiled_transform,
    "`torch.export`": exported,
    "`torch.onnx.export`": to_onnx,
    "`torch.jit.trace`": traced,
    "`torch.jit.script`": scripted,
    "meta device": shapes_only,
    "float16": half,
    "bfloat16": brain,
}
SLOW = {
    "`torch.compile` of a transform",
    "`DistributedDataParallel`",
    "`torch.export`",
    "`torch.onnx.export`",
    "`torch.compile`",
    "`torch.func.hessian`",
}
IN_DAILY_RUN = {("`torch.compile`", "adaptive steps")}


@functools.cache
def rows():
    """Item -> what stands in each column."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0][1:] == list(MODELS)
    return {item: dict(zip(MODELS, said, strict=True)) for item, *said in cells[2:]}


def test_the_table_has_a_row_for_each_item_that_is_tried():
    assert list(rows()) == list(ITEMS)


def entries():
    for item in ITEMS:
        for kind in MODELS:
            daily = item not in SLOW or (item, kind) in IN_DAILY_RUN
            # What torch makes of kernels is seen on sequences every day; slow runs have those of solves and of autocast too.
            marks = [pytest.mark.kernels] * (kind == "sequence" and item != "`torch.autocast`") + [pytest.mark.slow] * (not daily)
            yield pytest.param(item, kind, marks=marks, id=f"{item.replace('`', '')} of {kind}")


@pytest.mark.parametrize(("item", "kind"), [*entries()])
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch.onnx of torch
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # of shapes, which stay those of the traced call
def test_every_entry_of_the_table_is_so(item, kind):
    said, model = rows()[item][kind], MODELS[kind](field())
    out(model, sample(kind))  # what happens once in a process, and once in a model, is not the item's
    if said == "works":
        ITEMS[item](kind, model, sample(kind))
        return
    error, words = re.fullmatch(r"`(\w+)`: (.+)", said).groups()
    with pytest.raises(Exception, match=re.escape(words)) as caught:
        ITEMS[item](kind, model, sample(kind))
    assert type(caught.value).__name__ == error


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cell", "sequence"])
def test_the_code_that_the_compiler_of_torch_writes_gives_the_same(kind):
    compiled(kind, MODELS[kind](field()), sample(kind), backend="inductor", fullgraph=True)


REFUSED = [
    (
        lambda x: torch.export.export(DiscreteCell(field(), Taylor2()), (x[0],)),
        "`Taylor2()` does not go with `torch.export`: torch refuses it",
    ),
    (
        lambda x: torch.export.export(DiscreteRNN(field()), (x, None, torch.arange(TIME))),
        "`ts`, `lengths` and `reset` are read as numbers, which torch.export has not",
    ),
    (
        lambda x: vmap(DiscreteCell(field(), BackwardEuler()))(x[0]),
        "Newton's method iterates by the values of the states, which cannot be read under torch.func.vmap",
    ),
    (
        lambda x: torch.jit.trace(DiscreteCell(field(), BackwardEuler()), (x[0],)),
        "torch.jit.trace would keep the times and steps of this one call",
    ),
    (
        lambda x: torch.jit.trace(lambda x: unroll(DiscreteCell(field()), x).hs, (x,)),
        "torch.jit.trace would keep the times and steps of this one call",
    ),
]


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_what_cannot_be_is_refused_in_words(call, words):
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        call(sample("sequence"))


@pytest.mark.parametrize("method", ["euler", "midpoint", "heun2", "heun3", "rk4"])
def test_integrate_with_fixed_steps_is_a_function_for_vmap(method):
    x, f = sample("sequence"), field()
    ts = torch.linspace(0.0, TIME - 1.0, 7, dtype=torch.float64)

    def solved(x):
        return integrate(f, ctrnn.LinearPath(x), f.initial_state(x.shape[1]), ts, method=method, max_step=0.3).hs

    assert_close(vmap(lambda x: solved(x[:, None])[:, 0], in_dims=1, out_dims=1)(x), solved(x))
