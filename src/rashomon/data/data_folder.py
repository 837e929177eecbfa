"""Where do datasets lie on this machine? In the folder given, else in ``$RASHOMON_DATA``."""

from __future__ import annotations

import os
from pathlib import Path

from rashomon.errors import UserError

VARIABLE = "RASHOMON_DATA"


def data_folder(data_dir: Path | None = None) -> Path | None:
    """The folder of datasets, or nothing when none is named."""
    if data_dir is not None:
        folder, origin = Path(data_dir), "the data directory"
    elif os.environ.get(VARIABLE):
        folder, origin = Path(os.environ[VARIABLE]), f"${VARIABLE}"
    else:
        return None
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}, which {origin} names.")
    return folder
