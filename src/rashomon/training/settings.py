"""How to train: the same typed object from Python, a TOML file and the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from rashomon.errors import UserError, unknown_name
from rashomon.fields import setting

Optimizer = Literal["adam", "adamw", "amsgrad"]
EpochFigure = Literal["f1", "accuracy", "roc-auc", "exact-match", "loss", "train-loss"]

LARGEST = 1_000_000  # epochs or examples in a batch; more is a slip of the finger


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """Defaults are the papers' for the built-in attention classifiers."""

    epochs: int = setting(8, "Most epochs of the model (of adversaries: --set training.epochs=...).")
    batch_size: int = setting(32, "Examples in a batch.")
    learning_rate: float = setting(1e-3, "Learning rate.")
    weight_decay: float = setting(
        1e-5, "Weight decay (never on the attention; on word vectors from a file see --decay-embeddings)."
    )
    optimizer: Optimizer = setting("amsgrad", "What descends the loss.")
    clip: float | None = setting(None, "Largest gradient norm; none leaves gradients as they are.")
    patience: int | None = setting(3, "Epochs without improvement before it stops; none never stops early.")
    least_gain: float = setting(
        0.0, "A smaller improvement than this is kept, but does not renew the patience."
    )
    select: EpochFigure = setting(
        "f1", "Which figure picks the epoch that is kept; all but train-loss are of held-out texts."
    )
    enough: float | None = setting(
        None, "Stop as soon as the figure that picks the epoch is this good; none trains on."
    )
    warmup: float = setting(
        0.0, "Share of the steps over which the learning rate climbs, then falls linearly; 0 keeps it."
    )

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1:
            raise UserError("Training needs at least one epoch and a batch size of at least one.")
        for what, number in (("number of epochs", self.epochs), ("batch size", self.batch_size)):
            if number > LARGEST:
                raise UserError(f"The {what} is at most {LARGEST}, not {number}.")
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
