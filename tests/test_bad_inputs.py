"""Ninety mistakes in Python and forty at the prompt: each is answered in the words of the one who made it."""

import json
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import ctrnn
from ctrnn import HeldPath, gated, plain
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, Euler, JumpRNN, SequenceModel, SolverWarning, integrate, stepped
from discretize.jumps import GRUBayes
from experiments.__main__ import main

ROOT = Path(__file__).resolve().parents[1]


class NoTensor(ctrnn.VectorField):
    def flow(self, projected, h):
        return None


class TwoOfThree(ctrnn.VectorField):
    def flow(self, projected, h):
        return h[..., :2]


class InPlace(ctrnn.VectorField):
    def flow(self, projected, h):
        return h.mul_(-1.0)


class Unprojected(ctrnn.VectorField):
    def flow(self, projected, h):
        return projected - h


class WithTime(ctrnn.VectorField):
    def flow(self, t, x, h):
        return x - h


class CellOfMine(nn.Module):
    def forward(self, x, h):
        return torch.tanh(h + x.sum(-1, keepdim=True))


def of_flow(flow):
    return type("Mine", (ctrnn.VectorField,), {"flow": flow})


FIELD = gated(2, 3, generator=torch.Generator().manual_seed(0))
X = torch.linspace(-1, 1, 40).reshape(5, 4, 2)  # (time, batch, input)
PADDED = torch.arange(5.0)[:, None].minimum(torch.tensor([4.0, 2.0, 4.0, 4.0]))  # the second sequence is over at 2
PATH, H, TS = HeldPath(X), FIELD.initial_state(4), torch.arange(6.0)

