"""Options of the http transport: what is a fault."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway_core.config.registry import Registry

SOURCE_FAULTS: list[dict[str, Any]] = [
    {"listen": "8080"},
    {"listen": "localhost"},
    {"listen": "h:99999"},
    {"listen": "::1:80"},
    {"listen": "http://h:80"},
    {"path": "events"},
    {"path": "/a?b"},
    {"path": "/a b"},
    {"path": "/é"},
    {"server": "apache"},
    {"tls": {"cert_file": "a"}},
    {"limits": {"max_body_bytes": 0}},
    {"limits": {"header_timeout_s": 0}},
    {"port": 80},
]
SINK_FAULTS: list[dict[str, Any]] = [
    {},
    {"url": "ftp://h/"},
    {"url": "http://"},
    {"url": "/path"},
    {"url": "http://h:0/"},
    {"url": "http://h:99999/"},
    {"url": "http://h/ x"},
    {"url": "http://h/\r\nx: y"},
    {"url": "http://h/", "headers": {"a b": "c"}},
    {"url": "http://h/", "headers": {"a": "b\r\nc: d"}},
    {"url": "http://h/", "headers": {"Host": "other"}},
    {"url": "http://h/", "headers": {"ce-id": "1"}},
    {"url": "http://h/", "max_connections": 0},
    {"url": "http://h/", "client": "curl"},
    {"url": "http://h/", "timeout": 1},
]


@pytest.mark.parametrize("options", SOURCE_FAULTS, ids=str)
def test_source_faults(kit: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kit.registry.find("source", "http").component.model.model_validate(options)


@pytest.mark.parametrize("options", SINK_FAULTS, ids=str)
def test_sink_faults(kit: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kit.registry.find("sink", "http").component.model.model_validate(options)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:8080", ":80", "localhost:1", "0.0.0.0:65535"])
def test_addresses_that_are_fine(kit: Any, listen: str) -> None:
    config = kit.registry.find("source", "http").component.model
    assert config.model_validate({"listen": listen}).listen == listen


@pytest.mark.parametrize("url", ["http://h", "https://u:p@[::1]:8443/a%20b?c=d", "http://h/?a=b"])
def test_urls_that_are_fine(kit: Any, url: str) -> None:
    assert kit.registry.find("sink", "http").component.model.model_validate({"url": url}).url == url


def test_a_url_stands_for_the_sink(kit: Any) -> None:
    registry: Registry = kit.registry
    assert registry.by_scheme("sink", "http://host/") == "http"
    assert registry.by_scheme("sink", "https://host/") == "http"


def test_passwords_are_not_in_the_address(kit: Any) -> None:
    sink = kit.build("sink", {"url": "http://user:secret@host:81/a?b=c"})
    assert sink.address == "http://host:81/a?b=c"
