"""Agreement of four methods over a whole test set after each of five epochs, side by side with Captum, in one run.

The models, the texts and the configurations are the same: the same points on the path for integrated gradients, as
many samples for gradient SHAP, one reference for DeepLIFT, as many training texts for deep SHAP. Captum is asked text
by text, and in batches of alike length; Kendall and Pearson are then SciPy's, pair by pair. Captum finds no rule of
DeepLIFT in an LSTM: its DeepLIFT is one gradient and its deep SHAP one a reference, while ours apply every rule and do
more. What is equal work is told method by method, with `gradient-x-delta` for what Captum's DeepLIFT comes to.
All have all cores: Captum through torch's threads, ours through workers, as a study explains.
The share of time outside the model is what is spent neither in forward passes nor in torch's backward passes.

    python benchmarks/agreement.py --data-dir DIR [--limit 64] [--epochs 5] [--dataset sst]
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captum.attr import DeepLift, DeepLiftShap, GradientShap, IntegratedGradients
from scipy import stats
from torch import Tensor, nn

from rashomon.data.batches import Batch, Encoding
from rashomon.experiments.agreeing import agreement_table
from rashomon.experiments.context import Context
from rashomon.experiments.subject import DatasetSpec, Subject
from rashomon.experiments.testimony import Testimony, draw
from rashomon.explainers import explain
from rashomon.models import Model, ModelSpec, without_attention
from rashomon.runs.store import Store
from rashomon.training.settings import TrainingSpec

warnings.filterwarnings("ignore")
STEPS, SAMPLES, REFERENCES, ROWS = 20, 24, 10, 32
METHODS = (
    f"integrated-gradients(steps={STEPS}, rule=gauss-legendre)",
    f"gradient-shap(samples={SAMPLES})",
    "deeplift",
    f"deep-shap(samples={REFERENCES})",
)


clock = time.perf_counter


@dataclass
class Inside:
    """Seconds within forward passes of the model and within torch's backward passes."""

    seconds: float = 0.0
    depth: int = field(default=0, repr=False)

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def within(*args: Any, **options: Any) -> Any:
            started, self.depth = clock(), self.depth + 1
            try:
                return call(*args, **options)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.seconds += clock() - started

        return within


def share_outside(model: Model, examples: Sequence[Any], background: Sequence[Any]) -> float:
    """Of explaining in this process, the share of time that is spent neither in forward nor in backward passes."""
    inside, forward, grad = Inside(), model.forward, torch.autograd.grad
    model.forward = inside.timed(forward)  # type: ignore[method-assign]
    torch.autograd.grad = inside.timed(grad)
    started = clock()
    try:
        explain(model, examples, METHODS, background=background)
    finally:
        del model.forward
        torch.autograd.grad = grad
    return 1 - inside.seconds / (clock() - started)


def ours(context: Context, model: Model, examples: Sequence[Any], background: Sequence[Any]) -> np.ndarray:
    """As a study asks: blocks of texts side by side on all cores, kept in the store, and read from there."""
    explanations = context.explanations(model, examples, METHODS, background=background)
    table = agreement_table(Testimony(0, model, tuple(examples), explanations), ("kendall", "pearson"))
    return table.groupby("measure")["value"].mean().to_numpy()


class Wrapped(nn.Module):
    """A model as Captum wants it: embeddings and the numbers of their rows in, logits out."""

    def __init__(self, model: Model, encodings: Sequence[Encoding], background: Sequence[Encoding]) -> None:
        super().__init__()
        self.model, self.batch = model, model.collate(encodings)
        with torch.no_grad():
            self.inputs = model.embed(self.batch).detach()
            blank = torch.where(self.batch.content, model.pad_id, self.batch.ids)
            self.reference = model.embed(replace(self.batch, ids=blank)).detach()
            self.target = model(self.batch).logits.argmax(-1)
            self.references = self._training(background)
        self.rows = torch.arange(len(encodings))

    def _training(self, background: Sequence[Encoding]) -> Tensor:
        """Training texts cut or padded to the width of the batch."""
        width = self.batch.ids.shape[1]
        ids = torch.full((len(background), width), self.model.pad_id)
        for row, encoding in enumerate(background):
            known = torch.as_tensor(encoding.ids)[:width]
            ids[row, : len(known)] = known
        places = torch.arange(width).expand_as(ids)
        there = torch.ones_like(ids, dtype=torch.bool)
        return self.model.embed(Batch(ids, there, torch.zeros_like(ids), places, there)).detach()

    def forward(self, embeddings: Tensor, rows: Tensor) -> Tensor:
        b = self.batch
        parts = (b.ids[rows], b.mask[rows], b.segments[rows], b.positions[rows], b.content[rows])
        logits: Tensor = self.model(Batch(*parts), embeddings=embeddings).logits
        return logits


