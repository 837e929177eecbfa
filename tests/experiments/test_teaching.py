"""Learning to teach: the slope through a student's step against brute force, and planted truth gets the weight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rashomon.data import load_dataset
from rashomon.experiments.context import Context
from rashomon.experiments.curriculum import Curriculum, Taught, teach
from rashomon.experiments.students import Student
from rashomon.experiments.subject import Subject
from rashomon.experiments.teaching import SHARES, Teaching, learn_to_teach, slope, weights_of
from rashomon.explainers.attention import heads_of
from rashomon.models import load_model
from rashomon.models.build import build_model
from rashomon.models.evaluator import rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from rashomon.training.learning_from_marks import attention_loss
from rashomon.training.settings import TrainingSpec
from tests.models.planted_head import planted_head_checkpoint
from tests.studies.planted import OPINIONS, planted

METHODS = ("attention", "gradient-x-input", "random", "trivial")
LEARNER = "mlp(hidden=16, embedding_dim=16, learning_rate=0.01)"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Store(tmp_path_factory.mktemp("store")), workers=1)


@pytest.fixture(scope="module")
def taught(context: Context) -> Taught:
    data = load_dataset("mock-5", train_size=1000, dev_size=100, test_size=400)
    training = TrainingSpec(batch_size=32, learning_rate=0.01, select="loss")
    subject = Subject(context.adopt(data), ModelSpec(name="mlp", hidden=32), training)
    counts = {"train": 200, "dev": 100, "test": 50}
    return teach(context, Curriculum(subject, "model", "test", counts, METHODS[:2]))


def test_the_slope_through_a_step_is_that_of_brute_force(taught: Taught) -> None:
    """The student's step is taken for slightly other scores, and the loss on other texts compared."""
    model = build_model(Student.of(LEARNER).spec, taught.course.data, 0).double()
    rows, held_out = (rows_of(model, taught.course.data[split][:16]) for split in ("train", "dev"))
    generator = torch.Generator().manual_seed(0)
    given = torch.rand(16, 3, rows.whole.ids.shape[1], generator=generator, dtype=torch.float64)
    batch = rows.with_extras((SHARES,), shares=given).batch(torch.arange(16))
    other, rate = held_out.batch(torch.arange(16)), 0.5
    scores = torch.tensor([0.1, 0.0, -0.1], dtype=torch.float64, requires_grad=True)
    before = [parameter.detach().clone() for parameter in model.parameters()]

    def whole_loss(scores: Tensor) -> Tensor:
        marks = torch.einsum("m,bmt->bt", weights_of(scores), batch.extras[SHARES])
        output = model(batch)
        lesson = attention_loss(output.attention, marks, batch.mask.unsqueeze(0)).mean()
        return model.task.loss(output.logits, batch) + lesson

    def after_a_step(scores: Tensor) -> float:
        slopes = torch.autograd.grad(whole_loss(scores), list(model.parameters()))
        with torch.no_grad():
            for parameter, step in zip(model.parameters(), slopes, strict=True):
                parameter.sub_(rate * step)
            loss = model.task.loss(model(other).logits, other).item()
            for parameter, old in zip(model.parameters(), before, strict=True):
                parameter.copy_(old)
        return loss

    wanted = []
    for place in range(3):
        ends = [after_a_step(scores.detach() + sign * 1e-4 * torch.eye(3)[place]) for sign in (1, -1)]
        wanted.append((ends[0] - ends[1]) / 2e-4)
    whole_loss(scores.detach()).backward()
    found = slope(model, batch, other, scores, rate)
    assert found.tolist() == pytest.approx(wanted, rel=0.02)
    assert max(map(abs, wanted)) > 0
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize(
    "student", [LEARNER, "bilstm-attention(hidden=8, embedding_dim=8, learning_rate=0.01)"]
)
def test_what_recovers_the_planted_words_gets_the_weight(
    context: Context, taught: Taught, student: str
) -> None:
    assert taught.testimony is not None
    assert taught.testimony.model is not None
    explanations = context.explanations(taught.testimony.model, taught.course.originals, METHODS)
    weights = learn_to_teach(taught.course, explanations, Teaching(Student.of(student)))
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["attention"] + weights["gradient-x-input"] > 0.9


def test_the_same_is_learned_again(context: Context, taught: Taught) -> None:
    assert taught.testimony is not None
    assert taught.testimony.model is not None
    explanations = context.explanations(taught.testimony.model, taught.course.originals, METHODS)
    short = Teaching(Student.of(LEARNER), students=1, epochs=1)
    assert learn_to_teach(taught.course, explanations, short) == learn_to_teach(
        taught.course, explanations, short
    )
    other = learn_to_teach(taught.course, explanations, replace(short, seed=1))
    assert other != learn_to_teach(taught.course, explanations, short)


@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 2)])
def test_the_head_that_reads_the_planted_words_gets_the_weight(
    context: Context, tmp_path: Path, layer: int, head: int
) -> None:
    folder = planted_head_checkpoint(tmp_path / "model", OPINIONS[:2], layer, head)
    data = planted(held_out=160)
    heads = heads_of(load_model(folder), data["test"][0])
    assert len(heads) == 8
    subject = Subject(context.adopt(data), checkpoint=str(folder))
    counts = {"train": 80, "dev": 40, "test": 40}
    taught = teach(context, Curriculum(subject, "model", "test", counts, heads))
    assert taught.testimony is not None
    said = taught.testimony.explanations
    weights = learn_to_teach(taught.course, said, Teaching(Student.of(LEARNER)))
    assert weights[f"attention(layer={layer}, head={head})"] > 0.9
    assert sum(weight > 0 for weight in weights.values()) < 4
