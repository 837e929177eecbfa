"""One loop, small objectives, small callbacks."""

from rashomon.training.loop import History, fit
from rashomon.training.objectives import CrossEntropy, Objective, classification_scores
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import Trained, default_training, evaluate, train, train_model

__all__ = [
    "CrossEntropy",
    "History",
    "Objective",
    "Trained",
    "TrainingSpec",
    "classification_scores",
    "default_training",
    "evaluate",
    "fit",
    "train",
    "train_model",
]
