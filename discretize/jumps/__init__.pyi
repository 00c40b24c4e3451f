# Fields that jump at observations, and what a jump does, in the order one would learn them.
# ruff: noqa: I001

from discretize.jumps.rnn import JumpRNN as JumpRNN, HeldJumpRNN as HeldJumpRNN
from discretize.jumps.jump import Jump as Jump, CellJump as CellJump, GRUBayes as GRUBayes
from discretize.jumps.gru_d import GRUDJump as GRUDJump, Elapsed as Elapsed
from discretize.jumps.cfc import CfCJump as CfCJump, Curve as Curve
from discretize.jumps.ncps_modules import from_ncps as from_ncps
from discretize.jumps.jump import observed_log_prob as observed_log_prob
from discretize.jumps.jump import bayes_update as bayes_update, bayes_divergence as bayes_divergence
