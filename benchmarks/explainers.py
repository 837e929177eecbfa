"""Every explainer side by side with Captum at equal configuration, in one run.

Ratios are Captum's seconds over ours on the same texts, one thread or as many as OMP_NUM_THREADS says. Captum
gets its best settings: all points of a path in one pass (``internal_batch_size`` none) and 64 perturbations a pass;
its default for LIME, one perturbation a pass, is timed on few samples and scaled up, as is said where it is.
What Captum cannot do on a model (DeepLift on recurrent nets and transformers runs, but does not add up) is printed.

    python benchmarks/explainers.py [--texts 64] [--long 16] [--quick]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from captum.attr import (
    DeepLift,
    GradientShap,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LimeBase,
)
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from rashomon.data import load_dataset
from rashomon.data.batches import Batch, Encoding
from rashomon.data.example import Dataset, Example
from rashomon.errors import UserError
from rashomon.explainers import DEFAULT_METHODS, Engine, explain, make_explainer
from rashomon.models import Model, ModelSpec, build_model, without_attention

warnings.filterwarnings("ignore")
SAMPLES, TOP = 1000, 5


def clock() -> float:
    """With one thread the processor's seconds, which a busy machine does not stretch; otherwise the wall's."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


class Wrapped(nn.Module):
    """A model as Captum wants it: embeddings (or a mask of kept tokens) in, logits out."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def about(self, encoding: Encoding) -> Wrapped:
        self.batch = self.model.collate([encoding])
        with torch.no_grad():
            self.inputs = self.model.embed(self.batch).detach()
            ids = torch.where(torch.from_numpy(encoding.content), self.model.pad_id, self.batch.ids)
            blank = replace(self.batch, ids=ids)
            self.reference = self.model.embed(blank).detach()
            self.target = int(self.model(self.batch).logits.argmax())
        return self

    def _rows(self, count: int, mask: Tensor | None = None) -> Batch:
        b = self.batch
        return Batch(
            b.ids.expand(count, -1),
            b.mask.expand(count, -1) if mask is None else mask,
            b.segments.expand(count, -1),
            b.positions.expand(count, -1),
            b.content.expand(count, -1),
        )

    def forward(self, embeddings: Tensor) -> Tensor:
        logits: Tensor = self.model(self._rows(len(embeddings)), embeddings=embeddings).logits
        return logits

    def masked(self, kept: Tensor) -> Tensor:
        """LIME's way: tokens hidden by the attention mask."""
        logits: Tensor = self.model(self._rows(len(kept), kept.bool())).logits
        return logits


class RidgeModel:
    """The linear model that Captum's LimeBase trains."""

    def fit(self, data: object, **_: object) -> None:
        features, values, weights = (torch.cat(part).numpy() for part in zip(*data, strict=True))  # type: ignore[call-overload]
        self.coefficients = torch.from_numpy(Ridge(alpha=1.0).fit(features, values, weights).coef_)

    def representation(self) -> Tensor:
        return self.coefficients


def captum_lime(
    wrapped: Wrapped, encoding: Encoding, samples: int, per_eval: int, seed: int = 0
) -> np.ndarray:
    """Scores of content tokens, from the same distribution of kept tokens, kernel and ridge as ours."""
    content = torch.from_numpy(encoding.content)
    n = int(content.sum())
    generator = torch.Generator().manual_seed(seed)

    def perturb(inputs: Tensor, **_: object) -> Tensor:
        size = int(torch.randint(1, n, (1,), generator=generator))
        kept = torch.ones(len(encoding))
        kept[content] = (torch.rand(n, generator=generator).argsort().argsort() < size).float()
        return kept[None]

    def similarity(original: Tensor, perturbed: Tensor, _: Tensor, **__: object) -> Tensor:
        distance = 1 - torch.sqrt(perturbed[:, content].mean())
        return torch.exp(-((distance / 0.25) ** 2) / 2)

    model = RidgeModel()
    lime = LimeBase(wrapped.masked, model, similarity, perturb, True, lambda kept, *_, **__: kept, None)
    with torch.inference_mode():
        scores = lime.attribute(
            torch.ones(1, len(encoding)),
            target=wrapped.target,
            n_samples=samples,
            perturbations_per_eval=per_eval,
        )
    found: np.ndarray = scores.numpy().reshape(-1)[encoding.content]
    return found


def best_per_text(
    wrapped: Wrapped, encodings: Sequence[Encoding], call: Callable[[Wrapped], object]
) -> float:
    started = clock()
    for encoding in encodings:
        call(wrapped.about(encoding))
    return clock() - started