# What is called, the error, and what its words hold.
IN_PYTHON = [
    (lambda: plain(2, 0), ValueError, "`hidden_size` must be at least 1, got 0"),
    (lambda: plain(2, 2.5), TypeError, "`hidden_size` must be a whole number, got 2.5"),
    (lambda: plain(2, "3"), TypeError, "`hidden_size` must be a whole number, got '3'"),
    (lambda: plain(True, 3), TypeError, "`input_size` must be a whole number, got True"),
    (lambda: gated(2, 3, gate="globl"), ValueError, "`gate` must be one of 'unit', 'global', 'network', got 'globl'"),
    (lambda: gated(2, 3, gates="unit"), TypeError, "`gated` takes no `gates`; did you mean `gate`?"),
    (lambda: ctrnn.lstm(2, 3, proj_size=2), TypeError, "`lstm` takes no `proj_size`; it takes input_size, hidden_size"),
    (lambda: ctrnn.leaky(2, 3, alpha=math.nan), ValueError, "`alpha` must be finite, got nan"),
    (lambda: ctrnn.leaky(2, 3, alpha=-1.0), ValueError, "`alpha` must be positive, got -1.0"),
    (lambda: ctrnn.PowerDecay(-1.0), ValueError, "`exponent` must be at least 0, got -1.0"),
    (lambda: ctrnn.AffineWarp(0.0), ValueError, "`speed` must be positive, got 0.0"),
    (lambda: ctrnn.Stack([]), ValueError, "`fields` is empty; give at least one field"),
    (lambda: ctrnn.Stack([plain(2, 3), plain(4, 3)]), ValueError, "`fields[1]` reads 4 features, `fields[0]` below it has 3"),
    (lambda: ctrnn.from_torch(nn.Linear(2, 3)), TypeError, "`module` must be an RNNCell, GRUCell or LSTMCell"),
    (lambda: HeldPath(X[:, 0, 0]), ValueError, "`xs` must be (time, batch, feature), got shape (5,); add an axis"),
    (lambda: HeldPath(X * math.nan), ValueError, "`xs` must be finite, got nan at index (0, 0, 0)"),
    (lambda: ctrnn.LinearPath(X, TS[:2]), ValueError, "`ts` has 2 stamps for 5 samples"),
    (lambda: DiscreteRNN(nn.GRUCell(2, 3)), TypeError, "got GRUCell; `ctrnn.from_torch` makes one of a torch cell"),
    (lambda: DiscreteRNN(FIELD)(X[..., None, :]), ValueError, "`x` must be (time, batch, input), or (time, input)"),
    (lambda: DiscreteRNN(FIELD)(X[..., :1]), ValueError, "the field reads 2 input features on the last axis"),
    (lambda: DiscreteRNN(FIELD)(X.tolist()), TypeError, "`x` must be a torch.Tensor, got list; wrap it"),
    (lambda: DiscreteRNN(FIELD)(X.numpy()), TypeError, "`x` must be a torch.Tensor, got ndarray; wrap it"),
    (lambda: DiscreteRNN(FIELD)(X.long()), TypeError, "`x` must be floating point, got torch.int64; convert it"),
    (lambda: DiscreteRNN(FIELD)(X.double()), TypeError, "`x` is torch.float64, the field's parameters are torch.float32"),
    (lambda: DiscreteRNN(FIELD)(X.to("meta")), ValueError, "`x` is on meta, the field's parameters are on cpu"),
    (lambda: DiscreteRNN(FIELD)(X.to_sparse()), TypeError, "`x` must be a plain tensor, not a sparse or nested one"),
    (lambda: DiscreteRNN(FIELD)(X[:0]), ValueError, "`x` is empty: shape (0, 4, 2)"),
    (lambda: DiscreteRNN(FIELD)(X, H[:3]), ValueError, "`h_0` must have shape (1, 4, 3) or (4, 3), got (3, 3)"),
    (lambda: DiscreteRNN(FIELD)(X, (H, H)), ValueError, "a pair (h_0, c_0) is for fields on the state [h, c]"),
    (lambda: DiscreteRNN(FIELD)(X, lengths=[5, 6, 1, 2]), ValueError, "got 6 for sequence 1"),
    (lambda: DiscreteRNN(FIELD)(X, lengths=torch.ones(4)), TypeError, "`lengths` must be whole numbers, got torch.float"),
    (
        lambda: DiscreteRNN(FIELD, step="rk5"),
        ValueError,
        "`step` 'rk5' is not known; did you mean 'rk4'? Methods: adaptive",
    ),
    (lambda: DiscreteRNN(FIELD, step=0.1), TypeError, "`step` must be the name of a method or a step map, got 0.1. Methods: "),
    (lambda: DiscreteRNN(FIELD, step=Euler), TypeError, "`step` must be an instance of a step map: `Euler()`, not the class"),
    (lambda: DiscreteRNN(FIELD, step="torchdiffeq:rk4"), ValueError, "takes no single steps; take discretize.ContinuousRNN"),
    (lambda: DiscreteRNN(FIELD, substeps=0), ValueError, "`substeps` must be at least 1, got 0"),
    (lambda: DiscreteRNN(FIELD)(X, ts=PADDED), ValueError, "padding beyond the end of a sequence, give `lengths`"),
    (
        lambda: DiscreteRNN(FIELD)(X, ts=np.arange(len(X)).astype("datetime64[s]")),
        TypeError,
        "ndarray of datetime64[s]: give numbers, in units of the field's time",
    ),
    (lambda: ContinuousRNN(FIELD)(X * math.inf), ValueError, "`ctrnn.inputs.hold_missing` fills in the last one seen"),
    (lambda: ContinuousRNN(FIELD, method="rk45"), ValueError, "`method` 'rk45' is not known; did you mean"),
    (lambda: ContinuousRNN(FIELD, method=None), TypeError, "`method` must be the name of a method or a step map, got None"),
    (lambda: ContinuousRNN(FIELD, rtol=math.nan), ValueError, "`rtol` must be finite, got nan"),
    (lambda: ctrnn.save(FIELD, "model.safetensors"), TypeError, "takes the path first, `ctrnn.save(path, model)`"),
    (lambda: ContinuousRNN(FIELD, dt=-0.1), ValueError, "`dt` must be"),
    (lambda: ContinuousRNN(FIELD, rtol=10.0), ValueError, "`rtol` must be below 1, got 10: it is a share of the state"),
    (lambda: ctrnn.Noise(-0.1), ValueError, "`sigma` must be at least 0, got -0.1: it is the size of what is drawn"),
    (lambda: ctrnn.ColoredInput(FIELD, -0.1, 2.0), ValueError, "`sigma` must be at least 0, got -0.1"),
    (lambda: ContinuousRNN(FIELD, gradient="adjoint"), TypeError, "discretize.Adjoint(), got 'adjoint'"),
    (lambda: ContinuousRNN(gated(2, 3).half())(X.half()), TypeError, "too coarse for steps chosen by their error"),
    (lambda: ContinuousRNN(NoTensor(2, 3))(X), TypeError, "The field's `flow` gives NoneType, not a tensor"),
    (lambda: DiscreteRNN(TwoOfThree(2, 3))(X), ValueError, "gives shape (4, 2) for a state of shape (4, 3)"),
    (lambda: DiscreteRNN(InPlace(2, 3))(X), ValueError, "in place"),
    (
        lambda: integrate(FIELD, X, H, TS),
        TypeError,
        "`path` must be a ctrnn.inputs.Path, got Tensor; wrap samples in `ctrnn.HeldPath`",
    ),
    (lambda: integrate(FIELD, PATH, H, TS[[0, 2, 1]]), ValueError, "`ts` must increase strictly, but goes back at index 2"),
    (lambda: integrate(FIELD, PATH, H, TS + 1), ValueError, "`ts` = 6.0 lies outside the interval [0.0, 5.0]"),
    (lambda: integrate(FIELD, PATH, H, TS[:0]), ValueError, "`ts` is empty; give at least one time"),
    (lambda: integrate(FIELD, PATH, H, TS[0]), ValueError, "`ts` must be (n,), shared by the whole batch, or (n, batch), got"),
    # Fields of one's own, and functions of time and state.
    (lambda: DiscreteRNN(Unprojected(2, 3))(X), ValueError, "It gets `project(x)`, here (4, 2): Unprojected has no `project`"),
    (lambda: WithTime(2, 3)(X[0], H), TypeError, "`flow` takes (t, x, h); it must take (projected, h), what `project` makes of"),
    (lambda: integrate(lambda t, h: -h, None, H.long(), TS), TypeError, "`h0` must be floating point, got torch.int64; convert"),
    (lambda: integrate(nn.Identity(), None, H, TS), TypeError, "`field` is a function of (input), and is called as f(t, h)"),
    (lambda: integrate(lambda h, t: -h, None, H, TS), TypeError, "the time first; give `lambda t, h: f(h, t)`."),
    (lambda: integrate(lambda t, h, w: -h, None, H, TS), TypeError, "a function of (t, h, w), and is called as f(t, h)"),
    (lambda: integrate(lambda a, b: -a, None, H, TS), ValueError, "called as f(t, h), the time first, t of shape (4, 1)"),
    (lambda: integrate(lambda t, h: h if t < 1 else -h, None, H, TS), TypeError, "write torch.where(t < 0.5, a, b)"),
    (lambda: integrate(lambda t, h: h if t < 1 else -h, None, H[:1], TS), TypeError, "write torch.where(t < 0.5, a, b)"),
    (lambda: integrate(lambda t, h: math.sin(t) * h, None, H[:1], TS), TypeError, "torch.sin(t)"),
    (lambda: integrate(lambda t, h: h.mean() - h, None, H + TS[:4, None], TS), ValueError, "each sample steps on its own"),
    (lambda: integrate(lambda t, h: -h, H, TS), TypeError, "`ts`. It is called as integrate(field, path, h0, ts)"),
    (lambda: integrate(lambda t, h: -h, H, TS, None), TypeError, "a function f(t, h) as integrate(f, None, h0, ts)."),
    # Misspelt, missing and superfluous arguments, of functions, classes and modules.
    (lambda: plain(2), TypeError, "`plain` needs `hidden_size`."),
    (lambda: plain(2, units=3), TypeError, "`plain` takes no `units`; it takes input_size, hidden_size, "),
    (lambda: ctrnn.lstm(2, 3, 1), TypeError, "`lstm` takes input_size, hidden_size by position, got 3 arguments; give by name"),
    (lambda: ctrnn.TanhCandidate(2, 3, biass=True), TypeError, "`TanhCandidate` takes no `biass`; did you mean `bias`?"),
    (ctrnn.ConstantRate, TypeError, "`ConstantRate` needs `alpha`."),
    (lambda: ctrnn.SigmoidConstantRate(alph=0.5), TypeError, "`SigmoidConstantRate` takes no `alph`; did you mean `alpha`?"),
    (lambda: ctrnn.PowerDecay(r=2.0), TypeError, "`PowerDecay` takes no `r`; did you mean `exponent`?"),
    (lambda: ctrnn.Stack(plain(2, 3), plain(3, 3)), TypeError, "`Stack` takes fields by position, got 2 arguments."),
    (lambda: HeldPath(X, times=TS), TypeError, "`HeldPath` takes no `times`; did you mean `ts`?"),
    (lambda: ctrnn.FunctionPath(torch.sin), TypeError, "`FunctionPath` needs `interval` and `input_size`."),
    (lambda: ctrnn.WarpedPath(PATH, warps=3), TypeError, "`WarpedPath` takes no `warps`; did you mean `warp`?"),
    (lambda: ctrnn.hold_missing(X, bathc_first=True), TypeError, "`hold_missing` takes no `bathc_first`; did you mean `batch_"),
    (lambda: ctrnn.init.chrono_(FIELD, T=9), TypeError, "`chrono_` takes no `T`; did you mean `t_max`?"),
    (lambda: ctrnn.from_torch(nn.GRU(2, 3), copy=True), TypeError, "`from_torch` takes no `copy`; it takes module."),
    (lambda: DiscreteRNN(FIELD, stp=Euler()), TypeError, "`DiscreteRNN` takes no `stp`; did you mean `step`?"),
    (DiscreteRNN(FIELD), TypeError, "`DiscreteRNN` needs `x`."),
    (lambda: DiscreteCell(FIELD)(X[0], H, h=H), TypeError, "`DiscreteCell` was given `h` twice, by position and by name."),
    (lambda: integrate(FIELD, PATH, H, TS, 1e-3), TypeError, "`integrate` takes field, path, h0, ts by position, got 5"),
    (lambda: integrate(FIELD, PATH, H, TS, tol=1e-3), TypeError, "`tol` is here `rtol` and `atol`."),
    (
        lambda: integrate(FIELD, PATH, H, TS, dt=0.1),
        TypeError,
        "The longest step of a solve is `max_step`",
    ),
    (lambda: ctrnn.Gated, AttributeError, "module 'ctrnn' has no attribute 'Gated'; did you mean 'gated'?"),
    # What torch calls it, and what it is called elsewhere.
    (lambda: ctrnn.gru(2, 3, batch_first=True), TypeError, "`discretize.DiscreteRNN(field, batch_first=True)`"),
    (lambda: ctrnn.gru(2, 3, bidirectional=True), TypeError, "are made by `discretize.Layers.of(ctrnn.gru, "),
    (lambda: DiscreteRNN(FIELD, num_layers=2), TypeError, "are made by `discretize.Layers.of(ctrnn.gru, "),
    (lambda: ContinuousRNN(FIELD, bidirectional=True), TypeError, "are made by `discretize.Layers.of(ctrnn.gru, "),
    (lambda: ctrnn.gru(2, 3, nonlinearity="relu"), TypeError, "Parts of a field are chosen by `ctrnn.Relaxation("),
    (lambda: ctrnn.SmoothWarp.random(5.0, 2.0, generator=3), TypeError, "got int; make one, torch.Generator().manual_seed(3)"),
    (lambda: plain(2, 3, device="gpu"), ValueError, "`device` must be one that torch has here, such as 'cpu', got 'gpu'"),
    (lambda: plain(2, 3, dtype="float32"), TypeError, "`dtype` must be a floating-point dtype such as torch.float32"),
    (lambda: plain(2, 3, dtype=torch.int64), TypeError, "must be a floating-point dtype such as torch.float32, got torch.int"),
    (lambda: plain(2, 3, bias="no"), TypeError, "`bias` must be True or False, got 'no'."),
    (lambda: DiscreteRNN(2, 3), TypeError, "`field` must be a ctrnn.VectorField, got int; `ctrnn.from_torch` makes"),
    (
        lambda: DiscreteRNN(CellOfMine()),
        TypeError,
        "Of a cell that gives the next state it is `cell(x, h) - h`, whose",
    ),
    (lambda: DiscreteRNN(NoTensor), TypeError, "got the class NoTensor; make one, `NoTensor(...)`."),
    (lambda: SequenceModel(FIELD, 3), TypeError, "got Relaxation; it takes steps in one, `discretize.DiscreteRNN(field)`."),
    (lambda: SequenceModel(nn.GRU(2, 3), 3), TypeError, "got GRU; make one, `discretize.DiscreteRNN(ctrnn.from_torch(rnn))`."),
    (lambda: DiscreteRNN(FIELD)([X[:, 0], X[1:, 0]]), TypeError, "is one batch with lengths by discretize.Collate()(x)."),
    (lambda: of_flow(lambda self, h, x: -h), TypeError, r"`Mine.flow` takes (h, x); it is given (projected, h), what"),
    (lambda: of_flow(lambda self, t, h: -h), TypeError, "Name them so; time enters as a feature of the input."),
    (lambda: DiscreteRNN(FIELD)(X, hx=H), TypeError, "`DiscreteRNN` takes no `hx`; did you mean `h_0`?"),
    (lambda: ContinuousRNN(FIELD)(input=X), TypeError, "`ContinuousRNN` takes no `input`; did you mean `x`?"),
    (lambda: DiscreteCell(FIELD)(X[0], hx=H), TypeError, "`DiscreteCell` takes no `hx`; did you mean `h`?"),
    (lambda: FIELD(X[0], hx=H), TypeError, "takes no `hx`; did you mean `h`?"),
    (lambda: DiscreteCell(FIELD)(X[0], (H, H)), TypeError, "`h` must be one torch.Tensor, got a tuple; join its parts"),
    (
        lambda: integrate(lambda t, h: -h, None, None, TS),
        TypeError,
        "`h0` is missing: an equation f(t, h) has no state of its own",
    ),
    (lambda: integrate(FIELD, PATH, y0=H, t=TS), TypeError, "`integrate` takes no `y0`; did you mean `h0`?"),
    (lambda: integrate(FIELD, lambda t: X[0], H, TS), TypeError, "a function of time in `ctrnn.FunctionPath`"),
    (lambda: ContinuousRNN(FIELD, solver="dopri5"), TypeError, "`ContinuousRNN` takes no `solver`; did you mean `method`?"),
    (lambda: DiscreteRNN(FIELD, method="rk4"), TypeError, "Methods that choose their steps are for `discretize.ContinuousRNN`"),
    (lambda: DiscreteRNN(FIELD).weight_hh_l0, AttributeError, "its weights are those of its field, `field.named_parameters()`"),
    (lambda: DiscreteCell(FIELD).weight_hh, AttributeError, "`DiscreteCell` has no `weight_hh`: its weights are those of its"),
    (lambda: ContinuousRNN(FIELD).flatten_parameters(), AttributeError, "`discretize.layers_to_torch`"),
    (lambda: ctrnn.timescales(DiscreteRNN(FIELD)), TypeError, "got DiscreteRNN; take the field in it, `.field`."),
    (lambda: ctrnn.to_torch(nn.GRU(2, 3)), TypeError, "plain, gru and lstm fields only, not for GRU, which is no field"),
    (lambda: ctrnn.from_torch(nn.GRU), TypeError, "got the class GRU."),
    (lambda: gated(2, 3, decay=ctrnn.PowerDecay), TypeError, "got the class PowerDecay; make one, `PowerDecay(...)`."),
    (
        lambda: ctrnn.Relaxation(ctrnn.TanhCandidate(2, 3), 1.0, ctrnn.LinearDecay()),
        TypeError,
        "such as `ctrnn.parts.FixedRate(1.0)`",
    ),
]

