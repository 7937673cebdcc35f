"""Docstrings of attributes describe the options of a config model, wherever they are asked for."""

from __future__ import annotations

from pydantic import Field

from gateway_core.contract.component import Config
from gateway_core.contract.options import described


class Base(Config):
    """Has one option."""

    depth: int = 0
    """How deep,
    in metres."""


class Whole(Base):
    """Has more of them."""

    named: str = Field("", alias="name", description="Said here.")
    """Said there."""
    width: int = 0
    """How wide."""
    plain: int = 0


def test_fields_have_the_docstrings_of_their_attributes() -> None:
    texts = {name: field.description for name, field in described(Whole).items()}
    assert texts == {"depth": "How deep,\nin metres.", "named": "Said here.", "width": "How wide.", "plain": None}


def test_the_json_schema_shows_them_after_the_model_was_used() -> None:
    assert Whole(name="a").named == "a"
    shown = Whole.model_json_schema()["properties"]
    assert {name: about.get("description") for name, about in shown.items()} == {
        "depth": "How deep,\nin metres.",
        "name": "Said here.",
        "width": "How wide.",
        "plain": None,
    }
