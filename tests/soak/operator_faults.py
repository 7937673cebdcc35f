"""What an operator does at a bad moment: reloads, pauses, backups, new certificates."""

from __future__ import annotations

import random
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress

import httpx

from tests.soak.world import START_S, World


def reload(world: World, chance: random.Random) -> str:
    with world.configs:
        world.generation += 1
        world.write_configs()
    return f"generation {world.generation}, both gateways"


def bad_reload(world: World, chance: random.Random) -> str:
    with world.configs:
        for gateway in (world.storm, world.steady):
            gateway.config.write_text("brokers: {log: {ingress: [http: {listen: nowhere}]}}\n")
        time.sleep(1)
        world.write_configs()
    return "a config with a fault, then the good one"


def pause(world: World, chance: random.Random) -> str | None:
    def ask(verb: str) -> bool:
        with suppress(httpx.HTTPError, AssertionError, OSError):
            url = f"{world.storm.admin_url}/api/v1/triggers/log-out/{verb}"
            return httpx.post(url, headers=world.storm.admin_headers, timeout=10).status_code == 200
        return False

    seconds = chance.uniform(0.2, 3)
    paused = ask("pause")
    if paused:
        time.sleep(seconds)
    # without an answer the trigger may be paused, too, and a pause survives restarts
    end = time.monotonic() + world.options.recovery_s
    while not ask("resume"):
        if time.monotonic() > end:
            raise TimeoutError("a trigger can't be resumed")
        time.sleep(0.2)
    return f"{seconds:.1f} s" if paused else None


def backup(world: World, chance: random.Random) -> str | None:
    into = world.folder / "backup"
    command = [sys.executable, "-m", "gateway_core.cli", "backup", str(into), "--data-dir", str(world.storm.data_dir)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S)
    size = sum(file.stat().st_size for file in into.rglob("*") if file.is_file()) if into.exists() else 0
    shutil.rmtree(into, ignore_errors=True)
    if ran.returncode not in (0, 1) or "Traceback" in ran.stderr:
        raise AssertionError(f"a backup ended with {ran.returncode}: {ran.stderr}")
    return f"{size / 1e6:.0f} MB" if ran.returncode == 0 else None


def certificates(world: World, chance: random.Random) -> str:
    new = world.renew_certificates()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    end = time.monotonic() + 120
    while True:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", world.ports["tls"]), 5) as plain,
            context.wrap_socket(plain) as secure,
        ):
            if secure.getpeercert(binary_form=True) == new:
                return "renewed, and served"
        if time.monotonic() > end:
            raise AssertionError("the renewed certificate is not served")
        time.sleep(0.1)
