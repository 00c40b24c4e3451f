# The public names in the order one would learn them; __init__.py imports each when it is first used.
# ruff: noqa: I001

from ctrnn.cells.named import plain as plain, leaky as leaky, gated as gated, gru as gru, lstm as lstm, additive as additive
from ctrnn.cells.published.mgu import mgu as mgu
from ctrnn.cells.published.antisymmetric import antisymmetric as antisymmetric
from ctrnn.cells.published.cornn import cornn as cornn
from ctrnn.cells.published.unicornn import unicornn as unicornn
from ctrnn.cells.published.lem import lem as lem
from ctrnn.cells.published.rhn import rhn as rhn
from ctrnn.cells.published.adaptive import adaptive as adaptive
from ctrnn.cells.published.wilson_cowan import wilson_cowan as wilson_cowan
from ctrnn.cells.published.supralinear import ssn as ssn
from ctrnn.cells.published.fitzhugh_nagumo import fitzhugh_nagumo as fitzhugh_nagumo
from ctrnn.cells.published.liquid.ltc import ltc as ltc
from ctrnn.cells.published.glnn import glnn as glnn, gnn as gnn
from ctrnn.cells.conversion import from_torch as from_torch, to_torch as to_torch
from ctrnn.cells.published.liquid.ncps_cells import from_ncps as from_ncps
from ctrnn.fields.field import VectorField as VectorField
from ctrnn.fields.delayed import DelayedField as DelayedField, DelayLine as DelayLine
from ctrnn.fields.relaxation import Relaxation as Relaxation
from ctrnn.cells.stack import Stack as Stack
from ctrnn.fields.candidates import (
    TanhCandidate as TanhCandidate,
    ReluCandidate as ReluCandidate,
    ResetCandidate as ResetCandidate,
    ResetStateCandidate as ResetStateCandidate,
    AdditiveCandidate as AdditiveCandidate,
    FunctionCandidate as FunctionCandidate,
)
from ctrnn.fields.rates import FixedRate as FixedRate, ConstantRate as ConstantRate, SigmoidConstantRate as SigmoidConstantRate
from ctrnn.fields.rates import GateRate as GateRate, GlobalGateRate as GlobalGateRate, SoftplusRate as SoftplusRate
from ctrnn.fields.rates import GlobalSoftplusRate as GlobalSoftplusRate, ExponentialRate as ExponentialRate
from ctrnn.fields.rates import GlobalExponentialRate as GlobalExponentialRate, SoftplusConstantRate as SoftplusConstantRate
from ctrnn.fields.relaxation import softplus_clock as softplus_clock
from ctrnn.fields.decays import LinearDecay as LinearDecay, PowerDecay as PowerDecay, Decay as Decay
from ctrnn.fields.parts import Part as Part, Affine as Affine
from ctrnn.fields.connectivity import Dale as Dale, Mask as Mask, LowRank as LowRank, ZeroDiagonal as ZeroDiagonal
from ctrnn.cells.low_rank import LowRankReduction as LowRankReduction
from ctrnn.fields.connectivity import SpectralRadius as SpectralRadius
from ctrnn.fields.layer_norm import LayerNorm as LayerNorm
from ctrnn.fields.noise import Noise as Noise, Noisy as Noisy, ColoredInput as ColoredInput
from ctrnn.fields.dropout import Dropout as Dropout, draw_masks as draw_masks
from ctrnn.cells.lstm import LSTMField as LSTMField
from ctrnn.cells.published.mgu import MGUField as MGUField
from ctrnn.cells.published.antisymmetric import (
    AntisymmetricField as AntisymmetricField,
    GatedAntisymmetricField as GatedAntisymmetricField,
)
from ctrnn.cells.published.cornn import CoRNNField as CoRNNField
from ctrnn.cells.published.unicornn import UnICORNNField as UnICORNNField
from ctrnn.cells.published.lem import LEMField as LEMField
from ctrnn.cells.published.rhn import RHNField as RHNField
from ctrnn.cells.published.adaptive import AdaptiveField as AdaptiveField
from ctrnn.cells.published.wilson_cowan import WilsonCowanField as WilsonCowanField
from ctrnn.cells.published.supralinear import PowerLawCandidate as PowerLawCandidate
from ctrnn.cells.published.fitzhugh_nagumo import FitzHughNagumoField as FitzHughNagumoField
from ctrnn.cells.published.liquid.ltc import LTCField as LTCField
from ctrnn.cells.published.glnn import GLNNField as GLNNField
from ctrnn.cells.edges import GatedCandidate as GatedCandidate
from ctrnn.cells.published.liquid.synapses import Synapses as Synapses
from ctrnn.fields.networks import NetworkField as NetworkField
from ctrnn.fields.networks import ControlledField as ControlledField
from ctrnn.cells.network_gate import NetworkGated as NetworkGated
from ctrnn.inputs.held import HeldPath as HeldPath
from ctrnn.inputs.interpolated import LinearPath as LinearPath
from ctrnn.inputs.path import Path as Path
from ctrnn.inputs.interpolated import HermitePath as HermitePath
from ctrnn.inputs.function import FunctionPath as FunctionPath
from ctrnn.inputs.derived import TimePath as TimePath, DerivativePath as DerivativePath
from ctrnn.inputs.missing import hold_missing as hold_missing
from ctrnn.clocks.straight import AffineWarp as AffineWarp
from ctrnn.clocks.straight import PiecewiseWarp as PiecewiseWarp
from ctrnn.clocks.smooth import SmoothWarp as SmoothWarp
from ctrnn.clocks.warp import Warp as Warp
from ctrnn.clocks.warped_path import WarpedPath as WarpedPath
from ctrnn.driven import Driven as Driven
from ctrnn.cells.timescales import timescales as timescales
from ctrnn.cells.traced_leak import traced_leak as traced_leak
from ctrnn.storage.model import save as save, load as load
from ctrnn.version import __version__ as __version__
from ctrnn import init as init  # a module, as in torch.nn: ctrnn.init.chrono_
