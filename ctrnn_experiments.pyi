# The names that documents import, in the order one would learn them; ctrnn_experiments.py imports each when it is first used.
# ruff: noqa: I001

from experiments.compare.command import compare as compare
from experiments.runs.configuration import configuration as configuration, Configuration as Configuration
from experiments.runs.training import train as train
from experiments.runs.evaluation import evaluate as evaluate
from experiments.runs.folder import load as load
from experiments.models.integrators import under as under
from experiments.__main__ import main as main

from experiments.estimators.estimators import SequenceClassifier as SequenceClassifier, SequenceRegressor as SequenceRegressor
from experiments.estimators.estimators import Forecaster as Forecaster
from experiments.estimators.sequences import by_sequence as by_sequence

from experiments.tasks.registry import TASKS as TASKS, task_named as task_named
from experiments.tasks.task import Task as Task, Batch as Batch, NumbersAtTheEnd as NumbersAtTheEnd
from experiments.tasks.task import ClassAtEverySample as ClassAtEverySample, ClassOfTheSequence as ClassOfTheSequence
from experiments.settings import Count as Count, Bounds as Bounds
from experiments.seeds import generator as generator
from experiments.data.mapped import MappedRows as MappedRows, digest_of as digest_of, drawn_rows as drawn_rows
from experiments.tasks.warps.recall import Recall as Recall
from experiments.tasks.cognitive import Trials as Trials, FlipFlop as FlipFlop, Decision as Decision, Context as Context
from experiments.tasks.cognitive import ReadySetGo as ReadySetGo

from experiments.models.fields import FieldSettings as FieldSettings, built_field as built_field
from experiments.runs.configuration import TrainingSettings as TrainingSettings
from experiments.runs.training import Training as Training
from experiments.reports import plots as plots, svg as svg  # modules

from experiments.models.forgetting import forgetting as forgetting, forgetting_times as forgetting_times
from experiments.reports.forgetting_figure import forgetting_figure as forgetting_figure

from experiments.symbols.context_tree import ContextTree as ContextTree
from experiments.symbols.laws.insertions import Insertions as Insertions
from experiments.symbols.scores import bits as bits, regret as regret

from experiments.studies.study import Study as Study, Sizes as Sizes, Point as Point, grid as grid, scales as scales
from experiments.studies.specs import Dots as Dots, Table as Table
from experiments.studies.verdicts import Verdict as Verdict, Part as Part
from experiments.studies.results import Results as Results, spreads as spreads
from experiments.reports.spreads import NotEnoughError as NotEnoughError
