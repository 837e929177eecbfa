"""The one training loop: seeded, resumable, the same for built-in models, transformers, adversaries, students.

Everything random in epoch e comes from generators seeded by (seed, e), so a run that is killed and started
again from a checkpoint, which is that of an epoch, ends with the numbers of an undisturbed run.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from rashomon.data.batches import Rows
from rashomon.models.base import Model
from rashomon.runs.files import read_tensors, write_tensors
from rashomon.training.callbacks import EpochRecord, Listener
from rashomon.training.objectives import LOWER_IS_BETTER, Objective
from rashomon.training.optimizers import make_optimizer
from rashomon.training.settings import TrainingSpec

CHECKPOINT_SECONDS = 1.0  # between two of them; after every short epoch they would cost more than they save


@dataclass
class History:
    """One record an epoch; ``best`` is the epoch whose weights were kept."""

    records: list[dict[str, float]] = field(default_factory=list)
    best: int = 0

    @property
    def best_record(self) -> EpochRecord:
        return self.records[self.best - 1]

    def to_pandas(self) -> pd.DataFrame:
        """A row an epoch, with its losses and figures; ``kept`` marks the one whose weights the model has."""
        frame = pd.DataFrame(self.records)
        return frame.assign(kept=[epoch == self.best for epoch in range(1, len(frame) + 1)])

    def __str__(self) -> str:
        return self.to_pandas().to_string(index=False)

    def _repr_html_(self) -> str:
        return self.to_pandas().to_html(index=False)


@dataclass
class _Run:
    """Everything that changes while training, and so everything a checkpoint holds."""

    model: Model
    optimizer: torch.optim.Optimizer
    listeners: Sequence[Listener]
    companion: nn.Module | None = None
    history: History = field(default_factory=History)
    best_weights: dict[str, Tensor] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value) for key, value in state.items()}
        if self.companion is not None:
            tensors |= {f"companion.{name}": t for name, t in self.companion.state_dict().items()}
        for index, listener in enumerate(self.listeners):
            tensors |= {f"listener.{index}.{key}": value for key, value in listener.state().items()}
        about = json.dumps({"records": self.history.records, "best": self.history.best}).encode()
        tensors["history"] = torch.tensor(list(about), dtype=torch.uint8)
        write_tensors(
            path, tensors
        )  # one file, so that a kill leaves the old state or the new, nothing between

    def restore(self, path: Path) -> None:
        tensors = read_tensors(path)
        about = json.loads(bytes(tensors["history"].tolist()))
        self.history = History(about["records"], about["best"])
        self.model.load_state_dict(_under("model.", tensors))
        self.best_weights = _under("best.", tensors)
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under("optimizer.", tensors).items():
            parameter, key = name.split(".", 1)
            states.setdefault(int(parameter), {})[key] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": states, "param_groups": groups})
        if self.companion is not None:
            self.companion.load_state_dict(_under("companion.", tensors))
        for index, listener in enumerate(self.listeners):
            listener.restore(_under(f"listener.{index}.", tensors))


def fit(
    model: Model,
    train: Rows,
    held_out: Rows,
    objective: Objective,
    spec: TrainingSpec,
    *,
    seed: int,
    listeners: Sequence[Listener] = (),
    checkpoint: Path | None = None,
) -> History:
    """Train ``model`` in place and leave it with the weights of its best epoch."""
    companion = objective.companion(model, seed)
    if companion is not None:
        companion.to(model.device)
    run = _Run(model, make_optimizer(model, spec, companion), listeners, companion)
    if checkpoint is not None and checkpoint.exists():
        run.restore(checkpoint)
    saved = time.monotonic()
    while not _finished(run.history, spec):
        epoch = len(run.history.records) + 1
        with seeded(seed, epoch) as generator:
            train_loss = _train_epoch(run, train, objective, spec, generator, epoch)
            record = {"epoch": epoch, "train-loss": train_loss, **objective.scores(model, held_out)}
            run.history.records.append(record)
            if _last_gain(run.history.records, spec.select) == epoch:
                run.history.best = epoch
                run.best_weights = {name: t.detach().clone() for name, t in model.state_dict().items()}
            for listener in listeners:
                listener.on_epoch_end(model, record)
        if checkpoint is not None and time.monotonic() - saved >= CHECKPOINT_SECONDS:
            run.save(checkpoint)
            saved = time.monotonic()
    model.load_state_dict(run.best_weights)
    model.eval()
    return run.history


def _train_epoch(
    run: _Run, train: Rows, objective: Objective, spec: TrainingSpec, generator: torch.Generator, epoch: int
) -> float:
    steps_an_epoch = math.ceil(len(train) / spec.batch_size)
    first_step = (epoch - 1) * steps_an_epoch
    base_rates = [group["lr"] for group in run.optimizer.param_groups]
    run.model.train()
    losses: list[Tensor] = []
    for step, index in enumerate(train.shuffled(spec.batch_size, generator)):
        if spec.warmup:
            factor = _rate_factor(first_step + step, steps_an_epoch * spec.epochs, spec.warmup)
            for group, rate in zip(run.optimizer.param_groups, base_rates, strict=True):
                group["lr"] = rate * factor
        run.optimizer.zero_grad(set_to_none=True)
        loss = objective.loss(run.model, train.batch(index), run.companion)
        loss.backward()
        if spec.clip is not None:
            nn.utils.clip_grad_norm_(run.model.parameters(), spec.clip)
        run.optimizer.step()
        losses.append(loss.detach())
    for group, rate in zip(run.optimizer.param_groups, base_rates, strict=True):
        group["lr"] = rate
    return float(torch.stack(losses).mean())


@contextmanager
def seeded(seed: int, epoch: int) -> Iterator[torch.Generator]:
    """A generator for shuffling; dropout, which knows only torch's global one, is seeded inside and restored."""
    shuffle, dropout = np.random.SeedSequence([seed, epoch]).generate_state(2)
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(dropout))
        yield torch.Generator().manual_seed(int(shuffle))


def _finished(history: History, spec: TrainingSpec) -> bool:
    done = len(history.records)
    if done >= spec.epochs or (done and _is_enough(history.best_record, spec)):
        return True
    last = _last_gain(history.records, spec.select, spec.least_gain)
    return spec.patience is not None and done - last >= spec.patience


def _is_enough(record: EpochRecord, spec: TrainingSpec) -> bool:
    if spec.enough is None:
        return False
    sign = _sign(spec.select)
    return sign * record[spec.select] >= sign * spec.enough


def _sign(figure: str) -> float:
    """By which a figure is multiplied so that more is better."""
    return -1.0 if figure in LOWER_IS_BETTER else 1.0


def _last_gain(records: Sequence[EpochRecord], select: str, least: float = 0.0) -> int:
    """The last epoch that beat the best before it, by more than ``least``; 0 before the first.

    An undefined figure beats nothing, unless it is the first. Where it is never defined (ROC-AUC of one class),
    the loss decides.
    """
    if all(math.isnan(record[select]) for record in records) and records and "loss" in records[0]:
        select = "loss"
    sign = _sign(select)
    epoch, best = 0, -math.inf
    for number, record in enumerate(records, start=1):
        value = sign * record[select]
        if value > best + least or epoch == 0 or (math.isnan(best) and not math.isnan(value)):
            epoch, best = number, value
    return epoch


def _rate_factor(step: int, steps: int, warmup: float) -> float:
    climbing = max(1.0, steps * warmup)
    return min((step + 1) / climbing, (steps - step) / max(1.0, steps - climbing))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
