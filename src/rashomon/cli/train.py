"""``rashomon train``: one model per seed, kept in the store, with its scores."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import DataOptions, ModelOptions, OutputOptions, StoreOptions
from rashomon.cli.output import Printer


@takes
def command(
    out: Annotated[Path | None, typer.Option(help="Also copy the model into this folder.")] = None,
    *,
    data: DataOptions,
    model: ModelOptions,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Train a model and report its scores. What was trained before is not trained again.

    Examples:

      rashomon train

      rashomon train --dataset sst --model bilstm --data-dir DIR --seed 0 --seed 1

      rashomon train --data reviews.csv --text-column body --label-column stars --model minilm
    """
    from rashomon.runs.folders import check_folder

    printer = Printer(output)
    if out is not None:
        check_folder(out, "model")
    context = store.context()
    subject = model.subject(data.spec())
    trained = context.models(subject)
    folders = context.folders(subject)
    if out is not None:
        _copy(folders, subject.seeds, out)
    rows: list[dict[str, Any]] = []
    for seed, folder, done in zip(subject.seeds, folders, trained, strict=True):
        for split, scores in done.scores.items():
            rows.append({"seed": seed, "split": split, "best-epoch": done.history.best, **scores})
        printer.plain(
            f"seed {seed}: best epoch {done.history.best} of {len(done.history.records)}, kept in {folder}"
        )
    figures = ["accuracy", "f1", "roc-auc", "loss"]
    printer.table(
        f"{subject.model.name} on {context.dataset(subject.dataset).name}",
        ["seed", "split", *figures],
        [[row["seed"], row["split"], *[row[figure] for figure in figures]] for row in rows],
    )
    printer.document({"runs": [str(folder) for folder in folders], "scores": rows})


def _copy(folders: list[Path], seeds: tuple[int, ...], out: Path) -> None:
    from rashomon.runs.folders import WRITTEN, write_folder

    def write(aside: Path) -> None:
        for seed, folder in zip(seeds, folders, strict=True):
            target = aside if len(seeds) == 1 else aside / f"seed-{seed}"
            shutil.copytree(
                folder / "model", target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(WRITTEN)
            )

    write_folder(out, "model", write)
