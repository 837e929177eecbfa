"""One loop, small objectives, small callbacks. The function ``train`` lives in the module of its name."""

from typing import TYPE_CHECKING

from rashomon.lazy import lazily

if TYPE_CHECKING:
    from rashomon.training.loop import History as History
    from rashomon.training.loop import fit as fit
    from rashomon.training.objectives import CrossEntropy as CrossEntropy
    from rashomon.training.objectives import Objective as Objective
    from rashomon.training.objectives import classification_scores as classification_scores
    from rashomon.training.settings import TrainingSpec as TrainingSpec
    from rashomon.training.train import Trained as Trained
    from rashomon.training.train import default_training as default_training
    from rashomon.training.train import evaluate as evaluate
    from rashomon.training.train import train_model as train_model

__getattr__, __all__ = lazily(
    __name__,
    {
        "CrossEntropy": "objectives",
        "History": "loop",
        "Objective": "objectives",
        "Trained": "train",
        "TrainingSpec": "settings",
        "classification_scores": "objectives",
        "default_training": "train",
        "evaluate": "train",
        "fit": "loop",
        "train_model": "train",
    },
)
