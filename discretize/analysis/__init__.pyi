# What is asked of a model, and what the answers are, in the order one would learn them.
# ruff: noqa: I001

from discretize.analysis.stability import regions as regions, REGIONS as REGIONS, growth as growth, Growth as Growth
from discretize.analysis.record import Record as Record, LongStep as LongStep
from discretize.analysis.refinement import Refinement as Refinement
from discretize.analysis.breakdown.report import Breakdown as Breakdown
from discretize.analysis.engines import verify_engines as verify_engines, EngineReport as EngineReport
from discretize.analysis.memory import state_jacobians as state_jacobians, input_gradients as input_gradients
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
from discretize.analysis.likelihood import path_log_likelihood as path_log_likelihood, path_log_ratio as path_log_ratio
from discretize.analysis.likelihood import path_divergence as path_divergence
from discretize.fitting.result import Fit as Fit
from discretize.fitting.profile import Profile as Profile