def captum(
    model: Model, encodings: Sequence[Encoding], background: Sequence[Encoding], size: int
) -> np.ndarray:
    """Mean Kendall and Pearson over texts and pairs, ``size`` texts at a time, those of alike length together."""
    order = (
        sorted(range(len(encodings)), key=lambda i: len(encodings[i])) if size > 1 else range(len(encodings))
    )
    places, scores = list(order), []
    with without_attention(model):
        for start in range(0, len(places), size):
            chosen = [encodings[i] for i in places[start : start + size]]
            scores += _attributions(Wrapped(model, chosen, background), chosen)
    taus, rs = [], []
    for text in scores:
        for one, other in combinations(text, 2):
            taus.append(stats.kendalltau(one, other).statistic)
            rs.append(stats.pearsonr(one, other).statistic if len(one) > 1 else np.nan)
    return np.array([np.nanmean(taus), np.nanmean(rs)])


def calls(w: Wrapped) -> list[Callable[[], Tensor]]:
    """Captum's methods in the order of ours."""
    common: dict[str, Any] = {"target": w.target, "additional_forward_args": (w.rows,)}
    blank = w.reference[:1]  # Captum's gradient SHAP draws from references that all texts share
    return [
        lambda: IntegratedGradients(w).attribute(w.inputs, w.reference, n_steps=STEPS, **common),
        lambda: GradientShap(w).attribute(w.inputs, blank, n_samples=SAMPLES, stdevs=0.0, **common),
        lambda: DeepLift(w).attribute(w.inputs.clone(), w.reference, **common),
        lambda: DeepLiftShap(w).attribute(w.inputs.clone(), w.references, **common),
    ]


def by_method(model: Model, examples: Sequence[Any], background: Sequence[Any]) -> None:
    """Seconds of each method alone, on the last epoch's model."""
    encodings, behind = model.encode(examples), model.encode(background)
    for number, method in enumerate((*METHODS, "gradient-x-delta")):
        explain(model, examples[:2], [method], background=background)
        started = clock()
        explain(model, examples, [method], background=background)
        own = clock() - started
        theirs = []
        for size in (1, ROWS):
            places = sorted(range(len(encodings)), key=lambda i: len(encodings[i]))
            started = clock()
            with without_attention(model):
                for start in range(0, len(places), size):
                    chosen = [encodings[i] for i in places[start : start + size]]
                    calls(Wrapped(model, chosen, behind))[2 if number == len(METHODS) else number]()
            theirs.append(clock() - started)
        ratios = ", ".join(f"{seconds:.2f} s (ratio {seconds / own:.2f})" for seconds in theirs)
        print(f"  {method:52} ours {own:.2f} s, Captum by text, in batches: {ratios}", flush=True)


def _attributions(wrapped: Wrapped, encodings: Sequence[Encoding]) -> list[list[np.ndarray]]:
    """Of every text the magnitudes of its content tokens by each method."""
    torch.manual_seed(0)
    found = [call() for call in calls(wrapped)]
    summed = [attribution.sum(-1).abs().detach().numpy() for attribution in found]
    return [
        [method[row, : len(encoding)][encoding.content] for method in summed]
        for row, encoding in enumerate(encodings)
    ]


def compare(name: str, data_dir: Path | None, epochs: int, limit: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = Context(Store(Path(folder)), data_dir)
        how = TrainingSpec(epochs=epochs, patience=None, optimizer="adam", weight_decay=0.0, clip=1.0)
        spec = ModelSpec(name="bilstm", hidden=150, embedding_dim=300)
        spec = replace(spec, steps=("lowercase", "alphanumeric", "truncate:200"), vocabulary_size=20000)
        asked = DatasetSpec(name, keep=("min-tokens:3",))
        if limit is not None:
            whole = context.dataset(asked)
            few = {split: whole[split][: 8 * limit if split == "train" else limit] for split in whole}
            asked = context.adopt(replace(whole, splits=few))
        data = context.dataset(asked)
        (run,) = context.train_all([Subject(asked, spec, how, callbacks=("epoch-models",))])
        examples, behind = data["test"], draw(data, "train", REFERENCES, 0)
        totals = np.zeros(3)
        for epoch in range(1, epochs + 1):
            model = context.epoch_model(run, epoch)
            encodings, references = model.encode(examples), model.encode(behind)
            if epoch == 1:
                ours(context, model, data["dev"][:400], behind)  # starts the workers, compiles and warms up
            started = clock()
            means = [ours(context, model, examples, behind)]
            seconds = [clock() - started]
            for size in (1, ROWS):
                started = clock()
                means.append(captum(model, encodings, references, size))
                seconds.append(clock() - started)
            totals += seconds
            figures = ", ".join(f"{m[0]:.3f}/{m[1]:.3f}" for m in means)
            print(f"  epoch {epoch}: tau/r ours, Captum by text, in batches: {figures}", flush=True)
        print(f"{name}, {len(examples)} texts, {epochs} epochs, {len(METHODS)} methods")
        outside = share_outside(model, examples[:200], behind)
        print(f"  ours {totals[0]:.1f} s; of explaining {outside:.0%} is outside the model")
        for what, seconds_of in zip(("text by text", f"in batches of {ROWS}"), totals[1:], strict=True):
            print(f"  Captum {what} {seconds_of:.1f} s, ratio {seconds_of / totals[0]:.2f}")
        by_method(model, examples, behind)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="sst")
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument(
        "--limit", type=int, default=None, help="so many test texts; eight times as many to train on"
    )
    given = parser.parse_args()
    compare(given.dataset, given.data_dir, given.epochs, given.limit)
