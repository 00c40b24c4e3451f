# Published cells, what constructors make, and fields made of others, in the order one would learn them.
# ruff: noqa: I001

from ctrnn.cells.published.mgu import mgu as mgu, MGUField as MGUField
from ctrnn.cells.published.antisymmetric import antisymmetric as antisymmetric, AntisymmetricField as AntisymmetricField
from ctrnn.cells.published.antisymmetric import GatedAntisymmetricField as GatedAntisymmetricField
from ctrnn.cells.published.cornn import cornn as cornn, CoRNNField as CoRNNField
from ctrnn.cells.published.unicornn import unicornn as unicornn, UnICORNNField as UnICORNNField
from ctrnn.cells.published.lem import lem as lem, LEMField as LEMField
from ctrnn.cells.published.rhn import rhn as rhn, RHNField as RHNField
from ctrnn.cells.published.adaptive import adaptive as adaptive, AdaptiveField as AdaptiveField
from ctrnn.cells.published.wilson_cowan import wilson_cowan as wilson_cowan, WilsonCowanField as WilsonCowanField
from ctrnn.cells.published.supralinear import ssn as ssn
from ctrnn.cells.published.fitzhugh_nagumo import fitzhugh_nagumo as fitzhugh_nagumo, FitzHughNagumoField as FitzHughNagumoField
from ctrnn.cells.published.liquid.ltc import ltc as ltc, LTCField as LTCField
from ctrnn.cells.published.glnn import glnn as glnn, gnn as gnn, GLNNField as GLNNField
from ctrnn.cells.published.liquid.ncps_cells import from_ncps as from_ncps
from ctrnn.cells.lstm import LSTMField as LSTMField
from ctrnn.cells.network_gate import NetworkGated as NetworkGated
from ctrnn.cells.stack import Stack as Stack
from ctrnn.fields.relaxation import softplus_clock as softplus_clock
from ctrnn.fields.networks import NetworkField as NetworkField, ControlledField as ControlledField
from ctrnn.fields.delayed import DelayLine as DelayLine
from ctrnn.fields.noise import ColoredInput as ColoredInput
from ctrnn.cells.low_rank import LowRankReduction as LowRankReduction
