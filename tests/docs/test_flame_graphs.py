"""The flame graphs of docs/discussion/performance.md, and how `tests/bench/flames.py` folds stacks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bench.flame_graph import COLOURS, svg, tree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "discussion" / "performance.md"
PICTURES = re.findall(r"\]\(\.\./images/(flames-[\w-]+\.svg)\)", PAGE.read_text())
LOOP = "main (gateway_core/cli/__init__.py:15);Runner.run (asyncio/runners.py:86);uv_run (core.c:464)"


def test_the_page_shows_each_picture_that_is_there() -> None:
    assert sorted(PICTURES) == sorted(file.name for file in (ROOT / "docs" / "images").glob("flames-*.svg"))
    assert len(PICTURES) == 3


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small_and_names_modules_instead_of_files(name: str) -> None:
    text = (ROOT / "docs" / "images" / name).read_text()
    assert len(text) < 150_000
    words = re.findall(r"<(?:text|title)[^>]*>([^<]*)", text)
    assert [word for word in words if re.search(r"/|\.(so|py|c|h)\b", word)] == []
    pure, compiled = text.split(">compiled (")
    assert f'fill="{COLOURS["interpreted"]}" stroke' in pure
    assert f'fill="{COLOURS["compiled"]}" stroke' not in pure
    assert f'fill="{COLOURS["compiled"]}" stroke' in compiled


def test_stacks_become_functions_of_modules_without_what_waits() -> None:
    root = tree(
        [
            f"0x7f01 (libc.so.6);{LOOP};Pool.send (/a/plugins/gateway_http/pool.py:12);write (libc.so.6) 3",
            f"{LOOP};Pool.send (/a/plugins/gateway_http/pool.py:12);dumps (/a/site-packages/json/__init__.py:2) 1",
            f"{LOOP};CPyPy_pool___Pool___send (tidegate__mypyc.so);CPyDef_pool___Pool___send (tidegate__mypyc.so) 2",
            f"{LOOP};epoll_pwait (libc.so.6) 50",
            "Thread.run (threading.py:982);PyThread_acquire_lock_timed (thread.c:1);0x7f02 (libc.so.6) 50",
        ]
    )
    assert root.samples == 6
    assert {name: below.samples for name, below in root.below.items()} == {
        ("gateway_http.pool.Pool.send", "interpreted"): 4,
        ("pool.Pool.send", "compiled"): 2,
    }
    assert {*root.below["gateway_http.pool.Pool.send", "interpreted"].below} == {
        ("write", "native"),
        ("json.dumps", "library"),
    }
    assert "gateway_http.pool.Pool.send: 66.7 %" in svg("case", {"pure": root})
