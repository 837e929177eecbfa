"""One loop, small objectives, small callbacks, and one kind of run."""

from rashomon.training import adversarial, regularisers  # registers their objectives
from rashomon.training.callbacks import Callback, Listener, callbacks
from rashomon.training.loop import History, fit
from rashomon.training.objectives import CrossEntropy, Objective, make_objective, objectives
from rashomon.training.run import Trained, TrainingRun
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training, evaluate, train, training_run

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
    "callbacks",
    "default_training",
    "evaluate",
    "fit",
    "make_objective",
    "objectives",
    "regularisers",
    "train",
    "training_run",
]
