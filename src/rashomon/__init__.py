"""Can I trust this explanation of this text model, and how do you know?

The public names are imported when first used, so that ``import rashomon`` and ``rashomon --help`` stay quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rashomon.data import Dataset as Dataset
    from rashomon.data import Example as Example
    from rashomon.data import load_dataset as load_dataset
    from rashomon.data import load_file as load_file
    from rashomon.explainers import Explanations as Explanations
    from rashomon.explainers import explain as explain
    from rashomon.models import load_model as load_model
    from rashomon.report import audit as audit
    from rashomon.studies import agreement as agreement
    from rashomon.training import evaluate as evaluate
    from rashomon.training.train import train as train

__version__ = version("rashomon")

_HOMES = {
    "Dataset": "rashomon.data",
    "Example": "rashomon.data",
    "Explanations": "rashomon.explainers",
    "agreement": "rashomon.studies",
    "audit": "rashomon.report",
    "evaluate": "rashomon.training",
    "explain": "rashomon.explainers",
    "load_dataset": "rashomon.data",
    "load_file": "rashomon.data",
    "load_model": "rashomon.models",
    "train": "rashomon.training.train",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rashomon' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Importing the subpackage ``rashomon.explain`` must not hide the function ``rashomon.explain``."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
