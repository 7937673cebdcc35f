"""Files with credentials: a pipe or a folder in their place is a fault, and never waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gateway_core.contract.files import check_regular, read_regular

pytestmark = pytest.mark.spec("HM-17")

KINDS = ["missing", "folder", "pipe", "socket", "device", "dangling link", "link to a folder", "link to itself"]


def odd(path: Path, kind: str) -> Path:
    """Something at this path that is no regular file."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                bound.bind(f"/proc/self/fd/{folder}/{path.name}")  # the path itself may be too long
            finally:
                os.close(folder)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "dangling link":
        path.symlink_to(path.with_name("none"))
    elif kind == "link to a folder":
        path.symlink_to(path.parent)
    elif kind == "link to itself":
        path.symlink_to(path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = odd(tmp_path / "secret", kind)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):
        read_regular(path, 10)
    with pytest.raises(OSError):
        check_regular(None, path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_and_links_to_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    check_regular(tmp_path / "link", None, tmp_path / "file")
    content, mode = read_regular(tmp_path / "link", 20)
    assert (content, mode & 0o777) == (b"0123456789", 0o640)
    assert read_regular(tmp_path / "file", 4)[0] == b"01234", "one more than the most, so that the caller sees it"
