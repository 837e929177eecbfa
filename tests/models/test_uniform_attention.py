from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rashomon.models.build import build_model, load_model
from rashomon.models.huggingface import HuggingFaceClassifier
from rashomon.models.model_spec import ModelSpec
from rashomon.models.uniform_attention import is_uniform, uniform_attention
from tests.models.tiny import PAIRS, SINGLES, dataset, tiny_checkpoint

KINDS = ("bert", "distilbert", "roberta")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: tiny_checkpoint(kind, tmp_path_factory.mktemp(kind), 3) for kind in KINDS}


def _uniform(folder: Path) -> HuggingFaceClassifier:
    return HuggingFaceClassifier.pretrained(folder, ("a", "b", "c"), seed=0, uniform=True).eval()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("examples", [SINGLES, PAIRS])
def test_every_layer_and_head_weighs_the_visible_tokens_alike(
    folders: dict[str, Path], kind: str, examples: tuple
) -> None:
    model = _uniform(folders[kind])
    batch = model.collate(model.encode(examples))
    assert not batch.mask.all(), "some are padded"
    with torch.no_grad():
        output = model(batch)
    assert output.layers is not None
    assert len(output.layers) == 2
    expected = batch.mask.float() / batch.mask.sum(1, keepdim=True)
    for layer in output.layers:
        rows = layer.permute(0, 2, 1, 3)[batch.mask]  # what each real token looks at, head by head
        wanted = expected.repeat_interleave(batch.mask.sum(1), 0)[:, None, :].expand_as(rows)
        torch.testing.assert_close(rows, wanted)
        assert is_uniform(layer[0])
    with torch.no_grad():
        learned = HuggingFaceClassifier.load(folders[kind])(batch)
    assert not is_uniform(learned.layers[0][0])  # type: ignore[index]
    assert (learned.logits - output.logits).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_alone_as_in_a_batch_and_with_or_without_attention(folders: dict[str, Path], kind: str) -> None:
    from rashomon.models.base import without_attention

    model = _uniform(folders[kind])
    encodings = model.encode(SINGLES)
    with torch.no_grad():
        together = model(model.collate(encodings)).logits
        alone = torch.cat([model(model.collate([encoding])).logits for encoding in encodings])
        with without_attention(model):
            quietly = model(model.collate(encodings)).logits
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(together, quietly)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_it_stays_uniform(folders: dict[str, Path], kind: str, tmp_path: Path) -> None:
    model = _uniform(folders[kind])
    batch = model.collate(model.encode(SINGLES))
    with torch.no_grad():
        before = model(batch)
    model.save(tmp_path)
    again = load_model(tmp_path)
    with torch.no_grad():
        after = again(batch)
    torch.testing.assert_close(before.logits, after.logits)
    assert is_uniform(after.layers[-1][0])


def test_a_specification_asks_for_it(folders: dict[str, Path]) -> None:
    spec = ModelSpec(name=str(folders["bert"]), weights="uniform")
    model = build_model(spec, dataset(pair=True), seed=0)
    model.train()
    loss = model(model.collate(model.encode(PAIRS))).logits.sum()
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if ".query." in name or ".key." in name}
    assert gradients
    assert all(g is None or not g.any() for g in gradients.values()), "queries and keys are not looked at"


def test_the_attention_function_is_the_mean_of_visible_values() -> None:
    module = torch.nn.Module().eval()
    query, value = torch.randn(2, 4, 5, 3), torch.randn(2, 2, 5, 3)  # two heads share their values
    mask = torch.zeros(2, 1, 5, 5)
    mask[1, :, :, 3:] = torch.finfo(torch.float32).min
    mixed, weights = uniform_attention(module, query, value, value, mask, dropout=0.5)
    assert mixed.shape == (2, 5, 4, 3)
    torch.testing.assert_close(mixed[0, 0, 0], value[0, 0].mean(0))
    torch.testing.assert_close(mixed[1, 2, 3], value[1, 1, :3].mean(0))
    assert weights[1, 0, 0].tolist() == pytest.approx([1 / 3] * 3 + [0, 0])
    dropped, reported = uniform_attention(module.train(), query, value, value, mask, dropout=0.5)
    torch.testing.assert_close(reported, weights)  # what is told is before dropout
    assert not torch.allclose(dropped, mixed)


def test_what_counts_as_uniform() -> None:
    causal = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    assert is_uniform(causal)
    assert not is_uniform(torch.tensor([[0.6, 0.4]]))
