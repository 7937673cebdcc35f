"""Secrets in files change while a gateway runs, and `tidegate check --secrets` lists them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from gateway_core.runtime.rotation import only_secrets_differ
from tests import web
from tests.command_line import tidegate
from tests.ledger import body_of, headers

CONFIG = """
secrets:
  token: {file: FOLDER/volume/token}
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
triggers:
  rotated:
    subscriber:
      http: {url: "URLrotated", headers: {x-token: "Bearer ${secret:token}"}}
  other:
    subscriber: "URLother"
"""


class Volume:
    """A volume as Kubernetes projects a secret: a link `..data` to the folder of this version, replaced by a rename."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        folder.mkdir()
        (folder / "token").symlink_to("..data/token")

    def publish(self, value: str | None) -> None:
        """A new version; None for one without the file."""
        self._number += 1
        version = self._folder / f"..version{self._number}"
        version.mkdir()
        if value is not None:
            (version / "token").write_text(value)
        link = self._folder / "..link"
        link.symlink_to(version.name)
        link.replace(self._folder / "..data")


@pytest.mark.spec("SE-01")
@pytest.mark.usefixtures("processes")
def test_a_changed_secret_is_used_without_a_restart(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "volume")
    volume.publish("first-value")
    with Subscriber() as s:
        text = CONFIG.replace("FOLDER", str(tmp_path)).replace("URL", s.url)
        with GatewayProcess(text, tmp_path) as gateway:
            number = 0

            def sent_token() -> str:
                nonlocal number
                number += 1
                assert web.post(
                    gateway.ingress(), content=body_of(number), headers=headers(number), verify=False
                ).is_success
                gateway.wait_until(lambda: len([r for r in s.requests if r.path == "/rotated"]) == number)
                return [r.headers["x-token"] for r in s.requests if r.path == "/rotated"][-1]

            def generation() -> int:
                return int(gateway.status()["config"]["generation"])

            assert sent_token() == "Bearer first-value"
            volume.publish("second-value\n")
            gateway.wait_until(lambda: generation() == 2, 60, "the second secret")
            assert sent_token() == "Bearer second-value"
            for broken, said in (("", "is empty"), (None, "can't be read: No such file")):
                volume.publish(broken)
                gateway.wait_until(lambda said=said: said in (gateway.status()["config"]["error"] or ""), 30, said)
                assert sent_token() == "Bearer second-value"
            volume.publish("third-value")
            gateway.wait_until(lambda: generation() == 3, 60, "the third secret")
            assert gateway.status()["config"]["error"] is None
            assert sent_token() == "Bearer third-value"
            assert gateway.stop() == 0
            log = gateway.stderr.read_text()
    assert log.count('"config reloaded: changed triggers rotated"') == 2
    assert log.count("volume/token is empty") == log.count("volume/token can't be read") == 1
    assert "-value" not in log


CHANNEL = """
secrets:
  password: {file: password}
brokers:
  default:
    channel:
      kafka:
        bootstrap: KAFKA
        sasl: {mechanism: PLAIN, username: gateway, password: "${secret:password}"}
"""


@pytest.mark.slow
@pytest.mark.spec("SE-01")
def test_a_channel_differs_by_secrets_alone_or_by_more(tmp_path: Path) -> None:
    def channel(password: str, servers: str) -> object:
        (tmp_path / "password").write_text(password)
        (tmp_path / "c.yaml").write_text(CHANNEL.replace("KAFKA", servers))
        return load([tmp_path / "c.yaml"], Registry.installed()).brokers["default"].channel

    old = channel("one", "a:9092")
    assert old != channel("two", "a:9092")
    assert only_secrets_differ(old, channel("two", "a:9092"))
    assert not only_secrets_differ(old, channel("one", "b:9092"))
    assert not only_secrets_differ(old, channel("two", "b:9092"))


LISTED = """
secrets:
  here: {env: HERE}
  there: {file: folder/there}
  gone: {env: GONE}
  empty: {file: empty}
  unused: {env: HERE}
  odd: {}
brokers:
  default:
    ingress: [http: {listen: "127.0.0.1:0"}]
triggers:
  one:
    subscriber: {http: {url: "http://127.0.0.1:1", headers: {a: "${secret:here}", b: "${secret:there} ${secret:gone}"}}}
  two:
    subscriber: "http://127.0.0.1:1/${secret:here}/${secret:empty}"
"""


@pytest.mark.slow
@pytest.mark.spec("SE-02")
def test_check_lists_secrets_without_their_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "quite-secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "there").write_text("as-secret")
    (tmp_path / "empty").write_text("\n")
    config = tmp_path / "c.yaml"
    config.write_text(LISTED)
    ran = tidegate("check", config, "--secrets", "--json")
    shown = tidegate("check", config, "--secrets")
    assert ran.returncode == shown.returncode == 1
    rows = {row.pop("name"): row for row in json.loads(ran.stdout)["secrets"]}
    header = "triggers.one.subscriber.http.headers"
    assert rows == {
        "here": {"origin": "env HERE", "missing": "", "ok": True, "uses": [f"{header}.a", "triggers.two.subscriber"]},
        "there": {"origin": f"file {tmp_path}/folder/there", "missing": "", "ok": True, "uses": [f"{header}.b"]},
        "gone": {
            "origin": "env GONE",
            "missing": "the environment variable `GONE` isn't set",
            "ok": False,
            "uses": [f"{header}.b"],
        },
        "empty": {
            "origin": f"file {tmp_path}/empty",
            "missing": "the file empty is empty",
            "ok": False,
            "uses": ["triggers.two.subscriber"],
        },
        "unused": {"origin": "env HERE", "missing": "", "ok": True, "uses": []},
        "odd": {"origin": "-", "missing": "a secret has either `env` or `file`", "ok": False, "uses": []},
    }
    assert "MISSING  gone    env GONE" in shown.stdout
    assert "unused  env HERE" in shown.stdout
    for text in (ran.stdout, shown.stdout):
        assert "quite-secret" not in text
        assert "as-secret" not in text


@pytest.mark.slow
@pytest.mark.spec("SE-02")
def test_an_unused_secret_that_is_missing_sets_the_exit_code_only_if_it_is_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("secrets: {a: {env: NOT_SET_ANYWHERE}}\nbrokers: {default: {ingress: [http]}}\n")
    assert tidegate("check", config).returncode == 0
    assert tidegate("check", config, "--secrets").returncode == 1
    config.write_text("brokers: {default: {ingress: [http]}}\n")
    assert "the config has no secrets" in tidegate("check", config, "--secrets").stdout
