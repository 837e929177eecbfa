"""Measures: pure functions on arrays, each with its range, its direction and when it is undefined.

Importing the package registers every built-in measure in ``measures``.
"""

from rashomon.measures import agreement, divergence, erasure, recovery
from rashomon.measures.base import Measure, Ragged, measure, measures

__all__ = ["Measure", "Ragged", "agreement", "divergence", "erasure", "measure", "measures", "recovery"]
