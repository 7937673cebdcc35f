"""How a component's capabilities are found (`gateway_core.contract.capabilities`)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway_core.contract import capabilities
from gateway_core.contract.capabilities import offers

PROTOCOLS = sorted(
    (c for c in vars(capabilities).values() if getattr(c, "_is_runtime_protocol", False)), key=lambda c: str(c.__name__)
)


@pytest.mark.parametrize("capability", PROTOCOLS, ids=lambda c: c.__name__)
def test_offers_answers_as_isinstance_does(capability: Any) -> None:
    names = [n for n in (*vars(capability).get("__annotations__", ()), *vars(capability)) if not n.startswith("_")]
    assert names
    whole = type("Whole", (), {name: lambda self: None for name in names})()
    assert (offers(whole, capability), isinstance(whole, capability)) == (True, True)
    given = type("Given", (), {})()
    vars(given).update(dict.fromkeys(names, 1))  # as a wrapper gets them
    assert (offers(given, capability), isinstance(given, capability)) == (True, True)
    for missing in names:
        part = type("Part", (), {name: lambda self: None for name in names if name != missing})()
        assert (offers(part, capability), isinstance(part, capability)) == (False, False)
