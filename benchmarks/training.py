"""How fast is the training loop? Ratios in one run, against loops that one would write by hand.

    python benchmarks/training.py [--dataset NAME] [--data-dir DIR] [--epochs N] [--skip-seeds]

minimal   the same model, batch size and optimizer, batches drawn at random and padded as they come
packed    a hand-written BiLSTM with packed sequences and plain Adam, batches drawn at random
seeds     four seeds side by side, one thread each, against one after the other with all threads
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rashomon.data import Dataset, load_dataset
from rashomon.data.batches import Rows, collate
from rashomon.models import ModelSpec, build_model
from rashomon.models.evaluator import rows_of
from rashomon.runs.executor import run_tasks
from rashomon.training import CrossEntropy, TrainingSpec, fit

SPEC = ModelSpec(name="bilstm")
BATCH = 32


def ours(data: Dataset, held_out: Rows, epochs: int) -> None:
    model = build_model(SPEC, data, 0)
    spec = TrainingSpec(epochs=epochs, batch_size=BATCH, optimizer="adam", patience=None)
    fit(model, rows_of(model, data["train"]), held_out, CrossEntropy(), spec, seed=0)


def minimal(data: Dataset, held_out: Rows, epochs: int) -> None:
    """Random batches, padded to their longest text, and one evaluation an epoch like ours."""
    model = build_model(SPEC, data, 0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    encodings = model.encode(data["train"])
    labels = torch.tensor([example.label for example in data["train"]])
    for _ in range(epochs):
        model.train()
        for index in torch.randperm(len(encodings)).split(BATCH):
            batch = collate([encodings[i] for i in index.tolist()], model.pad_id)
            optimizer.zero_grad()
            F.cross_entropy(model(batch).logits, labels[index]).backward()
            optimizer.step()
        CrossEntropy().scores(model, held_out)


class Packed(nn.Module):
    """The paper's BiLSTM as it is usually written."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, SPEC.embedding_dim, padding_idx=0)
        self.lstm = nn.LSTM(SPEC.embedding_dim, SPEC.hidden, bidirectional=True, batch_first=True)
        self.score = nn.Sequential(
            nn.Linear(2 * SPEC.hidden, SPEC.hidden), nn.Tanh(), nn.Linear(SPEC.hidden, 1)
        )
        self.decode = nn.Linear(2 * SPEC.hidden, classes)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        hidden_mask = torch.arange(hidden.shape[1])[None] >= lengths[:, None]
        weights = self.score(hidden)[..., 0].masked_fill(hidden_mask, -torch.inf).softmax(1)
        return self.decode((weights[..., None] * hidden).sum(1))


def packed(data: Dataset, held_out: Rows, epochs: int) -> None:
    reader = build_model(SPEC, data, 0)
    encodings = reader.encode(data["train"])
    labels = torch.tensor([example.label for example in data["train"]])
    model = Packed(len(reader.vocabulary), len(data.labels))  # type: ignore[attr-defined]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    for _ in range(epochs):
        for index in torch.randperm(len(encodings)).split(BATCH):
            batch = collate([encodings[i] for i in index.tolist()], reader.pad_id)
            optimizer.zero_grad()
            F.cross_entropy(model(batch.ids, batch.mask.sum(1)), labels[index]).backward()
            optimizer.step()
        with torch.no_grad():
            for index in held_out.lengths.argsort().split(BATCH):
                batch = held_out.batch(index)
                model(batch.ids, batch.mask.sum(1))


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def one_seed(data: Dataset, epochs: int, seed: int) -> float:
    model = build_model(SPEC, data, seed)
    spec = TrainingSpec(epochs=epochs, batch_size=BATCH, patience=None)
    rows = rows_of(model, data["train"])
    return fit(model, rows, rows_of(model, data["dev"]), CrossEntropy(), spec, seed=seed).records[-1]["loss"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="planted-reviews")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-seeds", action="store_true")
    asked = parser.parse_args()
    data = load_dataset(asked.dataset, data_dir=asked.data_dir)
    held_out = rows_of(build_model(SPEC, data, 0), data["dev"])
    contestants = {"ours": ours, "minimal": minimal, "packed": packed}
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(asked.rounds):  # taken in turns, so that what else the machine does hits all alike
        for name, run in contestants.items():
            best[name] = min(best[name], seconds(lambda run=run: run(data, held_out, asked.epochs)))
    print(f"{data.name}, batch {BATCH}, {torch.get_num_threads()} threads, best of {asked.rounds}")
    for name, taken in best.items():
        print(
            f"  {name:8} {asked.epochs / taken:6.2f} epochs/s   ours is {taken / best['ours']:.2f}x as fast"
        )
    if not asked.skip_seeds:
        tasks = [partial(one_seed, data, asked.epochs, seed) for seed in range(4)]
        in_turn = seconds(lambda: [task() for task in tasks])
        run_tasks([partial(one_seed, data, 1, 0)] * 2)  # workers are up and have imported everything
        together = seconds(lambda: run_tasks(tasks))
        print(
            f"  four seeds: {in_turn:.1f} s in turn, {together:.1f} s side by side, {in_turn / together:.2f}x"
        )


if __name__ == "__main__":
    main()
