"""`tidegate login`: gets a token for a person by the device flow of OAuth 2 (RFC 8628) and OpenID Connect discovery."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from gateway_api.client import logins
from gateway_api.client.running import admin_url
from gateway_options.url import secure
from gateway_serving.hosts import is_loopback

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import OK
from gateway_core.contract.one_line import one_line

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_SLOWER_S = 5.0
_LEAST_S = 0.1
_LONGEST_S = 1800.0
_LONGEST_PAUSE_S = 60.0


def login(
    admin: str | None, data_dir: Path | None, issuer: str, client_id: str, scope: str, *, access_token: bool
) -> int:
    """Logs in and keeps the token; returns the exit code. Raises `CommandError`."""
    url = admin_url(admin, common.settings(data_dir=data_dir).data_dir)
    _check_url(url, "the admin API")
    _check_url(issuer, "the issuer")
    with httpx.Client(timeout=30, trust_env=True, verify=secure([issuer]), follow_redirects=False) as http:
        ends = _discovered(http, issuer)
        asked = _post(http, ends["device_authorization_endpoint"], {"client_id": client_id, "scope": scope})
        if "device_code" not in asked:
            raise CommandError(f"{issuer} does not let this client log in: {_reason(asked)}")
        _show(asked)
        answer = _wait(http, ends["token_endpoint"], asked, client_id)
    name = "access_token" if access_token else "id_token"
    token = answer.get(name)
    if not isinstance(token, str) or not token:
        other = "leave out --access-token" if access_token else "ask for the scope `openid`, or use --access-token"
        raise CommandError(f"{issuer} sent no {name}: {other}")
    try:
        logins.save(url, token, logins.expiry_of(token))
    except OSError as e:
        raise CommandError(f"can't keep the token in {logins.logins_file()}: {e.strerror}") from e
    print(f"logged in to {url}", file=sys.stderr)
    return OK


def logout(admin: str | None, data_dir: Path | None) -> int:
    """Removes the token of a login; returns the exit code. Raises `CommandError`."""
    url = admin_url(admin, common.settings(data_dir=data_dir).data_dir)
    try:
        known = logins.forget(url)
    except OSError as e:
        raise CommandError(f"can't write {logins.logins_file()}: {e.strerror}") from e
    print(f"logged out of {url}" if known else f"you are not logged in to {url}", file=sys.stderr)
    return OK


def _discovered(http: httpx.Client, issuer: str) -> dict[str, str]:
    """The endpoints of an issuer (OpenID Connect Discovery 1.0 section 4)."""
    place = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        found = http.get(place).raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as e:
        raise CommandError(f"no answer from {place}: {e}") from e
    if not isinstance(found, dict) or found.get("issuer") != issuer:
        raise CommandError(f"{place} does not belong to the issuer {issuer}")
    ends = {name: found.get(name) for name in ("device_authorization_endpoint", "token_endpoint")}
    for name, end in ends.items():
        if not isinstance(end, str):
            raise CommandError(f"{issuer} offers no device flow (`{name}`)")
        _check_url(end, f"`{name}`")
    return {name: str(end) for name, end in ends.items()}


def _wait(http: httpx.Client, end: str, asked: Mapping[str, Any], client_id: str) -> dict[str, Any]:
    """Asks for the token until the person has decided (RFC 8628 section 3.5)."""
    form = {"grant_type": _GRANT, "device_code": str(asked["device_code"]), "client_id": client_id}
    pause = min(_LONGEST_PAUSE_S, max(_LEAST_S, _number(asked.get("interval"), 5.0)))
    deadline = time.monotonic() + min(_LONGEST_S, _number(asked.get("expires_in"), 600.0))
    while time.monotonic() < deadline:
        time.sleep(pause)
        answer = _post(http, end, form)
        error = answer.get("error")
        if error is None:
            return answer
        if error == "slow_down":
            pause += _SLOWER_S
        elif error != "authorization_pending":
            raise CommandError(f"the login failed: {_reason(answer)}")
    raise CommandError("the code has expired: log in again")


def _post(http: httpx.Client, url: str, form: Mapping[str, str]) -> dict[str, Any]:
    try:
        found = http.post(url, data=form, headers={"accept": "application/json"}).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as e:
        raise CommandError(f"no answer from {url}: {e}") from e
    return found if isinstance(found, dict) else {}


def _show(asked: Mapping[str, Any]) -> None:
    code, place = one_line(asked.get("user_code", ""), 40), one_line(asked.get("verification_uri", ""), 300)
    whole = asked.get("verification_uri_complete")
    print(f"open {one_line(whole, 300)}" if whole else f"open {place} and enter {code}", file=sys.stderr)
    if whole:
        print(f"it shows the code {code}", file=sys.stderr)


def _reason(answer: Mapping[str, Any]) -> str:
    return one_line(answer.get("error_description") or answer.get("error") or "no reason given")


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, int | float) and value >= 0 else default


def _check_url(url: str, what: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as e:
        raise CommandError(f"{what} has no usable address: {one_line(url)}: {e}") from None
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        raise CommandError(f"{what} must be at https://, or on this machine: {one_line(url)}")
