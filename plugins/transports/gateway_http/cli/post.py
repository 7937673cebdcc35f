"""Sends events over HTTP from the command line: messages in each content mode, retries, responses."""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
from gateway_options.url import secure

from gateway_core.contract.event import Event, text_of

STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}
BATCH = {"content-type": "application/cloudevents-batch+json; charset=utf-8"}

_FOR_NOW = frozenset({408, 425, 429, 500, 502, 503, 504})
_WAIT_MAX_S = 10.0
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# CloudEvents HTTP binding 1.0.2 section 3.1.3.2: space, '"', '%' and all outside U+0021..U+007E are percent-encoded
_AS_IS = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request. `status` is None if there was no response; `detail` is one line. `duplicate` is the
    position of the first if a gateway had the event already, and did not store it again."""

    status: int | None
    detail: str
    duplicate: str = ""

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def binary(event: Event) -> tuple[dict[str, str], bytes]:
    """The event in binary content mode: headers and body."""
    headers = {}
    for name, value in event.attributes.items():
        text = text_of(value)
        headers["content-type" if name == "datacontenttype" else f"ce-{name}"] = (
            text if name == "datacontenttype" else quote(text, safe=_AS_IS)
        )
    if event.json_data:
        # a JSON event without a media type is application/json (json-format.md section 3.1.1); headers must say so
        headers.setdefault("content-type", "application/json")
    return headers, event.data or b""


def client(
    urls: Collection[str],
    in_flight: int = 1,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> httpx.Client:
    """A client that `in_flight` threads share; each keeps its own connection. Used like this, httpx needs a third of
    the CPU of its asynchronous client. `headers` are sent with each request. `tls` instead of
    the usual context for `https`."""
    limits = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    return httpx.Client(
        headers=headers,
        limits=limits,
        timeout=httpx.Timeout(30.0, connect=5.0),
        verify=tls or secure(urls),
        trust_env=not local(urls),
    )


def given_headers(texts: Iterable[str]) -> dict[str, str]:
    """Headers from the command line. Raises `ValueError`, which quotes no value: it may be a credential."""
    headers = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ValueError("write NAME=VALUE, and a header's name before the =")
        if value.startswith("@"):
            try:
                value = Path(value[1:]).read_text().strip()
            except (OSError, UnicodeDecodeError) as e:
                raise ValueError(f"{value[1:]} can't be read: {getattr(e, 'strerror', None) or e}") from None
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of {name} contains a character that HTTP does not allow")
        headers[name] = value
    return headers


def local(urls: Iterable[str]) -> bool:
    """Whether all URLs are on this machine, so that proxies from the environment must not be used."""
    hosts = [httpx.URL(url).host for url in urls]
    return all(host in ("localhost", "::1") or host.startswith("127.") for host in hosts)


def post(
    to: httpx.Client,
    url: str,
    headers: dict[str, str],
    body: bytes,
    retry: int,
    wait: Callable[[float], object] = time.sleep,
) -> Answer:
    """Sends one request and retries it up to `retry` times while a retry may help. `wait` sleeps between the
    attempts."""
    attempt = 0
    while True:
        answer, wait_s = _attempt(to, url, headers, body)
        if attempt >= retry or answer.accepted or (answer.status is not None and answer.status not in _FOR_NOW):
            return answer
        wait(wait_s if wait_s is not None else min(_WAIT_MAX_S, 0.2 * 2**attempt))
        attempt += 1


def _attempt(to: httpx.Client, url: str, headers: dict[str, str], body: bytes) -> tuple[Answer, float | None]:
    try:
        response = to.post(url, headers=headers, content=body)
    except httpx.HTTPError as e:
        return Answer(None, _why(e)), None
    after = response.headers.get("retry-after", "")
    wait_s = min(float(after), _WAIT_MAX_S) if after.isascii() and after.isdigit() else None
    duplicate = response.headers.get("tidegate-duplicate", "")
    return Answer(response.status_code, _detail(response), duplicate), wait_s


def _why(error: httpx.HTTPError) -> str:
    """The system's error text if there is one ("Connection refused"), else that of the library."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the server's certificate is not valid: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):  # whose `errno` is no number of the system
            return f"TLS: {cause.reason or cause}"
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
        inner = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else None
        cause = inner or cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def _detail(response: httpx.Response) -> str:
    """The text of a problem document (RFC 9457), else the reason phrase."""
    text = f"{response.status_code} {response.reason_phrase}"
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            problem = response.json()
            return f"{text}: {problem.get('detail') or problem.get('title')}"
        except (ValueError, AttributeError):
            return text
    return text


def check_url(url: str) -> str:
    """Returns the URL if events can be sent to it. Raises `ValueError`."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as e:
        raise ValueError(f"{url!r} is not a valid URL: {e}") from e
    if parsed.scheme not in ("http", "https") or not parsed.host:
        if "://" not in url and re.match(r"[A-Za-z0-9.\[\]:-]+(/|$)", url):
            raise ValueError(f"{url!r} has no scheme: write http://{url}")
        raise ValueError(f"{url!r} is not an HTTP URL: write http://HOST:PORT/")
    return url
