"""The tokens of a gateway's admin API.

The first start makes a random token of 256 bits in the data directory. Whoever has it is an admin, and can make tokens
for others from it, each with a name, a role and perhaps an end: `ROLE.NAME.END.MAC`, where MAC is HMAC-SHA-256 with the
token as key (RFC 2104). Nothing is stored for them; a new token ends them all.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import replace_file

from .roles import ROLES, Role

log = logging.getLogger("tidegate.admin")

_LEAST = 32
_MOST = 4096
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
NAME_RULE = "letters, digits, `_` and `-`, at most 40, a letter or digit first"
_PURPOSE = b"tidegate admin token\n"


def token_file(data_dir: Path) -> Path:
    """Where the token of the gateway with this data directory is."""
    return data_dir / "admin.token"


def read_token(data_dir: Path) -> str:
    """The token. Raises `OSError`; `ValueError` if the file holds none."""
    with token_file(data_dir).open("rb") as file:
        text = file.read(_MOST).decode("ascii", "replace").strip()
    if len(text) < _LEAST or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{token_file(data_dir)} holds no token of at least {_LEAST} characters: remove it")
    return text


def write_token(data_dir: Path) -> str:
    """Makes a new token; the one before ends. Raises `OSError`. A superuser makes it for the directory's owner."""
    private_folder(data_dir)
    token = secrets.token_urlsafe(32)
    replace_file(token_file(data_dir), f"{token}\n".encode())
    owner = data_dir.stat()
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.chown(token_file(data_dir), owner.st_uid, owner.st_gid)
    return token


def is_name(text: str) -> bool:
    """Whether a token may have this name (`NAME_RULE`)."""
    return _NAME.fullmatch(text) is not None


def derived(token: str, role: Role, name: str, end_s: int = 0) -> str:
    """A token for a role, made from the gateway's. `end_s` is Unix time, 0 for none."""
    told = f"{role}.{name}.{end_s}"
    mac = hmac.new(token.encode(), _PURPOSE + told.encode(), hashlib.sha256).digest()
    return f"{told}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a token."""

    name: str
    role: Role
    end_s: int = 0
    """When the token ends, in Unix time; 0 if it does not."""


class Tokens:
    """Checks tokens against the file, which is looked at for every request: a new one counts at once, and a missing one
    is made again. `own` counts in place of the file's own token (`TIDEGATE_ADMIN_TOKEN`)."""

    def __init__(self, data_dir: Path, own: str = "", now_s: Callable[[], float] = time.time) -> None:
        self.data_dir = data_dir
        self._own = own
        self._now_s = now_s
        self._token = ""
        self._seen: tuple[int, ...] = ()
        self._fault = ""

    def refresh(self) -> None:
        """Reads the file if it has changed, and makes it if it is missing."""
        try:
            seen = _state(token_file(self.data_dir))
            if seen is None:
                self._token = write_token(self.data_dir)
                seen = _state(token_file(self.data_dir)) or ()
            elif seen != self._seen:
                self._token = self._read()
                seen = _state(token_file(self.data_dir)) or ()
            self._seen, self._fault = seen, ""
        except (OSError, ValueError) as e:
            self._token, self._seen = "", ()
            reason = f"{e.filename}: {e.strerror}" if isinstance(e, OSError) else str(e)
            if reason != self._fault:
                log.error("no token of the admin API: %s; only its socket answers", reason)
            self._fault = reason

    def _read(self) -> str:
        file = token_file(self.data_dir)
        _check_owner(file)
        if stat.S_IMODE(file.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            file.chmod(0o600)
            log.warning("%s was open to other users, who may have read it: `tidegate admin token --rotate`", file)
        return read_token(self.data_dir)

    def key(self) -> bytes:
        """What signs the cookies of sessions; b"" if there is no token. It changes with each of the tokens."""
        self.refresh()
        return f"{self._token}\n{self._own}".encode() if self._token else b""

    def holder(self, given: str) -> Holder | None:
        """Who has this token; None if it is wrong or has ended."""
        self.refresh()
        own = self._own or self._token
        if own and hmac.compare_digest(given.encode(), own.encode()):
            return Holder("admin token", "admin")
        role, _, rest = given.partition(".")
        name, _, rest = rest.partition(".")
        end, _, _ = rest.partition(".")
        found = next((known for known in ROLES if known == role), None)
        if not self._token or found is None or not is_name(name) or not (end.isascii() and end.isdigit()):
            return None
        if len(end) > 15 or not hmac.compare_digest(
            given.encode(), derived(self._token, found, name, int(end)).encode()
        ):
            return None
        if int(end) and self._now_s() >= int(end):
            return None
        return Holder(f"token {name}", found, int(end))


def _check_owner(file: Path) -> None:
    """Raises `ValueError` if another user made the file, or the link to it: they know what is in it."""
    folder = file.parent.stat()
    trusted = {0, os.geteuid()} if folder.st_mode & stat.S_IWOTH else {0, os.geteuid(), folder.st_uid}
    for facts in (file.lstat(), file.stat()):
        if facts.st_uid not in trusted:
            raise ValueError(f"{file} belongs to another user ({facts.st_uid}), who knows it: remove it")
    if stat.S_ISLNK(file.lstat().st_mode) and file.stat().st_mode & stat.S_IROTH:
        raise ValueError(f"{file} leads to {file.resolve()}, which everyone may read: remove it")


def _state(file: Path) -> tuple[int, ...] | None:
    """What changes when the file is written or replaced; None if it is missing. Raises `OSError`."""
    try:
        facts = os.stat(file)
    except FileNotFoundError:
        return None
    return (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino)
