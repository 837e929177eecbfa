"""The training loop: repeatable, resumable, and choosing the epoch it says it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rashomon.data import Dataset, Example
from rashomon.data.batches import Batch, Rows
from rashomon.models import ModelSpec, build_model
from rashomon.models.base import Model
from rashomon.models.evaluator import predict, rows_of
from rashomon.training import CrossEntropy, History, Objective, TrainingSpec, fit, loop
from rashomon.training.callbacks import EpochLogits, Listener
from rashomon.training.loop import _last_gain, _rate_factor
from rashomon.training.optimizers import make_optimizer

SPEC = TrainingSpec(epochs=4, batch_size=16, patience=None, learning_rate=3e-3)
SMALL = ModelSpec(name="bilstm", embedding_dim=8, hidden=6, dropout=0.3)


@pytest.fixture
def vectors(planted: Dataset, tmp_path: Path) -> str:
    """A file with a vector for every word of the planted texts."""
    words = sorted({word for example in planted["train"] for word in example.text.lower().split()})
    drawn = np.random.default_rng(0).normal(size=(len(words), SMALL.embedding_dim)).astype(np.float32)
    np.savez(tmp_path / "vectors.npz", words=np.array(words), vectors=drawn)
    return str(tmp_path / "vectors.npz")


class KilledError(Exception):
    pass


@dataclass
class KillAfter(Listener):
    """Stands for a process that dies when an epoch is over, before its checkpoint is written."""

    epoch: int
    heard: list[int] = field(default_factory=list)

    def on_epoch_end(self, model: Model, record: dict[str, float]) -> None:
        self.heard.append(int(record["epoch"]))
        if record["epoch"] == self.epoch:
            raise KilledError


def train_once(
    data: Dataset,
    checkpoint: Path | None = None,
    listeners: Sequence[Listener] = (),
    seed: int = 7,
) -> tuple[Model, History]:
    model = build_model(SMALL, data, seed)
    train, dev = rows_of(model, data["train"]), rows_of(model, data["dev"])
    history = fit(
        model, train, dev, CrossEntropy(), SPEC, seed=seed, listeners=listeners, checkpoint=checkpoint
    )
    return model, history


def test_the_same_specification_twice_gives_identical_numbers(planted: Dataset) -> None:
    (first, a), (second, b) = train_once(planted), train_once(planted)
    assert a.records == b.records
    assert first.fingerprint() == second.fingerprint()
    other, c = train_once(planted, seed=8)
    assert c.records != a.records
    assert other.fingerprint() != first.fingerprint()


def test_training_leaves_the_global_generator_alone(planted: Dataset) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train_once(planted)
    assert torch.equal(torch.rand(3), expected)


@pytest.fixture
def every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every epoch, however short."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)


@pytest.mark.usefixtures("every_epoch")
@pytest.mark.parametrize("killed_in", [1, 2, 3, 4])
def test_a_killed_training_ends_as_if_nothing_had_happened(
    planted: Dataset, tmp_path: Path, killed_in: int
) -> None:
    whole, history = train_once(planted)
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KilledError):
        train_once(planted, checkpoint, (KillAfter(killed_in),))
    listener = KillAfter(epoch=-1)
    resumed, again = train_once(planted, checkpoint, (listener,))
    assert listener.heard == list(range(killed_in, 5)), "finished epochs must not be repeated"
    assert again.records == history.records
    assert again.best == history.best
    assert resumed.fingerprint() == whole.fingerprint()


@pytest.mark.parametrize(
    ("seconds_an_epoch", "kept"), [(0.2, []), (0.4, [3]), (0.6, [2, 4]), (1.0, [1, 2, 3, 4])]
)
def test_checkpoints_are_at_least_a_second_apart(
    planted: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds_an_epoch: float,
    kept: list[int],
) -> None:
    heard = KillAfter(epoch=-1)
    written: list[int] = []
    monkeypatch.setattr(loop.time, "monotonic", lambda: len(heard.heard) * seconds_an_epoch)
    monkeypatch.setattr(loop, "write_tensors", lambda *_: written.append(heard.heard[-1]))
    train_once(planted, tmp_path / "checkpoint.safetensors", (heard,))
    assert written == kept


@pytest.mark.usefixtures("every_epoch")
def test_listeners_remember_across_a_kill(planted: Dataset, tmp_path: Path) -> None:
    model = build_model(SMALL, planted, 7)
    rows = rows_of(model, planted["dev"])
    undisturbed = EpochLogits(rows, "dev")
    train_once(planted, listeners=(undisturbed,))
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KilledError):
        train_once(planted, checkpoint, (EpochLogits(rows, "dev"), KillAfter(3)))
    resumed = EpochLogits(rows, "dev")
    train_once(planted, checkpoint, (resumed, KillAfter(-1)))
    assert torch.stack(resumed.logits).shape == (4, len(planted["dev"]), 2)
    assert torch.equal(torch.stack(resumed.logits), torch.stack(undisturbed.logits))


@dataclass(frozen=True)
class Scripted(Objective):
    """An objective whose held-out figures are written down beforehand."""

    name: ClassVar[str] = "scripted"
    figures: tuple[float, ...] = ()
    asked: list[int] = field(default_factory=list)

    def loss(self, model: Model, batch: Batch, companion: nn.Module | None) -> Tensor:
        return CrossEntropy().loss(model, batch)

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        self.asked.append(1)
        value = self.figures[len(self.asked) - 1]
        return {"loss": value, "accuracy": value}


@pytest.mark.parametrize(
    ("select", "figures", "best", "epochs"),
    [
        ("accuracy", (0.5, 0.9, 0.7, 0.6), 2, 4),
        ("loss", (0.5, 0.9, 0.4, 0.6), 3, 4),
        ("accuracy", (0.9, 0.9, 0.9, 0.9), 1, 4),  # the first of equals
        ("accuracy", (float("nan"), 0.2, float("nan"), 0.1), 2, 4),
    ],
)
def test_the_best_epoch_is_kept(
    planted: Dataset, select: str, figures: tuple, best: int, epochs: int
) -> None:
    model = build_model(SMALL, planted, 0)
    rows = rows_of(model, planted["train"])
    weights = []

    @dataclass
    class Remember(KillAfter):
        def on_epoch_end(self, model: Model, record: dict[str, float]) -> None:
            weights.append(model.fingerprint())

    spec = TrainingSpec(epochs=4, patience=None, select=select)  # type: ignore[arg-type]
    history = fit(model, rows, rows, Scripted(figures), spec, seed=0, listeners=[Remember(-1)])
    assert history.best == best
    assert len(history.records) == epochs
    assert model.fingerprint() == weights[best - 1]


def test_patience_stops_the_training(planted: Dataset) -> None:
    model = build_model(SMALL, planted, 0)
    rows = rows_of(model, planted["train"])
    spec = TrainingSpec(epochs=50, patience=2, select="accuracy")
    history = fit(model, rows, rows, Scripted((0.5, 0.6, 0.1, 0.2, 0.9)), spec, seed=0)
    assert (history.best, len(history.records)) == (2, 4)


@pytest.mark.parametrize(
    ("figures", "best", "epochs"),
    [
        (
            (0.5, 0.4999, 0.4998, 0.1),
            3,
            3,
        ),  # creeping: the patience runs out, and the best epoch is still kept
        ((0.5, 0.4, 0.3999, 0.3, 0.2999, 0.2998, 0.0), 6, 6),  # a real gain renews it
        ((0.5, 0.4996, 0.4992, 0.4988, 0.0), 5, 5),  # small steps that add up are a gain
    ],
)
def test_an_improvement_below_the_least_gain_does_not_renew_the_patience(
    planted: Dataset, figures: tuple, best: int, epochs: int
) -> None:
    model = build_model(SMALL, planted, 0)
    rows = rows_of(model, planted["train"])
    spec = TrainingSpec(epochs=len(figures), patience=2, least_gain=0.0005, select="loss")
    history = fit(model, rows, rows, Scripted(figures), spec, seed=0)
    assert (history.best, len(history.records)) == (best, epochs)


@pytest.mark.parametrize(
    ("select", "enough", "epochs"),
    [("loss", 0.3, 3), ("loss", 0.29, 4), ("accuracy", 0.4, 1), ("accuracy", 0.6, 4), ("loss", None, 4)],
)
def test_a_training_stops_once_it_is_good_enough(
    planted: Dataset, select: str, enough: float | None, epochs: int
) -> None:
    model = build_model(SMALL, planted, 0)
    rows = rows_of(model, planted["train"])
    spec = TrainingSpec(epochs=4, patience=None, select=select, enough=enough)  # type: ignore[arg-type]
    history = fit(model, rows, rows, Scripted((0.5, 0.4, 0.3, 0.35)), spec, seed=0)
    assert len(history.records) == epochs


@pytest.mark.parametrize(("ready_made", "decayed"), [(False, False), (True, False), (True, True)])
def test_attention_and_ready_made_vectors_are_free_of_weight_decay(
    planted: Dataset, vectors: str, ready_made: bool, decayed: bool
) -> None:
    spec = replace(SMALL, embeddings=vectors if ready_made else None, decay_embeddings=decayed)
    model = build_model(spec, planted, 0)
    groups = make_optimizer(model, TrainingSpec(weight_decay=0.1)).param_groups
    free = {id(p) for group in groups if group["weight_decay"] == 0 for p in group["params"]}
    spared = ready_made and not decayed
    tables = [p for name, p in model.named_parameters() if name == "embedding.weight" and spared]
    assert free == {id(p) for p in [*model.attention_parameters(), *tables]}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def test_the_learning_rate_climbs_and_falls() -> None:
    factors = [_rate_factor(step, 100, 0.1) for step in range(100)]
    assert max(factors) == factors[9] == 1.0
    assert factors[:10] == sorted(factors[:10])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert 0 < factors[-1] < 0.02


def test_a_warmup_shorter_than_a_step_is_none() -> None:
    assert _rate_factor(0, 10, 0.05) == 1.0


def test_the_learning_rate_goes_on_over_epochs(planted: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, rates = replace(SPEC, epochs=3, warmup=0.2, optimizer="adam"), []
    step = torch.optim.Adam.step

    def watched(optimizer: torch.optim.Adam, *arguments: object) -> object:
        rates.append(optimizer.param_groups[0]["lr"])
        return step(optimizer, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    model = build_model(SMALL, planted, 0)
    train, dev = (rows_of(model, planted[split]) for split in ("train", "dev"))
    fit(model, train, dev, CrossEntropy(), spec, seed=0)
    expected = [spec.learning_rate * _rate_factor(n, len(rates), spec.warmup) for n in range(len(rates))]
    assert len(rates) == 3 * -(-len(train) // spec.batch_size)
    assert rates == pytest.approx(expected)


@pytest.mark.parametrize(
    ("figures", "least", "epoch"),
    [
        ({"f1": (0.5, 0.508)}, 0.01, 1),
        ({"f1": (0.5, 0.512)}, 0.01, 2),
        ({"loss": (0.5, 0.492)}, 0.01, 1),
        ({"roc-auc": (float("nan"),) * 3, "loss": (2.0, 1.0, 3.0)}, 0.0, 2),
        ({"roc-auc": (float("nan"),) * 3}, 0.0, 1),
    ],
)
def test_the_last_epoch_that_gained(figures: dict[str, tuple[float, ...]], least: float, epoch: int) -> None:
    records = [dict(zip(figures, values, strict=True)) for values in zip(*figures.values(), strict=True)]
    assert _last_gain(records, next(iter(figures)), least) == epoch


def test_a_history_prints_its_epochs_alone() -> None:
    history = History([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}], best=2)
    assert [line.split() for line in str(history).splitlines()] == [
        ["epoch", "loss", "kept"],
        ["1", "0.50", "False"],
        ["2", "0.25", "True"],
    ]


def test_a_prediction_is_the_same_alone_and_in_any_batch(planted: Dataset) -> None:
    model, _ = train_once(planted)
    together = predict(model, rows_of(model, planted["test"]), attention=True)
    for i in (0, 5, 17):
        alone = predict(model, rows_of(model, planted["test"][i : i + 1]), attention=True)
        assert abs(alone.probabilities[0] - together.probabilities[i]).max() < 1e-5
        assert alone.attention is not None
        assert together.attention is not None
        n = alone.lengths[0]
        assert (alone.attention[0, 0, :n] - together.attention[i, 0, :n]).abs().max() < 1e-5
        assert together.attention[i, 0, n:].sum() == 0


@pytest.mark.parametrize("optimizer", ["adam", "amsgrad", "adamw"])
def test_words_that_training_never_reads_keep_their_vectors(tmp_path: Path, optimizer: str) -> None:
    train = tuple(
        Example(id=str(i), text=text, label=i % 2) for i, text in enumerate(["dull film", "fine film"] * 8)
    )
    test = (Example(id="x", text="superb movie", label=1),)
    words = ["dull", "fine", "film", "superb", "movie"]
    vectors = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    np.savez(tmp_path / "vectors.npz", words=np.array(words), vectors=vectors)
    data = Dataset("films", {"train": train, "dev": train, "test": test}, ("bad", "good"))
    spec = replace(SMALL, embeddings=str(tmp_path / "vectors.npz"))
    model = build_model(spec, data, 0)
    training = replace(SPEC, optimizer=optimizer, weight_decay=0.01)  # type: ignore[arg-type]
    rows = rows_of(model, train)
    fit(model, rows, rows, CrossEntropy(), training, seed=0)
    table = model.state_dict()["embedding.weight"].numpy()
    for word, vector in zip(words, vectors, strict=True):
        (place,) = model.vocabulary.ids([word])  # type: ignore[attr-defined]
        assert np.array_equal(table[place], vector) == (word in ("superb", "movie")), word


@dataclass(frozen=True)
class Plateau(Objective):
    """A loss without a slope, such as an adversary's before it has found a way."""

    name: ClassVar[str] = "plateau"

    def loss(self, model: Model, batch: Batch, companion: nn.Module | None) -> Tensor:
        return 0.0 * model(batch).logits.sum()

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        return {"loss": 0.0}


def test_weight_decay_does_not_erase_vectors_on_a_plateau(planted: Dataset, vectors: str) -> None:
    """Adam turns weight decay on rows without a gradient into steps of full length."""
    model = build_model(replace(SMALL, embeddings=vectors), planted, 0)
    before = model.state_dict()["embedding.weight"].clone()
    rows = rows_of(model, planted["train"])
    fit(model, rows, rows, Plateau(), replace(SPEC, select="loss", optimizer="adam"), seed=0)
    assert torch.equal(model.state_dict()["embedding.weight"], before)