def captum_calls(model: Model) -> dict[str, Callable[[Wrapped], object]]:
    """Each method at Captum's best setting; ours runs at the same configuration unless the row says otherwise."""

    def path(w: Wrapped, steps: int) -> object:
        return IntegratedGradients(w).attribute(w.inputs, w.reference, w.target, n_steps=steps)

    def conductance(w: Wrapped) -> object:
        layer = LayerConductance(w, model.first_layer())
        return layer.attribute(w.inputs, w.reference, w.target, n_steps=20)

    def shap(w: Wrapped) -> object:
        method = GradientShap(w)
        return method.attribute(w.inputs, w.reference, n_samples=24, stdevs=0.0, target=w.target)

    return {
        "gradient-x-input": lambda w: InputXGradient(w).attribute(
            w.inputs.clone().requires_grad_(), w.target
        ),
        "integrated-gradients, 20 steps": lambda w: path(w, 20),
        "integrated-gradients, gap < 1 % (Captum: 50 steps)": lambda w: path(w, 50),
        "layer-conductance, 21 points": conductance,
        "gradient-shap, 24 samples": shap,
        "deeplift (Captum: no rules, does not add up)": lambda w: DeepLift(w).attribute(
            w.inputs.clone(), w.reference, target=w.target
        ),
    }


OURS = {
    "gradient-x-input": make_explainer("gradient-x-input"),
    "integrated-gradients, 20 steps": make_explainer("integrated-gradients", steps=20),
    "integrated-gradients, gap < 1 % (Captum: 50 steps)": make_explainer("integrated-gradients"),
    "layer-conductance, 21 points": make_explainer(
        "layer-conductance", steps=21, trapezoid=False, endpoints=False
    ),
    "gradient-shap, 24 samples": make_explainer("gradient-shap", samples=24),
    "deeplift (Captum: no rules, does not add up)": make_explainer("deeplift"),
}


def timed(call: Callable[[], object]) -> float:
    started = clock()
    call()
    return clock() - started


def compare_gradients(model: Model, examples: Sequence[Example], encodings: Sequence[Encoding]) -> None:
    wrapped = Wrapped(model)
    for name, call in captum_calls(model).items():
        explain(model, examples[:2], [OURS[name]])  # warm
        ours = timed(lambda name=name: explain(model, examples, [OURS[name]]))  # type: ignore[misc]
        try:
            with without_attention(model):
                call(wrapped.about(encodings[0]))
                theirs = best_per_text(wrapped, encodings, call)
        except (RuntimeError, AssertionError, AttributeError, TypeError, KeyError, ValueError) as error:
            print(f"  {name:52} ours {ours:7.2f} s   Captum fails: {str(error).splitlines()[0][:60]}")
            continue
        report(name, ours, theirs)


