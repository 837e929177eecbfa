"""What the documentation shows is run here, so that it cannot rot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/tutorial.md"])
def test_code_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RASHOMON_STORE", str(tmp_path / "store"))
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *sorted(p.name for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page if (ROOT / page).is_file() else ROOT / "docs" / page
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}, which is not there"


def test_every_name_is_documented() -> None:
    from rashomon.explainers import explainers
    from rashomon.studies import studies

    for page, registry in (("explainers", explainers), ("studies", studies)):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        assert [name for name in registry.names() if f"`{name}`" not in text] == []
