"""Config files: any text is a config, or a `ConfigError` whose faults say what is wrong."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.faults import render
from tests.fuzz.checks import check_plain

REGISTRY = Registry.installed()
_MEMORY = Path("/dev/shm")
_FOLDER = tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)
FILE = Path(_FOLDER.name) / "main.yaml"


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    if b"include" in data or b"file" in data:
        return  # other files are not ours to read
    FILE.write_bytes(data)
    try:
        load_all([FILE], REGISTRY, {"NAME": "value"})
    except ConfigError as e:
        error = e
    else:
        return
    assert error.faults
    text = render(error.faults)
    assert all(fault.message for fault in error.faults)
    check_plain(text)


_CONFIGS = Path(__file__).parents[1] / "config"
SEEDS = [
    *(file.read_bytes() for file in sorted(_CONFIGS.glob("faults/*/main.yaml")) if file.stat().st_size < 4000),
    b"brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0', path: /}}]}}\n",
    b"triggers: {a: {filter: {type: t, any: [{prefix: {source: /s}}, {not: {id: '1'}}]}, subscriber: stdout}}\n",
    b"apiVersion: eventing.knative.dev/v1\nkind: Trigger\nmetadata: {name: t}\nspec: {broker: default}\n",
    b"tests: {one: {send: [{type: t}], expect: {a: 1}}}\n",
    b"secrets: {a: '${NAME}'}\nrefs: {r: 'http://h/'}\n",
    b"bridges: {b: {from: {kafka: {topics: [t], servers: h}}, to: stdout}}\n",
]
WORDS = [
    *(b"brokers:", b"triggers:", b"bridges:", b"refs:", b"secrets:", b"observers:", b"tests:", b"subscriber: stdout"),
    *(b"filter:", b"delivery:", b"ingress:", b"http:", b"kafka:", b"retry: ", b"&a ", b"*a", b"<<: *a", b"${NAME}"),
    *(b"!!binary ", b"!x ", b"---\n", b"...\n", b"\n  ", b"- ", b"? ", b": ", b"|\n", b">-\n", b"[", b"]", b"{", b"}"),
    *(b"0x1f", b"1_000", b".inf", b".nan", b"2001-12-14t21:59:43.10-05:00", b"null", b"~", b"yes", b"\t", b"${", b"'"),
]  # fmt: skip
