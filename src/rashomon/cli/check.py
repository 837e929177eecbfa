"""``rashomon check``: what can be asked of a model, before an audit is begun."""

from __future__ import annotations

from typing import Annotated

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import OutputOptions
from rashomon.cli.output import Printer


@takes
def command(
    model: Annotated[
        str, typer.Argument(help="A checkpoint folder, a folder of `rashomon train`, or a hub id.")
    ],
    *,
    output: OutputOptions,
) -> None:
    """Find out what a model can do: attention, gradients, padding, positions, and which methods can be asked.

    Examples:

      rashomon check ./my-checkpoint
    """
    printer = Printer(output)
    from rashomon.explainers.model_check import check_model
    from rashomon.models import load_model

    found = check_model(load_model(model))
    printer.table(f"What can be asked of {model}", ["what", "found"], found.rows(), keep=1)
    printer.document(found.to_dict())
