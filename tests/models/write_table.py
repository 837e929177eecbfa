"""Writes the table of architectures for the docs: which methods each answers, and how well DeepLIFT adds up.

python -m tests.models.write_table > docs/architectures.md
"""

from __future__ import annotations

import warnings

from rashomon.explainers.model_check import ModelCheck, check_model
from tests.models.architectures import DECODERS, ENCODER_DECODERS, ENCODERS
from tests.models.test_architectures import model_of

KINDS = {"Encoders": ENCODERS, "Decoders": DECODERS, "Encoder-decoders": ENCODER_DECODERS}
HEAD = """# Architectures

What was found out about tiny networks of each architecture with random weights, as `rashomon check MODEL` finds it out
about yours. Written by `python -m tests.models.write_table > docs/architectures.md`; tested in
`tests/models/test_architectures.py`: every answer is the network's own on the text alone, a score is the same alone and
in a batch, on either side of padding and with any padding token.
"""


def row(name: str, found: ModelCheck) -> str:
    said = "; ".join(f"{', '.join(methods)} ({why})" for why, methods in found.by_reason().items())
    gap = "refused" if found.deeplift_gap is None else f"{found.deeplift_gap:.0e}"
    lifted = f"warns: no rule for {found.deeplift_missing}" if found.deeplift_missing else gap
    padding = "read by equal lengths" if found.padding.startswith("changes") else ""
    return f"| {name} | {len(found.answered)} | {said} | {lifted} | {found.pooling} | {padding} |"


def main() -> None:
    warnings.simplefilter("ignore")
    print(HEAD)
    for title, families in KINDS.items():
        print(f"## {title}\n")
        print(
            "| architecture | methods that answer | refused | DeepLIFT's gap | prediction reads | padding |"
        )
        print("|---|---|---|---|---|---|")
        for family in families:
            print(row(family.name, check_model(model_of(family.name))))
        print()


if __name__ == "__main__":
    main()
