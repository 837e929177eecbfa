from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from statsmodels.stats.multitest import multipletests

from rashomon.data.batches import Encoding
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Plot
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask, hear
from rashomon.explainers import Explanation, Explanations
from rashomon.explainers.perturbed_rows import Perturbation
from rashomon.models.base import Model
from rashomon.studies.base import Judgement
from rashomon.studies.erasure import Erasure, erase, judgements
from tests.models.tiny import dataset
from tests.studies.planted import planted, subject_in


def _probability(model: Model, encoding: Encoding, kept: np.ndarray, how: Perturbation, target: int) -> float:
    """Straight through the model, one row at a time."""
    kept = kept | encoding.special
    if how == "remove":
        cut = {
            name: getattr(encoding, name)[kept]
            for name in ("ids", "segments", "special", "word_ids", "positions")
        }
        tokens = tuple(t for t, k in zip(encoding.tokens, kept, strict=True) if k)
        encoding = replace(encoding, tokens=tokens, offsets=encoding.offsets[kept], **cut)
    else:
        hidden = model.mask_id if how == "mask" else model.pad_id
        encoding = replace(encoding, ids=np.where(kept, encoding.ids, hidden))
    with torch.no_grad():
        return float(model(model.collate([encoding])).probabilities[0, target])


def _direct(model: Model, encoding: Encoding, item: Explanation, fraction: float, how: Perturbation):  # type: ignore[no-untyped-def]
    n = int(item.content.sum())
    count = max(1, int(np.ceil(n * fraction - 1e-9)))
    positions = item.ranked(count, by="signed")
    top = np.isin(np.arange(len(item)), positions)
    full = _probability(model, encoding, np.ones(len(item), dtype=bool), how, item.target)
    return {
        "sufficiency": full - _probability(model, encoding, top, how, item.target),
        "comprehensiveness": full - _probability(model, encoding, ~top, how, item.target),
    }


@pytest.mark.parametrize("how", ["remove", "mask", "pad"])
@pytest.mark.parametrize("family", ["built-in", "bert"])
def test_values_equal_asking_the_model_directly(
    context: Context, checkpoint: Callable[..., Path], how: Perturbation, family: str
) -> None:
    subject = subject_in(context)
    if family == "bert":
        subject = Subject(context.adopt(dataset()), checkpoint=str(checkpoint("bert")))
    ask = Ask(subject, ("leave-one-out",), 3)
    (heard,) = hear(context, ask)
    assert heard.model is not None
    table = erase(heard.model, heard, (0.1, 0.5), how)
    encodings = dict(zip(heard.told.example_ids, heard.model.encode(heard.examples), strict=True))
    for row in table.to_dict("records"):
        item = heard.told.of(row["example"])[0]
        expected = _direct(heard.model, encodings[row["example"]], item, row["fraction"], how)
        assert row["value"] == pytest.approx(expected[row["measure"]], abs=1e-5), row


@pytest.mark.usefixtures("witnesses")
def test_the_truth_beats_chance_and_p_values_are_adjusted(context: Context) -> None:
    ask = Ask(subject_in(context, planted(held_out=40)), ("oracle", "constant"), 40)
    finding = Erasure.of(ask).run(context)
    summary = finding.tables["summary"].set_index(["measure", "method"])
    gone, kept = summary.loc["comprehensiveness"], summary.loc["sufficiency"]
    assert gone.loc["oracle", "mean"] > gone.loc["random", "mean"] + 0.15
    assert kept.loc["oracle", "mean"] < kept.loc["random", "mean"]
    assert gone.loc["oracle", "p_holm"] < 0.01 > kept.loc["oracle", "p_holm"]
    assert gone.loc["constant", "p_holm"] > 0.05
    tested = summary.drop(["random", "trivial"], level="method")
    assert tested["p_holm"].tolist() == pytest.approx(
        multipletests(tested["p_against_random"], method="holm")[1]
    )
    assert summary.loc[(slice(None), ["random", "trivial"]), "p_holm"].isna().all()
    aopc = finding.tables["instances"].query("method == 'oracle' and measure == 'comprehensiveness'")
    assert gone.loc["oracle", "mean"] == pytest.approx(aopc.groupby("example")["value"].mean().mean())
    assert "most under oracle" in finding.verdict
    assert "1 of 2 methods beat" in finding.verdict
    curve = finding.figures[0]
    assert isinstance(curve, Plot)
    assert [series.name for series in curve.series] == ["oracle", "constant", "random", "trivial"]


def test_unsigned_and_signed_scores_rank_differently(context: Context) -> None:
    (heard,) = hear(context, Ask(subject_in(context), ("leave-one-out",), 4))
    assert heard.model is not None
    against = Explanations(replace(item, scores=-np.abs(item.scores)) for item in heard.told)
    signed = erase(heard.model, replace(heard, told=against), (0.1,))
    unsigned = Explanations(replace(item, method="attention") for item in against)
    by_size = erase(heard.model, replace(heard, told=unsigned), (0.1,))
    assert signed["value"].tolist() != by_size["value"].tolist()


