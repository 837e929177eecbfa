"""How good is the model that is explained? What it gets right, what it confuses, whether it predicts one class only.

An explanation of a model that is mostly wrong explains mistakes, so an audit begins here. Of data without labels,
and of a model that gives a number instead of a class, it says that, and what is predicted.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from rashomon.data import Dataset, Example
from rashomon.errors import Caution
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Matrix
from rashomon.experiments.summaries import Row, share_of, summary_of
from rashomon.experiments.testimony import Ask, draw
from rashomon.models.base import Model
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.label_names import Matching, match_labels
from rashomon.studies.base import Finding, Study, studies
from rashomon.wording import capitalised, decimal, percent, with_interval

ENOUGH = 10  # texts from which on one class alone is no chance
MOST_CLASSES = 20  # of which the confusion is drawn
NAMED = 4  # classes in a sentence


@studies.register("performance")
@dataclass(frozen=True)
class Performance(Study):
    """How good is the model, and what does it predict?"""

    name: ClassVar[str] = "performance"
    question: ClassVar[str] = "How good is the model that is explained?"
    title: ClassVar[str] = "The model"
    order: ClassVar[int] = 5
    of_explanations: ClassVar[bool] = False

    texts: int = 1000  # how many texts the model is tried on, at most
    split: str = "test"  # which split they are drawn from

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls(asked.subject, max(cls.texts, asked.instances), asked.split)

    def run(self, context: Context) -> Finding:
        data, subject = context.data_of(self.subject), self.subject
        trained = context.models(subject)
        model = trained[0].model
        tried = [
            _tried(each.model, draw(data, self.split, self.texts, seed), seed)
            for seed, each in zip(subject.seeds, trained, strict=False)
        ]
        table = pd.concat(tried, ignore_index=True)
        matching = match_labels(context.dataset(subject.dataset).labels, model.labels)
        summary = _summary(table, model)
        cautions = _cautions(table, summary, model, data, matching)
        for caution in cautions:
            warnings.warn(caution, Caution, stacklevel=2)
        of_classes = {} if _has_no_classes(model) else {"classes": _classes(table, model)}
        confusion = () if _has_no_classes(model) else _confusion(table, model)
        return self.finding(
            _verdict(table, summary, model, matching, self.split),
            {"summary": summary, **of_classes, "instances": table},
            figures=confusion,
            warnings=tuple(dict.fromkeys((*cautions, *data.notes))),
        )


def _has_no_classes(model: Model) -> bool:
    return model.classes < 2


def _tried(model: Model, examples: Sequence[Example], seed: int) -> pd.DataFrame:
    """One row a text: its label, what is predicted, how sure the model is, and how right."""
    rows, encodings = [], model.encode(examples)
    logits = predict(model, rows_of(model, examples, encodings)).logits
    task = model.task
    for example, encoding, row in zip(examples, encodings, logits, strict=True):
        answer = task.answers(torch.from_numpy(row)[None])[0].numpy()
        prediction = (
            row[0] if model.gives_a_number else task.describe(answer, encoding, example, model.labels)
        )
        label = None if example.label is None or _has_no_classes(model) else model.labels[example.label]
        sure = np.nan if model.gives_a_number else task.values(row[None], answer, "probability")[0]
        known = {
            "seed": seed,
            "example": example.id,
            "label": label,
            "prediction": prediction,
            "probability": sure,
        }
        rows.append(known | task.right(answer, example, encoding))
    return pd.DataFrame(rows)


def _figures(table: pd.DataFrame, model: Model) -> list[str]:
    """The figures of the task that are known of some text."""
    return [name for name in model.task.right_figures if name in table and table[name].notna().any()]


def _summary(table: pd.DataFrame, model: Model) -> pd.DataFrame:
    rows: list[Row] = []
    if model.gives_a_number:
        return pd.DataFrame([{"figure": "output", **summary_of(table, "prediction")}])
    for name in _figures(table, model):
        rows.append({"figure": name, **share_of(table, name)})
    if rows and not _has_no_classes(model):
        common = Counter(table["label"].dropna()).most_common(1)[0][0]
        always = table.assign(always=(table["label"] == common).where(table["label"].notna()).astype(float))
        rows.append({"figure": f"always saying {common}", **share_of(always, "always")})
    if not rows and not _has_no_classes(model):
        said = {name: (table["prediction"] == name).astype(float) for name in model.labels}
        rows = [
            {"figure": f"predicted as {name}", **share_of(table.assign(said=of), "said")}
            for name, of in said.items()
        ]
    return pd.DataFrame(rows or [{"figure": "probability of the answer", **summary_of(table, "probability")}])


def _records(summary: pd.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in summary.to_dict("records")]


def _classes(table: pd.DataFrame, model: Model) -> pd.DataFrame:
    """The balance of labels and of predictions, and how often each class is found."""
    predicted, labels = Counter(table["prediction"]), Counter(table["label"].dropna())
    found = Counter(table.loc[table["label"] == table["prediction"], "label"])
    return pd.DataFrame(
        {
            "class": name,
            "labelled": labels[name],
            "predicted": predicted[name],
            "share_predicted": predicted[name] / len(table),
            "found": found[name] / labels[name] if labels[name] else np.nan,
        }
        for name in model.labels
    )


def _confusion(table: pd.DataFrame, model: Model) -> tuple[Matrix, ...]:
    """Which classes are taken for which: of the texts with a label, the share that gets each prediction."""
    known = table.dropna(subset=["label"])
    names = model.labels
    if known.empty or len(names) > MOST_CLASSES:
        return ()
    counts = pd.crosstab(known["label"], known["prediction"]).reindex(
        index=names, columns=names, fill_value=0
    )
    sizes = counts.sum(axis=1)
    shares = counts.div(sizes.where(sizes > 0), axis=0)
    details = [
        [f"{n} of {size} texts" for n in row] for row, size in zip(counts.to_numpy(), sizes, strict=True)
    ]
    return (
        Matrix(
            "What is taken for what",
            names,
            names,
            {"share of the label's texts": shares.to_numpy().tolist()},
            {"share of the label's texts": (0.0, 1.0)},
            {"share of the label's texts": details},
            "Rows are labels, columns are predictions.",
        ),
    )


def _cautions(
    table: pd.DataFrame, summary: pd.DataFrame, model: Model, data: Dataset, matching: Matching
) -> list[str]:
    """What a reader should know before anything else."""
    sentences: list[str] = []
    if _has_no_classes(model):
        return sentences
    if not matching.certain and matching.note in data.notes:
        sentences.append(matching.note)
    said, labels = set(table["prediction"]), set(table["label"].dropna())
    if len(said) == 1 and (len(table) >= ENOUGH or labels - said):
        sentences.append(
            f"The model predicts one class only, {next(iter(said))}, for all of {len(table):,} texts; "
            "explanations then say little of how it decides."
        )
    if "accuracy" in _figures(table, model):
        row, always = _records(summary)[:2]
        if row["high"] < always["mean"]:
            hint = "" if matching.certain else " Perhaps its labels are matched the wrong way round."
            sentences.append(
                f"The model is right less often ({with_interval(row)}) than {always['figure']} would be "
                f"({decimal(always['mean'])}).{hint}"
            )
    return sentences


def _verdict(table: pd.DataFrame, summary: pd.DataFrame, model: Model, matching: Matching, split: str) -> str:
    texts = f"{table['example'].nunique():,} texts of the {split} split"
    rows = _records(summary)
    if model.gives_a_number:
        lowest, highest = (decimal(table["prediction"].agg(which)) for which in ("min", "max"))
        said = "The model gives a number (it has a regression head) and does not choose between classes"
        return f"{said}: {with_interval(rows[0])} on average, from {lowest} to {highest}, on {texts}."
    known = len(_figures(table, model))
    sentences = [_rightness(rows[:known], rows[known:], texts) if known else _unknown(texts, model, matching)]
    if not _has_no_classes(model):
        sentences.append(_balance(table))
    if known and not _has_no_classes(model):
        sentences.append(f"The labels {matching.how}.")
    return " ".join(sentences)


def _rightness(figures: Sequence[Row], beside: Sequence[Row], texts: str) -> str:
    said = " and ".join(f"{row['figure']} {with_interval(row)}" for row in figures)
    always = f"; {beside[0]['figure']} would give {decimal(beside[0]['mean'])}" if beside else ""
    return f"{capitalised(said)} on {texts}{always}."


def _unknown(texts: str, model: Model, matching: Matching) -> str:
    lacking = (
        "answers" if _has_no_classes(model) else "labels" if matching.certain else "labels of the model's"
    )
    return f"The {texts} have no {lacking}, so how often it is right cannot be told."


def _balance(table: pd.DataFrame) -> str:
    predicted = Counter(table["prediction"]).most_common()
    named = [f"{name} for {percent(count / len(table))}" for name, count in predicted[:NAMED]]
    others = len(predicted) - NAMED
    return f"It predicts {', '.join(named)}{f' and {others} other classes' if others > 0 else ''}."