TRAIN = ["train", "--task", "recall", "--field", "gated", "--integrator", "euler"]
DEMO = ["demo", "--rate", "1", "--input"]
PROVE = ["prove", "--equations", "cell.py:equations"]
# What is typed in a folder with the files below, and what the answer holds.
AT_THE_PROMPT = [
    (["dmeo"], "there is no command 'dmeo'; did you mean 'demo'?"),
    (["--verison"], "did you mean '--version'?"),
    ([*DEMO, "empty.csv"], "empty.csv: is empty."),
    ([*DEMO, "head.csv"], "head.csv: has no rows below the names of its columns"),
    ([*DEMO, "short.csv"], "short.csv: 2 samples, at least 16 are needed"),
    ([*DEMO, "zero.csv"], "zero.csv: 1: row 2 has '\\x00', and most of this column are numbers"),
    ([*DEMO, "inf.csv"], "inf.csv: 2: row 1 is infinite; mend it"),
    ([*DEMO, "ragged.csv"], "ragged.csv: row 2, line 2 of the file, has 1 cell, '1', and the first row names 2"),
    ([*DEMO, "line.csv"], "6000 channels and only 1 sample; transpose it"),
    ([*DEMO, "pipe.csv"], "pipe.csv: cannot be read (not a file)"),
    ([*DEMO, "large.npy"], "large.npy: cannot be read: it is empty or cut off"),
    ([*DEMO, "pickle.npy"], "pickle.npy: cannot be read: it is not a .npy file"),
    ([*DEMO, "/dev/zero"], "a recording is a .npy or .csv file, not one without a suffix"),
    ([*DEMO, "lost.csv"], "lost.csv: cannot be read (No such file or directory)"),
    ([*DEMO, ""], "an empty word was typed"),
    ([*DEMO, "caf\udce9.csv"], "is not UTF-8 text"),
    ([*DEMO, "whole.csv", "--out", "whole.csv"], "cannot write to whole.csv (File exists)"),
    (
        ["demo", "--input", "whole.csv", "--rate", "1e999"],
        "--sampling-rate must be a number of samples per second above 0, got inf",
    ),
    (["breakdown", "--rate", "3"], "--sampling-rate is for a recording of yours"),
    (["derive", "--format", "xml"], "there is no format 'xml'; did you mean 'html'?"),
    (["derive", "--source", "tallec"], "there is no source 'tallec'"),
    (["derive", "--out", "lost/ledger.html"], "there is no folder lost"),
    (["derive", "--out", "."], "--out . is a folder; name a file in it"),
    (["derive", "--check", "half.json"], "this is no ledger with certificates"),
    (["derive", "--check", "lost.json"], "lost.json: cannot be read (No such file or directory)"),
    (["derive", "--check", "pipe.csv"], "pipe.csv: cannot be read (it is a pipe, not a file)"),
    (["derive", "--check", "/dev/zero"], "/dev/zero: cannot be read (it is a device, not a file)"),
    (["derive", "--check", "half.json", "--format", "json"], "--check stands alone"),
    ([*PROVE, "cell.py"], "'cell.py' is not of the form FILE.py:NAME, nor a paper, which ends in .md or .tex"),
    (["prove", "cell.py:Cell", "--equations", "paper.md"], "'paper.md' is not of the form FILE.py:NAME."),
    ([*PROVE, "none.py:Cell"], "none.py has no 'Cell'; there is none."),
    ([*PROVE, "cell.py:Cell", "--format", "html", "--out", "./cell.py"], "--out cell.py is the code itself"),
    ([*PROVE, "whole.py:Cell", "--format", "html", "--out", "cell.py"], "--out cell.py is the code itself"),
    (
        [*PROVE, "cell.py:Cell", "--out", "report.pdf"],
        "--out report.pdf: nothing here is written as .pdf; take .txt, .html, .md, or say by --format",
    ),
    ([*PROVE, "cell.py:Cell", "--out", "ledger.json"], "nothing here is written as .json; take .txt, .html, .md"),
    (["prove", "paper.md", "--out", "report.pdf"], "nothing here is written as .pdf; take .txt, .json, .tex, .html, .md, or"),
    (["derive", "--out", "ledger.md"], "nothing here is written as .md; take .txt, .json, .tex, .html, or say"),
    ([*PROVE, "lost.py:Cell"], "there is no file lost.py"),
    ([*PROVE, "cell.py:Lost"], "cell.py has no 'Lost'; there is"),
    ([*PROVE, "syntax.py:Cell"], "syntax.py could not be run: SyntaxError"),
    ([*TRAIN, "--out", "run", "--set", "steps=0"], "`steps` must be at least 1, got 0"),
    ([*TRAIN, "--out", "run", "--set", "stepz=1"], "did you mean 'steps'?"),
    ([*TRAIN, "--out", "run", "--plugin", "."], ". is a folder; name a file in it"),
    ([*TRAIN, "--out", "run", "--set", "rate=nan"], "lr is a number, got 'nan'"),
    ([*TRAIN, "--out", "run", "--set", "hidden=99999999"], "`hidden` must be at most 1000000, got 99999999"),
    ([*TRAIN, "--out", "run", "--set", "steps=3", "--set", "steps=4"], "--set gives steps twice"),
    ([*TRAIN, "--out", "run", "--resume"], "config.json cannot be read"),
    ([*TRAIN, "--out", "linked"], "metrics.csv is a symbolic link to"),
    (["study", "run", "unwarpd", "--out", "x"], "there is no study 'unwarpd'; did you mean 'unwarped'?"),
    (["study", "run", "unwarped", "--out", "x", "--shard", "3/2"], "--shard is I/N with I from 1 to N"),
    (["study", "run", "unwarped", "--out", "x", "--data", "lost"], "--data is a folder; there is none at lost"),
    (["study", "run", "unwarped", "--out", "study"], "study.json is damaged; delete that file"),
    (["study", "plot", "lost"], "there is no study.json in it"),
    (["bench", "--against", "keras"], "there is no peer 'keras'; there is torch, loop"),
    (["bench", "--out", "times.exe"], "there is no file ending '.exe'"),
]


