"""How to train: the same typed object from Python, a TOML file and the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from rashomon.errors import UserError, unknown_name

Optimizer = Literal["adam", "adamw", "amsgrad"]
EpochFigure = Literal["f1", "accuracy", "roc-auc", "exact-match", "loss", "train-loss"]


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """Defaults are the papers' for the built-in attention classifiers."""

    epochs: int = 8
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    optimizer: Optimizer = "amsgrad"
    clip: float | None = None  # largest gradient norm
    patience: int | None = 3  # epochs without improvement before it stops
    least_gain: float = 0.0  # a smaller improvement is kept, but does not renew the patience
    select: EpochFigure = (
        "f1"  # which figure picks the epoch that is kept; all but train-loss are of held-out texts
    )
    warmup: float = 0.0  # share of the steps over which the learning rate climbs, then falls linearly

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise UserError("Training needs at least one epoch and a batch size of at least one.")
        for name, value, known in (
            ("optimizer", self.optimizer, get_args(Optimizer)),
            ("figure to select by", self.select, get_args(EpochFigure)),
        ):
            if value not in known:
                raise unknown_name(name, value, known)
        if self.patience is not None and self.patience < 1:
            raise UserError(f"The patience is at least one epoch, not {self.patience}.")
        if self.weight_decay < 0:
            raise UserError(f"The weight decay cannot be negative, but is {self.weight_decay}.")
        if self.clip is not None and self.clip <= 0:
            raise UserError(f"The largest gradient norm must be positive, not {self.clip}.")
        if self.learning_rate <= 0:
            raise UserError(f"The learning rate must be positive, not {self.learning_rate}.")
        if self.least_gain < 0:
            raise UserError(f"The least gain cannot be negative, but is {self.least_gain}.")
        if not 0 <= self.warmup < 1:
            raise UserError(f"The warm-up is a share of the steps in [0, 1), not {self.warmup}.")


FINE_TUNING = TrainingSpec(
    epochs=3,
    learning_rate=5e-5,
    weight_decay=0.01,
    optimizer="adamw",
    clip=1.0,
    patience=None,
    select="accuracy",
    warmup=0.1,
)
ANSWERING = replace(FINE_TUNING, epochs=3, batch_size=8, learning_rate=2e-4, select="f1")
