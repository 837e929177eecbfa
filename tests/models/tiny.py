"""Small things to test models with: examples, and checkpoints of real architectures with random weights."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    BertConfig,
    DistilBertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

from rashomon.data.example import Dataset, Example, Span
from rashomon.models.checkpoints import quiet

_TEXT = """
a the film movie plot is was not very good bad great awful dull witty warm cold long short one two three four
five six seven eight nine people walk run sleep and or but with
"""
WORDS = _TEXT.split()
PIECES = ["##ly", "##s", "##ness", "##ing"]
LETTERS = list("abcdefghijklmnopqrstuvwxyz.,!'-")

SINGLES = (
    Example("s0", "A witty, warm film and a great plot", 1),
    Example("s1", "dull", 0),
    Example("s2", "the plot is the plot is the plot", 0),  # repeated words
    Example("s3", "zzz qqq xxx", 1),  # all unknown to built-in models
    Example("s4", "The movie was not very good but people walk with warmness", 1),
    Example("s5", "awful!", 0),
)
PAIRS = (
    Example("p0", "people walk and run", 1, "people sleep"),
    Example("p1", "good", 0, "bad"),
    Example("p2", "the film is long, the film is dull", 2, "a film"),
    Example("p3", "zzz", 1, "a very good movie with a very good plot"),
)


def _question(name: str, question: str, passage: str, *answers: str) -> Example:
    spans = [Span(passage.index(answer), passage.index(answer) + len(answer)) for answer in answers]
    return Example(name, question, None, passage, answers=tuple(spans))


QUESTIONS = (
    _question("q0", "is the film good", "The plot was dull but the film was very good.", "very good", "good"),
    _question("q1", "one two", "three", "three"),
    _question("q2", "people", "people walk, people run, people sleep and people walk", "people run"),
    _question("q3", "zzz qqq", "a witty movie with xxx and yyy", "xxx and yyy"),
)


def questions() -> Dataset:
    return Dataset("tiny", {"train": QUESTIONS, "dev": QUESTIONS, "test": QUESTIONS}, ())


def dataset(pair: bool = False) -> Dataset:
    """Four or six examples as every split; three labels for pairs, two for single texts."""
    examples = PAIRS if pair else SINGLES
    labels = ("no", "maybe", "yes") if pair else ("bad", "good")
    return Dataset("tiny", {"train": examples, "dev": examples, "test": examples}, labels)


def tiny_checkpoint(
    kind: str, folder: Path, labels: int = 2, pair: bool = False, answers: bool = False
) -> Path:
    """A checkpoint folder with random weights and a tokeniser: ``bert``, ``distilbert`` or ``roberta``.

    Weights are drawn wide, so that positions, types and masks make a difference that tests can see. ``pair``
    only names the labels as in natural language inference; every checkpoint reads single texts and pairs.
    With ``answers`` it looks for the answers of questions instead.
    """
    tokenizer = _byte_tokenizer() if kind == "roberta" else wordpiece_tokenizer(kind)
    size = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "num_labels": labels}
    bert = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 66 if kind == "roberta" else 64,
        "initializer_range": 0.3,
    }
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        if kind == "bert":
            config = BertConfig(**size, **bert)
        elif kind == "roberta":
            config = RobertaConfig(**size, **bert, type_vocab_size=1, bos_token_id=0, eos_token_id=2)
        elif kind == "distilbert":
            config = DistilBertConfig(
                **size,
                dim=32,
                n_layers=2,
                n_heads=4,
                hidden_dim=48,
                max_position_embeddings=64,
                initializer_range=0.3,
            )
        else:
            raise ValueError(kind)
        head = AutoModelForQuestionAnswering if answers else AutoModelForSequenceClassification
        network = head.from_config(config)
    if pair and labels == 3:
        network.config.id2label = {0: "entailment", 1: "neutral", 2: "contradiction"}
    with quiet():
        network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def wordpiece_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokens = list(dict.fromkeys([*special, *WORDS, *PIECES, *letters]))  # each once, so that ids have no gaps
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = ["input_ids", "attention_mask"] + (["token_type_ids"] if kind == "bert" else [])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
        model_input_names=names,
    )


def _byte_tokenizer() -> PreTrainedTokenizerFast:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokens = special + sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = []
    for word in [*(f"Ġ{word}" for word in WORDS), *WORDS]:
        for end in range(2, len(word) + 1):
            if word[:end] not in tokens:
                tokens.append(word[:end])
            if (word[: end - 1], word[end - 1]) not in merges:
                merges.append((word[: end - 1], word[end - 1]))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        mask_token="<mask>",
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
    )
