"""Nothing that holds a secret ever shows it: random secrets in every option of every shipped component.

`EXAMPLES` has options for each component that can hold a credential; a test asks for those that are new.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import pytest
from gateway_api.shown import shown
from gateway_inspect.explain import explain
from gateway_inspect.graph.svg import svg
from gateway_inspect.graph.text import dot, mermaid
from gateway_inspect.graph.topology import topology
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gateway_core.config.registry import Registry
from gateway_core.contract.capabilities import Connecting
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, ComponentRef
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.event import Event
from gateway_core.pipeline.infos import source_states
from gateway_core.runtime.offline import OfflineRegistry, build_with
from tests.budget import examples
from tests.installed import REGISTRY

pytestmark = pytest.mark.spec("SE-03")

CREDENTIAL = re.compile(r"(^|_)(password|passwd|secret|secrets|token|tokens|key|keys|headers|conf|url|jwks)$")
"""Names of options that hold a credential, or may."""
NO_CREDENTIAL = {
    "order_key", "routing_key", "dead_letter_routing_key", "public_url",
    "key",  # a key mapper
}  # fmt: skip

KEY = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
WEBHOOK = "whsec_" + b64encode(b"k" * 32).decode()
OAUTH2 = {
    "oauth2": {"token_url": "http://127.0.0.1:1/token?key=x", "client_id": "client", "client_secret": "client-secret"}
}
SASL = {"mechanism": "PLAIN", "username": "user-name", "password": "pass-word"}
OAUTH = {
    "mechanism": "OAUTHBEARER",
    "oauth": {
        "token_url": "http://127.0.0.1:1/token",
        "client_id": "c",
        "client_secret": "client-secret",
        "scope": "s",
    },
}
TLS = {"key_password": "key-password"}
NATS: list[dict[str, Any]] = [
    {"user": "user-name", "password": "pass-word"},
    {"token": "to-ken"},
]
REDIS = {
    "username": "user-name",
    "password": "pass-word",
    "sentinel": {"service": "svc", "nodes": "127.0.0.1:1", "username": "sentinel-user", "password": "sentinel-word"},
}
MQTT = {"server": "127.0.0.1:1", "username": "user-name", "password": "pass-word"}
WEBSOCKET: list[dict[str, Any]] = [
    {"listen": "127.0.0.1:0", "path": "/ws", "token": "to-ken-to-ken-to-ken"},
    {"url": "ws://127.0.0.1:1/feed?token=x", "headers": {"authorization": "Bearer to-ken", "x-own": "other"}},
    {"url": "ws://127.0.0.1:1/feed", "credentials": OAUTH2},
]
EXAMPLES: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("authenticator", "hmac"): [{"header": "x-signature", "secrets": ["signing-secret"]}],
    ("authenticator", "standard_webhooks"): [{"secrets": [WEBHOOK]}],
    ("authenticator", "oidc"): [
        {"issuer": "https://127.0.0.1:1", "audience": "tidegate", "jwks_url": "https://127.0.0.1:1/keys?token=x"}
    ],
    ("channel", "jetstream"): NATS,
    ("channel", "kafka"): [{"sasl": SASL, "tls": TLS}, {"sasl": OAUTH}],
    ("dead_letter", "deadletter"): [{"encrypt": {"keys": [KEY]}}],
    ("sink", "http"): [
        {"url": "http://127.0.0.1:1/a?token=x", "headers": {"authorization": "Bearer to-ken", "x-api-key": "to-ken"}},
        {"url": "http://user:pass-word@127.0.0.1:1/a", "client": "httpx"},
        {"url": "http://127.0.0.1:1/a", "credentials": {"hmac": {"header": "x-s", "secrets": ["signing-secret"]}}},
        {"url": "http://127.0.0.1:1/a", "credentials": {"standard_webhooks": {"secrets": [WEBHOOK]}}},
        {"url": "http://127.0.0.1:1/a", "credentials": OAUTH2},
    ],
    ("sink", "kafka"): [{"topic": "t", "sasl": SASL, "tls": TLS}, {"topic": "t", "sasl": OAUTH}],
    ("sink", "mqtt"): [{"topic": "t", **MQTT}],
    ("sink", "nats"): [{"subject": "s", **credentials} for credentials in NATS],
    ("sink", "pull"): [{"listen": "127.0.0.1:0", "token": "to-ken-to-ken-to-ken"}],
    ("sink", "rabbitmq"): [{"queue": "q", "username": "user-name", "password": "pass-word"}],
    ("sink", "redis"): [{"stream": "s", **REDIS}],
    ("sink", "spark"): [{"path": "table", "conf": {"spark.hadoop.fs.s3a.secret.key": "secret-key"}}],
    ("sink", "websocket"): WEBSOCKET,
    ("source", "kafka"): [{"topic": "t", "sasl": SASL, "tls": TLS}, {"topic": "t", "sasl": OAUTH}],
    ("source", "mqtt"): [{"topic": "t", **MQTT}],
    ("source", "nats"): [{"subject": "s", **credentials} for credentials in NATS],
    ("source", "rabbitmq"): [{"queue": "q", "username": "user-name", "password": "pass-word"}],
    ("source", "redis"): [{"stream": "s", **REDIS}],
    ("source", "websocket"): WEBSOCKET,
}
EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"{}", json_data=True)

Step = str | int


def whole(kind: str, name: str, options: Any) -> dict[str, Any]:
    """A config with the component in its place."""
    ref = {name: options}
    broker: dict[str, Any] = {"ingress": [{"http": {"listen": "127.0.0.1:0"}}]}
    trigger: dict[str, Any] = {"subscriber": "http://127.0.0.1:1/"}
    match kind:
        case "source":
            broker["ingress"] = [ref]
        case "channel" | "dead_letter":
            broker[kind] = ref
        case "sink":
            trigger["subscriber"] = ref
        case "authenticator":
            broker["ingress"][0]["http"]["authenticate"] = [ref]
        case _:
            raise AssertionError(kind)
    return {"brokers": {"default": broker}, "triggers": {"t": trigger}}


def leaves(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], str]]:
    """The texts in options, with their places."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))
    elif isinstance(value, str):
        yield path, value


