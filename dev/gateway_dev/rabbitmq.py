"""RabbitMQ: AMQP 0-9-1."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway_java.child import Child
from gateway_java.ports import is_free

from gateway_core.contract.errors import StartError

from .program import FoundProgram, Missing, Program
from .server import HOST, Server, exchange

_HEADER = b"AMQP\x00\x00\x09\x01"
# one that runs beside others and has little to do
_ERLANG = "+S 1:1 +SDcpu 1:1 +SDio 1 +A 1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"
_ERL = """\
#!/bin/sh
# Debian's erl knows only its own place in /usr
ROOTDIR={root} BINDIR={bin} EMU=beam PROGNAME=erl
export ROOTDIR BINDIR EMU PROGNAME
exec "$BINDIR/erlexec" "$@"
"""
_CALL_LIMIT_S = 60


class RabbitMq(Server):
    """One node, with an Erlang port mapper (epmd), home and cookie of its own: several may run side by side. Without
    `users` there is the user `guest` with the password `guest`. Each user may do everything in the virtual host `/`."""

    program = Program("rabbitmq-server", "rabbitmq-server", version_argument="")
    title = "RabbitMQ"
    scheme = "amqp"
    tls_scheme = "amqps"

    _epmd: Child | None = None

    @property
    def version(self) -> str:
        found = next(self._home.glob("plugins/rabbit-*"), None)
        return found.name.removeprefix("rabbit-").removesuffix(".ez") if found else ""

    @property
    def node(self) -> str:
        """Its Erlang node name."""
        return f"tidegate-{self.port}@localhost"

    def write_settings(self) -> None:
        users = self.users or {"guest": "guest"}
        definitions = {
            "vhosts": [{"name": "/"}],
            "users": [
                {
                    "name": name,
                    "password_hash": _hashed(password),
                    "hashing_algorithm": "rabbit_password_hashing_sha256",
                    "tags": [],
                }
                for name, password in users.items()
            ],
            "permissions": [
                {"user": name, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"} for name in users
            ],
        }
        file = self._written("definitions.json", json.dumps(definitions))
        lines = [
            f"listeners.tcp.1 = {HOST}:{self.port}",
            f"load_definitions = {file}",
            "disk_free_limit.absolute = 10MB",
            "log.console.level = warning",
        ]
        if self._tls:
            lines += [f"listeners.ssl.1 = {HOST}:{self.tls_port}", f"ssl_options.certfile = {self._tls.certificate}"]
            lines += [f"ssl_options.keyfile = {self._tls.key}"]
            if ca := self._tls.client_ca:
                lines += [f"ssl_options.cacertfile = {ca}", "ssl_options.verify = verify_peer"]
                lines += ["ssl_options.fail_if_no_peer_cert = true"]
        self._written("rabbitmq.conf", "\n".join([*lines, self._settings, ""]))
        self._written("enabled_plugins", "[].\n")
        self._home_folder.mkdir(exist_ok=True)
        cookie = self._home_folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.touch(mode=0o600)
            cookie.write_text(os.urandom(16).hex())
            cookie.chmod(0o400)
        if root := self._unpacked_erlang:
            self._write_erl(root)

    def command(self, found: FoundProgram) -> Sequence[str]:
        return [str(self._home / "sbin" / "rabbitmq-server")]

    def environment(self) -> Mapping[str, str]:
        settings = {
            "NODENAME": self.node,
            "NODE_PORT": str(self.port),
            "DIST_PORT": str(self._dist_port),
            "CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "CONF_ENV_FILE": str(self.folder / "none"),
            "ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "PLUGINS_DIR": str(self._home / "plugins"),
            "MNESIA_BASE": str(self.data),
            "LOG_BASE": str(self.folder),
            "LOGS": "-",
            "SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
        }
        return {
            **{f"RABBITMQ_{name}": value for name, value in settings.items()},
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the server, without a shell in between
            "HOME": str(self._home_folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_CRASH_DUMP": os.devnull,
            "PATH": os.pathsep.join([str(self._erlang / "bin"), self.found.env.get("PATH", os.environ["PATH"])]),
        }

    def answers(self) -> bool:
        return exchange(self.port, _HEADER)[:1] == b"\x01"  # Connection.Start is a method frame

    def evaluate(self, expression: str) -> str:
        """What the running server says to an Erlang expression that ends with a full stop. Raises `StartError`."""
        call = next((p for p in self._programs("erl_call") if p.exists()), None)
        if call is None:
            raise StartError("can't talk to RabbitMQ: there is no erl_call beside its Erlang")
        cookie = (self._home_folder / ".erlang.cookie").read_text()
        command = [str(call), "-address", f"{HOST}:{self._dist_port}", "-c", cookie, "-timeout", "30", "-e"]
        done = subprocess.run(
            command,
            input=expression + "\n",
            capture_output=True,
            text=True,
            env={**os.environ, **self.found.env, **self.environment()},
            timeout=_CALL_LIMIT_S,
        )
        if done.returncode or not done.stdout.startswith("{ok,"):
            raise StartError(f"RabbitMQ did not take {expression!r}: {(done.stderr or done.stdout).strip()}")
        return done.stdout.removeprefix("{ok,").strip()[:-1].strip()

    def check_ports(self) -> None:
        super().check_ports()
        for i in (1, 2):  # nobody chose them: take others
            if not is_free(self._more_ports[i]):
                self._more_ports[i] = self._more_ports[i + 2] if is_free(self._more_ports[i + 2]) else 0
        if not (self._epmd_port and self._dist_port):
            raise StartError("can't start RabbitMQ: no free ports for Erlang")

    def _begin(self, found: FoundProgram) -> None:
        epmd = next((p for p in self._programs("epmd") if p.exists()), None)
        if epmd is None:
            raise Missing(f"RabbitMQ needs Erlang's epmd, and there is none in {self._erlang}")
        # ours would otherwise be started by the server, and stay for ever
        self._epmd = self._run([str(epmd), "-port", str(self._epmd_port), "-address", HOST])
        super()._begin(found)

    def _ended(self) -> None:
        if self._epmd:
            self._epmd.kill()
            self._epmd = None

    def _wait(self, deadline: float) -> None:
        super()._wait(deadline)
        self._drop_users()  # those of earlier runs, which its data has

    def _users_changed(self) -> None:
        users = self.users or {"guest": "guest"}
        for name, password in users.items():
            known = f"rabbit_auth_backend_internal:exists({_binary(name)})"
            change = f"rabbit_auth_backend_internal:change_password({_binary(name)}, {_binary(password)}, {_BY})"
            add = f"rabbit_auth_backend_internal:add_user({_binary(name)}, {_binary(password)}, {_BY})"
            everything = ", ".join([_binary("/"), *[_binary(".*")] * 3])
            allow = f"rabbit_auth_backend_internal:set_permissions({_binary(name)}, {everything}, {_BY})"
            self.evaluate(f"case {known} of true -> {change}; false -> {add} end, {allow}.")
        self._drop_users()
        self.close_connections()

    def close_connections(self) -> None:
        """Closes all connections, as an operator may; clients may come back."""
        # one that ends between the listing and its turn is refused by an exit of "not a connection pid"
        close = 'try rabbit_networking:close_connection(P, "closed") catch exit:_ -> ok end'
        self.evaluate(f"[{close} || P <- rabbit_networking:connections()], ok.")

    def _drop_users(self) -> None:
        users = ", ".join(map(_binary, self.users or {"guest": "guest"}))
        known = "U <- rabbit_auth_backend_internal:list_users(), N <- [proplists:get_value(user, U)]"
        delete = f"rabbit_auth_backend_internal:delete_user(N, {_BY})"
        self.evaluate(f"[{delete} || {known}, not lists:member(N, [{users}])], ok.")

    @property
    def _epmd_port(self) -> int:
        return self._more_ports[1]

    @property
    def _dist_port(self) -> int:
        return self._more_ports[2]

    @property
    def _home_folder(self) -> Path:
        return self.folder / "home"

    @property
    def _home(self) -> Path:
        """The folder of RabbitMQ itself, with its scripts and plugins."""
        # the command may be a script that changes the user; this file lies beside the real one
        home = (self.found.path.resolve().parent / "rabbitmq-env").resolve().parents[1]
        if (home / "plugins").is_dir():
            return home
        raise Missing(f"no RabbitMQ belongs to {self.found.path}")

    @property
    def _erlang(self) -> Path:
        """The root folder of Erlang, or the folder with our script for one that was unpacked."""
        if self._unpacked_erlang:
            return self.folder / "erlang"
        erl = shutil.which("erl")
        if erl is None:
            raise Missing("RabbitMQ needs Erlang, and there is no erl on PATH")
        return Path(erl).resolve().parents[1]

    @property
    def _unpacked_erlang(self) -> Path | None:
        """The Erlang that was unpacked with RabbitMQ; None if this machine has one of its own."""
        root = self.found.root / "usr/lib/erlang" if self.found.root else None
        return root if root and any(root.glob("erts-*/bin")) else None

    def _programs(self, name: str) -> list[Path]:
        root = self._unpacked_erlang or self._erlang
        return [*root.glob(f"erts-*/bin/{name}"), root / "bin" / name]

    def _write_erl(self, root: Path) -> None:
        folder = self._erlang / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        erl = folder / "erl"
        erl.write_text(_ERL.format(root=root, bin=next(root.glob("erts-*/bin"))))
        erl.chmod(0o755)


_BY = '<<"tidegate">>'


def _hashed(password: str) -> str:
    """As RabbitMQ stores it: a salt of four bytes, and SHA-256 of the salt and the password."""
    salt = os.urandom(4)
    return b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _binary(text: str) -> str:
    """The text as an Erlang binary."""
    return f"<<{','.join(map(str, text.encode()))}>>"
