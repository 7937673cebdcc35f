"""Roles of those who call the admin API. Each may do what the ones before it may, and more."""

from __future__ import annotations

from typing import Literal, get_args

Role = Literal["metrics", "viewer", "operator", "admin"]
"""`metrics` reads `/metrics`, `viewer` reads everything, events included. `operator` also pauses, resumes and reloads,
`admin` also applies and deletes."""

ROLES: tuple[Role, ...] = get_args(Role)


def may(role: Role | None, needed: Role) -> bool:
    """Whether someone with a role, or none, may do what needs a role."""
    return role is not None and ROLES.index(role) >= ROLES.index(needed)
