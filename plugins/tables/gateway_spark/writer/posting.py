"""HTTP for the data source's writer: one connection, retries. Needs only Python, for executors."""

from __future__ import annotations

import base64
import http.client
import json
import random
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import SparkFault

BACKOFF_S = 0.2
BACKOFF_MAX_S = 30.0
_ASCTIME = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4}")
RETRY_AFTER_MAX_S = 300.0
_BODY = 64 * 1024  # of an answer: problem details are short


@dataclass(frozen=True)
class Target:
    """An ingress and its connection options. `timeout_s` is the time limit for connecting and for a response."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 30.0
    max_retries: int = 10
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"option 'url' of the data source tidegate must be http(s)://HOST[:PORT]/…, not {self.url!r}"
            )

    @property
    def shown(self) -> str:
        """The URL without a password."""
        return urlsplit(self.url)._replace(netloc=self.url.split("://")[1].split("/")[0].rpartition("@")[2]).geturl()


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after_s: float | None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (408, 425, 429) or self.status >= 500

    def __str__(self) -> str:
        """Status and problem detail (RFC 9457), in one line."""
        try:
            problem = json.loads(self.body)
            said = " ".join([str(problem["detail"]), *(f"({problem[k]})" for k in ("rule",) if k in problem)])
        except (ValueError, TypeError, KeyError):
            said = " ".join(self.body[:300].decode(errors="replace").split())
        return f"{self.status} {said or http.client.responses.get(self.status, '')}".strip()


def wait_s(retry: int, draw: float) -> float:
    """The delay before retry 1, 2, …: that of the gateway's deliveries (docs/discussion/delivery.md), with its
    defaults; `draw` is a random number in [0, 1)."""
    return min(BACKOFF_MAX_S, BACKOFF_S * 2.0 ** min(retry - 1, 1000)) * (0.5 + 0.5 * draw)


class Poster:
    """POSTs to a target over one persistent connection. For one thread. `requests` counts the requests sent."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts = urlsplit(target.url)
        self._path = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        self._headers = {**_authorization(self._parts), **target.headers}
        self._connection: http.client.HTTPConnection | None = None
        self.requests = 0

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """The first response that a retry would not change. Raises `SparkFault` when all retries are used up."""
        retry = 0
        while True:
            answer, failure = self._try(headers, body)
            if answer is not None and not answer.passing:
                return answer
            retry += 1
            if retry > self._target.max_retries:
                tries = "1 attempt" if retry == 1 else f"{retry} attempts"
                raise SparkFault(f"{self._target.shown} accepted no events in {tries}; the last: {answer or failure}")
            asked = answer.retry_after_s if answer is not None else None
            time.sleep(max(min(asked or 0.0, RETRY_AFTER_MAX_S), wait_s(retry, random.random())))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _try(self, headers: Mapping[str, str], body: bytes) -> tuple[Answer | None, str]:
        """A response, or why there is none."""
        self.requests += 1
        try:
            return self._once(headers, body), ""
        except ssl.SSLCertVerificationError as e:
            raise SparkFault(f"{self._target.shown}: its certificate is not trusted ({e.verify_message})") from e
        except (OSError, http.client.HTTPException) as e:
            self.close()
            return None, f"{type(e).__name__}: {e}"

    def _once(self, headers: Mapping[str, str], body: bytes) -> Answer:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request("POST", self._path, body, {**self._headers, **headers})
        response = self._connection.getresponse()
        answer = Answer(response.status, response.read(_BODY), _retry_after_s(response.getheader("retry-after")))
        if not response.isclosed():  # the rest of the body is not read, so the connection is not reusable
            self.close()
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        host, port, timeout = self._parts.hostname or "", self._parts.port, self._target.timeout_s
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=_context(self._target))


def _context(target: Target) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=target.ca_file)
    if target.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if target.cert_file:
        context.load_cert_chain(target.cert_file, target.key_file)
    return context


def _authorization(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _retry_after_s(value: str | None) -> float | None:
    """Seconds from a `Retry-After` (RFC 9110 section 10.2.3), or None."""
    value = (value or "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    if _ASCTIME.fullmatch(value):
        value += " GMT"
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time()) if value.endswith(" GMT") else None
    except (ValueError, OverflowError):
        return None
