"""Examples and datasets, and the way from text to tensors."""

from rashomon.data.batches import Batch, Encoding, Rows, collate
from rashomon.data.catalogue import datasets, known_names, load_dataset
from rashomon.data.columns import Columns
from rashomon.data.example import Dataset, Equality, Example, Span, Split, fingerprint, require_labels
from rashomon.data.files import load_file, load_files, read_examples
from rashomon.data.lexicon import Lexicon, load_lexicon
from rashomon.data.planted import mock
from rashomon.data.preprocess import apply_dataset_steps, apply_token_steps, parse_step, steps
from rashomon.data.reviews import planted_reviews
from rashomon.data.texts import Texts, as_examples
from rashomon.data.tokens import Word, tokenise, words_of
from rashomon.data.vectors import load_vectors
from rashomon.data.vocabulary import Vocabulary

__all__ = [
    "Batch",
    "Columns",
    "Dataset",
    "Encoding",
    "Equality",
    "Example",
    "Lexicon",
    "Rows",
    "Span",
    "Split",
    "Texts",
    "Vocabulary",
    "Word",
    "apply_dataset_steps",
    "apply_token_steps",
    "as_examples",
    "collate",
    "datasets",
    "fingerprint",
    "known_names",
    "load_dataset",
    "load_file",
    "load_files",
    "load_lexicon",
    "load_vectors",
    "mock",
    "parse_step",
    "planted_reviews",
    "read_examples",
    "require_labels",
    "steps",
    "tokenise",
    "words_of",
]
