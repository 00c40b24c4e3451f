# The public names in the order one would learn them; __init__.py imports each when it is first used.
# None may be a file's name: once imported, derivations.argument.leaky is the file.
# ruff: noqa: I001

from derivations.book import ledger as ledger
from derivations.claim import Claim as Claim
from derivations.closure import closed_under as closed_under, Closure as Closure, UnknownRate as UnknownRate
from derivations.argument.core import core_identities as core_identities, check_all as check_all
from derivations.prover.identity import Identity as Identity, check as check
from derivations.prover.verdict import Verdict as Verdict
from derivations.twins.fields import SymbolicField as SymbolicField, SymbolicStep as SymbolicStep
from derivations.twins.cells import UnitEquations as UnitEquations, rnn_cell as rnn_cell, gru_cell as gru_cell
from derivations.twins.cells import lstm_cell as lstm_cell, cfc_cell as cfc_cell, ltc_cell as ltc_cell
from derivations.argument.clocks import change_of_time as change_of_time, clock as clock, Clock as Clock
from derivations.argument.taylor import euler_step as euler_step, dropped as dropped
from derivations.papers.report import prove_paper as prove_paper
from derivations.tracing.symbolic import symbolic as symbolic
from derivations.tracing.proof import verify as verify
from derivations.tracing.gradient import verify_gradient as verify_gradient
from derivations.tracing.reading import UnknownOperation as UnknownOperation
from derivations.agreement import agreement_identities as agreement_identities
from derivations.argument.power_decay import misprints as misprints
