"""What did one method say about one example, and what must be known to believe it?

An ``Explanation`` keeps the signed scores together with everything that produced them: the tokens and their
place in the original text, the class explained, the method's full configuration, the seed, the model, and the
warnings. Merging sub-words into words is a step that the record remembers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rashomon.errors import UserError, unknown_name

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
OutputSpace = Literal["logit", "probability", "centred", "unknown"]  # unknown: explanations made elsewhere
Unit = Literal["token", "word"]
Merge = Literal["sum", "max", "mean"]
Order = Literal["magnitude", "signed"]

UNKNOWN = "unknown"
UNKNOWN_TARGET = -1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """One method on one example: signed scores over its tokens, and everything that produced them.

    Arrays run over all tokens, special ones included, and are read-only. A positive score speaks for the target.
    """

    example_id: str
    text: str
    text_pair: str | None
    tokens: tuple[str, ...]
    offsets: Ints  # [n, 2], characters in the text of the token's segment; empty where there is no place
    word_ids: Ints  # position in the words of the token's own segment; -1 for special tokens
    segments: Ints  # 0 first text, 1 second text
    special: Bools  # [CLS], [SEP] and the like: scored perhaps, never ranked
    scores: Floats  # signed; positive speaks for the target
    method: str
    configuration: dict[str, Any]  # plain JSON
    seed: int | None
    target: int  # class index; -1 when unknown, and of spans
    target_label: str  # the name of the class, the text of the answer
    probabilities: tuple[float, ...]  # of the model for this example; empty when unknown
    output_space: OutputSpace
    model: str  # fingerprint
    gap: float | None  # relative completeness gap, for methods whose scores should add up
    versions: dict[str, str]
    warnings: tuple[str, ...] = ()
    unit: Unit = "token"
    merged_by: Merge | None = None
    answer: tuple[int, int] | None = None  # first and last entry of the explained span, where it is one
    spread: Floats | None = None  # standard error of each score, for methods that sample
    unseen: float | None = None  # share of the text that did not fit into the model; None when unknown

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "tokens", tuple(self.tokens))
        offsets = _frozen(self.offsets, np.int64)
        put(self, "offsets", offsets if offsets.size else offsets.reshape(0, 2))
        put(self, "word_ids", _frozen(self.word_ids, np.int64))
        put(self, "segments", _frozen(self.segments, np.int64))
        put(self, "special", _frozen(self.special, np.bool_))
        # A copy, so that a score does not keep the whole batch it was computed in alive.
        put(self, "scores", _frozen(np.array(self.scores, dtype=np.float64), np.float64))
        if self.spread is not None:
            put(self, "spread", _frozen(np.array(self.spread, dtype=np.float64), np.float64))
        put(self, "probabilities", tuple(float(p) for p in self.probabilities))
        put(self, "configuration", _plain(self.configuration, "configuration"))
        put(self, "versions", _plain(self.versions, "versions"))
        _check_shapes(self)
        _check_unseen(self)
        put(self, "warnings", _with_warning_of_non_finite(self))

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        from rashomon.explainers.display import printable, strongest  # it is made of records itself

        said = ", ".join(f"{token} {score:+.3g}" for token, score in strongest(self)) or "nothing speaks"
        about = f"{self.method} of {self.example_id!r}, {self.target_label}: {said}"
        return printable(f"Explanation({about})")

    def _repr_html_(self) -> str:
        from rashomon.explainers.display import to_html_fragment

        return to_html_fragment([self])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Explanation):
            return NotImplemented
        return all(_same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]  # equal by content, and the content is arrays

    @property
    def content(self) -> Bools:
        """The tokens that may be ranked and compared."""
        return ~self.special

    @property
    def magnitude(self) -> Floats:
        """How strongly each token speaks, for or against."""
        return np.abs(self.scores)

    def ranked(self, n: int | None = None, by: Order = "magnitude") -> Ints:
        """Positions of the ``n`` best content tokens (all by default), best first.

        Of equal scores the earlier token comes first, so that a cut through a tie is always the same; scores
        that are not finite come last.
        """
        if by not in get_args(Order):
            raise unknown_name("order of tokens", by, get_args(Order))
        key = self.magnitude if by == "magnitude" else self.scores
        positions = np.flatnonzero(self.content)
        best = np.where(np.isfinite(key), key, -np.inf)[positions]
        return positions[np.argsort(-best, kind="stable")][:n]

    def text_of(self, segment: int) -> str:
        """The original text that the offsets of a segment's tokens point into."""
        return self.text if segment == 0 else (self.text_pair or "")

    def surface(self, position: int) -> str:
        """A token as it stands in the original text; the tokeniser's string where it has no place there."""
        start, end = self.offsets[position].tolist()
        return self.text_of(int(self.segments[position]))[start:end] or self.tokens[position]

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain JSON types; a score that is not finite becomes null."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in record.items():
            if isinstance(value, np.ndarray):
                record[name] = value.tolist()
            elif isinstance(value, tuple):
                record[name] = list(value)
        for name in ("scores", "spread"):
            if record[name] is not None:
                record[name] = [score if np.isfinite(score) else None for score in record[name]]
        if self.gap is not None and not np.isfinite(self.gap):
            record["gap"] = None
        return record


