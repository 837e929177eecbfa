"""``rashomon explain``: heatmaps of texts under several methods, in the terminal and in files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import (
    DataOptions,
    Methods,
    ModelOptions,
    OutputOptions,
    SpaceName,
    StoreOptions,
    method_names,
)
from rashomon.cli.output import Printer
from rashomon.errors import Caution, UserError

if TYPE_CHECKING:
    from rashomon.data import Dataset, Example
    from rashomon.experiments.subject import DatasetSpec
    from rashomon.explainers import Explanations

FORMATS = (".parquet", ".html", ".json")
TRAINED_ON = "the model was trained on this text"


@takes
def command(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to explain; or give --data FILE.")] = None,
    methods: Methods = "",
    words: Annotated[
        bool, typer.Option("--words", help="Merge sub-words into words (by their sum).")
    ] = False,
    limit: Annotated[int, typer.Option(help="Explain at most so many texts of a file.")] = 20,
    space: SpaceName = None,
    windows: Annotated[
        bool,
        typer.Option(
            "--windows", help="Read texts that are too long by overlapping windows instead of cutting."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Save to a .parquet, .html or .json file.")] = None,
    *,
    data: DataOptions,
    model: ModelOptions,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Explain predictions, one row a method, on the original text.

    The model is trained first, on --dataset or --data, when it is a name; a checkpoint folder is used as it is.
    With texts and --data the model is trained on the file and the texts are explained.

    Examples:

      rashomon explain "a gorgeous, witty, seductive movie" --methods attention,lime,integrated-gradients

      rashomon explain --data reviews.csv --text-column body --model ./checkpoint --out heat.html

      rashomon explain --data questions.jsonl --model ./question-answerer --methods attention,lime
    """
    printer = Printer(output)
    _check_asked(texts, data)
    if limit < 1:
        raise UserError(f"--limit must be at least 1, not {limit}.")
    if out is not None:
        _check_format(out)
    from rashomon.data.texts import as_examples
    from rashomon.experiments.cautions import cautions_of
    from rashomon.experiments.testimony import answerable, background
    from rashomon.explainers import DEFAULT_METHODS, explain, make_explainer
    from rashomon.explainers.request import output_space
    from rashomon.explainers.windows import explain_windows
    from rashomon.training.train import default_training

    explained = output_space(space or "logit")
    context = store.context()
    chosen = list(method_names(methods))
    for name in chosen:
        make_explainer(name)  # what is wrong with a name is told before anything is trained
    spec = data.spec(labelled=not model.checkpoint())
    subject = model.any_subject(spec, usual=lambda chosen: default_training(chosen, context.dataset(spec)))
    dataset = None if texts and model.checkpoint() else context.dataset(subject.dataset)
    examples = as_examples(texts) if texts else _from_data(spec, dataset, limit)
    trained = context.models(subject)[0].model
    if not chosen:
        chosen, _ = answerable(DEFAULT_METHODS, trained)
    ask = explain_windows if windows else explain
    explanations = ask(
        trained,
        examples,
        chosen,
        seed=subject.seeds[0],
        space=explained,
        background=background(dataset, subject.seeds[0]) if dataset else (),
    )
    if dataset is not None and subject.checkpoint is None:
        explanations = _marked(explanations, examples, dataset)
    shown = explanations.words() if words else explanations
    if out is not None:
        _save(shown, out)
        printer.plain(f"saved {len(shown)} explanations to {out}")
    if printer.for_people:
        from rashomon.explainers.display import by_example, legend, to_rich

        for group in by_example(shown):
            printer.say(to_rich(group))
        printer.say(legend())
    notes = dataset.notes if dataset is not None else ()
    printer.warnings([*notes, *map(str, cautions_of(explanations))])
    printer.document([item.to_dict() for item in shown])


def _check_asked(texts: list[str] | None, data: DataOptions) -> None:
    if not texts and data.data is None and data.dataset is None:
        raise UserError("Give texts to explain, a file with --data, or a dataset with --dataset.")
    for position, text in enumerate(texts or []):
        if not text.strip():
            raise UserError(f"Text {position + 1} is empty, so there is nothing to explain.")


def _from_data(spec: DatasetSpec, dataset: Dataset | None, limit: int) -> list[Example]:
    """The first texts of the user's file, in its own order, or of the dataset's test split."""
    from rashomon.data.files import load_whole_file

    assert dataset is not None
    if spec.file is None:
        return list(dataset["test"][:limit])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)  # the dataset has told of them when it was read
        return list(load_whole_file(spec.file, spec.columns, spec.empty)["test"][:limit])


def _marked(explanations: Explanations, examples: Sequence[Example], dataset: Dataset) -> Explanations:
    """What a model was trained on it knows by heart, and its explanations may not hold for other texts."""
    from rashomon.explainers import Explanations

    seen = {(example.text, example.text_pair) for example in dataset.splits.get("train", ())}
    ids = {example.id for example in examples if (example.text, example.text_pair) in seen}
    return Explanations(
        replace(item, warnings=(*item.warnings, TRAINED_ON)) if item.example_id in ids else item
        for item in explanations
    )


def _check_format(out: Path) -> None:
    from rashomon.runs.folders import check_writable

    if out.suffix not in FORMATS:
        raise UserError(f"{out} cannot be saved: its name must end in {', '.join(FORMATS)}.")
    if out.is_dir():
        raise UserError(f"{out} is a folder; give the name of a file.")
    check_writable(out.parent)


def _save(explanations: Explanations, out: Path) -> None:
    from rashomon.explainers.display import to_html
    from rashomon.runs.files import write_bytes

    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".parquet":
        explanations.save(out)
    elif out.suffix == ".html":
        write_bytes(out, to_html(explanations).encode())
    else:
        document = [item.to_dict() for item in explanations]
        write_bytes(out, json.dumps(document, ensure_ascii=False, indent=1).encode())
