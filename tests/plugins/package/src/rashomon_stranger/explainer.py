"""Long words matter: an explainer with one setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rashomon.explainers import Explainer, Job, Scores, explainers


@explainers.register("word-length")
@dataclass(frozen=True, slots=True)
class WordLength(Explainer):
    """The number of letters of a token, to a power."""

    name: ClassVar[str] = "word-length"
    signed: ClassVar[bool] = False
    power: float = 1.0

    def attribute(self, job: Job) -> list[Scores]:
        return [
            Scores(np.array([float(len(token)) ** self.power for token in encoding.tokens]))
            for encoding in job.encodings
        ]