def merge_words(explanation: Explanation, how: Merge = "sum") -> Explanation:
    """The explanation in words: sub-words of one word become one entry, and the record says so.

    ``sum`` keeps what adds up adding up; ``max`` takes the value of largest magnitude with its sign; ``mean``
    does not favour words of many pieces. Special tokens stay as they are, flagged.
    """
    if how not in get_args(Merge):
        raise unknown_name("way to merge sub-words", how, get_args(Merge))
    if explanation.unit == "word":
        if explanation.merged_by not in (None, how):
            raise UserError(
                f"The explanation of {explanation.example_id!r} is already in words, merged by "
                f"{explanation.merged_by!r}; merge by {how!r} from its tokens."
            )
        return explanation
    starts = _word_starts(explanation)
    offsets = _word_offsets(explanation, starts)
    words = replace(
        explanation,
        tokens=_word_strings(explanation, starts, offsets),
        offsets=offsets,
        word_ids=explanation.word_ids[starts],
        segments=explanation.segments[starts],
        special=explanation.special[starts],
        scores=_merged(explanation.scores, starts, how),
        spread=_merged_spread(explanation, starts, how),
        unit="word",
        merged_by=how,
        answer=_answer_in_words(explanation, starts),
    )
    return words


def _answer_in_words(explanation: Explanation, starts: Ints) -> tuple[int, int] | None:
    if explanation.answer is None:
        return None
    first, last = np.searchsorted(starts, explanation.answer, side="right") - 1
    return int(first), int(last)


def _word_starts(explanation: Explanation) -> Ints:
    """Where each word begins. A word is a run of content tokens with one word id in one segment."""
    n = len(explanation)
    joins = np.zeros(n, dtype=np.bool_)
    ids, segments, content = explanation.word_ids, explanation.segments, explanation.content
    joins[1:] = (ids[1:] == ids[:-1]) & (segments[1:] == segments[:-1]) & (ids[1:] >= 0)
    joins[1:] &= content[1:] & content[:-1]
    return np.flatnonzero(~joins)


def _merged(scores: Floats, starts: Ints, how: Merge) -> Floats:
    if how == "max":
        return scores[_strongest(scores, starts)]
    sums: Floats = np.add.reduceat(scores, starts)
    return sums if how == "sum" else sums / _lengths(scores, starts)


def _lengths(scores: Floats, starts: Ints) -> Ints:
    return np.diff(starts, append=len(scores))


def _strongest(scores: Floats, starts: Ints) -> Ints:
    """Where each word's piece of largest magnitude is."""
    word = np.repeat(np.arange(len(starts)), _lengths(scores, starts))
    strongest_first = np.lexsort((-np.abs(scores), word))  # stable: of equals the earlier piece
    return strongest_first[starts]


