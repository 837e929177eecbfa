"""Folders for the user: whole or not there, never over somebody's files, never with leftovers of an earlier call."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rashomon.errors import UserError
from rashomon.runs.folders import WRITTEN, check_folder, write_folder


def writer(*names: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)

    return write


def names(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != WRITTEN)
    return sorted(path.relative_to(folder).as_posix() for path in found)


def test_an_earlier_one_is_replaced_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    write_folder(out, "report", writer("page", "tables/a", "tables/b", "old/c"))
    inode = out.stat().st_ino
    write_folder(out, "report", writer("page", "tables/a"))
    assert names(out) == ["page", "tables/a"]
    assert {path.name for path in out.iterdir()} == {"page", "tables", WRITTEN}
    assert out.stat().st_ino == inode  # a shell may stand in it


@pytest.mark.parametrize("foreign", ["config.json", "tables/theirs.csv", ".hidden", "deep/er/file"])
def test_foreign_content_is_refused_and_stays(tmp_path: Path, foreign: str) -> None:
    write_folder(tmp_path, "report", writer("page", "tables/a"))
    writer(foreign)(tmp_path)
    with pytest.raises(UserError, match=rf"not of an earlier report \({foreign}\)"):
        write_folder(tmp_path, "report", lambda folder: pytest.fail("written"))
    assert names(tmp_path) == sorted(["page", "tables/a", foreign])


def test_a_model_is_not_written_over_a_report(tmp_path: Path) -> None:
    write_folder(tmp_path, "report", writer("page"))
    with pytest.raises(UserError, match=r"not of an earlier model \(page\)"):
        check_folder(tmp_path, "model")


def test_what_a_file_manager_leaves_does_not_matter(tmp_path: Path) -> None:
    write_folder(tmp_path, "report", writer("page"))
    (tmp_path / ".DS_Store").write_bytes(b"x")
    write_folder(tmp_path, "report", writer("page", "more"))
    assert names(tmp_path) == [".DS_Store", "more", "page"]


def test_a_list_of_files_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious").write_text("x")
    (out / WRITTEN).write_text('{"what": "report", "files": ["../precious", "/etc/hostname", "", "."]}')
    write_folder(out, "report", writer("page"))
    assert names(tmp_path) == ["out/page", "precious"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failed_write_leaves_what_was_there(tmp_path: Path, there: bool, error: int) -> None:
    out = tmp_path / "new" / "out"
    if there:
        write_folder(out, "report", writer("page"))

    def fail(folder: Path) -> None:
        writer("page", "tables/half")(folder)
        raise OSError(error, os.strerror(error))

    with pytest.raises(UserError, match="The report cannot be written to"):
        write_folder(out, "report", fail)
    assert names(tmp_path) == (["new/out/page"] if there else [])
    assert (tmp_path / "new").exists() == there


def test_an_error_of_safetensors_about_the_disk_is_told(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    with pytest.raises(UserError, match="No space left on device; choose another place"):
        write_folder(tmp_path, "model", fail)


@pytest.mark.parametrize("operation", range(1, 6))
def test_killed_at_any_rename_the_next_call_replaces_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: int
) -> None:
    """Two old entries out, then three new ones in; a kill leaves all hidden folders where they are."""
    write_folder(tmp_path, "report", writer("page", "tables/old"))
    rename, count = os.rename, 0

    def deadly(source: Path, target: Path) -> None:
        nonlocal count
        count += 1
        if count == operation:
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", deadly)
        patch.setattr("rashomon.runs.folders.shutil.rmtree", lambda *args, **more: None)
        with pytest.raises(KeyboardInterrupt):
            write_folder(tmp_path, "report", writer("page", "tables/new", "extra"))
    write_folder(tmp_path, "report", writer("page", "tables/last"))
    assert names(tmp_path) == ["page", "tables/last"]
    assert {path.name for path in tmp_path.iterdir()} == {"page", "tables", WRITTEN}
