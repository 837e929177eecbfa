"""How is one lot of examples cut into splits? By class, by seed, with equal texts on the same side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from rashomon.data.example import Example, Split
from rashomon.errors import UserError


def split_three(
    examples: Sequence[Example], labels: Sequence[str], seed: int, source: str
) -> dict[str, Split]:
    """80 % train, 10 % dev, 10 % test of every class."""
    generator = np.random.default_rng(seed)
    rest, test = split_off(examples, labels, 0.1, generator, source)
    # A class with a single text left over from the test split stays in train, which cannot do without it.
    train, dev = split_off(rest, labels, 1 / 9, generator, source, spare_single=True)
    if not dev:
        raise UserError(
            f"{source} has too few examples for three splits; at least three of a class are needed."
        )
    return {"train": train, "dev": dev, "test": test}


def split_off(
    examples: Sequence[Example],
    labels: Sequence[str],
    share: float,
    generator: np.random.Generator,
    source: str,
    spare_single: bool = False,
) -> tuple[Split, Split]:
    """The rest, and a share of every class (at least one example of it), both in their original order.

    Examples of equal text move together, whatever their labels, so that none is learned by heart and then
    tested. A text that is repeated more often than the share has room for stays in the rest.
    """
    groups = _equal_texts(examples)
    counts = [Counter(examples[position].label for position in group) for group in groups]
    classes: dict[int | None, list[int]] = {}
    for number, count in enumerate(counts):
        for label in count:
            classes.setdefault(label, []).append(number)
    for label, numbers in classes.items():
        if len(numbers) == 1 and not spare_single:
            name = "of all" if label is None else repr(labels[label])
            raise UserError(f"The label {name} has only one text in {source}, which cannot be split.")
    taken = {position for number in _take(counts, classes, share, generator) for position in groups[number]}
    rest = tuple(example for position, example in enumerate(examples) if position not in taken)
    return rest, tuple(example for position, example in enumerate(examples) if position in taken)


def _equal_texts(examples: Sequence[Example]) -> list[list[int]]:
    """Positions of the examples, those of equal text together."""
    groups: dict[tuple[str, str | None], list[int]] = {}
    for position, example in enumerate(examples):
        groups.setdefault((example.text, example.text_pair), []).append(position)
    return list(groups.values())


def _take(
    counts: Sequence[Counter[int | None]],
    classes: Mapping[int | None, Sequence[int]],
    share: float,
    generator: np.random.Generator,
) -> set[int]:
    """Which groups make up the share, given the labels in each and the groups of each class."""
    room = {
        label: max(1, round(share * sum(counts[number][label] for number in numbers)))
        for label, numbers in classes.items()
    }
    staying = {label: len(numbers) for label, numbers in classes.items()}
    taken: set[int] = set()

    def is_free(number: int) -> bool:
        """Not the last group of a class, one of which always stays."""
        return number not in taken and all(staying[label] > 1 for label in counts[number])

    def take(number: int) -> None:
        taken.add(number)
        for label, count in counts[number].items():
            room[label] -= count
            staying[label] -= 1

    for numbers in classes.values():
        if len(numbers) == 1:
            continue
        order = [numbers[position] for position in generator.permutation(len(numbers))]
        for number in order:
            if is_free(number) and all(count <= room[label] for label, count in counts[number].items()):
                take(number)
        if taken.isdisjoint(numbers) and any(map(is_free, order)):
            # Every text of the class is repeated too often: the least repeated one, for there must be one.
            take(min(filter(is_free, order), key=lambda number: counts[number].total()))
    return taken
