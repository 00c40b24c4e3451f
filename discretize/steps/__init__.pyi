# All steps, pairs, what they are, and the noise that they read, in the order one would learn them.
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
from discretize.steps.capped import CappedEuler as CappedEuler
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
