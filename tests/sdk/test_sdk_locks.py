"""The SDKs' environments are pinned by hash, and name no place to get them from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.sdk.environments import HERE, EnvironmentFault, node_sdk


@pytest.mark.parametrize("file", sorted(f.name for f in HERE.glob("requirements-*.txt")))
def test_python_locks_have_hashes_and_no_index(file: str) -> None:
    lock = (HERE / file).read_text()
    pinned = [line for line in lock.splitlines() if line[:1].isalnum()]
    assert pinned
    assert all("==" in line and line.endswith("\\") for line in pinned)
    assert lock.count("--hash=sha256:") >= len(pinned)
    assert "://" not in lock


def test_the_javascript_lock_has_hashes_and_no_registry() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    assert lock["packages"][""]["dependencies"] == json.loads((HERE / "package.json").read_text())["dependencies"]
    installed = {name: p for name, p in lock["packages"].items() if name}
    assert len(installed) > 10
    assert [n for n, p in installed.items() if not p["integrity"].startswith("sha512-") or "resolved" in p] == []


def test_the_go_lock_has_the_hash_of_every_module() -> None:
    wanted = re.findall(r"^\s*(?:require )?(\S+) (v\S+)", (HERE / "go" / "go.mod").read_text(), re.MULTILINE)
    sums = {tuple(line.split()[:2]) for line in (HERE / "go" / "go.sum").read_text().splitlines()}
    assert len(wanted) > 10
    assert [module for module in wanted if module not in sums] == []


@pytest.mark.usefixtures("processes")
def test_an_environment_that_can_not_be_made_says_why(tmp_path: Path) -> None:
    for tool, does in (("node", "echo v22.1.0"), ("npm", "echo 'no way to the registry' >&2; exit 7")):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / tool).chmod(0o755)
    with pytest.raises(EnvironmentFault, match=r"(?s)npm ci .* ended with 7.*no way to the registry"):
        node_sdk(tmp_path / "cache", str(tmp_path))