def write_files(folder):
    """The files that the commands name."""
    texts = {
        "empty.csv": "",
        "head.csv": "a,b\n",
        "short.csv": "1,2\n3,4\n",
        "zero.csv": "1,2\n\0,3\n" * 20,
        "inf.csv": "1,inf\n" * 20,
        "ragged.csv": "1,2\n1\n" * 20,
        "line.csv": "1," * 6_000,
        "whole.csv": "1,2\n2,-1\n" * 20,
        "pickle.npy": "\x80\x04N.",
        "half.json": '[{"source": ',
        "run/config.json": "[]",
        "study/study.json": json.dumps({"study": 3}),
        "syntax.py": "def (:\n",
        "cell.py": "import torch\nclass Cell(torch.nn.Module):\n    pass\nequations = []\n",
        "none.py": "",
        "target": "",
    }
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999, 2), }"
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "large.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + header.ljust(117) + b"\n")
    (folder / "linked").mkdir()
    (folder / "linked" / "metrics.csv").symlink_to(folder / "target")
    os.mkfifo(folder / "pipe.csv")


@pytest.mark.parametrize(("call", "kind", "words"), [pytest.param(*case, id=case[2]) for case in IN_PYTHON])
def test_mistakes_in_python_are_answered(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("given", [{"rtol": 1e-3}, {"atol": 1e-3}, {"max_num_steps": 5}])
@pytest.mark.parametrize("method", ["rk4", Euler()])
def test_settings_that_steps_of_one_length_do_not_read_are_said(method, given):
    (name,) = given
    with pytest.warns(SolverWarning, match=f"`{name}` changes nothing here: it is for methods that choose their steps"):
        ContinuousRNN(FIELD, method=method, **given)
    with pytest.warns(SolverWarning, match=f"`{name}` changes nothing here"):
        integrate(FIELD, PATH, H, TS, method=method, **given)


@pytest.mark.parametrize("given", [{"rtol": 1e-3}, {"atol": 1e-3}], ids=str)
def test_tolerances_that_steps_between_jumps_do_not_read_are_said(given):
    (name,) = given
    field, jump = ctrnn.gru(0, 4), GRUBayes(2, 4, 2, 3)
    with pytest.warns(SolverWarning, match=f"`{name}` changes nothing here: it is for methods that choose their steps"):
        JumpRNN(field, jump, method="rk4", **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SolverWarning)
        stepped(JumpRNN(field, jump, **given))  # nothing was said of these steps


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("rk4", {"rtol": 1e-3}),
        ("euler", {"atol": 1e-3}),
        ("midpoint", {"max_num_steps": 5}),
        ("explicit_adams", {"rtol": 1e-3}),
        ("implicit_adams", {"max_num_steps": 5}),
        ("scipy_solver", {"max_num_steps": 5}),
    ],
)
def test_settings_that_a_method_of_torchdiffeq_does_not_read_are_said(method, given):
    (name,) = given
    with pytest.warns(SolverWarning, match=f"`{name}` changes nothing here: it is for methods that choose their steps"):
        ContinuousRNN(FIELD, method=f"torchdiffeq:{method}", **given)


