"""Every test starts from float64, the same seed and one thread, or as many as CTRNN_TEST_THREADS says."""

import gc
import math
import os
import shutil
import sys
from functools import partial
from itertools import islice
from types import FunctionType

import covering
import processor_time
import pytest
from hypothesis import settings

THREADS = int(os.environ.get("CTRNN_TEST_THREADS", "1"))
for name, examples in (("every day", 10), ("slow", 40)):
    settings.register_profile(name, max_examples=examples, deadline=None, derandomize=True)
settings.load_profile("slow")


def pytest_configure(config):
    config.pluginmanager.register(processor_time)
    config.pluginmanager.register(covering)
    # Processes that tests start wait for one another in vain where each takes all cores for small products.
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    # The same kernels, built in less than half of the time, to which linking by the default linker would add a quarter; the long
    # tests have them as users do. Workers are given the variable.
    if config.option.markexpr == "not slow":
        settings.load_profile("every day")
    if config.option.markexpr == "not slow" and not hasattr(config, "workerinput"):
        quick = "-O0 -fuse-ld=gold" if shutil.which("ld.gold") else "-O0"
        os.environ["CTRNN_CXXFLAGS"] = f"{quick} {os.environ.get('CTRNN_CXXFLAGS', '')}".strip()


def pytest_make_parametrize_id(val, argname):
    """Have a case say what it is, where pytest would count."""
    return " ".join(spelt(val).split())[:60] or (argname if isinstance(val, FunctionType) else None)


def spelt(value):
    """A value in words that are the same in every process, or "" where there are none."""
    if isinstance(value, str | bool | int | float | complex | None):
        return str(value)
    if isinstance(value, dict):
        return in_a_row([f"{spelt(key)}={spelt(one)}" if spelt(one) else spelt(key) for key, one in value.items()])
    if isinstance(value, list | tuple):
        return in_a_row([spelt(one) for one in value])
    if isinstance(value, partial):
        return spelt(value.func)
    if type(value).__module__ == "torch":  # dtypes, sizes, devices, tensors
        return str(value).removeprefix("torch.") if value.__class__.__name__ != "Tensor" else str([*value.shape])
    name = getattr(value, "__name__", type(value).__name__)
    return ".".join(value.__code__.co_names[:3]) if name == "<lambda>" else name


def in_a_row(words):
    return " ".join(filter(None, words)) if len(words) < MANY else ""


MANY = 8  # values of a case that would say no more than how many there are
WITHOUT_KERNELS = {"analysis", "fitting", "jumps", "steps"}  # folders of discretize that are not about them


def takes_kernels(item):
    """In a default run: the tests of kernels, which are discretize's, and what is marked."""
    where = set(item.path.relative_to(item.config.rootpath).parts)
    of_kernels = "discretize" in where and not where & WITHOUT_KERNELS
    return item.config.option.markexpr != "not slow" or of_kernels or item.get_closest_marker("kernels")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    # Around fixtures of whole modules too. Elsewhere kernels give the same to rounding, and take seconds to build.
    before = os.environ.get("CTRNN_FUSED")
    if before is None and not takes_kernels(item):
        os.environ["CTRNN_FUSED"] = "0"
    try:
        return (yield)
    finally:
        if before is None:
            os.environ.pop("CTRNN_FUSED", None)


def pytest_collection(session):
    if not getattr(session.config.option, "numprocesses", None) or hasattr(session.config, "workerinput"):
        import torch  # noqa: PLC0415 - as in `_same_start`

        torch.manual_seed(0)  # so that what modules draw, and names of cases with it, are the same in all workers
    gc.disable()  # what is imported stays: to look it through again and again is a fifth of the time that collection takes


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # looked for less often, a twentieth of the time of all tests
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _compiling_is_told_already():
    """So tests find what they look for alone on stderr, also where no earlier run has filled the cache."""
    from discretize.kernels import build  # noqa: PLC0415

    class Told(dict):
        def setdefault(self, key, default=None):
            return None

    build._told = Told()


@pytest.fixture(scope="session")
def programs_of_the_run(tmp_path_factory):
    """A folder for recorded programs, new in each run, which the workers of pytest-xdist share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "programs"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder.resolve()


@pytest.fixture(autouse=True)
def _programs(request, monkeypatch, programs_of_the_run):
    """Have the same code recorded once in a run, whatever ran before; and anew in each test that is about recording."""
    from discretize.kernels.cache import Cache  # noqa: PLC0415 - as torch
    from discretize.kernels.record import stored  # noqa: PLC0415

    folder = None if request.node.get_closest_marker("records") else programs_of_the_run

    def cache():
        found = object.__new__(Cache)
        found.folder, found.why = folder, "this test is about recording"
        return found

    monkeypatch.setattr(stored, "Cache", cache)


@pytest.fixture
def only_new_garbage():
    """Have gc.collect() look through what this test makes, not through all that the tests before it have left."""
    gc.freeze()


@pytest.fixture
def few_settings(request, monkeypatch):
    """In a default run code is compared with its record for one sample in each of the surroundings, and for three."""
    if request.config.option.markexpr == "not slow":
        from derivations.tracing import running  # noqa: PLC0415 - as torch

        every = running._settings
        monkeypatch.setattr(running, "_settings", lambda *of: islice(every(*of), len(running.SURROUNDINGS) + 1))


@pytest.fixture(autouse=True)
def _same_start(request, monkeypatch):
    import on_gpu  # noqa: PLC0415
    import torch  # noqa: PLC0415 - seconds that a process which only hands out tests to others has no use for

    if "discretize" in sys.modules:  # which engine runs must not hang on how long something took, nor on what is on disk
        wants_kernels = "kernels" in request.path.parts or request.node.get_closest_marker("kernels")
        monkeypatch.setattr("discretize.kernels.price.PRICE", 0 if wants_kernels else math.inf)
        # Not what other tests have built in vain: then kernels would be made here or not by the order of the files.
        monkeypatch.setattr("discretize.kernels.registry._uses", {})
        if not wants_kernels:
            monkeypatch.setattr("discretize.kernels.registry.is_stored", lambda key: False)
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(THREADS)
    if on_gpu.ON_GPU:
        torch.manual_seed(0)
    else:  # other devices' are seeded once they are there: to note who asked takes a fifth of the time of a short test
        torch.default_generator.manual_seed(0)
    if on_gpu.ON_GPU:
        if not request.node.get_closest_marker("gpu"):
            pytest.skip("not of kernels for GPUs")  # those for the CPU must not be given what lies elsewhere
        on_gpu.put_on_gpu(monkeypatch)
    yield
    if on_gpu.ON_GPU:
        torch.set_default_device(None)
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)
