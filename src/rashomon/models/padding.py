"""What is the padding token of a model that was made without one? Decided in memory, and said."""

from __future__ import annotations

import warnings

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.errors import Caution, UserError


def set_padding(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """See that tokeniser and network agree on a padding token, of which no answer depends afterwards.

    Where there is none, the token that ends texts stands in, as is usual: where a text ends is told by the mask.
    """
    if tokenizer.pad_token_id is None:
        stand_in = tokenizer.eos_token or tokenizer.unk_token or tokenizer.bos_token
        if stand_in is None:
            raise UserError("The tokeniser has no padding token and none that could stand in; set one.")
        tokenizer.pad_token = stand_in
        warnings.warn(
            f"The tokeniser has no padding token; {stand_in} stands in for it in memory.",
            Caution,
            stacklevel=4,
        )
    if network.config.pad_token_id is None:
        network.config.pad_token_id = int(tokenizer.pad_token_id)
