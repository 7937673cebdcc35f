"""A gateway on a machine whose name server answers for one name: `python -m tests.e2e.silent_names FOLDER WORKERS`, in
network, mount and user namespaces of its own. Prints what happened, as JSON."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.ledger import headers

from .one_trigger import broker
from .test_workers import both

EVENTS = 20
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


def loopback_up() -> None:
    """A new network namespace has a loopback interface, but down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP))


class NameServer:
    """The one of these namespaces, with files in `folder`; about names that begin with "silent" it says nothing."""

    def __init__(self, folder: Path) -> None:
        self.asked_in_vain = threading.Event()
        for file, text in (("resolv.conf", "nameserver 127.0.0.1\n"), ("nsswitch.conf", "hosts: files dns\n")):
            (folder / file).write_text(text)
            if os.path.exists(f"/etc/{file}"):
                subprocess.run(["mount", "--bind", folder / file, f"/etc/{file}"], check=True)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        # RFC 1035, section 4: a header of 12 bytes, then the question: labels, a zero, type and class
        while True:
            query, sender = self._socket.recvfrom(512)
            end = query.index(0, 12) + 5
            if query[13:].startswith(b"silent"):
                self.asked_in_vain.set()
                continue
            is_a = query[end - 4 : end - 2] == b"\0\1"
            address = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\x04\x7f\0\0\1" if is_a else b""
            head = query[:2] + b"\x81\x80\0\1" + bytes([0, is_a]) + b"\0\0\0\0"
            self._socket.sendto(head + query[12:end] + address, sender)


def post(gateway: GatewayProcess, kind: str) -> None:
    """Sends `EVENTS` of this type."""
    for number in range(EVENTS):
        web.post(gateway.ingress(), headers=headers(number) | {"ce-type": kind}).raise_for_status()


def main() -> None:
    folder, workers = Path(sys.argv[1]), sys.argv[2]
    loopback_up()
    names = NameServer(folder)
    with Subscriber() as subscriber:
        port = subscriber.url.rpartition(":")[2]
        triggers = [
            f"  {name}: {{filter: {{type: {name[:6]}}}, subscriber: 'http://{name}.example:{port}'}}\n"
            for name in ("silent-1", "silent-2", "silent-3", "silent-4", "known")
        ]
        config = broker() + "".join(triggers)
        with GatewayProcess(config, folder, None, "--workers", workers, "--drain-timeout-s", "1") as gateway:
            if workers == "2":
                gateway.wait_until(lambda: both(gateway), what="two workers")
            post(gateway, "silent")
            assert names.asked_in_vain.wait(60)
            post(gateway, "known")
            gateway.wait_until(lambda: gateway.trigger("known")["delivered"] == EVENTS, what="the known name")
            status = gateway.status()
            print(json.dumps({"triggers": status["triggers"], "code": gateway.stop()}))


if __name__ == "__main__":
    main()
