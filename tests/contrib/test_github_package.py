"""A package of someone else's: installed by pip, found by its entry point, used like the shipped ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("processes")

PACKAGE = Path(__file__).parents[2] / "contrib" / "tidegate-github"

PROGRAM = """
import json, sys
from pathlib import Path
from gateway_cloudevents.bindings import HTTP
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.config.registry import Registry
from gateway_testing import FakeClock

registry = Registry.installed()
context = BuildContext("test", Path(), FakeClock(1_700_000_000), registry)
results = []
for case in json.load(sys.stdin):
    codec = registry.build(CodecRef("github", case["options"]), context)
    headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in case["headers"]]
    body = case["body"].encode("latin-1")
    try:
        [event] = codec.decode(Message(headers, body, method="POST", url="/"))
        assert event.data == body
        # what comes out is a CloudEvent: the shipped codec writes it and reads it back
        shipped = context.build(CodecRef("cloudevents"), binding=HTTP)
        assert shipped.decode(shipped.encode(event)) == [event]
        results.append(event.attributes)
    except Refused as e:
        results.append([e.status, e.detail])
offer = registry.find("codec", "github")
try:
    registry.build(CodecRef("github"), context).encode(Event({}))
except Refused as e:
    results.append([e.status, e.detail])
print(json.dumps({"plugin": offer.plugin, "where": registry.plugins["github"], "results": results}))
"""

URL = "https://api.github.com/repos/octo/hello"
REPOSITORY: dict[str, Any] = {
    "url": URL,
    "name": "hello",
    "updated_at": "2024-05-01T00:00:00Z",
    "owner": {"url": "https://api.github.com/users/octo"},
}
NOW = "2023-11-14T22:13:20.000Z"

# kind, body, then what differs from source URL and time NOW in the event
DELIVERIES: dict[str, tuple[str, dict[str, Any], dict[str, str | None]]] = {
    "pull request": (
        "pull_request",
        {"action": "opened", "number": 7, "pull_request": {"updated_at": "2024-05-02T10:20:30Z"}},
        {"type": "com.github.pull_request.opened", "subject": "7", "time": "2024-05-02T10:20:30Z"},
    ),
    "push": ("push", {"ref": "refs/heads/main"}, {"type": "com.github.push", "subject": "refs/heads/main"}),
    "branch created": (
        "create", {"ref": "v1", "ref_type": "tag"}, {"type": "com.github.create.tag", "subject": "v1"},
    ),
    "check without end": (
        "check_run",
        {"action": "created", "check_run": {"id": 4, "completed_at": None, "started_at": "2024-05-02T10:20:30Z"}},
        {"type": "com.github.check_run.created", "subject": "4", "time": "2024-05-02T10:20:30Z"},
    ),
    "comment on a commit": (
        "commit_comment",
        {"action": "created", "comment": {"id": 1, "url": "https://c", "commit_id": "6d", "updated_at": None}},
        {"type": "com.github.commit_comment.created", "subject": "1", "source": "https://c/6d"},
    ),
    "member of a team": (
        "membership",
        {"action": "added", "scope": "team", "team": {"url": "https://t"}, "member": {"login": "octo"}},
        {"type": "com.github.membership.team.added", "subject": "octo", "source": "https://t"},
    ),
    "deployment status": (
        "deployment_status",
        {"action": "created", "deployment": {"url": "https://d"}, "deployment_status": {"state": "error", "url": "https://s"}},
        {"type": "com.github.deployment_status.error", "subject": "https://s", "source": "https://d"},
    ),
    "release": (
        "release",
        {"action": "published", "release": {"id": 9, "created_at": None, "published_at": "2024-02-02T00:00:00Z"}},
        {"type": "com.github.release.published", "subject": "9", "time": "2024-02-02T00:00:00Z"},
    ),
    "made public": (
        "public", {}, {"type": "com.github.public", "subject": "hello", "time": "2024-05-01T00:00:00Z",
                       "source": "https://api.github.com/users/octo"},
    ),
    "purchase": (
        "marketplace_purchase",
        {"action": "purchased", "sender": {"url": "https://api.github.com/users/octo"},
         "effective_date": "2017-10-25T00:00:00+00:00",
         "marketplace_purchase": {"account": {"login": "o"}}},
        {"type": "com.github.marketplace_purchase.purchased", "subject": "o", "time": "2017-10-25T00:00:00+00:00",
         "source": "https://api.github.com/users"},
    ),
    "advisory": (
        "security_advisory",
        {"action": "published", "repository": None, "security_advisory": {"ghsa_id": "GHSA-1"}},
        {"type": "com.github.security_advisory.published", "subject": "GHSA-1", "source": "github.com"},
    ),
    "star removed": ("star", {"action": "deleted", "starred_at": None}, {"type": "com.github.star.deleted"}),
    "ping, not in the table": ("ping", {"zen": "Speak like a human."}, {"type": "com.github.ping"}),
    "time in Unix seconds": (
        "installation",
        {"action": "created", "installation": {"id": 2, "updated_at": 1525109897, "account": {"url": "https://a"}}},
        {"type": "com.github.installation.created", "subject": "2", "source": "https://a",
         "time": "2018-04-30T17:38:17Z"},
    ),
    "time is no time": (
        "issues",
        {"action": "edited", "issue": {"number": 2, "updated_at": True}},
        {"type": "com.github.issues.edited", "subject": "2"},
    ),
    "seconds that are no time": (
        "issues",
        {"action": "edited", "issue": {"number": 2, "updated_at": 10**15}},
        {"type": "com.github.issues.edited", "subject": "2"},
    ),
    "hostile values": (
        "label",
        {"action": "a b\r\nc", "label": {"name": "x\u0007"}, "repository": {"url": "not a url"}},
        {"type": "com.github.label", "source": "github.com"},
    ),
}  # fmt: skip

SECRET, SIGNED = "It's a Secret to Everybody", "Hello, World!"
# the example of GitHub's page on validating webhook deliveries
SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

REFUSALS: dict[str, tuple[dict[str, str], list[tuple[str, str]], str, int, str]] = {
    "signature missing": ({"secret": SECRET}, [], "{}", 401, "is missing"),
    "signature of another body": ({"secret": SECRET}, [("x-hub-signature-256", SIGNATURE)], "{}", 401, "does not fit"),
    "signature of another secret": ({"secret": "x"}, [("x-hub-signature-256", SIGNATURE)], SIGNED, 401, "does not fit"),
    "signature not ASCII": ({"secret": SECRET}, [("x-hub-signature-256", "\xe9")], SIGNED, 401, "does not fit"),
    "signature right, body no JSON": ({"secret": SECRET}, [("x-hub-signature-256", SIGNATURE)], SIGNED, 400, "JSON"),
    "no kind": ({}, [("x-github-event", "")], "{}", 400, "x-github-event is malformed"),
    "form without payload": ({}, [("content-type", "application/x-www-form-urlencoded")], "a=b", 400, "no field"),
    "form, payload no JSON": ({}, [("content-type", "application/x-www-form-urlencoded")], "payload=1", 400, "JSON"),
    "XML": ({}, [("content-type", "text/xml")], "<a/>", 415, "application/json"),
    "array": ({}, [], "[]", 400, "not a JSON object"),
    "deep": ({}, [], '{"a":' * 100_000, 400, "not a JSON object"),
    "not UTF-8": ({}, [], '{"a":"\xff"}', 400, "not a JSON object"),
}


def _case(kind: str, body: str, options: dict[str, str], extra: list[tuple[str, str]]) -> dict[str, Any]:
    headers = {"x-github-event": kind, "x-github-delivery": "72d3162e-cc78", "content-type": "application/json"}
    return {"options": options, "headers": list({**headers, **dict(extra)}.items()), "body": body}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed."""
    target = tmp_path_factory.mktemp("site")
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *quiet, "--target", target, PACKAGE], check=True, timeout=90
    )
    return target


