"""From a specification to a model, from a folder back to one, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from rashomon.data import Dataset, Example
from rashomon.errors import UserError
from rashomon.models import (
    AttentionClassifier,
    ModelSpec,
    build_model,
    is_pretrained,
    known_models,
    load_model,
    models,
)
from rashomon.models.encoders import Encoder, TokenLayer, encoder, encoders, stacked
from rashomon.models.model_spec import PRETRAINED
from rashomon.registry import Entry

from .tiny import SINGLES, dataset


def test_registry_holds_every_name_with_a_line() -> None:
    assert {name for name, _ in known_models()} >= {*encoders.names(), *PRETRAINED}
    assert all(summary for _, summary in known_models())


def test_vocabulary_comes_from_the_training_split() -> None:
    model = build_model(ModelSpec(min_count=2, embedding_dim=4), dataset(), seed=0)
    assert isinstance(model, AttentionClassifier)
    assert set(model.vocabulary.words[2:]) == {"the", "plot", "is", "a"}
    capped = build_model(ModelSpec(vocabulary_size=3, embedding_dim=4), dataset(), seed=0)
    assert isinstance(capped, AttentionClassifier)
    assert len(capped.vocabulary) == 5


def test_word_vectors_are_scaled_when_built_and_when_built_anew(tmp_path: Path) -> None:
    words = np.array(["the", "plot", "film", "is", "a", "dull"])
    path = tmp_path / "vectors.npz"
    np.savez(path, words=words, vectors=np.random.default_rng(0).normal(0.2, 0.47, (6, 8)))
    spec = ModelSpec(name="mlp", embeddings=str(path), embedding_scale=0.1)
    model = build_model(spec, dataset(), seed=1)
    assert isinstance(model, AttentionClassifier)
    known = [place for place, word in enumerate(model.vocabulary.words) if word in words]
    assert known
    for made in (model, model.fresh(2)):
        vectors = made.embedding.weight.detach()[known].double()
        assert float(vectors.std(correction=0)) == pytest.approx(0.1, abs=1e-6)
    with pytest.raises(UserError, match="say which with embeddings"):
        build_model(ModelSpec(name="mlp", embedding_scale=0.1), dataset(), seed=1)
    assert build_model(spec.without_vectors(), dataset(), seed=1).capabilities == model.capabilities


def test_word_vectors_start_the_embeddings(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(path, words=np.array(["plot", "film"]), vectors=vectors)
    spec = ModelSpec(name="mlp", embeddings=str(path), freeze_embeddings=True)
    model = build_model(spec, dataset(), seed=1)
    assert isinstance(model, AttentionClassifier)
    plot = model.embedding.weight[model.vocabulary.words.index("plot")]
    assert plot.tolist() == vectors[0].tolist()
    assert model.spec.embedding_dim == 3
    assert not model.embedding.weight.requires_grad
    assert model.fingerprint() == build_model(spec, dataset(), seed=1).fingerprint()
    model.save(tmp_path / "model")
    path.unlink()  # a saved model needs its vectors no more
    assert load_model(tmp_path / "model").fingerprint() == model.fingerprint()


def test_training_can_go_on_from_a_folder(tmp_path: Path) -> None:
    first = build_model(ModelSpec(embedding_dim=4), dataset(), seed=0)
    first.save(tmp_path)
    again = build_model(ModelSpec(name=str(tmp_path)), dataset(), seed=5)
    assert again.fingerprint() == first.fingerprint()
    with pytest.raises(UserError, match="knows the labels bad, good"):
        build_model(ModelSpec(name=str(tmp_path)), dataset(pair=True), seed=5)


@pytest.mark.parametrize(
    ("name", "expected"), [("bilstm", False), ("minilm", True), ("owner/model", True), ("./folder", True)]
)
def test_what_counts_as_pretrained(name: str, expected: bool) -> None:
    assert is_pretrained(name) is expected


def test_things_that_are_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not trained yet"):
        load_model("bilstm")
    with pytest.raises(UserError, match="no checkpoint folder"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"hello": 1}))
    with pytest.raises(UserError, match=r"cannot be read|not a complete checkpoint"):
        load_model(tmp_path)


def test_built_in_models_do_not_wait_for_transformers() -> None:
    code = "import sys, rashomon.models; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_class_only_still_works() -> None:
    from rashomon.data.example import Dataset

    data = Dataset("one", {"train": SINGLES[:2]}, ("only",))
    model = build_model(ModelSpec(embedding_dim=4), data, seed=0).eval()
    output = model(model.collate(model.encode(SINGLES)))
    assert torch.equal(output.probabilities, torch.ones(len(SINGLES), 1))


def test_words_with_a_vector_are_known_even_if_training_never_saw_them(tmp_path: Path) -> None:
    data = Dataset(
        "tiny",
        {
            "train": (Example("a", "good film", 1), Example("b", "bad film", 0)),
            "test": (Example("c", "superb zzz film", 1),),
        },
        ("negative", "positive"),
    )
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("good 1 0\nsuperb 0.9 0.1\nfilm 0 1\n", encoding="utf-8")
    model = build_model(ModelSpec(name="mlp", embeddings=str(vectors)), data, seed=0)
    (encoding,) = model.encode(data["test"])
    known, unknown, _ = encoding.ids.tolist()
    assert unknown == 1, "a word without a vector that training never saw is unknown"
    assert torch.allclose(model.embedding.weight[known], torch.tensor([0.9, 0.1]))
    assert "bad" in model.vocabulary, "words of the train split stay, with a vector of their own"


class _Stranger(AttentionClassifier):
    """A model of another package, here ours under another format."""

    format = "strange-model"

    @classmethod
    def build(cls, spec: ModelSpec, dataset: Dataset, seed: int) -> AttentionClassifier:
        own = build_model(ModelSpec(name="mlp", embedding_dim=4, hidden=spec.hidden), dataset, seed)
        own.__class__ = cls
        assert isinstance(own, AttentionClassifier)
        return own

    def save(self, folder: Path) -> None:
        super().save(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps({**config, "format": self.format}), encoding="utf-8")


@pytest.fixture
def strange_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models._entries, "strange", Entry("strange", _Stranger, "a model of another package"))


@pytest.mark.usefixtures("strange_model")
def test_models_of_other_packages_are_built_saved_and_read_again(tmp_path: Path) -> None:
    model = build_model(ModelSpec(name="strange", hidden=6), dataset(), seed=3)
    model.save(tmp_path)
    again = load_model(tmp_path)
    assert type(again) is _Stranger
    assert again.fingerprint() == model.fingerprint()
    assert build_model(ModelSpec(name=str(tmp_path)), dataset(), seed=9).fingerprint() == model.fingerprint()
    assert ("strange", "a model of another package") in known_models()
    with pytest.raises(UserError, match="not trained yet"):
        load_model("strange")


def test_a_model_of_a_package_that_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": "strange-model"}), encoding="utf-8")
    with pytest.raises(UserError, match="'strange-model', which no installed package reads"):
        load_model(tmp_path)


def test_an_encoder_is_one_decorated_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(encoders, "_entries", dict(encoders._entries))

    @encoder(
        "doubled", "two token layers", layers=2, refusal=lambda spec: "too wide" if spec.hidden > 9 else None
    )
    def doubled(spec: ModelSpec) -> Encoder:
        return stacked(spec, partial(TokenLayer, hidden=spec.hidden), spec.hidden, token_level=True)

    spec = ModelSpec(name="doubled", embedding_dim=4, hidden=6)
    assert (spec.layers, spec.is_builtin, is_pretrained("doubled")) == (2, True, False)
    with pytest.raises(UserError, match="too wide"):
        ModelSpec(name="doubled", hidden=10)
    model = build_model(spec, dataset(), seed=0)
    assert isinstance(model, AttentionClassifier)
    assert [layer.affine.in_features for layer in model.encoder.layers] == [4, 6]
    assert "token-level" in model.capabilities
    model.save(tmp_path)
    assert load_model(tmp_path).fingerprint() == model.fingerprint()
