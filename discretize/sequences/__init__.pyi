# What calls on sequences return or take beside the usual, in the order one would learn them.
# ruff: noqa: I001

from discretize.sequences.twins import solved as solved, stepped as stepped
from discretize.parallel.newton import unroll_parallel as unroll_parallel
from discretize.parallel.scan import linear_recurrence as linear_recurrence
from discretize.sequences.batches import Batch as Batch
from discretize.ensembles.ensemble import Ensemble as Ensemble
from discretize.solvers.events import EventTimes as EventTimes
from discretize.riemannian.symbols import SymbolModel as SymbolModel
from discretize.riemannian.ascent import RiemannianAscent as RiemannianAscent
