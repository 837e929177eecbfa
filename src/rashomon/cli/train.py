"""``rashomon train``: one model per seed, kept in the store, with its scores."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import DataOptions, ModelOptions, OutputOptions, StoreOptions
from rashomon.cli.output import Printer

if TYPE_CHECKING:
    from rashomon.training import Trained


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

      rashomon train --dataset qed --model minilm --max-length 256 --data-dir DIR

      rashomon train --data reviews.csv --text-column body --label-column stars --model minilm
    """
    printer = Printer(output)
    if out is not None:
        from rashomon.runs.folders import check_folder

        check_folder(out, "model")
    from rashomon.training.train import default_training

    context = store.context()
    spec = data.spec()
    dataset = context.dataset(spec)
    subject = model.subject(spec, usual=lambda chosen: default_training(chosen, dataset))
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
    figures = _figures(trained)
    printer.table(
        f"{subject.model.name} on {dataset.name}",
        ["seed", "split", *figures],
        [[row["seed"], row["split"], *[row.get(figure, math.nan) for figure in figures]] for row in rows],
        keep=3,
    )
    printer.warnings(dataset.notes)
    folders_kept = [str(folder) for folder in folders]
    printer.document({"runs": folders_kept, "scores": rows, "warnings": list(dataset.notes)})


def _figures(trained: list[Trained]) -> list[str]:
    """What the splits were scored by: first the figures of the task, then the loss and what the objective adds."""
    scored = (figure for done in trained for scores in done.scores.values() for figure in scores)
    return list(dict.fromkeys((*trained[0].model.task.figures, *scored)))


def _copy(folders: list[Path], seeds: tuple[int, ...], out: Path) -> None:
    from rashomon.runs.folders import WRITTEN, write_folder

    def write(aside: Path) -> None:
        for seed, folder in zip(seeds, folders, strict=True):
            target = aside if len(seeds) == 1 else aside / f"seed-{seed}"
            shutil.copytree(
                folder / "model", target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(WRITTEN)
            )

    write_folder(out, "model", write)
