"""What does a model say of these texts? A table with a row a text, for people."""

from __future__ import annotations

import pandas as pd
import torch

from rashomon.data.texts import Texts, as_examples
from rashomon.models.base import Model
from rashomon.models.evaluator import predict, rows_of


def predictions_table(model: Model, texts: Texts) -> pd.DataFrame:
    """See ``Model.predict``."""
    examples = as_examples(texts)
    columns = ["prediction", "probability", *model.labels]
    if not examples:
        return pd.DataFrame(columns=columns)
    encodings = model.encode(examples)
    logits = predict(model, rows_of(model, examples, encodings)).logits
    if model.gives_a_number:
        index = pd.Index([e.id for e in examples], name="id")
        return pd.DataFrame({"prediction": logits[:, 0]}, index=index)
    task, rows = model.task, []
    for example, encoding, row, answer in zip(
        examples, encodings, logits, task.answers(torch.from_numpy(logits)).numpy(), strict=True
    ):
        probabilities = task.probabilities(row, answer)
        own = probabilities[int(answer)] if model.labels else probabilities[0]
        said = task.describe(answer, encoding, example, model.labels)
        rows.append([said, own, *(probabilities if model.labels else ())])
    return pd.DataFrame(rows, columns=columns, index=pd.Index([e.id for e in examples], name="id"))
