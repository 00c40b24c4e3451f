# What fields are made of, and what their weights obey, in the order one would learn them.
# ruff: noqa: I001

from ctrnn.fields.parts import Part as Part, Affine as Affine
from ctrnn.fields.candidates import TanhCandidate as TanhCandidate, ReluCandidate as ReluCandidate
from ctrnn.fields.candidates import ResetCandidate as ResetCandidate, ResetStateCandidate as ResetStateCandidate
from ctrnn.fields.candidates import AdditiveCandidate as AdditiveCandidate, FunctionCandidate as FunctionCandidate
from ctrnn.cells.published.supralinear import PowerLawCandidate as PowerLawCandidate
from ctrnn.cells.edges import GatedCandidate as GatedCandidate
from ctrnn.cells.published.liquid.synapses import Synapses as Synapses
from ctrnn.fields.rates import FixedRate as FixedRate, ConstantRate as ConstantRate, SigmoidConstantRate as SigmoidConstantRate
from ctrnn.fields.rates import GateRate as GateRate, GlobalGateRate as GlobalGateRate, SoftplusRate as SoftplusRate
from ctrnn.fields.rates import GlobalSoftplusRate as GlobalSoftplusRate, ExponentialRate as ExponentialRate
from ctrnn.fields.rates import GlobalExponentialRate as GlobalExponentialRate, SoftplusConstantRate as SoftplusConstantRate
from ctrnn.fields.decays import LinearDecay as LinearDecay, PowerDecay as PowerDecay, Decay as Decay
from ctrnn.fields.connectivity import Dale as Dale, Mask as Mask, LowRank as LowRank, ZeroDiagonal as ZeroDiagonal
from ctrnn.fields.connectivity import SpectralRadius as SpectralRadius
from ctrnn.fields.layer_norm import LayerNorm as LayerNorm
from ctrnn.fields.dropout import Dropout as Dropout, draw_masks as draw_masks
