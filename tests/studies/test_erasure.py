from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from statsmodels.stats.multitest import multipletests

from rashomon.data.batches import Encoding
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.erasing import erase, operators
from rashomon.experiments.familiarity import unfamiliarity
from rashomon.experiments.figures import Plot
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask, hear
from rashomon.explainers import Engine, Explanation, Explanations
from rashomon.explainers.perturbed_rows import Perturbation
from rashomon.models.base import Model
from rashomon.models.tasks import tasks
from rashomon.studies.base import Judgement
from rashomon.studies.erasure import Erasure, judgements
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
    table = erase(heard.model, heard, (0.1, 0.5), (how,))
    assert set(table["perturbation"]) == {how}
    encodings = dict(zip(heard.explanations.example_ids, heard.model.encode(heard.examples), strict=True))
    for row in table.to_dict("records"):
        item = heard.explanations.of(row["example"])[0]
        expected = _direct(heard.model, encodings[row["example"]], item, row["fraction"], how)
        assert row["value"] == pytest.approx(expected[row["measure"]], abs=1e-5), row


@pytest.mark.usefixtures("witnesses")
def test_the_truth_beats_chance_and_p_values_are_adjusted(context: Context) -> None:
    ask = Ask(subject_in(context, planted(held_out=40)), ("oracle", "constant"), 40)
    finding = Erasure.of(ask).run(context)
    summary = finding.tables["summary"].set_index(["perturbation", "measure", "method"]).sort_index()
    for how in ("remove", "pad"):
        gone, kept = summary.loc[how, "comprehensiveness"], summary.loc[how, "sufficiency"]
        assert gone.loc["oracle", "mean"] > gone.loc["random", "mean"] + 0.15
        assert kept.loc["oracle", "mean"] < kept.loc["random", "mean"]
        assert gone.loc["oracle", "p_holm"] < 0.01 > kept.loc["oracle", "p_holm"]
        assert gone.loc["constant", "p_holm"] > 0.05
        instances = finding.tables["instances"].query(
            "method == 'oracle' and measure == 'comprehensiveness' and perturbation == @how"
        )
        assert gone.loc["oracle", "mean"] == pytest.approx(
            instances.groupby("example")["value"].mean().mean()
        )
    tested = summary.drop(["random", "trivial"], level="method")
    assert tested["p_holm"].tolist() == pytest.approx(
        multipletests(tested["p_against_random"], method="holm")[1]
    )
    assert summary.query("method in ('random', 'trivial')")["p_holm"].isna().all()
    assert "Removing the top tokens costs the prediction most with oracle" in finding.verdict
    assert "Padding the top tokens costs the prediction most with oracle" in finding.verdict
    assert "1 of 2 methods beat the random order under each way of erasing." in finding.verdict
    assert [figure.title for figure in finding.figures] == [
        "Comprehensiveness under removal",
        "Comprehensiveness under padding",
        "Sufficiency under removal",
        "Sufficiency under padding",
    ]
    curve = finding.figures[1]
    assert isinstance(curve, Plot)
    assert [series.name for series in curve.series] == ["oracle", "constant", "random", "trivial"]
    at_half = finding.tables["instances"].query(
        "method == 'oracle' and measure == 'comprehensiveness' and perturbation == 'pad' and fraction == 0.5"
    )
    assert curve.series[0].y[-1] == pytest.approx(at_half["value"].mean())


