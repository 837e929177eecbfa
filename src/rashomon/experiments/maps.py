"""Where does each text lie on the map of a training, and how do other numbers of a text go with its place?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
from scipy.special import softmax

from rashomon.data import Dataset
from rashomon.errors import DoesNotFit
from rashomon.experiments.dynamics_files import Dynamics
from rashomon.experiments.figures import TextMap
from rashomon.experiments.regularised import Run, dynamics_of
from rashomon.experiments.summaries import Row
from rashomon.measures import measures
from rashomon.measures.cartography import Closeness, cartography
from rashomon.measures.relations import correlation
from rashomon.training.callbacks import read_dynamics

ATTRIBUTES = ("confidence", "variability", "closeness")
LONGEST = 160  # characters of a text that are shown with its point


def dynamics_of_run(run: Run, data: Dataset, split: str) -> Dynamics | None:
    """What the run predicted of a split after every epoch, where that was kept and the texts have labels."""
    examples = data[split]
    if run.folder is None or dynamics_of(split) not in run.subject.callbacks:
        return None
    if any(example.label is None for example in examples):
        return None
    logits = read_dynamics(run.folder, split)["logits"].numpy()
    return Dynamics(tuple(e.id for e in examples), logits, np.array([e.label for e in examples]))


def map_table(dynamics: Dynamics, run: Run, ddof: int = 0, closeness: Closeness = "of-mean") -> pd.DataFrame:
    """One row a text: its attributes and its group."""
    found = cartography(softmax(dynamics.logits, -1), dynamics.labels, ddof, closeness)
    values = {name: value for name, value in asdict(found).items() if name != "epochs"}
    return pd.DataFrame(
        {
            "variant": run.variant,
            "seed": run.seed,
            "example": list(dynamics.ids),
            **values,
            "epochs": found.epochs,
            "group": found.groups(),
        }
    )


def correlations(
    table: pd.DataFrame, first: Sequence[str], second: Sequence[str], names: tuple[str, str]
) -> pd.DataFrame:
    """Pearson's r of every column of ``first`` with every one of ``second``, variant by variant, over seeds."""
    rows: list[Row] = []
    for variant, own in table.groupby("variant", sort=False):
        seeds = [part for _, part in own.groupby("seed", sort=False)]
        texts = [part["example"].tolist() for part in seeds]
        for one in first:
            for other in second:
                a, b = (
                    [part[column].to_numpy(dtype=np.float64) for part in seeds] for column in (one, other)
                )
                figures = asdict(correlation(a, b, texts))
                kind = figures.pop("kind")
                rows.append({names[0]: one, names[1]: other, "variant": variant, **figures, "interval": kind})
    columns = [names[0], names[1], "variant", "n", "undefined", "mean", "std", "low", "high", "interval"]
    return pd.DataFrame(rows, columns=columns)


def text_map(table: pd.DataFrame, data: Dataset, split: str, measure: str, variant: str) -> TextMap:
    """The map of one training, coloured by agreement or by how often the class was right."""
    texts = {example.id: example for example in data[split]}
    if table.empty:
        raise DoesNotFit("No text is on the map.")
    about, epochs = measures.get(measure), int(table["epochs"].iloc[0])
    shown = [_shown(texts[text].text, texts[text].text_pair) for text in table["example"]]
    return TextMap(
        f"Map of the texts ({variant})",
        "variability",
        "confidence",
        tuple(table["example"]),
        tuple(shown),
        table["variability"].tolist(),
        table["confidence"].tolist(),
        {
            f"agreement ({measure})": table[measure].tolist(),
            "times right": table["correctness"].astype(float).tolist(),
        },
        {f"agreement ({measure})": (about.low, about.high), "times right": (0.0, float(epochs))},
        f"The first seed. Confidence is the mean probability of the gold class over {epochs} epochs, variability its "
        "spread.",
    )


def _shown(text: str, pair: str | None) -> str:
    whole = text if pair is None else f"{text} | {pair}"
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"
