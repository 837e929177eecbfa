"""Is a checkpoint what it claims to be? What is wrong with its files is told before anything is explained with it.

A network computes something from whatever weights and vocabulary it is given: a tokeniser without its files makes
every word unknown, and the explanations look like any others. And a checkpoint is somebody else's: the program
code that it may bring is run only when the user says so.
"""

from __future__ import annotations

import errno
import os
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.errors import Caution, UserError

TRUST = "RASHOMON_TRUST_REMOTE_CODE"  # in the environment, so that worker processes know it too
ORDINARY = "The people who live in this town walk to work in the morning and come home late at night."
_MOSTLY = 0.5  # of the words of an ordinary sentence


def trusted() -> bool:
    """Whether the user has chosen to run program code that comes with checkpoints."""
    return os.environ.get(TRUST) == "1"


@contextmanager
def reading(source: str, part: str) -> Iterator[None]:
    """Whatever transformers throws at a ``part`` ("The tokeniser of ...") that is damaged, as one sentence."""
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        if not Path(source).is_dir():
            raise  # a hub id: the caller asks the hub next
        if error.errno == errno.EINVAL:  # torch looked for a place beyond the end of the file
            raise UserError(_unfinished(source, _first_line(error))) from error
        raise UserError(f"{source} is not a complete checkpoint: {_first_line(error)}") from error
    except Exception as error:
        raise UserError(_sentence(source, part, error)) from error


def check_mismatches(source: str, network: PreTrainedModel, info: dict[str, Any]) -> None:
    """Weights of other sizes are made afresh where a new head is wanted; below the head that would be noise."""
    body = f"{network.base_model_prefix}."
    wrong = sorted(
        str(entry[0]) for entry in info.get("mismatched_keys", ()) if str(entry[0]).startswith(body)
    )
    if wrong:
        raise UserError(_sizes(source, wrong[0]))


def check_numbers(source: str, network: PreTrainedModel) -> None:
    """Refuse weights that are not numbers."""
    for name, parameter in network.named_parameters():
        if not torch.isfinite(parameter).all():
            raise UserError(
                f"The weights of {source} are spoilt: {name} holds values that are not finite numbers; "
                "get the checkpoint again."
            )


def check_tokeniser(source: str, tokenizer: PreTrainedTokenizerBase, network: PreTrainedModel) -> None:
    """Refuse a tokeniser that lacks its files or is another network's; warn of one that hardly knows a word."""
    ids = tokenizer.get_vocab().values()
    if not set(ids) - set(tokenizer.all_special_ids):
        raise UserError(
            f"{source} is not a complete checkpoint: its tokeniser knows no words, because its files "
            "(tokenizer.json, or a vocabulary such as vocab.txt) lack."
        )
    rows = len(cast(Tensor, network.get_input_embeddings().weight))
    if max(ids) >= rows:
        raise UserError(
            f"The tokeniser of {source} does not belong to its network: it counts tokens up to {max(ids)}, and "
            f"the network has embeddings up to {rows - 1}."
        )
    unknown = unknown_words(tokenizer)
    if unknown > _MOSTLY:
        warnings.warn(
            f"The tokeniser of {source} does not know {unknown:.0%} of the words of an ordinary English sentence; "
            "unless it is for another language, its files may be incomplete or those of another model.",
            Caution,
            stacklevel=2,
        )


def unknown_words(tokenizer: PreTrainedTokenizerBase) -> float:
    """The share of ordinary words of which something is unknown."""
    words = ORDINARY.rstrip(".").split()
    if tokenizer.unk_token_id is None:
        return 0.0
    unknown = [tokenizer.unk_token_id in tokenizer.encode(word, add_special_tokens=False) for word in words]
    return sum(unknown) / len(words)


def _sentence(source: str, part: str, error: Exception) -> str:
    text = _first_line(error)
    if "trust_remote_code" in str(error):
        return (
            f"{source} brings program code of its own, which is not run; if you trust whoever wrote it, "
            "say --trust-remote-code."
        )
    if "ignore_mismatched_sizes" in text:
        return _sizes(source)
    if isinstance(error, pickle.UnpicklingError):  # torch's own words advise to run what is in the file
        return (
            f"The weights of {source} cannot be read: the .bin file is damaged or holds more than weights, and "
            "nothing of it is run; get it as safetensors."
        )
    if isinstance(error, SafetensorError | EOFError) or "PytorchStreamReader" in text:
        return _unfinished(source, text)
    return f"{part} cannot be read: {text}"


def _unfinished(source: str, text: str) -> str:
    reason = "the file is damaged or was not downloaded to the end"
    return f"The weights of {source} cannot be read, because {reason}: {text}"


def _sizes(source: str, name: str = "") -> str:
    such = f", such as {name}" if name else ""
    return f"The weights of {source} do not have the sizes that its config.json gives{such}."


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".") + "."
