"""Schemas of the console's responses that are not pages."""

from __future__ import annotations

from gateway_api.routes import Model


class Link(Model):
    """A link that logs in once, within a minute."""

    path: str
    """Path and query, below the address of the admin API."""
