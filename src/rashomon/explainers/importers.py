"""How do explanations made elsewhere get in? From lists of scores, Captum's tensors, ERASER's files.

What the maker did not hand over is recorded as unknown and named in a warning, never invented.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, get_args

import numpy as np
import torch
from torch import Tensor

from rashomon.errors import UserError, unknown_name
from rashomon.explainers.collection import Explanations
from rashomon.explainers.record import UNKNOWN, UNKNOWN_TARGET, Explanation, Floats, OutputSpace, Unit
from rashomon.explainers.token_places import placed, word_ids_of

Aggregation = Literal["sum", "norm", "none"]
T = TypeVar("T")

_SAME_FOR_ALL: dict[str, tuple[Any, str]] = {
    "model": (str, "a text"),
    "configuration": (Mapping, "a dict"),
    "seed": (int | np.integer | None, "a whole number"),
    "versions": (Mapping, "a dict"),
}
_CHOICES: dict[str, tuple[str, ...]] = {"output_space": get_args(OutputSpace), "unit": get_args(Unit)}
_SPECIAL = {"[CLS]", "[SEP]", "[PAD]", "<s>", "</s>", "<pad>", "<cls>", "<sep>", "<|endoftext|>"}


class Known(TypedDict, total=False):
    """What is known of explanations made elsewhere. Sequences have one entry per example."""

    example_ids: Sequence[str]
    texts: Sequence[str]  # the original texts, in which the tokens are looked up
    pair_texts: Sequence[str]  # the second texts of pairs
    segments: Sequence[Sequence[int]]  # 0 or 1 for each token of a pair
    special: Sequence[Sequence[bool]]  # true for [CLS] and the like
    word_ids: Sequence[Sequence[int]]
    targets: Sequence[int]
    target_labels: Sequence[str]
    labels: Sequence[str]  # of all classes, in the order of the class indices
    probabilities: Sequence[Sequence[float]]
    gaps: Sequence[float]
    model: str
    configuration: dict[str, Any]
    seed: int
    output_space: OutputSpace
    versions: dict[str, str]
    unit: Unit


def from_scores(
    inputs: Sequence[str | Sequence[str]],
    scores: Sequence[Sequence[float]],
    method: str,
    **known: Unpack[Known],
) -> Explanations:
    """Explanations made elsewhere, from plain lists.

    Args:
        inputs: for each example its tokens, or a text, which is cut at white space. A pair lies in one list of
            tokens, told apart by ``segments``. Marks of sub-words (``##``, ``Ġ``, ``▁``) are understood.
        scores: for each example one score a token; lists, arrays or tensors.
        method: what to call the method that made them.
        known: what is known of the explanations, one entry an example: ``texts``, ``example_ids``, ``targets``,
            ``labels``, ``probabilities``, ``special`` (true for [CLS] and the like), ``segments`` (0 or 1 for the
            tokens of a pair), ``model``, ``seed`` and so on (see ``Known``). What is not known is said in a warning.

    Returns:
        Explanations that compare, save and show themselves like any other.
    """
    return _collected(inputs, scores, method, known, {})


def from_captum(
    attributions: Tensor | Sequence[Tensor],
    tokens: Sequence[str] | Sequence[Sequence[str]],
    method: str,
    aggregation: Aggregation,
    **known: Unpack[Known],
) -> Explanations:
    """Explanations from Captum's tensors (Kokhlikyan et al., *Captum*, 2020).

    Args:
        attributions: for each example a tensor ``[tokens, dimensions]`` or ``[tokens]``; one example may be given
            as one tensor with its list of tokens.
        tokens: for each example its tokens.
        method: what to call the method.
        aggregation: how the dimensions of the embedding become one score: their signed ``sum``, their ``norm``
            (never negative), or ``none`` where there is one score a token already.
        known: what is known of the explanations, one entry an example: ``texts``, ``example_ids``, ``targets``,
            ``labels``, ``probabilities``, ``special`` (true for [CLS] and the like), ``segments`` (0 or 1 for the
            tokens of a pair), ``model``, ``seed`` and so on (see ``Known``). What is not known is said in a warning.

    Returns:
        Explanations that compare, save and show themselves like any other.
    """
    if aggregation not in get_args(Aggregation):
        raise unknown_name("aggregation", aggregation, get_args(Aggregation))
    single = len(tokens) > 0 and isinstance(tokens[0], str)
    lists: Sequence[Any] = [tokens] if single else tokens
    tensors: Any = [attributions] if single else attributions
    if not _is_listed(tensors):
        raise UserError("Attributions are tensors, one for each example.")
    scores = [_aggregated(tensor, aggregation) for tensor in tensors]
    return _collected(lists, scores, method, known, {"aggregation": aggregation})


def from_eraser(
    path: str | Path,
    documents: Mapping[str, Sequence[str]],
    method: str,
    scores: Literal["soft", "hard"] = "soft",
    **known: Unpack[Known],
) -> Explanations:
    """Explanations from a file of rationales in ERASER's layout (DeYoung et al., *ERASER*, 2020).

    Args:
        path: a file with one JSON object a line.
        documents: the tokens of each ``docid``. An instance over two documents becomes a pair.
        method: what to call the method.
        scores: ``soft`` takes ``soft_rationale_predictions`` (a score a token), ``hard`` marks the tokens of the
            spans in ``hard_rationale_predictions`` with 1.
        known: what is known of the explanations, one entry an example: ``texts``, ``example_ids``, ``targets``,
            ``labels``, ``probabilities``, ``special`` (true for [CLS] and the like), ``segments`` (0 or 1 for the
            tokens of a pair), ``model``, ``seed`` and so on (see ``Known``). What is not known is said in a warning.
            Classes get their index from ``labels``, which the file does not hold.

    Returns:
        Explanations that compare, save and show themselves like any other.
    """
    if scores not in ("soft", "hard"):
        raise unknown_name("kind of rationale", scores, ("soft", "hard"))
    rows = list(_json_lines(Path(path)))
    read = []
    for where, row in rows:
        try:
            read.append(_eraser_row(row, where, documents, scores))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise UserError(f"{where} is not in ERASER's layout: {error}.") from error
    labels = known.get("labels")
    known.setdefault("example_ids", [str(row["annotation_id"]) for _, row in rows])
    known.setdefault("segments", [segments for _, segments, _ in read])
    if all("classification" in row for _, row in rows):
        known.setdefault("target_labels", [str(row["classification"]) for _, row in rows])
        if labels is not None:
            known.setdefault("targets", [_index(str(row["classification"]), labels) for _, row in rows])
    if labels is not None and all(isinstance(row.get("classification_scores"), dict) for _, row in rows):
        given = [{str(k): v for k, v in row["classification_scores"].items()} for _, row in rows]
        if all(set(one) == set(labels) for one in given):
            known.setdefault("probabilities", [[one[label] for label in labels] for one in given])
    tokens, values = [row[0] for row in read], [row[2] for row in read]
    return _collected(tokens, values, method, known, {"rationales": scores})


def _collected(
    inputs: Sequence[Any], scores: Sequence[Any], method: str, known: Known, settings: dict[str, Any]
) -> Explanations:
    """``settings`` are the parts of the configuration that the way in makes known."""
    if not isinstance(method, str) or not method.strip():
        raise UserError(f"A method needs a name, such as 'my-lime', not {method!r}.")
    if not (_is_listed(inputs) and _is_listed(scores) and len(inputs) == len(scores)):
        counts = [f"{len(given)}" if _is_listed(given) else "no list of" for given in (inputs, scores)]
        raise UserError(f"There are {counts[0]} texts and {counts[1]} lists of scores; give one list a text.")
    _check_known(known, len(inputs))
    imported = []
    for i in range(len(inputs)):
        try:
            imported.append(_explanation(i, inputs[i], scores[i], method, known, settings))
        except (TypeError, ValueError, OverflowError) as error:
            raise UserError(
                f"What is given of example {i} is of another form than asked for: {error}."
            ) from error
    return Explanations(imported)


def _check_known(known: Known, n: int) -> None:
    for name, value in known.items():
        if name not in Known.__annotations__:
            raise unknown_name("fact about an explanation", name, Known.__annotations__)
        if name in _CHOICES:
            if value not in _CHOICES[name]:
                raise unknown_name(name.replace("_", " "), str(value), _CHOICES[name])
        elif name in _SAME_FOR_ALL:
            kind, words = _SAME_FOR_ALL[name]
            if not isinstance(value, kind) or isinstance(value, bool):
                raise UserError(f"{name} must be {words}, not {value!r}.")
        elif not _is_listed(value):
            raise UserError(f"{name} needs a list, not {value!r}.")
        elif name != "labels" and len(cast(Sequence[Any], value)) != n:
            raise UserError(
                f"There are {n} examples and {len(cast(Sequence[Any], value))} entries in {name}."
            )
    if not -(2**63) <= (known.get("seed") or 0) < 2**63:
        raise UserError("seed must be a whole number of at most 64 bits.")


def _is_listed(given: Any) -> bool:
    """A list, a tuple, an array, a tensor or a column: counted, and each found by its position."""
    counted = isinstance(given, Sequence) or (hasattr(given, "__len__") and getattr(given, "ndim", 0) > 0)
    return counted and not isinstance(given, str | bytes)


def _explanation(
    i: int, given: Any, scores: Sequence[float], method: str, known: Known, settings: dict[str, Any]
) -> Explanation:
    tokens = given.split() if isinstance(given, str) else [str(token) for token in given]
    example_id = known["example_ids"][i] if "example_ids" in known else str(i)
    values = _score_array(scores, len(tokens), example_id)
    notes = _unknown_facts(known)
    special = np.array(_at(known.get("special"), i, [False] * len(tokens)), dtype=np.bool_)
    segments = np.array(_at(known.get("segments"), i, [0] * len(tokens)), dtype=np.int64)
    if special.shape != values.shape or segments.shape != values.shape:
        raise UserError(f"Example {example_id!r} needs one entry a token in its special mask and segments.")
    suspects = [token for token in tokens if token in _SPECIAL]
    if suspects and "special" not in known:
        notes.append(
            f"Tokens like {suspects[0]!r} count as content; name them with special=... to leave them out."
        )
    text = given if isinstance(given, str) else _at(known.get("texts"), i, None)
    texts = [text, _at(known.get("pair_texts"), i, None)]
    offsets = np.zeros((len(tokens), 2), dtype=np.int64)
    for segment in (0, 1) if (segments == 1).any() or texts[1] is not None else (0,):
        here = np.flatnonzero((segments == segment) & ~special)
        texts[segment], offsets[here], note = placed([tokens[k] for k in here], texts[segment])
        notes.extend(note)
    target, label, probabilities = _class_of(known, i)
    return Explanation(
        example_id=example_id,
        text=texts[0] or "",
        text_pair=texts[1],
        tokens=tuple(tokens),
        offsets=offsets,
        word_ids=np.array(_at(known.get("word_ids"), i, word_ids_of(tokens, segments, special.tolist()))),
        segments=segments,
        special=special,
        scores=values,
        method=method,
        configuration={**known.get("configuration", {}), **settings},
        seed=known.get("seed"),
        target=target,
        target_label=label,
        probabilities=probabilities,
        output_space=known.get("output_space", "unknown"),
        model=known.get("model", UNKNOWN),
        gap=_at(known.get("gaps"), i, None),
        versions=known.get("versions", {}),
        warnings=tuple(dict.fromkeys(notes)),
        unit=known.get("unit", "token"),
    )


def _score_array(scores: Any, n: int, example_id: str) -> Floats:
    if isinstance(scores, Tensor):  # also one that gradients are taken of, or of another device
        scores = scores.detach().cpu().double().numpy()
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"The scores of example {example_id!r} are not a list of numbers.") from error
    if values.shape != (n,):
        raise UserError(
            f"Example {example_id!r} has {n} tokens and scores of shape {list(values.shape)}; "
            "give one score a token and no padding."
        )
    return values


def _unknown_facts(known: Known) -> list[str]:
    facts = {
        "target class": "targets",
        "probabilities": "probabilities",
        "model": "model",
        "full configuration": "configuration",
        "seed": "seed",
        "output space": "output_space",
        "library versions": "versions",
    }
    missing = [fact for fact, name in facts.items() if name not in known]
    return [f"Made elsewhere; not known: {', '.join(missing)}."] if missing else []


def _class_of(known: Known, i: int) -> tuple[int, str, tuple[float, ...]]:
    target = int(_at(known.get("targets"), i, UNKNOWN_TARGET))
    labels, probabilities = known.get("labels"), tuple(_at(known.get("probabilities"), i, ()))
    for classes, what in ((labels, "labels"), (probabilities, "probabilities")):
        if classes and not UNKNOWN_TARGET <= target < len(classes):
            raise UserError(f"Target {target} does not count into the {len(classes)} {what}.")
    named = UNKNOWN if target == UNKNOWN_TARGET else (labels[target] if labels else f"class {target}")
    return target, _at(known.get("target_labels"), i, named), probabilities


def _aggregated(given: Any, aggregation: Aggregation) -> Floats:
    try:
        tensor = torch.as_tensor(given).detach().cpu().double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError("Attributions are tensors of numbers, one for each example.") from error
    expected = 1 if aggregation == "none" else 2
    if tensor.ndim != expected:
        wanted = "[tokens]" if expected == 1 else "[tokens, dimensions]"
        raise UserError(
            f"Aggregation {aggregation!r} needs attributions of shape {wanted}, not {list(tensor.shape)}; "
            "'none' is for one score a token, 'sum' and 'norm' are over embedding dimensions."
        )
    if aggregation == "none":
        return tensor.numpy()
    return (tensor.sum(-1) if aggregation == "sum" else tensor.norm(dim=-1)).numpy()


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The ERASER file {path} cannot be read: {error}.") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"Line {number} of {path}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where} is not JSON: {error}.") from error
        if not isinstance(row, dict) or "annotation_id" not in row or not row.get("rationales"):
            raise UserError(f"{where} is no ERASER prediction: it needs 'annotation_id' and 'rationales'.")
        yield where, row


def _eraser_row(
    row: dict[str, Any], where: str, documents: Mapping[str, Sequence[str]], kind: Literal["soft", "hard"]
) -> tuple[list[str], list[int], list[float]]:
    """Tokens, segments and scores of one instance, its documents one after the other."""
    scores: dict[str, list[float]] = {}
    field = f"{kind}_rationale_predictions"
    for rationale in row["rationales"]:
        if not isinstance(rationale, dict) or field not in rationale:
            raise UserError(f"{where} has no {field!r}; choose scores='soft' or 'hard' as the file has them.")
        for docid, values in _of_documents(rationale, field, where, documents, kind):
            if kind == "soft" and docid in scores:
                raise UserError(f"{where} scores document {docid!r} twice.")
            before = scores.get(docid, values)
            scores[docid] = [max(pair) for pair in zip(before, values, strict=True)]
    if len(scores) > 2:
        raise UserError(f"{where} spans {len(scores)} documents; an example is a text or a pair of texts.")
    tokens = [str(token) for docid in scores for token in documents[docid]]
    segments = [segment for segment, docid in enumerate(scores) for _ in documents[docid]]
    return tokens, segments, [value for values in scores.values() for value in values]


def _of_documents(
    rationale: dict[str, Any], field: str, where: str, documents: Mapping[str, Sequence[str]], kind: str
) -> Iterator[tuple[str, list[float]]]:
    """The scores that one rationale gives to its document, or its spans to theirs."""
    entries = (
        [rationale] if kind == "soft" else [{**rationale, **span} for span in rationale[field]] or [rationale]
    )
    for entry in entries:
        docid = str(entry.get("docid"))
        if docid not in documents:
            raise UserError(f"{where} speaks of document {docid!r}, which is not among the documents given.")
        n = len(documents[docid])
        if kind == "soft":
            values = [float(value) for value in entry[field]]
            if len(values) != n:
                raise UserError(f"{where} has {len(values)} scores for the {n} tokens of document {docid!r}.")
        else:
            start, end = int(entry.get("start_token", 0)), int(entry.get("end_token", 0))
            if not 0 <= start <= end <= n:
                raise UserError(f"{where} marks tokens {start} to {end} of {n} in document {docid!r}.")
            values = [float(start <= position < end) for position in range(n)]
        yield docid, values


def _index(label: str, labels: Sequence[str]) -> int:
    if label not in labels:
        raise unknown_name("class", label, labels)
    return list(labels).index(label)


def _at(values: Sequence[T] | None, i: int, otherwise: Any) -> Any:
    return otherwise if values is None else values[i]
