"""What the documentation shows is run here, so that it cannot rot."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pandas as pd
import pytest

import rashomon as ra
from tests.models.tiny import tiny_checkpoint

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/python.md"])
def test_code_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RASHOMON_STORE", str(tmp_path / "store"))
    tiny_checkpoint("bert", tmp_path / "my-checkpoint")
    stars = [5 if number % 3 else 1 for number in range(60)]
    bodies = [
        f"a {'good' if star == 5 else 'bad'} film of {number} hours" for number, star in enumerate(stars)
    ]
    pd.DataFrame({"body": bodies, "stars": stars}).to_csv("reviews.csv", index=False)
    blocks = _blocks(ROOT / page)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize("page", PAGES)
def test_code_names_what_there_is(page: str) -> None:
    """Also of the blocks that are too slow to run or stand for something of the reader's."""
    for block in _blocks(_path(page)):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ra":
                assert hasattr(ra, node.attr), f"{page} uses ra.{node.attr}"


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^::: \S+\.(\w+)$", text, re.MULTILINE))
    assert listed == set(ra.__all__) - {"__version__", "explainers"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = _path(page)
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}, which is not there"


def test_every_name_is_documented() -> None:
    from rashomon.explainers import explainers
    from rashomon.studies import studies

    for page, registry in (("explainers", explainers), ("studies", studies)):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        assert [name for name in registry.names() if f"`{name}`" not in text] == []


def _path(page: str) -> Path:
    return ROOT / page if (ROOT / page).is_file() else ROOT / "docs" / page


def _blocks(path: Path) -> list[str]:
    return BLOCK.findall(path.read_text(encoding="utf-8"))
