"""The nine-seed AtteFa of mock-5 against the straightforward loop, side by side in one run.

Ours: base outputs computed once and kept with the batches, batches of similar length, each distinct token of a batch
encoded once (MLP), a fused optimizer, seeds as processes with one thread each, every epoch checkpointed. The
straightforward loop: one seed after the other with all threads, texts padded to the longest of the dataset, every token
encoded, the base model run again for each batch, plain Adam, nothing kept. Both draw the same batches from the same
seeds, so that their results can be compared; and the peak memory of the largest process is told for few and many seeds.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from joblib.externals.loky import get_reusable_executor
from torch import Tensor

from rashomon.data import Dataset
from rashomon.data.batches import Batch, Rows
from rashomon.data.planted import mock
from rashomon.experiments.adversaries import Member, Relative, train_adversaries
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.trials import Trial, prepare
from rashomon.measures.divergence import attefa_loss, attefa_score, jsd, tvd
from rashomon.models.base import Model, Output
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from rashomon.studies.attefa import BASE, FRESH, SEEDS
from rashomon.training.adversarial import AttefaAdversary
from rashomon.training.loop import seeded
from rashomon.training.settings import TrainingSpec


def padded(rows: Rows, index: Tensor) -> Batch:
    """The examples at ``index``, padded to the longest of all."""
    return rows.whole.rows(index)


def plain(model: Model, batch: Batch) -> Output:
    """Every token encoded, also those that are equal."""
    output: Output = model(batch, embeddings=model.embed(batch))
    return output


def held_out(model: Model, base: Model, rows: Rows) -> tuple[float, float]:
    changed, moved = [], []
    with torch.no_grad():
        for index in torch.arange(len(rows)).split(32):
            batch = padded(rows, index)
            ours, theirs = plain(model, batch), plain(base, batch)
            assert ours.attention is not None
            assert theirs.attention is not None
            changed.append(tvd(ours.probabilities, theirs.probabilities))
            moved.append(jsd(ours.attention[:, 0], theirs.attention[:, 0]))
    return float(torch.cat(changed).mean()), float(torch.cat(moved).mean())


def straightforward(trial: Trial, training: TrainingSpec, seed: int) -> float:
    """AtteFa on test of one adversary."""
    base = trial.base_model()
    model = Relative(trial.base).build(seed)
    free = model.free_of_decay()
    rest = [weight for weight in model.parameters() if all(weight is not other for other in free)]
    groups = [{"params": rest, "weight_decay": training.weight_decay}, {"params": free}]
    optimizer = torch.optim.Adam(groups, lr=training.learning_rate)
    best, best_loss, best_epoch = {}, float("inf"), 0
    train, dev = trial.rows("train"), trial.rows("dev")
    for epoch in range(1, training.epochs + 1):
        with seeded(seed, epoch) as generator:
            for index in train.shuffled(training.batch_size, generator):
                batch = padded(train, index)
                with torch.no_grad():
                    of_base = plain(base, batch)
                output = plain(model, batch)
                assert output.attention is not None
                assert of_base.attention is not None
                changed = tvd(output.probabilities, of_base.probabilities)
                moved = jsd(output.attention[:, 0], of_base.attention[:, 0])
                optimizer.zero_grad()
                attefa_loss(changed, moved).mean().backward()
                optimizer.step()
        changed_mean, moved_mean = held_out(model, base, dev)
        loss = changed_mean - moved_mean / np.log(2)
        if loss < best_loss:
            best, best_loss, best_epoch = {k: v.clone() for k, v in model.state_dict().items()}, loss, epoch
        elif training.patience is not None and epoch - best_epoch >= training.patience:
            break
    model.load_state_dict(best)
    return attefa_score(*held_out(model, base, trial.rows("test")))


def ours(context: Context, trial: Trial, training: TrainingSpec, seeds: tuple[int, ...]) -> list[float]:
    members = [Member(trial, AttefaAdversary(trial.reading), training, seed) for seed in seeds]
    outcomes = train_adversaries(context, members)
    return [attefa_score(outcome.scores["tvd"], outcome.scores["jsd"]) for outcome in outcomes]


def peak() -> float:
    """The largest resident size of any worker so far, in MB; workers count once they have ended."""
    get_reusable_executor().shutdown(wait=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def compare(
    encoder: str, data: Dataset, seeds: tuple[int, ...], training: TrainingSpec, workers: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = Context(Store(Path(folder)), workers=workers)
        trial = prepare(context, [Subject(context.adopt(data), ModelSpec(name=encoder), BASE)])[0]
        # The workers take seconds to import torch, once for everything a study does: not part of the comparison.
        ours(context, trial, replace(training, epochs=1), tuple(range(2 * (workers or 2))))
        start = time.perf_counter()
        scores = ours(context, trial, training, seeds)
        fast = time.perf_counter() - start
        start = time.perf_counter()
        plainly = [straightforward(trial, training, seed) for seed in seeds]
        slow = time.perf_counter() - start
    apart = max(abs(a - b) for a, b in zip(scores, plainly, strict=True))
    print(
        f"{encoder:7s} {len(seeds)} seeds, at most {training.epochs} epochs of {len(data['train'])} texts: "
        f"ours {fast:.1f} s, straightforward {slow:.1f} s, {slow / fast:.2f}x; "
        f"AtteFa {np.mean(scores):.4f} and {np.mean(plainly):.4f}, largest difference {apart:.1e}",
        flush=True,
    )


def memory(data: Dataset, seeds: tuple[int, ...], training: TrainingSpec, workers: int | None) -> None:
    """Peak size of this process as seeds are added, all in this process, where it would add up."""
    with tempfile.TemporaryDirectory() as folder:
        context = Context(Store(Path(folder)), workers=workers, backend="serial")
        trial = prepare(context, [Subject(context.adopt(data), ModelSpec(name="mlp"), BASE)])[0]
        sizes = []
        for count in sorted({1, max(1, len(seeds) // 2), len(seeds)}):
            ours(context, trial, replace(training, epochs=1), seeds[:count])
            sizes.append(f"{count}: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    print("peak memory of one process by number of seeds:", ", ".join(sizes), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--train-size", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--encoders", nargs="+", default=["mlp", "bilstm"])
    options = parser.parse_args()
    data = mock(
        "mock-5",
        train_size=options.train_size,
        dev_size=options.train_size // 8,
        test_size=options.train_size // 8,
    )
    # The plain loop counts every gain, so ours does here, too.
    training = replace(FRESH, epochs=options.epochs, least_gain=0.0)
    memory(data, SEEDS[: options.seeds], training, options.workers)
    for encoder in options.encoders:
        compare(encoder, data, SEEDS[: options.seeds], training, options.workers)
    print(f"largest worker: {peak():.0f} MB")


if __name__ == "__main__":
    main()
