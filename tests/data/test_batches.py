from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from rashomon.data import Encoding, Rows, collate

lengths_strategy = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def encoding(length: int, first: int = 1) -> Encoding:
    """Token ids first, first + 1, ...; the last token is special."""
    ids = np.arange(first, first + length)
    special = np.zeros(length, dtype=np.bool_)
    special[-1] = True
    return Encoding(
        f"e{first}",
        tuple(map(str, ids)),
        ids,
        segments=(ids % 2).astype(np.int64),
        special=special,
        word_ids=np.where(special, -1, np.arange(length)),
        offsets=np.stack([np.arange(length), np.arange(length) + 1], 1),
        positions=np.arange(length) + 10,
    )


def test_content_is_what_is_not_special() -> None:
    assert encoding(3).content.tolist() == [True, True, False]


def test_collate_pads_on_the_right() -> None:
    batch = collate([encoding(2), encoding(4, 5)], pad_id=99)
    assert batch.size == 2
    assert batch.ids.tolist() == [[1, 2, 99, 99], [5, 6, 7, 8]]
    assert batch.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.segments.tolist() == [[1, 0, 0, 0], [1, 0, 1, 0]]
    assert batch.positions.tolist() == [[10, 11, 0, 0], [10, 11, 12, 13]]


def test_extras_travel_with_a_batch_and_to_a_device() -> None:
    batch = collate([encoding(2)], 0)
    extended = batch.with_extras(label=torch.tensor([1]))
    assert batch.extras == {}
    assert extended.to("cpu").extras["label"].tolist() == [1]
    assert extended.to("meta").ids.device.type == "meta"


def rows(lengths: list[int]) -> Rows:
    """Example number i has ids from 1000 i, label i, and per-token extras equal to its ids."""
    encodings = [encoding(length, 1000 * (number + 1)) for number, length in enumerate(lengths)]
    whole = collate(encodings, 0).ids
    extras = {
        "same": whole.clone(),
        "pairs": whole[:, None].repeat(1, 2, 1),
        "number": torch.arange(len(lengths)),
    }
    extras["label"] = torch.arange(len(lengths))
    return Rows(collate(encodings, 0).with_extras(**extras), per_token=["same", "pairs"])


def test_a_batch_is_as_wide_as_its_longest_example() -> None:
    batch = rows([3, 9, 5]).batch(torch.tensor([2, 0]))
    assert batch.ids.shape == (2, 5)
    assert batch.ids.tolist() == [[3000, 3001, 3002, 3003, 3004], [1000, 1001, 1002, 0, 0]]
    assert batch.mask.sum(1).tolist() == [5, 3]
    assert batch.extras["label"].tolist() == batch.extras["number"].tolist() == [2, 0]
    assert torch.equal(batch.extras["same"], batch.ids)
    assert torch.equal(batch.extras["pairs"][:, 1], batch.ids)


@given(lengths_strategy, st.integers(1, 16), st.integers(0, 3))
def test_an_epoch_has_every_example_once(lengths: list[int], batch_size: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    batches = list(rows(lengths).shuffled(batch_size, generator))
    assert sorted(index for batch in batches for index in batch.tolist()) == list(range(len(lengths)))
    assert max(map(len, batches)) <= batch_size


def test_shuffling_follows_its_generator_and_buckets_by_length() -> None:
    generator = np.random.default_rng(0)
    split = rows(generator.integers(1, 100, 640).tolist())

    def epoch(seed: int) -> list[list[int]]:
        return [batch.tolist() for batch in split.shuffled(32, torch.Generator().manual_seed(seed))]

    assert epoch(1) == epoch(1)
    assert epoch(1) != epoch(2)
    spread = [float(split.lengths[batch].double().std()) for batch in epoch(1)]
    assert np.mean(spread) < 0.2 * float(split.lengths.double().std())
    assert sorted(map(sorted, epoch(1))) != sorted(
        map(sorted, epoch(2))
    )  # membership varies, not order alone
