"""docs/howto/replay-events.md: its config, and its commands in their order, each with the text that it must print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests.command_line import tidegate
from tests.docs.blocks import of_page
from tests.replay import lab

PAGE = "docs/howto/replay-events.md"
_ID = re.compile(r"^([0-9a-f]{12})  done", re.MULTILINE)


@pytest.mark.usefixtures("processes")
def test_the_page_is_true(tmp_path: Path) -> None:
    config, start = (block.text for block in of_page(PAGE, "yaml"))
    lines = [line for block in of_page(PAGE, "sh") for line in block.text.splitlines()]
    assert len(lines) == 7
    with Subscriber() as s:
        url = s.url.rstrip("/")
        text = config.replace("127.0.0.1:8080", "127.0.0.1:0").replace("http://127.0.0.1:8081", url)
        with GatewayProcess(text, tmp_path) as g:
            for n in range(3):
                lab.send(g, [f"o-{n}"], "order.paid", subject=f"o-{n}")
            lab.send(g, ["other"], "order.created")
            s.wait_for(7)
            g.wait_until(g.drained)
            s.requests.clear()
            last = ""
            for line in lines:
                command, _, expected = line.partition("#")
                words = [last if word == "ID" else word for word in shlex.split(command)]
                ran = tidegate(*words[1:], "--data-dir", g.data_dir)
                assert ran.returncode == 0, ran.stderr
                assert expected.strip() in ran.stdout, line
                last = found[1] if (found := _ID.search(ran.stdout)) else last
            s.wait_for(6)
            assert lab.got(s, "billing") == {"o-0": 2, "o-1": 2, "o-2": 2}
            assert not lab.got(s, "audit")
            added = start.partition("\n")[2].replace("http://127.0.0.1:8081", url)
            g.config.write_text(text + added)
            s.wait_for(9)
            assert lab.got(s, "shipping") == {"o-0": 1, "o-1": 1, "o-2": 1}
