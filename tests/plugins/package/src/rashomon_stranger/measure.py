"""Do two methods put the same token first?"""

from __future__ import annotations

import numpy as np

from rashomon.measures import Ragged, measure
from rashomon.measures.base import Floats


@measure("first-place", bounds=(0, 1), better="higher", family="agreement", undefined="empty texts")
def first_place(a: Ragged, b: Ragged) -> Floats:
    """1 where both methods score the same token highest, else 0."""
    return np.array(
        [
            float(a.row(i).argmax() == b.row(i).argmax()) if len(a.row(i)) else float("nan")
            for i in range(len(a))
        ]
    )
