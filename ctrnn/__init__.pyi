# The public names in the order one would learn them; __init__.py imports each when it is first used.
# A name of the second half has its place in a module of this package, which its line names; here it goes on working.
# ruff: noqa: I001

from ctrnn.cells.named import plain as plain, leaky as leaky, gated as gated, gru as gru, lstm as lstm, additive as additive
from ctrnn.cells.conversion import from_torch as from_torch, to_torch as to_torch
from ctrnn.fields.field import VectorField as VectorField
from ctrnn.fields.delayed import DelayedField as DelayedField
from ctrnn.fields.relaxation import Relaxation as Relaxation
from ctrnn.fields.noise import Noise as Noise, Noisy as Noisy
from ctrnn.inputs.held import HeldPath as HeldPath
from ctrnn.inputs.interpolated import LinearPath as LinearPath, HermitePath as HermitePath
from ctrnn.inputs.function import FunctionPath as FunctionPath
from ctrnn.clocks.straight import AffineWarp as AffineWarp, PiecewiseWarp as PiecewiseWarp
from ctrnn.clocks.smooth import SmoothWarp as SmoothWarp
from ctrnn.clocks.warped_path import WarpedPath as WarpedPath
from ctrnn.driven import Driven as Driven
from ctrnn.cells.timescales import timescales as timescales
from ctrnn.cells.traced_leak import traced_leak as traced_leak
from ctrnn.storage.model import save as save, load as load
from ctrnn.version import __version__ as __version__
from ctrnn import init as init, cells as cells, parts as parts, inputs as inputs  # modules, as in torch.nn: ctrnn.init.chrono_

from ctrnn.cells import mgu as mgu, antisymmetric as antisymmetric, cornn as cornn, unicornn as unicornn, lem as lem, rhn as rhn
from ctrnn.cells import adaptive as adaptive, wilson_cowan as wilson_cowan, ssn as ssn, fitzhugh_nagumo as fitzhugh_nagumo
from ctrnn.cells import ltc as ltc, glnn as glnn, gnn as gnn, from_ncps as from_ncps
from ctrnn.cells import Stack as Stack, DelayLine as DelayLine, ColoredInput as ColoredInput
from ctrnn.cells import softplus_clock as softplus_clock, LowRankReduction as LowRankReduction
from ctrnn.cells import LSTMField as LSTMField, MGUField as MGUField, AntisymmetricField as AntisymmetricField
from ctrnn.cells import GatedAntisymmetricField as GatedAntisymmetricField, CoRNNField as CoRNNField
from ctrnn.cells import UnICORNNField as UnICORNNField, LEMField as LEMField, RHNField as RHNField
from ctrnn.cells import AdaptiveField as AdaptiveField, WilsonCowanField as WilsonCowanField
from ctrnn.cells import FitzHughNagumoField as FitzHughNagumoField, LTCField as LTCField, GLNNField as GLNNField
from ctrnn.cells import NetworkGated as NetworkGated, NetworkField as NetworkField, ControlledField as ControlledField
from ctrnn.parts import TanhCandidate as TanhCandidate, ReluCandidate as ReluCandidate, ResetCandidate as ResetCandidate
from ctrnn.parts import ResetStateCandidate as ResetStateCandidate, AdditiveCandidate as AdditiveCandidate
from ctrnn.parts import FunctionCandidate as FunctionCandidate, PowerLawCandidate as PowerLawCandidate
from ctrnn.parts import GatedCandidate as GatedCandidate, Synapses as Synapses
from ctrnn.parts import FixedRate as FixedRate, ConstantRate as ConstantRate, SigmoidConstantRate as SigmoidConstantRate
from ctrnn.parts import GateRate as GateRate, GlobalGateRate as GlobalGateRate, SoftplusRate as SoftplusRate
from ctrnn.parts import GlobalSoftplusRate as GlobalSoftplusRate, ExponentialRate as ExponentialRate
from ctrnn.parts import GlobalExponentialRate as GlobalExponentialRate, SoftplusConstantRate as SoftplusConstantRate
from ctrnn.parts import LinearDecay as LinearDecay, PowerDecay as PowerDecay, Decay as Decay, Part as Part, Affine as Affine
from ctrnn.parts import Dale as Dale, Mask as Mask, LowRank as LowRank, ZeroDiagonal as ZeroDiagonal
from ctrnn.parts import SpectralRadius as SpectralRadius, LayerNorm as LayerNorm, Dropout as Dropout, draw_masks as draw_masks
from ctrnn.inputs import Path as Path, TimePath as TimePath, DerivativePath as DerivativePath, Warp as Warp
from ctrnn.inputs import hold_missing as hold_missing