def planted(options: Any, path: tuple[Step, ...], text: str) -> Any:
    """The options with another text at a place."""
    changed = deepcopy(options)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = text
    return changed


def forms(secret: str) -> set[str]:
    """The secret as it may stand in a text: as it is, escaped, and inside of something encoded."""
    raw = secret.encode()
    return {
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret),
        quote(secret, safe=""),
        raw.hex(),
        *(b64encode(b"x" * n + raw)[4 if n else 0 : -4].decode() for n in range(3)),
    }


def assert_hidden(secret: str, what: str, text: str) -> None:
    for form in forms(secret):
        assert form not in text, f"{what} shows it: {text}"


def credentials(model: type[BaseModel], seen: tuple[type, ...] = ()) -> Iterator[str]:
    """The names of options of a model, and of those inside, that hold text and are named like credentials."""
    for name, info in model.model_fields.items():
        inner = list(_models(info.annotation))
        for one in inner:
            if one not in seen:
                yield from credentials(one, (*seen, one))
        text = "str" in str(info.annotation).lower() and not inner
        if text and CREDENTIAL.search(name) and name not in NO_CREDENTIAL:
            yield info.alias or name


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def test_every_option_that_can_hold_a_credential_has_an_example() -> None:
    missing = []
    for offer in Registry.installed().offers():
        kind, name = offer.kind, offer.component.name
        config = offer.component.model
        named = {
            str(step) for options in EXAMPLES.get((kind, name), ()) for path, _ in leaves(options) for step in path
        }
        if isinstance(config, type) and issubclass(config, BaseModel):
            missing += [f"{kind} {name}: {option}" for option in credentials(config) if option not in named]
    assert missing == [], "add them to EXAMPLES"


@pytest.mark.slow
def test_the_examples_are_valid(tmp_path: Path) -> None:
    for (kind, name), all_ in EXAMPLES.items():
        for options in all_:
            seen = _seen(tmp_path, whole(kind, name, options), {})
            assert "explain" in seen, (kind, name, seen)
            assert kind == "authenticator" or f"address {name}" in seen, (kind, name, seen)