@pytest.mark.parametrize(
    ("method", "given"),
    [("dopri5", {"rtol": 1e-3, "max_num_steps": 5}), ("implicit_adams", {"rtol": 1e-3}), ("scipy_solver", {"atol": 1e-3})],
)
def test_settings_that_a_method_of_torchdiffeq_reads_are_not_spoken_of(method, given):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SolverWarning)
        ContinuousRNN(FIELD, method=f"torchdiffeq:{method}", **given)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes in folders")
def test_mistakes_at_the_prompt_are_answered(tmp_path, monkeypatch, capsys, subtests):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for typed, words in AT_THE_PROMPT:
        with subtests.test(ascii(typed)):  # a name that is not UTF-8 among them
            code, said = main(typed), " ".join("".join(capsys.readouterr()).replace("│", " ").split())
            assert code == 2
            assert words in said
            assert "Traceback" not in said
    left = [path for path in sorted(tmp_path.rglob("*")) if path.name != ".lock" and "__pycache__" not in path.parts]
    assert left == before  # but for what Python writes beside a file that it runs


@pytest.mark.slow
def test_they_are_answered_without_asserts():
    command = [sys.executable, "-O", "-m", "pytest", "-q", "-W", "ignore::pytest.PytestConfigWarning", __file__, "-k", "mistakes"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
