"""SECURITY.md names requirements that exist, so that each claim leads to the tests that show it."""

from __future__ import annotations

import re
import tomllib

from tests.docs.blocks import ROOT

CODE = re.compile(r"\b[A-Z]{2,5}-\d{2,3}\b")
"""`AB-01`"""


def test_every_claim_names_requirements_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    catalogue = tomllib.loads((ROOT / "tests" / "spec_catalogue.toml").read_text(encoding="utf-8"))
    known = {code for section in catalogue.values() for code in section}
    assert set(CODE.findall(text)) - known == set()
    model = text.partition("## The threat model")[2].partition("## What you have to do")[0]
    claims = [
        line for line in model.splitlines() if line.startswith("| ") and not line.startswith(("| holds", "| ---"))
    ]
    assert len(claims) > 20
    assert [line for line in claims if not CODE.search(line.rpartition(" | ")[2])] == []
