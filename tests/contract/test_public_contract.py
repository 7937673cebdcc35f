"""What plugins import does not change by accident."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SNAPSHOT = Path(__file__).with_name("public.txt")
HOW = """\
the public contract changed: plugin authors will notice.
If you meant it: run `make docs`, commit tests/contract/public.txt, and add a file to changes/ (`changed` if a
name or a signature went away). If you did not, take the change back, or give the name a leading underscore.

"""


@pytest.fixture
def contract(monkeypatch: pytest.MonkeyPatch) -> str:
    """The contract as the code has it now."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return str(importlib.import_module("public_contract").public_contract())


@pytest.mark.slow
def test_the_public_contract_is_the_one_in_the_snapshot(contract: str) -> None:
    then, now = SNAPSHOT.read_text().splitlines(), contract.splitlines()
    changes = list(difflib.unified_diff(then, now, "snapshot", "code", n=0, lineterm=""))
    assert changes == [], HOW + "\n".join(changes)


@pytest.mark.slow
def test_every_export_of_the_testing_package_can_be_imported(contract: str) -> None:
    section = contract.partition("[gateway_testing]\n")[2].partition("\n\n")[0]
    module = importlib.import_module("gateway_testing")
    names = [line.removeprefix("export ") for line in section.splitlines()]
    assert names
    assert [n for n in names if not hasattr(module, n)] == []
