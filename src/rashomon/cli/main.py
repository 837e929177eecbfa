"""The ``rashomon`` command. Exit codes: 0 done, 1 a failure of ours, 2 a mistake in what was asked, 130 interrupted."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import typer

from rashomon.cli import audit, data, explain, listing, runs, study, train
from rashomon.errors import Caution, UserError

INTERRUPTED = 130

app = typer.Typer(
    name="rashomon",
    help="Can I trust this explanation of this text model, and how do you know?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("audit")(audit.command)
app.command("explain")(explain.command)
app.command("study")(study.command)
app.command("train")(train.command)
app.command("list")(listing.command)
app.add_typer(data.app, name="data")
app.add_typer(runs.app, name="runs")


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"rashomon {installed('rashomon')}")
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run a command and turn every ending into a sentence and an exit code."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("always", Caution)
        warnings.showwarning = _caution(warnings.showwarning)
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        result = app(args=arguments, standalone_mode=False, prog_name="rashomon")
        if result == INTERRUPTED:  # typer has caught the KeyboardInterrupt
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except UserError as error:
        return _fail(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return _fail(
            "Interrupted. Finished work is kept, and the same command goes on from there.", INTERRUPTED
        )
    except BrokenPipeError:
        # Whoever read our output has seen enough (`rashomon list | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            return _fail(f"{error.strerror}: {error.filename or 'while writing'}.", 2)
        return _ours(error)
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # typer's own usage errors
            error.show()
            return 2
        return _ours(error)


def _caution(usual: Callable[..., None]) -> Callable[..., None]:
    """Our own warnings are for users: a sentence, and no line of source code."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, Caution):
            print(f"rashomon: {message}", file=sys.stderr)
        else:
            usual(message, category, *where, **more)

    return show


def _ours(error: Exception) -> int:
    if os.environ.get("RASHOMON_DEBUG"):
        traceback.print_exc()
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(where.filename)}:{where.lineno}"
    text = f"This is a fault of rashomon's: {type(error).__name__} at {place}: {error}"
    return _fail(f"{text} (RASHOMON_DEBUG=1 shows the traceback)", 1)


def _fail(sentence: str, code: int) -> int:
    print(f"rashomon: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
