"""What is explained of a network with adapters (PEFT)? The network they sit in, where it says the same by itself.

Most adapters (LoRA and its kin) replace layers of a network, which then answers with them however it is called. Others
(prompt and prefix tuning) put vectors before the words that only the wrapper knows of: no word stands for those.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.errors import UserError

_TEXT = "one two three four five six"
_TOLERANCE = 1e-4


def has_adapters(network: Any) -> bool:
    """Whether this is the wrapper that holds a network and its adapters, told by what it offers."""
    return hasattr(network, "peft_config") and callable(getattr(network, "get_base_model", None))


def network_inside(wrapper: Any, tokenizer: Any) -> Any:
    """The network with its adapters in their places, checked to answer as the wrapper does."""
    inside = wrapper.get_base_model()
    if not (isinstance(inside, PreTrainedModel) and isinstance(tokenizer, PreTrainedTokenizerBase)):
        return inside  # refused by who looks at these
    training = wrapper.training
    wrapper.eval()
    try:
        one, other = (_answers(network, tokenizer, inside.device) for network in (wrapper, inside))
    finally:
        wrapper.train(training)
    apart = max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))
    if not apart < _TOLERANCE:
        raise UserError(
            f"The adapters of this {type(inside).__name__} act outside of it, on vectors that no word stands for "
            f"(without them its answer differs by {apart:.2g}); only adapters inside of a network, such as LoRA, "
            "can be explained."
        )
    return inside


@torch.no_grad()
def _answers(network: Any, tokenizer: PreTrainedTokenizerBase, device: torch.device) -> list[Tensor]:
    """Logits of classes, or of the starts and ends of spans."""
    read = tokenizer(_TEXT, return_tensors="pt").to(device)
    given = network(input_ids=read["input_ids"], attention_mask=read["attention_mask"], return_dict=True)
    return [given[name] for name in ("logits", "start_logits", "end_logits") if given.get(name) is not None]
