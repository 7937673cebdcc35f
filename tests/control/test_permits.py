"""What a trigger that comes by the API may reach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway_admin.link_local import is_metadata_host
from gateway_admin.permits import COMPONENTS, Permits, PermitsConfig
from gateway_file.config import FileConfig
from gateway_testing import GatewayProcess

from gateway_core.config.registry import Registry
from gateway_core.contract.component import SinkRef
from gateway_core.contract.config_model import TriggerConfig
from tests import web

CONFIG = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
secrets: {key: {env: THE_KEY}, other: {env: OTHER}}
apply: {allow: {folders: [FOLDER], environment: [ALLOWED], secrets: [key]}}
"""
ENV = {"THE_KEY": "hush-hush", "OTHER": "s3cret", "ALLOWED": "here", "PRIVATE": "pr1vate"}
TO = "http://127.0.0.1:9/"

MANIFEST = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: bad}
spec: {broker: default, subscriber: {uri: "http://127.0.0.1:9/${PRIVATE}"}}
"""
ATTACKS = {
    "environment in a URL": "subscriber: 'http://127.0.0.1:9/${PRIVATE}'",
    "environment as a value": "subscriber: http://127.0.0.1:9/\ndelivery:\n  retry: ${PRIVATE}",
    "environment with a default": "subscriber: 'http://127.0.0.1:9/${PRIVATE:-x}'",
    "environment behind an alias": "filter: {a: &a '${PRIVATE}', b: *a}\nsubscriber: http://127.0.0.1:9/",
    "a secret": "subscriber: {http: {url: 'http://127.0.0.1:9/', headers: {x: '${secret:other}'}}}",
    "a file": "subscriber: {file: {path: VICTIM}}",
    "a file by another way": "subscriber: {file: {path: FILES/../victim.txt}}",
    "a file by a link": "subscriber: {file: {path: FILES/link/victim.txt}}",
    "a file as dead letter": "subscriber: http://127.0.0.1:9/\ndead_letter: {deadletter: {path: VICTIM}}",
    "a key file": "subscriber: {http: {url: 'https://127.0.0.1:9/', tls: {ca_file: VICTIM}}}",
    "a token file": "subscriber: {kafka: {topic: t, sasl: {mechanism: OAUTHBEARER, oauth: {token_file: VICTIM}}}}",
    "a token file to send": "subscriber: {http: {url: 'http://h/', credentials: {bearer_file: {path: VICTIM}}}}",
    "code": "subscriber: {spark: {path: /tmp/x, conf: {spark.jars: 'http://h/'}}}",
    "a port": "subscriber: {websocket: {listen: '0.0.0.0:0', anonymous: true}}",
    "another port": "subscriber: {pull: {listen: '0.0.0.0:0', anonymous: true}}",
    "the machine's credentials": "subscriber: http://169.254.169.254/latest/meta-data",
    "the same in a function": "subscriber: {fn: {function: 'http://[::ffff:169.254.169.254]/'}}",
}


@pytest.mark.spec("AD-07")
@pytest.mark.usefixtures("processes")
def test_an_admin_of_the_api_does_not_become_the_gateways_user(tmp_path: Path) -> None:
    files = tmp_path / "data/files"
    files.mkdir(parents=True)
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    (files / "link").symlink_to(tmp_path)
    with GatewayProcess(CONFIG.replace("FOLDER", str(tmp_path / "out")), tmp_path, ENV) as gateway:
        headers = {**gateway.admin_headers, "content-type": "application/yaml"}
        options: dict[str, Any] = {"base_url": gateway.admin_url, "headers": headers, "timeout": 30}
        with web.client(**options, trust_env=False, verify=False) as client:
            for name, text in ATTACKS.items():
                text = text.replace("VICTIM", str(victim)).replace("FILES", str(files))
                refused = client.put("/api/v1/triggers/bad", content=text)
                assert refused.status_code == 403, (name, refused.text)
                document = refused.json()
                assert document["detail"] == "an applied trigger may not reach this; nothing was changed"
                (fault,) = document["faults"][:1]
                assert fault["path"], name
                assert fault["line"] >= 1, name
                assert fault["remedy"], name
                inside = f"triggers:\n  bad:\n    {text.replace(chr(10), chr(10) + '    ')}\n"
                assert client.post("/api/v1/apply", content=inside).status_code == 403, name
            assert client.post("/api/v1/apply", content=MANIFEST).status_code == 403
            as_json = {"subscriber": "http://127.0.0.1:9/${PRIVATE}"}
            refused = client.put("/api/v1/triggers/bad", json=as_json, headers={"content-type": "application/json"})
            assert refused.status_code == 403
            good = {
                "a": f"subscriber: {{file: {{path: {files}/a.jsonl}}}}",
                "b": f"subscriber: {{file: {{path: {tmp_path}/out/b.jsonl}}}}",
                "c": f"subscriber: '{TO}${{ALLOWED}}'",
                "d": f"subscriber: {{http: {{url: '{TO}', headers: {{x: '${{secret:key}}'}}}}}}",
                "e": f"subscriber: '{TO}'\nfilter: {{type: '$${{PRIVATE}}'}}",
                "f": f"subscriber: '{TO}'\nfilters: [data: {{a.b: [{{gt: 1}}, null]}}]",
            }
            for name, text in good.items():
                made = client.put(f"/api/v1/triggers/{name}", content=text)
                assert made.status_code == 201, (name, made.text)
        assert victim.read_text() == "precious"
        assert "bad" not in {t["name"] for t in gateway.status()["triggers"]}
        assert "pr1vate" not in gateway.log()
        lines = [json.loads(line) for line in (gateway.data_dir / "audit/audit.jsonl").read_text().splitlines()]
    assert {line["result"] for line in lines if line.get("name") in good} == {"done"}
    assert sum(line["result"] == "denied" and line["what"] == "trigger.apply" for line in lines) >= len(ATTACKS)


@pytest.mark.spec("AD-09")
@pytest.mark.usefixtures("processes")
def test_what_was_applied_before_obeys_the_same_rule(tmp_path: Path) -> None:
    applied = tmp_path / "data/applied"
    applied.mkdir(parents=True)
    subscriber = f"{{file: {{path: {tmp_path}/out/x.jsonl}}}}"
    text = f"triggers:\n  old:\n    subscriber: {subscriber}\n    filter: {{a: '${{HOME}}'}}\n"
    (applied / "old.yaml").write_text(text)
    config = CONFIG.replace("FOLDER", str(tmp_path / "elsewhere"))
    gateway = GatewayProcess(config, tmp_path, ENV)
    with pytest.raises(AssertionError, match="the gateway ended with 1:"):
        gateway.start()
    log = gateway.log()
    assert f"{applied}/old.yaml" in log
    assert f"may not use the file {tmp_path}/out/x.jsonl" in log
    assert f"apply: {{allow: {{folders: [{tmp_path}/out]}}}}" in log
    assert "may not use the environment variable `HOME`" in log
    assert not (tmp_path / "out").exists()
    gateway.config.write_text(CONFIG.replace("FOLDER", str(tmp_path / "out")).replace("ALLOWED", "HOME"))
    gateway.start()
    with gateway:
        assert [t["name"] for t in gateway.status()["triggers"]] == ["old"]


@pytest.mark.spec("AD-08")
def test_every_shipped_component_is_decided_on() -> None:
    closed: dict[str, set[str]] = {}
    for offer in Registry.installed().offers():
        kind = "sink" if offer.kind == "dead_letter" else offer.kind
        if kind not in ("sink", "client", "codec", "filter", "key_mapper"):
            continue
        name, options = offer.component.name, offer.component.model.model_fields
        allowed = COMPONENTS[kind].get(name)
        if allowed is None:
            closed[f"{kind} {name}"] = {"*"}
        elif "*" not in allowed and (rest := options.keys() - allowed):
            closed[f"{kind} {name}"] = rest
    assert closed == {
        "sink pull": {"*"},
        "sink spark": {"*"},
        "sink websocket": {"anonymous", "hosts", "listen", "origins", "path", "tls", "limits"},
    }, "decide whether an applied trigger may use it (gateway_admin.permits)"


@pytest.mark.spec("AD-08")
def test_a_component_of_another_plugin_is_closed_until_it_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "files/x"
    trigger = TriggerConfig(subscriber=SinkRef("s3", options=FileConfig(path=path)))
    at = ("triggers", "t")
    (found,) = Permits(None, tmp_path).faults(trigger, at)
    assert (found.message, found.place) == ("a trigger that is applied may not use the sink `s3`", (*at, "subscriber"))
    assert list(Permits(PermitsConfig(components=["s3"]), tmp_path).faults(trigger, at)) == []
    (found,) = Permits(PermitsConfig(components=["s3"]), tmp_path / "else").faults(trigger, at)
    assert "may not use the file" in found.message


@pytest.mark.spec("AD-07")
def test_addresses_of_metadata_services_in_every_spelling() -> None:
    inside = [
        *("http://169.254.169.254/", "https://user:x@169.254.169.254:80", "http://2852039166/", "http://0xA9FEA9FE/x"),
        *("http://169.254.43518/", "http://[fe80::1]/", "http://[fe80::1%25eth0]:1/", "http://[::ffff:a9fe:a9fe]/"),
        *("http://[fd00:ec2::254]/", "http://metadata.google.internal./", "h:1,169.254.1.1:9092", "169.254.1.1"),
        *("http://100.100.100.200/", "nats://0251.0376.0251.0376:1", "http://METADATA/"),
        *("http://x\\@169.254.169.254/", "http://169.254.169.254\\@x/", "http://%31%36%39.254.169.254/"),
        *("http://[64:ff9b::a9fe:a9fe]/", "http://[::169.254.169.254]/", "http://[2002:a9fe:a9fe::1]/"),
        *(
            "http://[::ffff:0:169.254.169.254]/",
            "nats://\u2460\u2465\u2468.254.169.254",
            "169\u3002254\u3002169\u3002254:1",
        ),
    ]
    outside = ["http://example.com/169.254.169.254", "orders", "", "10.0.0.1:9092", "http://[::1]/"]
    assert [text for text in inside if not is_metadata_host(text)] == []
    assert [text for text in outside if is_metadata_host(text)] == []
