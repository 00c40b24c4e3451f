r"""Time torch.compile and its scan beside this package's kernel on a CPU, for the table of docs/kernels.md.

    python tools/torch_compile.py [--samples 500] [--batch 32] [--inputs 10] [--hidden 64] [--piece 25] [--rounds 9]

One gated cell, float32, one thread. "pieces" compiles so many unrolled steps by torch.compile(mode="reduce-overhead") and calls
them again and again; "scan" compiles torch._higher_order_ops.scan over all samples. Every way is compared with steps first, in
states and gradients. Calls alternate; medians in ms of wall time, and of processor time, which other work on the machine moves
less. A first call is forward with backward, with an empty cache.
"""

import argparse
import os
import statistics
import tempfile
import time

cache = tempfile.TemporaryDirectory(prefix="ctrnn-torch-compile-")
os.environ |= {"CTRNN_CACHE": f"{cache.name}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{cache.name}/torchs"}

import torch  # noqa: E402 - torch reads where its cache is
from torch._higher_order_ops.scan import scan  # noqa: E402

import ctrnn  # noqa: E402
import discretize  # noqa: E402


def main() -> None:  # noqa: PLR0915 - a script, read from top to bottom
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in {"samples": 500, "batch": 32, "inputs": 10, "hidden": 64, "piece": 25, "rounds": 9}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    sizes = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    field = ctrnn.gated(sizes.inputs, sizes.hidden)
    cell, weights = discretize.DiscreteCell(field, dt=1.0), list(field.parameters())
    xs = torch.randn(sizes.samples, sizes.batch, sizes.inputs)

    def steps(h, xs):
        states = []
        for x in xs.unbind(0):
            h = cell(x, h)
            states.append(h)
        return torch.stack(states)

    def in_pieces(compiled):
        def run():
            h, states = xs.new_zeros(sizes.batch, sizes.hidden), []
            for part in xs.split(sizes.piece):
                torch.compiler.cudagraph_mark_step_begin()
                states.append(compiled(h, part))
                h = states[-1][-1]
            return torch.cat(states)

        return run

    def scanned():
        def step(h, x):
            h = cell(x, h)
            return h, h.clone()

        compiled = torch.compile(lambda h, xs: scan(step, h, xs)[1], fullgraph=True)
        return lambda: compiled(xs.new_zeros(sizes.batch, sizes.hidden), xs)

    rnn = discretize.DiscreteRNN(field, dt=1.0, fused="always")
    ways = {
        "ours, compiled": lambda: lambda: rnn(xs)[0],
        f"torch.compile, pieces of {sizes.piece} steps": lambda: in_pieces(torch.compile(steps, mode="reduce-overhead")),
        "torch.compile, scan": scanned,
    }
    truth = in_pieces(steps)()
    expected = [truth, *torch.autograd.grad(truth.square().sum(), weights)]
    runs, first = {}, {}
    for name, make in ways.items():
        begin, work = time.perf_counter(), time.process_time() + sum(os.times()[2:4])
        try:
            run = make()
            states = run()
            found = [states, *torch.autograd.grad(states.square().sum(), weights)]
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
        except Exception as error:  # torch's, of any kind: it is an answer
            print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}", flush=True)
            continue
        runs[name] = run
        first[name] = time.perf_counter() - begin, time.process_time() + sum(os.times()[2:4]) - work
        print(f"{name}: first call {first[name][0]:.1f} s, {first[name][1]:.1f} s of processor time", flush=True)

    def timed(run, backward):
        begin, work = time.perf_counter(), time.process_time()
        with torch.set_grad_enabled(backward):
            states = run()
            if backward:
                torch.autograd.grad(states.square().sum(), weights)
        return 1e3 * (time.perf_counter() - begin), 1e3 * (time.process_time() - work)

    seconds = {(name, backward): [] for name in runs for backward in (False, True)}
    for run in runs.values():
        timed(run, False)  # which torch.compile compiles anew
        timed(run, True)
    for _ in range(sizes.rounds):
        for (name, backward), times in seconds.items():
            times.append(timed(runs[name], backward))
    print(f"torch {torch.__version__}, {vars(sizes)}, one thread; ms, wall (processor time)")
    for name in runs:
        forward, both = ([statistics.median(each) for each in zip(*seconds[name, way], strict=True)] for way in (False, True))
        print(f"{name:40s} forward {forward[0]:.1f} ({forward[1]:.1f}), with backward {both[0]:.1f} ({both[1]:.1f})")


if __name__ == "__main__":
    main()
