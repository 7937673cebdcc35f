"""Log lines for people and for machines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from gateway_core.contract.settings import Settings
from gateway_core.runtime.log_output import ThrottledHandler, configure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_a_machine_gets_json() -> None:
    out = io.StringIO()
    configure(Settings(), out)
    log = logging.getLogger("tidegate.test")
    log.info("sent %d", 3, extra={"trigger": "late"})
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("failed")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {"level": "info", "logger": "tidegate.test", "message": "sent 3", "trigger": "late"}
    assert second["error"].endswith("ValueError: bad")


def test_people_get_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    configure(Settings(), out)
    logging.getLogger("tidegate.test").warning("slow", extra={"trigger": "late"})
    assert out.getvalue().endswith(" WARNING\x1b[0m tidegate.test: slow  trigger=late\n")


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    configure(Settings(), out)
    logging.getLogger("tidegate.test").error("down")
    assert "\x1b" not in out.getvalue()


def test_the_format_can_be_chosen() -> None:
    out = io.StringIO()
    configure(Settings(log_format="text"), out)
    logging.getLogger("tidegate.test").info("hello")
    assert out.getvalue().endswith("INFO    tidegate.test: hello\n")


def test_other_libraries_are_heard_from_warnings_on() -> None:
    out = io.StringIO()
    configure(Settings(log_format="text"), out)
    logging.getLogger("httpx").info("HTTP Request: GET")
    logging.getLogger("hypercorn.error").info("Running on")
    logging.getLogger("tidegate").debug("detail")
    assert out.getvalue() == ""
    logging.getLogger("httpx").warning("odd")
    assert "httpx: odd" in out.getvalue()


def test_what_json_cant_hold_is_logged_all_the_same() -> None:
    out = io.StringIO()
    configure(Settings(), out)
    logging.getLogger("tidegate").info("name \ud800", extra={"path": object})
    assert "\\ud800" in json.loads(out.getvalue())["message"]


def test_one_kind_of_message_does_not_flood_the_log() -> None:
    out = io.StringIO()
    configure(Settings(log_format="text"), out)
    log = logging.getLogger("tidegate.delivery")
    for n in range(500):
        log.warning("event %d is in the dead letter", n)
    log.warning("something else")
    lines = out.getvalue().splitlines()
    assert len(lines) == ThrottledHandler.BURST + 1
    assert lines[-2].endswith("event 19 is in the dead letter (more like this are held back for 10 s)")
    later = logging.makeLogRecord(
        {"name": log.name, "levelno": 30, "msg": "event %d is in the dead letter", "args": (500,)}
    )
    later.created += ThrottledHandler.WINDOW_S
    log.handle(later)
    assert out.getvalue().endswith("event 500 is in the dead letter (480 more like this were held back before)\n")