def compare_lime(model: Model, examples: Sequence[Example], encodings: Sequence[Encoding], few: int) -> None:
    wrapped = Wrapped(model)
    engine_lime = make_explainer("lime", samples=SAMPLES)
    explain(model, examples[:1], [make_explainer("lime", samples=50)])
    ours = timed(lambda: explain(model, examples, [engine_lime]))
    # Every k-th text of the sorted lengths stands for all; scaled by tokens, which is what a pass costs.
    order = np.argsort([len(encoding) for encoding in encodings])
    chosen = [encodings[i] for i in order[:: max(1, len(order) // few)]]
    scale = sum(map(len, encodings)) / sum(map(len, chosen))
    with without_attention(model):
        captum_lime(wrapped.about(chosen[0]), chosen[0], 64, 64)
        best = scale * best_per_text(
            wrapped, chosen, lambda w: captum_lime(w, chosen_of(w, chosen), SAMPLES, 64)
        )
        single = SAMPLES // 10
        default = (
            scale
            * 10
            * best_per_text(wrapped, chosen, lambda w: captum_lime(w, chosen_of(w, chosen), single, 1))
        )
    note = f"Captum on {len(chosen)} texts, scaled by tokens"
    report("lime, 1000 samples, Captum 64 a pass", ours, best, note)
    report("lime, 1000 samples, Captum's default", ours, default, f"{note}; {single} samples, scaled")


def compare_top_five(model: Model, examples: Sequence[Example], encodings: Sequence[Encoding]) -> None:
    """How long ours takes to name as many of the true top five as Captum does with 1000 samples.

    The truth is what eight times as many samples say, drawn apart; each count is tried under three seeds.
    """

    def scores(samples: int, seed: int) -> list[np.ndarray]:
        explanations = explain(model, examples, [make_explainer("lime", samples=samples)], seed=seed)
        return [item.scores[encoding.content] for item, encoding in zip(explanations, encodings, strict=True)]

    def top(values: np.ndarray) -> set[int]:
        return set(np.argsort(-np.abs(values))[:TOP].tolist())

    truth = [top(values) for values in scores(8 * SAMPLES, 99)]

    def overlap(found: Sequence[np.ndarray]) -> float:
        shares = [len(top(v) & t) / len(t) for v, t in zip(found, truth, strict=True)]
        return float(np.mean(shares))

    wrapped = Wrapped(model)
    started = clock()
    with without_attention(model):
        theirs = [
            overlap([captum_lime(wrapped.about(e), e, SAMPLES, 64, seed) for e in encodings])
            for seed in range(3)
        ]
    seconds = (clock() - started) / 3
    for samples in (200, 300, 400, 500, 700, 1000):
        started = clock()
        ours = float(np.mean([overlap(scores(samples, seed)) for seed in range(3)]))
        took = (clock() - started) / 3
        if ours >= np.mean(theirs) or samples == SAMPLES:
            note = f"top five right: ours {ours:.2f} with {samples} samples, Captum {np.mean(theirs):.2f}"
            report("lime at an equal top five, Captum 64 a pass", took, seconds, note)
            return


def report(what: str, ours: float, theirs: float, note: str = "") -> None:
    ratio = theirs / ours
    print(f"  {what:52} ours {ours:7.2f} s   Captum {theirs:7.2f} s   ratio {ratio:6.2f}  {note}", flush=True)


def chosen_of(wrapped: Wrapped, chosen: Sequence[Encoding]) -> Encoding:
    """The encoding that the wrapped model is about."""
    ids = wrapped.batch.ids[0].numpy()
    return next(encoding for encoding in chosen if np.array_equal(encoding.ids, ids))


def throughput(model: Model, encodings: Sequence[Encoding]) -> None:
    """The engine's tokens a second on LIME's rows, against the bare model on full batches of the same lengths."""
    generator = np.random.default_rng(0)
    kept = []
    for encoding in encodings:
        size = generator.integers(1, len(encoding), 200)
        kept.append(generator.random((200, len(encoding))).argsort(1).argsort(1) < size[:, None])
    engine = Engine(model)
    lengths = np.concatenate([(k | e.special).sum(1) for k, e in zip(kept, encodings, strict=True)])
    shares = []
    for _ in range(2):  # alternating, so that a busy machine is busy for both
        engine.forget()
        engine.counts.tokens = engine.counts.evaluated = 0
        ours = timed(lambda: engine.logits(encodings, kept))
        bare = timed(lambda: _bare(model, lengths))
        shares.append((bare / lengths.sum()) / (ours / engine.counts.tokens))
    rate = engine.counts.evaluated / ours
    print(
        f"  engine: {rate:.0f} evaluations/s, {max(shares):.0%} of the bare model's tokens/s on ready batches"
    )


def _bare(model: Model, lengths: np.ndarray, budget: int = 4096) -> None:
    ordered = np.sort(lengths)
    start = 0
    with torch.inference_mode(), without_attention(model):
        while start < len(ordered):
            fits = np.searchsorted(
                ordered[start:] * np.arange(1, len(ordered) - start + 1), budget, side="right"
            )
            rows = max(1, int(fits))
            model(_ready(rows, int(ordered[start : start + rows].max())))
            start += rows


def _ready(rows: int, width: int) -> Batch:
    ids = torch.randint(5, 50, (rows, width))
    mask = torch.ones(rows, width, dtype=torch.bool)
    return Batch(ids, mask, torch.zeros_like(ids), torch.arange(width).expand(rows, -1), mask)


def sharing(model: Model, examples: Sequence[Example], background: Sequence[Example]) -> None:
    """All default methods in one call against the sum of one call each."""
    for title, methods in (
        ("default methods", DEFAULT_METHODS),
        ("integrated-gradients + layer-conductance", ("integrated-gradients", "layer-conductance")),
    ):
        alone = {m: timed(lambda m=m: explain(model, examples, [m], background=background)) for m in methods}  # type: ignore[misc]
        together = timed(lambda methods=methods: explain(model, examples, methods, background=background))  # type: ignore[misc]
        total = sum(alone.values())
        print(f"  {title} together {together:.2f} s, one by one {total:.2f} s: {together / total:.0%}")


def texts(name: str, fallback: str, count: int) -> tuple[Dataset, Sequence[Example], str]:
    try:
        data = load_dataset(name)
        source = f"{name} (test split)"
    except UserError:
        data = load_dataset(fallback)
        source = f"{fallback}, for want of {name}"
    return data, data["test"][:count], source


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=64, help="short texts (SST)")
    parser.add_argument("--long", type=int, default=16, help="long texts (IMDb)")
    parser.add_argument("--few", type=int, default=4, help="texts on which Captum's LIME is timed")
    parser.add_argument("--models", default="bilstm,minilm")
    parser.add_argument("--quick", action="store_true", help="8 short and 2 long texts")
    options = parser.parse_args()
    short, long = (8, 2) if options.quick else (options.texts, options.long)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s)")
    for model_name in options.models.split(","):
        for name, fallback, count in (("sst", "planted-reviews", short), ("imdb", "mock-1", long)):
            data, examples, source = texts(name, fallback, count)
            torch.manual_seed(0)
            model = build_model(ModelSpec(name=model_name, max_length=256), data, 0).eval()
            encodings = model.encode(examples)
            mean = np.mean([len(encoding) for encoding in encodings])
            print(f"\n{model_name}, {len(examples)} texts of {source}, {mean:.0f} tokens on average")
            throughput(model, encodings)
            compare_gradients(model, examples, encodings)
            compare_lime(model, examples, encodings, min(options.few, len(examples)))
            compare_top_five(model, examples[: options.few], encodings[: options.few])
            sharing(model, examples[: max(2, count // 8)], data["train"][:8])


if __name__ == "__main__":
    main()