@pytest.mark.usefixtures("witnesses")
def test_erased_texts_beside_real_ones(context: Context, tmp_path: Path) -> None:
    """The share of unusual texts, again from the outputs of one text at a time."""
    ask = Ask(subject_in(context, planted(held_out=40)), ("oracle",), 40)
    finding = Erasure.of(ask, fractions=(0.1, 0.3, 0.9)).run(context)
    (heard,) = hear(context, ask)
    model = heard.model
    assert model is not None

    def distance(encoding: Encoding) -> float:
        with torch.no_grad():
            own, *known = (model(model.collate([e])).pooled[0].numpy() for e in (encoding, *behind))
        return float(min(np.linalg.norm(own - other) for other in known))

    behind = model.encode(heard.behind)
    texts = model.encode(heard.examples)
    real = [distance(encoding) for encoding in texts]
    erased = []
    for item, encoding in zip(heard.explanations, texts, strict=True):
        top = item.ranked(max(1, int(np.ceil(item.content.sum() * 0.3 - 1e-9))), by="signed")
        kept = ~np.isin(np.arange(len(item)), top)
        erased.append(distance(replace(encoding, ids=np.where(kept, encoding.ids, model.pad_id))))
    expected = float(np.mean(np.array(erased) > np.quantile(real, 0.95)))
    table = finding.tables["familiarity"].set_index(["perturbation", "measure", "method"])
    row = table.loc["pad", "comprehensiveness", "oracle"]
    assert row["mean"] == pytest.approx(expected)
    assert row["median_distance"] == pytest.approx(np.median(erased) / np.median(real), rel=1e-4)
    assert table.loc["none", "none", "real texts"]["mean"] == pytest.approx(0.05)
    assert set(table.index.get_level_values("measure")) == {"none", "sufficiency", "comprehensiveness"}
    assert f"{round(100 * expected)}% under padding lie farther" in finding.verdict
    model.save(tmp_path / "model")
    heard.explanations.save(tmp_path / "explanations.parquet")
    given = Subject(ask.subject.dataset, checkpoint=str(tmp_path / "model"))
    stored = replace(ask, subject=given, stored=str(tmp_path / "explanations.parquet"))
    again = Erasure.of(stored, fractions=(0.1, 0.3, 0.9)).run(context).tables["familiarity"]
    assert again.set_index(list(table.index.names))["mean"].to_dict() == table["mean"].to_dict()


def test_what_is_explained_is_not_among_the_training_texts(context: Context) -> None:
    """Texts of the training split would otherwise be at distance 0 from themselves."""
    data = planted(train=40, held_out=10)
    (heard,) = hear(context, Ask(subject_in(context, data), ("attention",), 30, "train"))
    assert heard.model is not None
    table = unfamiliarity(heard.model, heard, (0.1,), ("pad",))
    assert len(table.query("perturbation == 'none'")) == 30
    assert (table.query("perturbation == 'none'")["distance"] > 0).any()
    assert unfamiliarity(heard.model, replace(heard, behind=()), (0.1,), ("pad",)).empty
    assert unfamiliarity(heard.model, replace(heard, behind=heard.examples), (0.1,), ("pad",)).empty


def test_answers_keep_their_places(context: Context) -> None:
    (heard,) = hear(context, Ask(subject_in(context), ("attention",), 2))
    assert heard.model is not None
    assert operators(heard.model, ("remove", "pad")) == ("remove", "pad")
    heard.model.task = tasks.get("span")
    assert operators(heard.model, ("remove", "pad")) == ("mask", "pad")
    assert operators(heard.model, ("remove", "mask")) == ("mask",)


def test_unsigned_and_signed_scores_rank_differently(context: Context) -> None:
    (heard,) = hear(context, Ask(subject_in(context), ("leave-one-out",), 4))
    assert heard.model is not None
    against = Explanations(replace(item, scores=-np.abs(item.scores)) for item in heard.explanations)
    signed = erase(heard.model, replace(heard, explanations=against), (0.1,), ("remove",))
    unsigned = Explanations(replace(item, method="attention") for item in against)
    by_size = erase(heard.model, replace(heard, explanations=unsigned), (0.1,), ("remove",))
    assert signed["value"].tolist() != by_size["value"].tolist()


