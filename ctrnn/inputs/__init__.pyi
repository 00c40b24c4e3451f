# What inputs and clocks are, beside those that every user meets, in the order one would learn them.
# ruff: noqa: I001

from ctrnn.inputs.missing import hold_missing as hold_missing
from ctrnn.inputs.derived import TimePath as TimePath, DerivativePath as DerivativePath
from ctrnn.inputs.path import Path as Path
from ctrnn.clocks.warp import Warp as Warp
