"""``rashomon explain``: heatmaps of texts under several methods, in the terminal and in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import DataOptions, ModelOptions, OutputOptions, StoreOptions
from rashomon.cli.output import Printer, check_writable
from rashomon.errors import UserError

if TYPE_CHECKING:
    from rashomon.data import Dataset, Example
    from rashomon.explain import Explanations

FORMATS = (".parquet", ".html", ".json")


@takes
def command(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to explain; or give --data FILE.")] = None,
    methods: Annotated[
        str, typer.Option(help="Methods, with commas between (`rashomon list explainers`).")
    ] = "",
    words: Annotated[
        bool, typer.Option("--words", help="Merge sub-words into words (by their sum).")
    ] = False,
    limit: Annotated[int, typer.Option(help="Explain at most so many texts of a file.")] = 20,
    probability: Annotated[
        bool, typer.Option("--probability", help="Explain the class's probability instead of its logit.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Save to a .parquet, .html or .json file.")] = None,
    *,
    data: DataOptions,
    model: ModelOptions,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Explain predictions, one row a method, on the original text.

    The model is trained on --dataset first when it is a name; a checkpoint folder is used as it is.

    Examples:

      rashomon explain "a gorgeous, witty, seductive movie" --methods attention,lime,integrated-gradients

      rashomon explain --data reviews.csv --text-column body --model ./checkpoint --out heat.html
    """
    from rashomon.explain import DEFAULT_METHODS, explain
    from rashomon.studies.witnesses import answerable, background

    printer = Printer(output)
    if out is not None:
        _check_format(out)
    if texts and (data.data is not None):
        raise UserError("Give texts or --data FILE, not both.")
    context = store.context()
    chosen = [name.strip() for name in methods.split(",") if name.strip()] or list(DEFAULT_METHODS)
    subject = model.any_subject(
        data.spec(labelled=False) if not model.checkpoint() or data.data else data.spec()
    )
    examples, dataset = _examples(
        texts, data, context.dataset(subject.dataset) if not _bare(texts, model) else None, limit
    )
    trained = context.models(subject)[0].model
    if not methods:
        chosen, _ = answerable(chosen, trained)
    told = explain(
        trained,
        examples,
        chosen,
        seed=subject.seeds[0],
        space="probability" if probability else "logit",
        background=background(dataset, subject.seeds[0]) if dataset else (),
    )
    shown = told.words() if words else told
    if out is not None:
        _save(shown, out)
        printer.plain(f"saved {len(shown)} explanations to {out}")
    if printer.for_people:
        from rashomon.explain.display import by_example, legend, to_rich

        for group in by_example(shown):
            printer.say(to_rich(group))
        printer.say(legend())
    printer.document([item.to_dict() for item in shown])


def _bare(texts: list[str] | None, model: ModelOptions) -> bool:
    """Whether no dataset is needed: plain texts for a checkpoint."""
    return bool(texts) and model.checkpoint()


def _examples(
    texts: list[str] | None, data: DataOptions, dataset: Dataset | None, limit: int
) -> tuple[list[Example], Dataset | None]:
    from rashomon.explain.run import as_examples

    if texts:
        for position, text in enumerate(texts):
            if not text.strip():
                raise UserError(f"Text {position + 1} is empty, so there is nothing to explain.")
        return as_examples(texts), dataset
    assert dataset is not None
    if data.data is not None:  # the user's file: its first texts, in the file's own order
        from rashomon.data import read_examples
        from rashomon.data.rows import Columns

        columns = Columns(data.text_column, data.pair_column, data.label_column, data.rationale_column)
        examples, _ = read_examples(data.data, columns, require_labels=False)
        return list(examples[:limit]), dataset
    return list(dataset["test"][:limit]), dataset


def _check_format(out: Path) -> None:
    if out.suffix not in FORMATS:
        raise UserError(f"{out} cannot be saved: its name must end in {', '.join(FORMATS)}.")
    check_writable(out.parent)


def _save(told: Explanations, out: Path) -> None:
    from rashomon.explain.display import to_html
    from rashomon.runs.store import write_bytes

    if out.suffix == ".parquet":
        told.save(out)
    elif out.suffix == ".html":
        write_bytes(out, to_html(told).encode())
    else:
        document = [item.to_dict() for item in told]
        write_bytes(out, json.dumps(document, ensure_ascii=False, indent=1).encode())
