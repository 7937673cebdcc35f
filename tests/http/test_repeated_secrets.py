"""A subscriber that repeats what it got brings no secret of the config into a dead letter."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest
from gateway_options.secrecy import without
from gateway_testing.process import GatewayProcess
from gateway_testing.subscriber import Answer, Received, Subscriber

from tests import web

CREDENTIAL = "Bearer sesame-open-4711"  # planted, to look for


def repeat(request: Received) -> Answer:
    said = f"you sent {request.headers['authorization']} and {request.headers['x-api-key']}"
    return 400, {"content-type": "text/plain"}, said.encode()


@pytest.mark.spec("HM-16")
@pytest.mark.usefixtures("processes")
def test_no_dead_letter_has_a_secret_that_the_subscriber_repeats(tmp_path: Path) -> None:
    with Subscriber(decide=repeat) as subscriber:
        headers = f'{{authorization: "{CREDENTIAL}", x-api-key: "key-0815-key"}}'
        text = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\ntriggers:\n'
        for client in ("native", "httpx"):
            sink = f'{{http: {{url: "{subscriber.url}", client: {client}, headers: {headers}}}}}'
            text += f"  {client}: {{broker: default, delivery: {{retry: 0}}, subscriber: {sink}}}\n"
        with GatewayProcess(text, tmp_path) as gateway:
            event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
            media = {"content-type": "application/cloudevents+json"}
            web.post(gateway.ingress(), json=event, headers=media, verify=False).raise_for_status()
            gateway.wait_until(lambda: sum(t["dead_lettered"] for t in gateway.status()["triggers"]) == 2)
        (file,) = (gateway.data_dir / "dead-letter").glob("*.jsonl")
        letters = [json.loads(line) for line in file.read_text().splitlines()]
        answers = [b64decode(letter["event"]["knativeerrordata"]).decode() for letter in letters]
        assert answers == ["you sent **** and ****"] * 2


def test_a_secret_that_is_cut_at_the_end_goes_too() -> None:
    assert without([b"sesame-open"], b"it was sesame-o") == b"it was ****"
    assert without([b"sesame-open"], b"it was ses") == b"it was ses"
    assert without([], b"sesame-open") == b"sesame-open"
