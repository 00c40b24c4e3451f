# The public names in the order one would learn them; __init__.py imports each when it is first used.
# A name of the second half has its place in a module of this package, which its line names; here it goes on working.
# ruff: noqa: I001

from discretize.steps.euler import Euler as Euler
from discretize.steps.exponential import ExponentialEuler as ExponentialEuler
from discretize.steps.runge_kutta import Midpoint as Midpoint, Heun as Heun, RungeKutta4 as RungeKutta4
from discretize.steps.implicit import BackwardEuler as BackwardEuler, Trapezoid as Trapezoid
from discretize.steps.stochastic import EulerMaruyama as EulerMaruyama
from discretize.sequences.cell import DiscreteCell as DiscreteCell
from discretize.sequences.unroll import unroll as unroll
from discretize.sequences.rnn import DiscreteRNN as DiscreteRNN
from discretize.sequences.continuous import ContinuousRNN as ContinuousRNN
from discretize.sequences.model import SequenceModel as SequenceModel
from discretize.sequences.layers import Layers as Layers
from discretize.sequences.conversion import layers_from_torch as layers_from_torch, layers_to_torch as layers_to_torch
from discretize.sequences.foreign import from_ctrnn as from_ctrnn
from discretize.sequences.batches import Collate as Collate
from discretize.units import unit as unit
from discretize.solve import integrate as integrate
from discretize.trajectory import Trajectory as Trajectory
from discretize.solvers.events import Event as Event
from discretize.solvers.checkpointing import Checkpointed as Checkpointed
from discretize.solvers.adjoint import Adjoint as Adjoint
from discretize.ensembles.ensemble import ensemble as ensemble
from discretize.jumps.rnn import ode_rnn as ode_rnn, gru_ode_bayes as gru_ode_bayes
from discretize.jumps.gru_d import gru_d as gru_d
from discretize.jumps.cfc import cfc as cfc
from discretize.analysis.refine import refine as refine
from discretize.analysis.breakdown.look import breakdown as breakdown
from discretize.analysis.monitor import Monitor as Monitor
from discretize.fitting.fit import fit as fit
from discretize.analysis.plot import plot as plot
from discretize import steps as steps, sequences as sequences, jumps as jumps, analysis as analysis, errors as errors

from discretize.steps import Taylor2 as Taylor2, ETD2 as ETD2, ETDRK4 as ETDRK4, FittedMidpoint as FittedMidpoint
from discretize.steps import FrozenBackwardEuler as FrozenBackwardEuler, FrozenTrapezoid as FrozenTrapezoid
from discretize.steps import ExponentialRosenbrock as ExponentialRosenbrock, Splitting as Splitting
from discretize.steps import StrangSplitting as StrangSplitting, SymplecticEuler as SymplecticEuler, Zoneout as Zoneout
from discretize.steps import StratonovichHeun as StratonovichHeun, Milstein as Milstein, SRA1 as SRA1
from discretize.steps import ExponentialEulerMaruyama as ExponentialEulerMaruyama, StochasticStep as StochasticStep
from discretize.steps import EmbeddedRungeKutta as EmbeddedRungeKutta, EmbeddedMethod as EmbeddedMethod, Attempt as Attempt
from discretize.steps import StepDoubling as StepDoubling, Step as Step
from discretize.steps import BrownianPath as BrownianPath, noise_keys as noise_keys
from discretize.sequences import solved as solved, stepped as stepped, Batch as Batch, Ensemble as Ensemble
from discretize.sequences import unroll_parallel as unroll_parallel, linear_recurrence as linear_recurrence
from discretize.sequences import EventTimes as EventTimes, SymbolModel as SymbolModel, RiemannianAscent as RiemannianAscent
from discretize.jumps import JumpRNN as JumpRNN, HeldJumpRNN as HeldJumpRNN, Jump as Jump, CellJump as CellJump
from discretize.jumps import GRUBayes as GRUBayes, GRUDJump as GRUDJump, Elapsed as Elapsed, CfCJump as CfCJump, Curve as Curve
from discretize.jumps import observed_log_prob as observed_log_prob, bayes_update as bayes_update
from discretize.jumps import bayes_divergence as bayes_divergence, from_ncps as from_ncps
from discretize.analysis import regions as regions, REGIONS as REGIONS, growth as growth, Growth as Growth
from discretize.analysis import Record as Record, LongStep as LongStep, Refinement as Refinement, Breakdown as Breakdown
from discretize.analysis import verify_engines as verify_engines, EngineReport as EngineReport
from discretize.analysis import state_jacobians as state_jacobians, input_gradients as input_gradients
from discretize.analysis import path_log_likelihood as path_log_likelihood, path_log_ratio as path_log_ratio
from discretize.analysis import path_divergence as path_divergence, Fit as Fit, Profile as Profile
from discretize.analysis import decay_law as decay_law, DecayLaw as DecayLaw, Flow as Flow, Map as Map
from discretize.analysis import fixed_points as fixed_points, FixedPoints as FixedPoints
from discretize.analysis import periodic_orbits as periodic_orbits, PeriodicOrbit as PeriodicOrbit
from discretize.analysis import continuation as continuation, Branch as Branch, Bifurcation as Bifurcation
from discretize.analysis import lyapunov as lyapunov, LyapunovSpectrum as LyapunovSpectrum
from discretize.analysis import basins as basins, phase_plane as phase_plane, state_space as state_space
from discretize.analysis import participation_dimension as participation_dimension
from discretize.errors import SolverError as SolverError, SolverWarning as SolverWarning, StepError as StepError
from discretize.errors import KernelWarning as KernelWarning, StepWarning as StepWarning, TimeUnitWarning as TimeUnitWarning
from discretize.errors import StampWarning as StampWarning

from_torch = layers_from_torch  # their names before
to_torch = layers_to_torch
