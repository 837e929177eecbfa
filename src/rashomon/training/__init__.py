"""One loop, small objectives, small callbacks, and one kind of run.

The function ``train`` and the registries are in modules of the same names, which they must not hide here.
"""

from rashomon.training import adversarial, regularisers  # registers their objectives
from rashomon.training.callbacks import Callback, Listener
from rashomon.training.loop import History, fit
from rashomon.training.objectives import CrossEntropy, Objective, make_objective
from rashomon.training.run import Trained, TrainingRun
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training, evaluate, training_run

__all__ = [
    "Callback",
    "CrossEntropy",
    "History",
    "Listener",
    "Objective",
    "Trained",
    "TrainingRun",
    "TrainingSpec",
    "adversarial",
    "default_training",
    "evaluate",
    "fit",
    "make_objective",
    "regularisers",
    "training_run",
]
