"""How many examples a property is tried with.

`make quick` tries a fifth of what `make test` tries, `make test-all` five times as many: the profiles `quick`,
`default` and `all` of `--hypothesis-profile`. What one finds stays in its test as an `@example`; a run prints the blob
that plays it again.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

_SHARES = {"quick": 0.2, "default": 1.0, "all": 5.0}


def register_profiles() -> None:
    """For tests/conftest.py; a time limit for one example says more about the machine than about the code."""
    for name, share in _SHARES.items():
        settings.register_profile(name, max_examples=int(100 * share), deadline=None, print_blob=True)
    settings.load_profile("default")


def examples(count: int, **more: Any) -> settings:
    """`@examples(60)`: 60 examples with `make test`. For properties that need more or fewer than the usual 100."""
    share = _SHARES.get(settings.get_current_profile_name(), 1.0)
    return settings(max_examples=max(1, round(count * share)), deadline=None, **more)