def test_stored_explanations_with_their_model(
    context: Context, checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    subject = Subject(context.adopt(dataset()), checkpoint=str(checkpoint("bert")))
    ask = Ask(subject, ("leave-one-out", "attention"), 6)
    fresh = Erasure.of(ask).run(context)
    (heard,) = hear(context, ask)
    path = tmp_path / "explanations.parquet"
    turned = heard.explanations.by_method("attention")[::-1] + heard.explanations.by_method(
        "leave-one-out"
    )  # in another order
    Explanations(turned).save(path)
    stored = Erasure.of(replace(ask, stored=str(path))).run(context)
    key = ["perturbation", "measure", "method"]
    columns = ["mean", "p_holm"]
    one, two = (f.tables["summary"].set_index(key).sort_index()[columns] for f in (fresh, stored))
    assert np.allclose(one, two, equal_nan=True)
    Explanations(replace(i, target=-1, model="unknown", probabilities=()) for i in heard.explanations).save(
        path
    )
    Explanations(replace(i, model="another") for i in heard.explanations).save(path)
    with pytest.raises(UserError, match="another model than the one given"):
        Erasure.of(replace(ask, stored=str(path))).run(context)
    meant = Erasure.of(replace(ask, stored=str(path)), other_model=True).run(context)
    assert any("of another model" in warning for warning in meant.warnings)
    Explanations(replace(i, target=-1, model="unknown", probabilities=()) for i in heard.explanations).save(
        path
    )
    unknown = Erasure.of(replace(ask, stored=str(path))).run(context)
    assert np.allclose(unknown.tables["summary"].set_index(key).sort_index()["mean"], one["mean"])


@pytest.mark.parametrize("mistake", ["words", "texts", "class", "model", "fractions", "way", "no way"])
def test_refusals(context: Context, checkpoint: Callable[..., Path], tmp_path: Path, mistake: str) -> None:
    subject = Subject(context.adopt(dataset()), checkpoint=str(checkpoint("bert")))
    ask = Ask(subject, ("attention", "leave-one-out"), 6, stored=str(tmp_path / "explanations.parquet"))
    (heard,) = hear(context, replace(ask, stored=None))
    explanations, study = heard.explanations, Erasure.of(ask)
    if mistake == "words":
        explanations, message = explanations.words(), "before sub-words are merged"
    elif mistake == "texts":
        explanations, message = (
            Explanations(replace(i, example_id="x" + i.example_id) for i in explanations),
            "does not have",
        )
    elif mistake == "class":
        explanations, message = (
            Explanations(replace(i, target=7) for i in explanations),
            "a class the model lacks",
        )
    elif mistake == "model":
        study, message = Erasure.of(replace(ask, subject=subject_in(context))), "asks the model again"
    elif mistake == "way":
        study, message = Erasure.of(ask, perturbations=("remove", "blur")), "blur"
    elif mistake == "no way":
        study, message = Erasure.of(ask, perturbations=()), "at least one way"
    else:
        study, message = Erasure.of(ask, fractions=(0.5, 1.5)), "between 0 and 1"
    explanations.save(tmp_path / "explanations.parquet")
    with pytest.raises(UserError, match=message):
        study.run(context)


@dataclass(frozen=True)
class Outcome:
    """What one operator says of a method ``a``, beside a better method and a random order."""

    mean: float = 0.5
    p: float = 0.001
    half: float = 0.02  # of every interval
    best: float = 0.5
    floor: float = 0.1
    n: int = 100
    alone: float | None = None  # the p-value before it is adjusted
    test: str = "wilcoxon"

    def rows(self, how: str) -> list[dict[str, object]]:
        alone = self.p if self.alone is None else self.alone
        figures = [
            ("comprehensiveness", "a", self.mean, self.p, alone),
            ("comprehensiveness", "b", self.best, 0.001, 0.001),
            ("comprehensiveness", "random", self.floor, np.nan, np.nan),
            ("comprehensiveness", "trivial", 0.9, np.nan, np.nan),
            ("sufficiency", "a", 0.2, self.p, alone),
        ]
        return [
            {"perturbation": how, "measure": measure, "method": method, "mean": mean, "n": self.n}
            | {"low": mean - self.half, "high": mean + self.half, "interval": "95 %"}
            | {"test": self.test, "p_against_random": single, "p_holm": p}
            for measure, method, mean, p, single in figures
        ]


GOOD, POOR = Outcome(), Outcome(mean=0.12, p=0.4)
WORSE = Outcome(mean=0.3)


def _judged(**outcomes: Outcome) -> Judgement:
    summary = pd.DataFrame([row for how, said in outcomes.items() for row in said.rows(how)])
    by_method = {judgement.method: judgement for judgement in judgements(summary)}
    assert set(by_method) == {"a", "b"}, "controls are not judged"
    assert by_method["a"].aspect == "faithfulness"
    return by_method["a"]


@pytest.mark.parametrize(
    ("outcome", "rating", "words"),
    [
        (GOOD, "good", "names tokens that the model uses"),
        (POOR, "poor", "does not beat a random order"),
        # against the best method: apart by interval, and by enough to be worth a word
        (Outcome(mean=0.459, best=0.51), "mixed", "others do better"),
        (Outcome(mean=0.461, best=0.51), "good", "the model uses"),
        (Outcome(mean=0.46, best=0.51, half=0.03), "good", "the model uses"),
        (Outcome(mean=0.3, best=0.5, half=0.099, floor=0.0), "mixed", "others do better"),
        (Outcome(mean=0.3, best=0.5, half=0.1, floor=0.0), "good", "the model uses"),
        # against the floor
        (Outcome(mean=0.3, best=0.3, half=0.1), "mixed", "their intervals overlap"),
        (Outcome(mean=0.3, best=0.3, half=0.099), "good", "the model uses"),
        (Outcome(mean=0.149, best=0.15, half=0.001), "mixed", "hardly minds"),
        (Outcome(mean=0.151, best=0.16, half=0.001), "good", "the model uses"),
        (Outcome(mean=0.44, half=np.nan), "mixed", "others do better"),
        # what could not be told
        (Outcome(p=np.nan), "unknown", "not compared"),
        (Outcome(p=0.2, n=5), "unknown", "too few texts"),
        (Outcome(p=0.4, alone=0.03, test="hierarchical t"), "unknown", "too few seeds"),
        (Outcome(p=0.4, alone=0.2, test="hierarchical t"), "poor", "does not beat"),
        (Outcome(p=0.4, alone=0.006), "mixed", "more texts"),
        (Outcome(p=0.4, alone=0.2), "poor", "does not beat"),
    ],
)
def test_operators_that_say_the_same(outcome: Outcome, rating: str, words: str) -> None:
    judged = _judged(remove=outcome, pad=outcome)
    assert (judged.rating, words in judged.words) == (rating, True), judged
    assert "{" not in judged.words
    assert rating == "unknown" or "under removal and padding" in judged.words
    assert judged.number.count("comprehensiveness") == judged.number.count("sufficiency") == 2
    assert "; under padding" in judged.number


@pytest.mark.parametrize(
    ("removed", "padded", "rating", "words"),
    [
        (GOOD, POOR, "mixed", "names tokens that the model uses under removal, but not under padding"),
        (POOR, GOOD, "mixed", "names tokens that the model uses under padding, but not under removal"),
        (
            GOOD,
            WORSE,
            "mixed",
            "names tokens that the model uses under removal, "
            "but beats a random order under padding, though others do better",
        ),
        (
            POOR,
            WORSE,
            "poor",
            "beats a random order under padding, though others do better, "
            "but does not beat a random order under removal",
        ),
        (
            Outcome(p=0.2, n=5),
            GOOD,
            "mixed",
            "names tokens that the model uses under padding, but was tried on too few texts to tell under removal",
        ),
        (
            WORSE,
            Outcome(mean=0.149, half=0.001),
            "mixed",
            "beats a random order under removal, though others do better, "
            "but beats a random order under padding, though the model hardly minds",
        ),
    ],
)
def test_operators_that_disagree(removed: Outcome, padded: Outcome, rating: str, words: str) -> None:
    judged = _judged(remove=removed, pad=padded)
    assert (judged.rating, judged.words) == (rating, words)


def test_one_way_of_erasing_is_not_enough_for_trust() -> None:
    assert _judged(pad=POOR).rating == "poor"
    judged = _judged(remove=GOOD)
    assert judged.rating == "mixed"
    assert judged.words == "names tokens that the model uses under removal, and was tried in no other way"


@pytest.mark.usefixtures("witnesses")
def test_a_model_that_minds_only_what_is_removed(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding is planted to cost nothing; removal costs what it does."""
    ask = Ask(subject_in(context, planted(held_out=40)), ("oracle",), 40)
    asked = Engine.logits

    def forgiving(engine: Engine, encodings, kept, how="remove"):  # type: ignore[no-untyped-def]
        if how == "pad":
            kept = [np.ones_like(rows) for rows in kept]
        return asked(engine, encodings, kept, how)

    monkeypatch.setattr(Engine, "logits", forgiving)
    finding = Erasure.of(ask).run(context)
    (judged,) = finding.judgements
    assert judged.rating == "mixed"
    assert judged.words == "names tokens that the model uses under removal, but not under padding"
    assert "0 of 1 methods beat the random order under each" in finding.verdict
    assert "How oracle fares depends on how tokens are erased." in finding.verdict


def test_what_was_erased_is_kept_and_not_taken_for_something_else(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Erasure(subject_in(context), ("leave-one-out", "attention"), 5)
    first = study.run(context)

    def again(*asked: object) -> pd.DataFrame:
        raise AssertionError("it was erased before")

    monkeypatch.setattr("rashomon.studies.erasure.erase", again)
    second = study.run(context)
    for name, table in first.tables.items():
        assert second.tables[name].equals(table)
    for change in ({"fractions": (0.3,)}, {"perturbations": ("mask",)}, {"methods": ("leave-one-out",)}):
        with pytest.raises(AssertionError, match="it was erased before"):
            replace(study, **change).run(context)
