"""The ``rashomon`` command, and how each of its endings becomes a sentence and an exit code.

0 done, 1 a failure of ours, 2 a mistake in what was asked, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import traceback
import warnings
from types import FrameType
from typing import TextIO

import typer

from rashomon.cli import audit, check, data, explain, listing, replicate, runs, study, train
from rashomon.errors import Caution, UserError

INTERRUPTED, TERMINATED = 130, 143
KEPT = "Finished work is kept, and the same command goes on from there."
TOO_LARGE = ("not enough memory", "can't allocate memory", "out of memory", "Unable to allocate")

app = typer.Typer(
    name="rashomon",
    help="Can I trust this explanation of this text model, and how do you know?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("audit")(audit.command)
app.command("check")(check.command)
app.command("explain")(explain.command)
app.command("study", cls=study.StudyCommand)(study.command)
app.command("replicate")(replicate.command)
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


class Terminated(BaseException):
    """SIGTERM. As an exception it lets whoever started workers end them on the way out."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and turn every ending into a sentence and an exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character shows its escape
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code = run(arguments)
    if "rashomon.runs.executor" in sys.modules:
        from rashomon.runs.executor import end_workers

        end_workers()
    if not code:  # after an interruption there is garbage: what workers shared has to be given back
        gc.freeze()  # leaving looks for it among all that was loaded, which takes up to a second
    sys.exit(code)


def run(arguments: list[str] | None = None) -> int:
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", Caution)  # each time: another run may be damaged in the same way
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        _check_words(sys.argv[1:] if arguments is None else arguments)
        result = app(args=arguments, standalone_mode=False, prog_name="rashomon")
        if result == INTERRUPTED:  # typer has caught the KeyboardInterrupt
            raise KeyboardInterrupt
        sys.stdout.flush()  # a pipe that was closed is noticed here rather than at the very end
        return result if isinstance(result, int) else 0
    except UserError as error:
        return _fail(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return _fail(f"Interrupted. {KEPT}", INTERRUPTED)
    except Terminated:
        return _fail(f"Terminated. {KEPT}", TERMINATED)
    except BrokenPipeError:
        # Whoever read our output has seen enough (`rashomon list | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):  # rich has noticed the same
            return 0
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            return _fail(f"{error.strerror}: {error.filename or 'while writing'}.", 2)
        return _ours(error)
    except Exception as error:
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in TOO_LARGE):
            return _fail(f"This needs more memory than there is; choose smaller sizes ({_line(error)}).", 2)
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # typer's own usage errors
            error.show()
            return 2
        return _ours(error)


def _check_words(words: list[str]) -> None:
    """What is typed ends up in reports, keys and tokenisers, which all want text."""
    for number, word in enumerate(words, start=1):
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise UserError(f"Word {number} of the command ({word!r}) is not UTF-8 text.") from None


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: workers are being ended
    raise Terminated


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A sentence instead of a line of source; standard output is left to results."""
    print(f"warning: {message}", file=sys.stderr)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


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
