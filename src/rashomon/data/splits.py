"""How is one lot of examples cut into splits? By class, by seed, with equal texts on the same side."""

from __future__ import annotations

from collections.abc import Sequence

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

    Examples equal in text and label move together, so that none is learned by heart and then tested.
    """
    taken: set[int] = set()
    for label, groups in _groups_by_class(examples).items():
        if len(groups) == 1:
            if spare_single:
                continue
            name = "of all" if label is None else repr(labels[label])
            raise UserError(f"The label {name} has only one text in {source}, which cannot be split.")
        total = sum(map(len, groups))
        quota = max(1, round(share * total))
        count = 0
        for position in generator.permutation(len(groups))[:-1]:  # one group always stays
            if count >= quota:
                break
            taken.update(groups[position])
            count += len(groups[position])
    rest = tuple(example for position, example in enumerate(examples) if position not in taken)
    return rest, tuple(example for position, example in enumerate(examples) if position in taken)


def _groups_by_class(examples: Sequence[Example]) -> dict[int | None, list[list[int]]]:
    """Positions of the examples, those of equal text together, by class."""
    groups: dict[tuple[int | None, str, str | None], list[int]] = {}
    for position, example in enumerate(examples):
        groups.setdefault((example.label, example.text, example.text_pair), []).append(position)
    classes: dict[int | None, list[list[int]]] = {}
    for (label, _, _), members in groups.items():
        classes.setdefault(label, []).append(members)
    return classes
