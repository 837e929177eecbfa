"""``rashomon data``: look at a dataset before trusting anything trained on it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import DataOptions, OutputOptions, StoreOptions, with_dataset
from rashomon.cli.output import Printer
from rashomon.errors import UserError

app = typer.Typer(help="Look at datasets.", no_args_is_help=True)


@app.command("show")
@takes
def show(
    name: Annotated[str | None, typer.Argument(help="A dataset's name; or give a file with --data.")] = None,
    rows: Annotated[int, typer.Option(help="How many examples to show.")] = 5,
    *,
    data: DataOptions,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Sizes, label balance, lengths and some rows of a dataset."""
    printer = Printer(output)
    if name is not None and not name.strip():
        raise UserError("The name of the dataset is empty; `rashomon list datasets` shows the names.")
    if rows < 0:
        raise UserError(f"--rows cannot be negative, but is {rows}.")
    import numpy as np

    from rashomon.data import words_of

    spec = (with_dataset(data, name) if name else data).spec(labelled=False)
    dataset = store.context().dataset(spec)
    summary: list[dict[str, Any]] = []
    for split in dataset:
        lengths = [sum(len(words_of(e, s)) for s in range(1 + e.is_pair)) for e in dataset[split]]
        counts = Counter(e.label for e in dataset[split])
        balance = {dataset.labels[k]: counts[k] for k in sorted(k for k in counts if k is not None)}
        low, middle, high = np.percentile(lengths, [0, 50, 100]).tolist() if lengths else (0, 0, 0)
        summary.append(
            {"split": split, "examples": len(lengths), "labels": balance, "tokens": [low, middle, high]}
        )
    printer.table(
        f"{dataset.name} (fingerprint {dataset.fingerprint})",
        ["split", "examples", "labels", "tokens (least, median, most)"],
        [
            (
                s["split"],
                s["examples"],
                ", ".join(f"{k}: {v}" for k, v in s["labels"].items()),
                ", ".join(f"{t:.0f}" for t in s["tokens"]),
            )
            for s in summary
        ],
    )
    printer.warnings(dataset.notes)
    shown = [e for split in list(dataset)[:1] for e in dataset[split][:rows]]
    for example in shown:
        label = "" if example.label is None else f"[{dataset.labels[example.label]}] "
        printer.plain(f"  {label}{example.text}" + (f" ||| {example.text_pair}" if example.text_pair else ""))
    printer.document(
        {
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "splits": summary,
            "notes": list(dataset.notes),
            "rows": [{"id": e.id, "text": e.text, "text_pair": e.text_pair, "label": e.label} for e in shown],
        }
    )
