"""Can I trust this explanation of this text model, and how do you know?

The public names are imported when first used, so that ``import rashomon`` and ``rashomon --help`` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rashomon import explainers as explainers
    from rashomon.data import Columns as Columns
    from rashomon.data import Dataset as Dataset
    from rashomon.data import Example as Example
    from rashomon.data import load_dataset as load_dataset
    from rashomon.data import load_file as load_file
    from rashomon.errors import UserError as UserError
    from rashomon.explainers import Explainer as Explainer
    from rashomon.explainers import Explanation as Explanation
    from rashomon.explainers import Explanations as Explanations
    from rashomon.explainers import explain as explain
    from rashomon.explainers import from_captum as from_captum
    from rashomon.explainers import from_eraser as from_eraser
    from rashomon.explainers import from_scores as from_scores
    from rashomon.explainers import make_explainer as make_explainer
    from rashomon.models import Model as Model
    from rashomon.models import ModelSpec as ModelSpec
    from rashomon.models import load_model as load_model
    from rashomon.models.wrapping import wrap as wrap
    from rashomon.report import Report as Report
    from rashomon.report import audit as audit
    from rashomon.studies import Finding as Finding
    from rashomon.studies import study as study
    from rashomon.studies.agreement import agreement as agreement
    from rashomon.training import TrainingSpec as TrainingSpec
    from rashomon.training import evaluate as evaluate
    from rashomon.training.train import train as train

_HOMES = {
    "rashomon.data": ("Columns", "Dataset", "Example", "load_dataset", "load_file"),
    "rashomon.errors": ("UserError",),
    "rashomon.explainers": (
        "Explainer",
        "Explanation",
        "Explanations",
        "explain",
        "from_captum",
        "from_eraser",
        "from_scores",
        "make_explainer",
    ),
    "rashomon.models": ("Model", "ModelSpec", "load_model"),
    "rashomon.models.wrapping": (
        "wrap",
    ),  # takes seconds to import, so it is not among the models' own names
    "rashomon.report": ("Report", "audit"),
    "rashomon.studies": ("Finding", "study"),
    "rashomon.studies.agreement": ("agreement",),
    "rashomon.training": ("TrainingSpec", "evaluate"),
    "rashomon.training.train": ("train",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF, "__version__", "explainers"]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # looked up where packages are installed, which takes its time
        from importlib.metadata import version

        return version("rashomon")
    if name == "explainers":  # a package: every explainer class is a name of it
        return import_module("rashomon.explainers")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rashomon' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
