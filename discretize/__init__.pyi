# The public names in the order one would learn them; __init__.py imports each when it is first used.
# ruff: noqa: I001

from discretize.steps.euler import Euler as Euler
from discretize.steps.exponential import ExponentialEuler as ExponentialEuler
from discretize.steps.euler import Taylor2 as Taylor2
from discretize.steps.exponential import ETD2 as ETD2, ETDRK4 as ETDRK4, FittedMidpoint as FittedMidpoint
from discretize.steps.runge_kutta import Midpoint as Midpoint, Heun as Heun, RungeKutta4 as RungeKutta4
from discretize.steps.implicit import BackwardEuler as BackwardEuler, Trapezoid as Trapezoid
from discretize.steps.frozen import FrozenBackwardEuler as FrozenBackwardEuler, FrozenTrapezoid as FrozenTrapezoid
from discretize.steps.rosenbrock import ExponentialRosenbrock as ExponentialRosenbrock
from discretize.steps.splitting import Splitting as Splitting, StrangSplitting as StrangSplitting
from discretize.steps.euler import SymplecticEuler as SymplecticEuler
from discretize.steps.zoneout import Zoneout as Zoneout
from discretize.steps.stochastic import EulerMaruyama as EulerMaruyama, StratonovichHeun as StratonovichHeun
from discretize.steps.stochastic import Milstein as Milstein, SRA1 as SRA1
from discretize.steps.stochastic import ExponentialEulerMaruyama as ExponentialEulerMaruyama, StochasticStep as StochasticStep
from discretize.solvers.tableaus import EmbeddedRungeKutta as EmbeddedRungeKutta, EmbeddedMethod as EmbeddedMethod
from discretize.solvers.tableaus import Attempt as Attempt
from discretize.solvers.doubling import StepDoubling as StepDoubling
from discretize.noise.brownian import BrownianPath as BrownianPath
from discretize.noise.generator import noise_keys as noise_keys
from discretize.steps.step import Step as Step
from discretize.sequences.cell import DiscreteCell as DiscreteCell
from discretize.sequences.unroll import unroll as unroll
from discretize.parallel.newton import unroll_parallel as unroll_parallel
from discretize.parallel.scan import linear_recurrence as linear_recurrence
from discretize.sequences.rnn import DiscreteRNN as DiscreteRNN
from discretize.sequences.continuous import ContinuousRNN as ContinuousRNN
from discretize.sequences.model import SequenceModel as SequenceModel
from discretize.sequences.twins import solved as solved, stepped as stepped
from discretize.units import unit as unit
from discretize.sequences.layers import Layers as Layers
from discretize.sequences.batches import Batch as Batch, Collate as Collate
from discretize.riemannian.symbols import SymbolModel as SymbolModel
from discretize.riemannian.ascent import RiemannianAscent as RiemannianAscent
from discretize.ensembles.ensemble import ensemble as ensemble, Ensemble as Ensemble
from discretize.sequences.conversion import layers_from_torch as layers_from_torch, layers_to_torch as layers_to_torch
from discretize.sequences.conversion import from_torch as from_torch, to_torch as to_torch
from discretize.sequences.foreign import from_ctrnn as from_ctrnn
from discretize.jumps.rnn import HeldJumpRNN as HeldJumpRNN
from discretize.jumps.cfc import cfc as cfc, CfCJump as CfCJump
from discretize.jumps.cfc import Curve as Curve
from discretize.jumps.ncps_modules import from_ncps as from_ncps
from discretize.solve import integrate as integrate
from discretize.jumps.rnn import JumpRNN as JumpRNN, ode_rnn as ode_rnn, gru_ode_bayes as gru_ode_bayes
from discretize.jumps.gru_d import gru_d as gru_d, GRUDJump as GRUDJump, Elapsed as Elapsed
from discretize.jumps.jump import Jump as Jump, CellJump as CellJump, GRUBayes as GRUBayes
from discretize.jumps.jump import observed_log_prob as observed_log_prob
from discretize.jumps.jump import bayes_update as bayes_update, bayes_divergence as bayes_divergence
from discretize.solvers.events import Event as Event, EventTimes as EventTimes
from discretize.solvers.checkpointing import Checkpointed as Checkpointed
from discretize.solvers.adjoint import Adjoint as Adjoint
from discretize.analysis.stability import regions as regions, REGIONS as REGIONS, growth as growth, Growth as Growth
from discretize.analysis.monitor import Monitor as Monitor
from discretize.analysis.record import Record as Record, LongStep as LongStep
from discretize.analysis.refine import refine as refine
from discretize.analysis.refinement import Refinement as Refinement
from discretize.analysis.breakdown.look import breakdown as breakdown
from discretize.analysis.breakdown.report import Breakdown as Breakdown
from discretize.analysis.engines import EngineReport as EngineReport, verify_engines as verify_engines
from discretize.analysis.memory import state_jacobians as state_jacobians, input_gradients as input_gradients
from discretize.analysis.likelihood import path_log_likelihood as path_log_likelihood, path_log_ratio as path_log_ratio
from discretize.analysis.likelihood import path_divergence as path_divergence
from discretize.fitting.fit import fit as fit
from discretize.fitting.result import Fit as Fit
from discretize.fitting.profile import Profile as Profile
from discretize.analysis.decay_laws import decay_law as decay_law, DecayLaw as DecayLaw
from discretize.analysis.dynamics.systems import Flow as Flow, Map as Map
from discretize.analysis.dynamics.fixed_points import fixed_points as fixed_points, FixedPoints as FixedPoints
from discretize.analysis.dynamics.orbits import periodic_orbits as periodic_orbits, PeriodicOrbit as PeriodicOrbit
from discretize.analysis.dynamics.branches import continuation as continuation, Branch as Branch, Bifurcation as Bifurcation
from discretize.analysis.dynamics.exponents import lyapunov as lyapunov, LyapunovSpectrum as LyapunovSpectrum
from discretize.analysis.dynamics.basins import basins as basins
from discretize.analysis.dynamics.phase_plane import phase_plane as phase_plane
from discretize.analysis.dynamics.state_space import state_space as state_space
from discretize.analysis.dynamics.state_space import participation_dimension as participation_dimension
from discretize.trajectory import Trajectory as Trajectory
from discretize.analysis.plot import plot as plot
from discretize.errors import SolverError as SolverError, SolverWarning as SolverWarning, StepError as StepError
from discretize.errors import KernelWarning as KernelWarning, StepWarning as StepWarning, TimeUnitWarning as TimeUnitWarning
from discretize.errors import StampWarning as StampWarning
