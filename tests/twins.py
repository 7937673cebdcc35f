"""Tests that run with several servers, clients or event loops."""

from __future__ import annotations

from typing import Any

import pytest


def twins(first: str, *others: str) -> list[Any]:
    """Values of a parameter, of which `make quick` runs the first only; the others have the marker `twin`."""
    return [first, *(pytest.param(other, marks=pytest.mark.twin) for other in others)]
