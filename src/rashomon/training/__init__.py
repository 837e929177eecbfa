"""One loop, small objectives, small callbacks, and one kind of run.

What shares its name with a module (``train``, the registries ``objectives`` and ``callbacks``) is imported from there.
"""

from typing import TYPE_CHECKING

from rashomon.lazy import lazily

if TYPE_CHECKING:
    from rashomon.training.callbacks import Callback as Callback
    from rashomon.training.callbacks import Listener as Listener
    from rashomon.training.loop import History as History
    from rashomon.training.loop import fit as fit
    from rashomon.training.objectives import CrossEntropy as CrossEntropy
    from rashomon.training.objectives import Objective as Objective
    from rashomon.training.objectives import make_objective as make_objective
    from rashomon.training.run import Trained as Trained
    from rashomon.training.run import TrainingRun as TrainingRun
    from rashomon.training.settings import TrainingSpec as TrainingSpec
    from rashomon.training.train import default_training as default_training
    from rashomon.training.train import evaluate as evaluate
    from rashomon.training.train import training_run as training_run

__getattr__, __all__ = lazily(
    __name__,
    {
        "Callback": "callbacks",
        "CrossEntropy": "objectives",
        "History": "loop",
        "Listener": "callbacks",
        "Objective": "objectives",
        "Trained": "run",
        "TrainingRun": "run",
        "TrainingSpec": "settings",
        "default_training": "train",
        "evaluate": "train",
        "fit": "loop",
        "make_objective": "objectives",
        "training_run": "train",
    },
)