def _merged_spread(explanation: Explanation, starts: Ints, how: Merge) -> Floats | None:
    """Standard errors of merged scores, those of the pieces being taken for independent."""
    spread = explanation.spread
    if spread is None:
        return None
    if how == "max":  # the error of the piece whose score it is
        return spread[_strongest(explanation.scores, starts)]
    return np.sqrt(_merged(spread**2, starts, "sum")) / (_lengths(spread, starts) if how == "mean" else 1)


def _word_offsets(explanation: Explanation, starts: Ints) -> Ints:
    """From the first to the last character of each word's pieces, without white space at the edges."""
    first, last = explanation.offsets.T
    placed = last > first
    begin = np.minimum.reduceat(np.where(placed, first, np.iinfo(np.int64).max), starts)
    end = np.maximum.reduceat(np.where(placed, last, 0), starts)
    spans = np.stack([np.minimum(begin, end), end], axis=1).tolist()  # a word without a place is (0, 0)
    for row, (span, segment) in enumerate(zip(spans, explanation.segments[starts].tolist(), strict=True)):
        piece = explanation.text_of(segment)[span[0] : span[1]]
        if piece.strip():
            lead = len(piece) - len(piece.lstrip())
            spans[row] = [span[0] + lead, span[0] + lead + len(piece.strip())]
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


def _word_strings(explanation: Explanation, starts: Ints, offsets: Ints) -> tuple[str, ...]:
    edges = [*starts.tolist(), len(explanation)]
    places = zip(offsets.tolist(), explanation.segments[starts].tolist(), pairwise(edges), strict=False)
    return tuple(
        explanation.text_of(segment)[start:end] or "".join(explanation.tokens[first:last])
        for (start, end), segment, (first, last) in places
    )


def _frozen(values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """A read-only view: the caller's own array stays writable."""
    view = np.asarray(values, dtype=dtype).view()
    view.setflags(write=False)
    return view


def _plain(value: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy in plain JSON types, so that a record equals itself after it was saved and loaded."""
    try:
        copy: dict[str, Any] = json.loads(json.dumps(value))
    except TypeError as error:
        raise UserError(f"The {name} of an explanation must be plain JSON: {error}.") from error
    return copy


def _check_shapes(explanation: Explanation) -> None:
    n = len(explanation.tokens)
    who = f"The explanation of {explanation.example_id!r} by {explanation.method!r}"
    for name in ("scores", "spread", "offsets", "word_ids", "segments", "special"):
        values = getattr(explanation, name)
        if values is not None and values.shape != ((n, 2) if name == "offsets" else (n,)):
            found = "x".join(str(size) for size in values.shape)
            raise UserError(f"{who} has {n} tokens and {name} of shape {found}; give one entry a token.")
    if n == 0:
        return
    if not (explanation.segments.min() >= 0 and explanation.segments.max() <= 1):
        raise UserError(f"{who} has a segment that is neither 0 (first text) nor 1 (second text).")
    length = np.array([len(explanation.text), len(explanation.text_pair or "")])[explanation.segments]
    start, end = explanation.offsets.T
    if (start < 0).any() or (end < start).any() or (end > length).any():
        raise UserError(f"{who} has character offsets outside its text.")


def _check_unseen(explanation: Explanation) -> None:
    if explanation.unseen is not None and not 0 <= explanation.unseen <= 1:
        raise UserError(
            f"The explanation of {explanation.example_id!r} by {explanation.method!r} says that "
            f"{explanation.unseen} of the text was not seen; a share is from 0 to 1."
        )


def _with_warning_of_non_finite(explanation: Explanation) -> tuple[str, ...]:
    """Undefined scores are data, too: they are kept, and said."""
    warnings = tuple(explanation.warnings)
    scores = explanation.scores[explanation.content]
    bad = int((~np.isfinite(scores)).sum())
    note = f"{bad} of {len(scores)} scores are not finite numbers; they rank last."
    return warnings if bad == 0 or note in warnings else (*warnings, note)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype == np.float64)
    return bool(one == other) or (one != one and other != other)  # NaN equals NaN here
