"""Folders that are closed to other users: with all that is in them, or by themselves."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway_core.contract.private_files import keep_private


def modes(*paths: Path) -> list[str]:
    return [oct(stat.S_IMODE(path.stat().st_mode)) for path in paths]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "spark"
    made.mkdir()
    (made / "offsets").write_text("1")
    made.chmod(0o755)
    (made / "offsets").chmod(0o644)
    return made


@pytest.mark.spec("SAFE-44")
def test_everything_in_a_folder_is_closed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep_private(folder)
    assert modes(folder, folder / "offsets") == ["0o700", "0o600"]
    assert caplog.messages == [f"{folder} was open to other users: took 2 files and folders from them"]


@pytest.mark.spec("SAFE-44")
def test_files_that_others_write_in_a_closed_folder_are_no_news(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep_private(folder, within=False)
    assert modes(folder, folder / "offsets") == ["0o700", "0o644"]
    assert len(caplog.messages) == 1
    keep_private(folder, within=False)
    assert len(caplog.messages) == 1