@pytest.fixture(scope="module")
def answers(target: Path) -> dict[str, Any]:
    """What a fresh process with the package installed says to all cases."""
    cases = [
        _case(kind, json.dumps({"repository": REPOSITORY} | body), {}, []) for kind, body, _ in DELIVERIES.values()
    ]
    cases += [_case("push", body, options, extra) for options, extra, body, _, _ in REFUSALS.values()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(cases),
        env={**os.environ, "PYTHONPATH": str(target)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.spec("CARD-05")
def test_it_is_found_by_its_entry_point(answers: dict[str, Any]) -> None:
    assert (answers["plugin"], answers["where"]) == ("github", "tidegate-github 0.1.0")


@pytest.mark.spec("CARD-01", "CARD-05")
@pytest.mark.parametrize("name", DELIVERIES)
def test_deliveries_become_events(answers: dict[str, Any], name: str) -> None:
    expected: dict[str, str | None] = {
        "specversion": "1.0",
        "id": "72d3162e-cc78",
        "source": URL,
        "datacontenttype": "application/json",
        "time": NOW,
        **DELIVERIES[name][2],
    }
    assert answers["results"][list(DELIVERIES).index(name)] == expected


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_no_delivery_is_refused(answers: dict[str, Any], name: str) -> None:
    status, says = REFUSALS[name][3:]
    found = answers["results"][len(DELIVERIES) + list(REFUSALS).index(name)]
    assert found[0] == status
    assert says in found[1]


def test_it_only_reads(answers: dict[str, Any]) -> None:
    assert answers["results"][-1] == [
        501,
        "the codec github only reads: no one takes events in the form of GitHub webhooks",
    ]


CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0", codec: CODEC}
triggers:
  all: {subscriber: "http://127.0.0.1:9/"}
"""


@pytest.mark.parametrize(
    ("codec", "warned"), [("github", True), ("{github: {}}", True), ('{github: {secret: "x"}}', False)]
)
def test_a_missing_secret_is_a_warning_at_check(target: Path, tmp_path: Path, codec: str, warned: bool) -> None:
    config = tmp_path / "tidegate.yaml"
    config.write_text(CONFIG.replace("CODEC", codec))
    done = subprocess.run(
        [sys.executable, "-m", "gateway_core.cli", "check", str(config)],
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("warning: " in done.stdout and "in GitHub's name" in done.stdout) is warned, done.stdout


def test_the_config_of_the_readme_has_no_faults(target: Path, tmp_path: Path) -> None:
    config = tmp_path / "tidegate.yaml"
    config.write_text((PACKAGE / "README.md").read_text().split("```yaml\n")[1].split("```")[0])
    done = subprocess.run(
        [sys.executable, "-m", "gateway_core.cli", "check", str(config)],
        env={**os.environ, "PYTHONPATH": str(target), "GITHUB_WEBHOOK_SECRET": "x"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