def test_stored_explanations_with_their_model(
    context: Context, checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    subject = Subject(context.adopt(dataset()), checkpoint=str(checkpoint("bert")))
    ask = Ask(subject, ("leave-one-out", "attention"), 6)
    fresh = Erasure.of(ask).run(context)
    (heard,) = hear(context, ask)
    path = tmp_path / "told.parquet"
    turned = heard.told.by_method("attention")[::-1] + heard.told.by_method(
        "leave-one-out"
    )  # in another order
    Explanations(turned).save(path)
    stored = Erasure.of(replace(ask, stored=str(path))).run(context)
    key = ["measure", "method"]
    columns = ["mean", "p_holm"]
    one, two = (f.tables["summary"].set_index(key).sort_index()[columns] for f in (fresh, stored))
    assert np.allclose(one, two, equal_nan=True)
    Explanations(replace(i, target=-1, model="unknown", probabilities=()) for i in heard.told).save(path)
    unknown = Erasure.of(replace(ask, stored=str(path))).run(context)
    assert np.allclose(unknown.tables["summary"].set_index(key).sort_index()["mean"], one["mean"])


@pytest.mark.parametrize("mistake", ["words", "texts", "class", "model", "fractions"])
def test_refusals(context: Context, checkpoint: Callable[..., Path], tmp_path: Path, mistake: str) -> None:
    subject = Subject(context.adopt(dataset()), checkpoint=str(checkpoint("bert")))
    ask = Ask(subject, ("attention", "leave-one-out"), 6, stored=str(tmp_path / "told.parquet"))
    (heard,) = hear(context, replace(ask, stored=None))
    told, study = heard.told, Erasure.of(ask)
    if mistake == "words":
        told, message = told.words(), "before sub-words are merged"
    elif mistake == "texts":
        told, message = Explanations(replace(i, example_id="x" + i.example_id) for i in told), "does not have"
    elif mistake == "class":
        told, message = Explanations(replace(i, target=7) for i in told), "a class the model lacks"
    elif mistake == "model":
        study, message = Erasure.of(replace(ask, subject=subject_in(context))), "asks the model again"
    else:
        study, message = Erasure.of(ask, fractions=(0.5, 1.5)), "between 0 and 1"
    told.save(tmp_path / "told.parquet")
    with pytest.raises(UserError, match=message):
        study.run(context)


def _summary(
    mean: float, p: float, floor: float | None = 0.1, best: float = 0.5, n: int = 100, **tested: object
) -> pd.DataFrame:
    methods = [("a", mean, p), ("b", best, 0.001), ("trivial", 0.9, np.nan)]
    methods += [("random", floor, np.nan)] if floor is not None else []
    rows = [("comprehensiveness", *row) for row in methods] + [("sufficiency", "a", 0.2, p)]
    told = [
        {"measure": measure, "method": method, "mean": value, "low": np.nan, "high": np.nan, "n": n}
        | {"test": "wilcoxon", "p_against_random": q, "p_holm": q}
        for measure, method, value, q in rows
    ]
    return pd.DataFrame(told).assign(**tested)


def _judged(summary: pd.DataFrame) -> Judgement:
    by_method = {judgement.method: judgement for judgement in judgements(summary)}
    assert set(by_method) <= {"a", "b"}, "controls are not judged"
    return by_method["a"]


@pytest.mark.parametrize(
    ("summary", "rating", "words"),
    [
        (_summary(0.45, 0.001), "good", "the model uses"),
        (_summary(0.25, 0.001), "mixed", "others do better"),
        (_summary(0.12, 0.001, best=0.13), "mixed", "hardly minds"),
        (_summary(0.12, 0.40), "poor", "does not beat a random order"),
        (_summary(0.45, np.nan), "unknown", "not compared"),
        (_summary(0.45, 0.2, n=5), "unknown", "too few texts"),
        # few seeds cannot win among so many tests
        (_summary(0.45, 0.4, test="hierarchical t", p_against_random=0.03), "unknown", "too few seeds"),
        (_summary(0.45, 0.4, test="hierarchical t", p_against_random=0.2), "poor", "does not beat"),
        # what holds alone but not among so many tests is left open
        (_summary(0.45, 0.4, p_against_random=0.006), "mixed", "more texts"),
        (_summary(0.45, 0.4, p_against_random=0.2), "poor", "does not beat"),
    ],
)
def test_faithfulness(summary: pd.DataFrame, rating: str, words: str) -> None:
    judged = _judged(summary)
    assert (judged.aspect, judged.rating, words in judged.words) == ("faithfulness", rating, True), judged
    assert "comprehensiveness" in judged.number
    assert "sufficiency" in judged.number
