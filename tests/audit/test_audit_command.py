"""`tidegate audit`: shows the files of all workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gateway_audit_log.log import audit_log

from tests.command_line import tidegate


def audit(data_dir: Path, *options: str) -> str:
    done = tidegate("audit", "--data-dir", data_dir, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.spec("AL-05")
@pytest.mark.usefixtures("processes")
def test_the_command_shows_the_log(tmp_path: Path) -> None:
    assert "no audit log" in audit(tmp_path)
    audit_log(tmp_path).record("anna", "trigger.apply", "socket", "done", name="orders")
    audit_log(tmp_path, 1).record("bert\x1b[2J", "ingress", "10.0.0.7", "denied", status=401)
    first, second = audit(tmp_path).splitlines()
    assert first.split("  ")[1:] == ["anna", "trigger.apply", "socket", "done", "name=orders"]
    assert second.split("  ")[1:] == ["bert\\x1b[2J", "ingress", "10.0.0.7", "denied", "status=401"]
    assert [json.loads(line)["what"] for line in audit(tmp_path, "--json", "--denied").splitlines()] == ["ingress"]