SECRETS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=12, max_size=40)
ODD = st.text('abcXYZ019-_"\\%&=+/ üß$', min_size=12, max_size=40).filter(lambda text: text == text.strip())
CASES = [
    pytest.param(kind, name, options, id=f"{kind}-{name}-{number}")
    for (kind, name), all_ in EXAMPLES.items()
    for number, options in enumerate(all_)
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "options"), CASES)
@given(secret=SECRETS | ODD)
@examples(2)
def test_a_secret_in_any_option_is_not_shown(
    kind: str, name: str, options: dict[str, Any], secret: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "secrecy"
    folder.mkdir(exist_ok=True)
    for path, text in leaves(options):
        if path[-1] == "server":
            continue  # where a host is, shows
        if text in (KEY, WEBHOOK):
            secret = b64encode(secret.encode().ljust(32, b"k")[:32]).decode()
        for value in (secret, text + secret):
            config = whole(kind, name, planted(options, path, "${secret:planted}"))
            config["secrets"] = {"planted": {"env": "PLANTED"}}
            seen = _seen(folder, config, {"PLANTED": value})
            for what, shown_text in seen.items():
                assert_hidden(secret, f"{what} ({'.'.join(map(str, path))})", shown_text)


@pytest.mark.parametrize(("kind", "name", "options"), CASES)
@given(secret=SECRETS)
@examples(1)
def test_a_credential_in_clear_is_not_shown(
    kind: str, name: str, options: dict[str, Any], secret: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "secrecy"
    folder.mkdir(exist_ok=True)
    for path, text in leaves(options):
        option = next(step for step in reversed(path) if isinstance(step, str))
        if not (CREDENTIAL.search(option) or {"headers", "conf"} & set(path)) or option in ("url", "token_url"):
            continue
        if option == "x-own":
            continue  # nothing tells that this is one
        if text in (KEY, WEBHOOK):
            secret = b64encode(secret.encode().ljust(32, b"k")[:32]).decode()
        seen = _seen(folder, whole(kind, name, planted(options, path, secret)), {})
        for what, shown_text in seen.items():
            assert_hidden(secret, f"{what} ({'.'.join(map(str, path))})", shown_text)


def _seen(folder: Path, config: dict[str, Any], env: dict[str, str]) -> dict[str, str]:
    """What the gateway and its commands say of a config."""
    registry = REGISTRY
    file = folder / "c.yaml"
    file.write_text(json.dumps(config))
    try:
        loaded = load_all([file], registry, env)
    except ConfigError as e:
        return {"fault": str(e) + "".join(map(repr, e.faults))}
    found = {"config": repr(loaded.config), "warnings": repr(loaded.warnings) + "".join(map(str, loaded.warnings))}
    found["repr"] = "".join(repr(ref.options) + str(ref.options) for ref in _refs(loaded.config))
    sections = (loaded.config.brokers, loaded.config.triggers)
    found["get"] = json.dumps([shown(entry) for section in sections for entry in section.values()], ensure_ascii=False)
    options: list[Any] = [ref.options for ref in _refs(loaded.config)]
    found["ends"] = " ".join(one.end for one in options if isinstance(one, Connecting))
    try:
        built = build_with(loaded.config, OfflineRegistry(registry), SystemClock())
    except Exception as e:
        found["staged"] = f"{type(e).__name__}: {e}"
        return found
    drawn = topology(loaded.config, built)
    found["graph"] = "\n".join((svg(drawn), dot(drawn), mermaid(drawn), json.dumps(drawn.document(), default=str)))
    states = [state for broker in built.brokers.values() for state in source_states(broker.bound_sources)]
    found["status"] = repr(states)
    found["explain"] = json.dumps(explain(built, EVENT), default=str)
    context = BuildContext("t", folder, SystemClock(), registry, broker="default")
    for ref in _refs(loaded.config):
        try:
            component = registry.build(ref, context)
        except Exception as e:
            found[f"build {ref.name}"] = f"{type(e).__name__}: {e}"
            continue
        found[f"address {ref.name}"] = f"{getattr(component, 'address', '')} {component!r}"
    return found


def _refs(value: Any) -> Iterator[ComponentRef]:
    if isinstance(value, ComponentRef):
        yield value
        yield from _refs(value.options)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _refs(getattr(value, name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _refs(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _refs(inner)
