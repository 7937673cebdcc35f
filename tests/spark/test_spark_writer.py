"""Writing events from Spark to a gateway's ingress."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme
from gateway_spark.errors import SparkFault
from gateway_spark.writer import jsontext
from gateway_spark.writer.outgoing import Outgoing, check, events, is_value
from gateway_spark.writer.posting import Target, wait_s
from gateway_spark.writer.writing import Sender
from gateway_testing import GatewayProcess, Subscriber

from gateway_core.contract import backoff
from gateway_core.contract.config_model import DeliveryConfig

BASE = {"id": "1", "source": "/s", "type": "t"}
BATCH = "application/cloudevents-batch+json"


def row(**columns: Any) -> Outgoing:
    """The event of one row; a value may be an Arrow array where its type matters."""
    arrays = {n: v if isinstance(v, pa.Array) else pa.array([v]) for n, v in {**BASE, **columns}.items()}
    (found,) = events(pa.record_batch(arrays))
    return found


def many(count: int, size: int = 10) -> list[Outgoing]:
    return [Outgoing({"specversion": "1.0", **BASE, "id": str(n)}, b"x" * size, False) for n in range(count)]


def send(target: Target, *outgoing: Outgoing, size: int = 500) -> Sender:
    sender = Sender(target, size)
    try:
        for event in outgoing:
            sender.add(event)
        sender.flush()
    finally:
        sender.close()
    return sender


def ids(s: Subscriber) -> list[list[str]]:
    """The ids in each request."""
    found = []
    for r in s.requests:
        body = json.loads(r.body) if "json" in r.headers.get("content-type", "") else {"id": r.headers["ce-id"]}
        found.append([e["id"] for e in (body if isinstance(body, list) else [body])])
    return found


# -- rows to events -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "member"),
    [
        pytest.param({}, {}, id="nothing more"),
        pytest.param({"subject": None, "data": pa.array([None], pa.binary())}, {}, id="nulls"),
        pytest.param(
            {"data": b"", "datacontenttype": "text/plain"},
            {"datacontenttype": "text/plain", "data_base64": ""},
            id="empty",
        ),
        pytest.param({"data": b'{"a":1}'}, {"data_base64": base64.b64encode(b'{"a":1}').decode()}, id="untyped bytes"),
        pytest.param(
            {"data": '{"a": [1]}', "datacontenttype": "application/x+json"},
            {"datacontenttype": "application/x+json", "data": {"a": [1]}},
            id="JSON text",
        ),
        pytest.param(
            {"data": "{broken", "datacontenttype": "application/json"},
            {"datacontenttype": "application/json", "data_base64": base64.b64encode(b"{broken").decode()},
            id="JSON that is none",
        ),
        pytest.param({"data": [{"a": 1, "b": None}]}, {"data": [{"a": 1}]}, id="structure"),
        pytest.param({"data_text": "[1]"}, {"data": [1]}, id="data_text alone"),
        pytest.param({"data": b"[1]", "data_text": "[1]"}, {"data": [1]}, id="data_text tells that data is JSON"),
        pytest.param(
            {"extensions": pa.array([[("k", "v"), ("n", None)]], pa.map_(pa.string(), pa.string()))},
            {"k": "v"},
            id="extensions",
        ),
        pytest.param(
            {"extensions": pa.array([[("k", True)]], pa.map_(pa.string(), pa.bool_()))},
            {"k": "true"},
            id="boolean extension",
        ),
        pytest.param(
            {"time": datetime(2026, 1, 2, 3, 4, 5, 120000, timezone(timedelta(hours=2)))},
            {"time": "2026-01-02T01:04:05.120000Z"},
            id="time",
        ),
        pytest.param(
            {"time": pa.array([0], pa.timestamp("us", "Europe/Berlin"))},
            {"time": "1970-01-01T00:00:00Z"},
            id="time's zone",
        ),
        pytest.param({"time": "2026-01-02T03:04:05+02:00"}, {"time": "2026-01-02T03:04:05+02:00"}, id="time as text"),
        pytest.param({"id": 7}, {"id": "7"}, id="number as id"),
    ],
)
def test_a_row_is_written_as_json(columns: dict[str, Any], member: dict[str, Any]) -> None:
    assert json.loads(row(**columns).member()) == {"specversion": "1.0", **BASE, **member}


def test_json_keeps_its_bytes() -> None:
    text = b'{"a":1.0,  "b":"\xc3\xa9", "c": 1e400, "d": 12345678901234567890123}'
    assert b'"data":' + text + b"}" in row(data=text, datacontenttype="application/json").member()


@pytest.mark.parametrize(
    "text", [b" 1", b"1\n", b"NaN", b"{", b"\xff", b"", b'"\\ud800"', b"[" * 100_000, b"1 2", b"1" * 5000]
)
def test_what_would_not_stay_the_same_is_no_value(text: bytes) -> None:
    assert not is_value(text)


def test_alone_short_in_binary_mode_and_json_in_structured() -> None:
    headers, body = row(data=b"\x00", subject='50% "é', datacontenttype="image/png").alone()
    assert body == b"\x00"
    assert headers == {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-type": "t",
        "ce-subject": "50%25%20%22%C3%A9",
        "content-type": "image/png",
    }
    for other in (row(), row(data=b"{}", datacontenttype="application/json"), row(data=b"[]", datacontenttype=BATCH)):
        headers, body = other.alone()
        assert headers == {"content-type": "application/cloudevents+json"}
        assert body == other.member()


def test_values_are_json_as_spark_writes_it() -> None:
    kind = pa.struct(
        {
            "exact": pa.decimal128(30, 10),
            "when": pa.timestamp("us", "UTC"),
            "plain": pa.timestamp("us"),
            "day": pa.date32(),
            "bytes": pa.binary(),
            "odd": pa.float64(),
            "map": pa.map_(pa.int32(), pa.list_(pa.bool_())),
            "none": pa.int32(),
            "text": pa.string(),
        }
    )
    value = {
        "exact": Decimal("12345678901234567890.0000000001"),
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "plain": datetime(2026, 1, 2, 3, 4, 5),
        "day": date(2026, 1, 2),
        "bytes": b"\x00",
        "odd": float("nan"),
        "map": [(1, [True, None])],
        "none": None,
        "text": 'é"',
    }
    (python,) = pa.array([value], kind).to_pylist()
    assert jsontext.writer(kind)(python) == (
        '{"exact":12345678901234567890.0000000001,"when":"2026-01-02T03:04:05Z","plain":"2026-01-02T03:04:05",'
        '"day":"2026-01-02","bytes":"AA==","odd":"NaN","map":{"1":[true,null]},"text":"é\\""}'
    )


def test_a_row_that_can_be_no_event_is_named() -> None:
    with pytest.raises(SparkFault, match="row 0 has no id"):
        row(id=pa.array([None], pa.string()))
    with pytest.raises(SparkFault, match="event '1': 'subject' is not an extension"):
        row(extensions=pa.array([[("subject", "x")]], pa.map_(pa.string(), pa.string())))


def test_columns_that_no_event_has_are_refused() -> None:
    check(["id", "source", "type", "position", "date"])
    with pytest.raises(ValueError, match="type is missing"):
        check(["id", "source"])
    with pytest.raises(ValueError, match="an event has no column colour"):
        check(["id", "source", "type", "colour"])


# -- sending ------------------------------------------------------------------------------------------------------


def test_waits_are_those_of_deliveries() -> None:
    policy = DeliveryConfig()
    for retry in (1, 2, 7, 8, 9, 5000):
        for draw in (0.0, 0.4, 0.999):
            assert wait_s(retry, draw) == backoff.wait_s(policy, retry, draw)


def test_batches_in_order_over_one_connection() -> None:
    peers = set()
    with Subscriber() as s:
        sender = send(Target(s.url, max_retries=1), *many(25), size=10)
        peers.update(r.headers["content-type"] for r in s.requests)
        assert [n for batch in ids(s) for n in batch] == [str(n) for n in range(25)]
        assert [len(batch) for batch in ids(s)] == [10, 10, 5]
    assert peers == {BATCH}
    assert (sender.sent, sender.requests) == (25, 3)


def test_requests_stay_below_the_limit_of_bytes() -> None:
    with Subscriber() as s:
        send(Target(s.url, max_retries=1), *many(7, 150 * 1024))
        assert [n for batch in ids(s) for n in batch] == [str(n) for n in range(7)]
        assert all(len(r.body) <= 512 * 1024 for r in s.requests)


@pytest.mark.parametrize("answer", [None, 408, 429, 500, (503, {"Retry-After": "0"}, b"")])
def test_no_answer_and_passing_faults_are_tried_again(answer: Any) -> None:
    with Subscriber([answer]) as s:
        sender = send(Target(s.url, max_retries=1), *many(3))
        assert ids(s) == [["0", "1", "2"]] * 2
    assert sender.sent == 3


@pytest.mark.slow
def test_retry_after_is_heeded() -> None:
    with Subscriber([(503, {"Retry-After": "1"}, b"")]) as s:
        send(Target(s.url, max_retries=1), *many(2))
        first, second = s.requests
        assert second.time - first.time >= 1


def test_when_retries_are_used_up_the_last_answer_is_told() -> None:
    problem = b'{"title": "Service Unavailable", "status": 503, "detail": "the disk is full"}'
    with (
        Subscriber(default=(503, {"content-type": "application/problem+json"}, problem)) as s,
        pytest.raises(SparkFault, match=r"accepted no events in 2 attempts; the last: 503 the disk is full"),
    ):
        send(Target(s.url, max_retries=1), *many(1))
    with pytest.raises(SparkFault, match=r"in 1 attempt; the last: ConnectionRefusedError"):
        send(Target(s.url, max_retries=0), *many(1))


def refuses(number: str) -> Callable[[Any], Any]:
    def decide(request: Any) -> Any:
        body = json.loads(request.body) if "json" in request.headers.get("content-type", "") else []
        if request.headers.get("ce-id") == number or any(e["id"] == number for e in body):
            return 400, {}, b'{"detail": "time is no time", "rule": "spec.md, time"}'
        return 202

    return decide


def test_the_event_that_is_refused_is_named() -> None:
    with (
        Subscriber(decide=refuses("17")) as s,
        pytest.raises(SparkFault, match=r"refused event '17' of '/s': 400 time is no time \(spec.md, time\)"),
    ):
        send(Target(s.url, max_retries=1), *many(40))
    assert [n for batch in ids(s) if "17" not in batch for n in batch] == [str(n) for n in range(17)]


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_other_answers_are_no_fault_of_an_event(status: int) -> None:
    with Subscriber(default=status) as s, pytest.raises(SparkFault, match=f"refused events: {status}"):
        send(Target(s.url, max_retries=1), *many(4))
    assert len(s.requests) == 1


def test_batches_become_smaller_where_the_ingress_says_so() -> None:
    with Subscriber(decide=lambda r: 413 if len(r.body) > 1000 else 202) as s:
        sender = send(Target(s.url, max_retries=1), *many(100), size=40)
        taken = [batch for batch, r in zip(ids(s), s.requests, strict=True) if len(r.body) <= 1000]
        assert [n for batch in taken for n in batch] == [str(n) for n in range(100)]
    assert sender.sent == 100
    assert sum(len(r.body) > 1000 for r in s.requests) == 3  # the first 40 and its halves; it learned from those


def test_one_at_a_time_where_no_batches_are_taken() -> None:
    with Subscriber(decide=lambda r: 415 if r.headers.get("content-type") == BATCH else 202) as s:
        send(Target(s.url, max_retries=1), *many(10), size=5)
        assert ids(s) == [["0", "1", "2", "3", "4"], *([str(n)] for n in range(10))]


def test_token_headers_and_password() -> None:
    with Subscriber() as s:
        url = s.url.replace("http://", "http://a%40b:c@") + "in?x=1"
        send(Target(url), *many(1))
        send(Target(s.url, {"Authorization": "Bearer abc", "X-Team": "blue"}), *many(1))
        assert s.requests[0].path == "/in?x=1"
        assert s.requests[0].headers["authorization"] == "Basic " + base64.b64encode(b"a@b:c").decode()
        assert (s.requests[1].headers["authorization"], s.requests[1].headers["x-team"]) == ("Bearer abc", "blue")
    with pytest.raises(SparkFault) as e:
        send(Target(url, max_retries=0), *many(1))
    assert "a%40b" not in str(e.value)
    assert f"127.0.0.1:{s.port}/in" in str(e.value)


# -- real gateways ------------------------------------------------------------------------------------------------

GATEWAY = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:%d"%s}
triggers: {}
"""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    folder = tmp_path / "gateway"
    folder.mkdir()
    with GatewayProcess(GATEWAY % (0, ""), folder) as g:
        yield g


@pytest.mark.usefixtures("processes")
def test_https_with_certificates_of_ones_own(tmp_path: Path) -> None:
    ca = trustme.CA()
    server, client = ca.issue_cert("127.0.0.1"), ca.issue_cert("a@example.org")
    files = {n: str(tmp_path / f"{n}.pem") for n in ("ca", "cert", "key", "client")}
    ca.cert_pem.write_to_path(files["ca"])
    server.cert_chain_pems[0].write_to_path(files["cert"])
    server.private_key_pem.write_to_path(files["key"])
    client.private_key_and_cert_chain_pem.write_to_path(files["client"])
    tls = f", tls: {{cert_file: {files['cert']}, key_file: {files['key']}, client_ca_file: {files['ca']}}}"
    with GatewayProcess(GATEWAY % (0, tls), tmp_path) as g:
        send(Target(g.ingress(), ca_file=files["ca"], cert_file=files["client"]), *many(3))
        send(Target(g.ingress(), insecure=True, cert_file=files["client"]), *many(2))
        assert g.status()["brokers"][0]["accepted"] == 5
        with pytest.raises(SparkFault, match="its certificate is not trusted"):
            send(Target(g.ingress(), cert_file=files["client"]), *many(1))


SAMPLES: list[dict[str, Any]] = [
    {"data": b'{"x": 1.0,  "y": "\xc3\xa9"}', "datacontenttype": "application/json", "subject": "s é %"},
    {"data": b"{broken", "datacontenttype": "application/json"},
    {"data": b"text", "datacontenttype": "text/plain", "dataschema": "http://x/schema"},
    {"data": b"\x00\xff", "time": "2026-01-02T03:04:05.123456+02:00"},
    {"data": b"", "datacontenttype": "text/plain"},
    {"data": None, "datacontenttype": "application/json"},
    {"data": b"[1, 2]", "json_data": True},
    {"data": b'"\\ud83d\\ude00"', "datacontenttype": "application/json"},
    {"data": b"<a/>", "datacontenttype": "application/xml", "specversion": "0.3", "schemaurl": "http://x/s"},
    {"partitionkey": "k", "count": 7, "urgent": True, "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
    {"data": b"\x01" * 700_000, "datacontenttype": "image/png"},
]
PLACE = ("shard", "position", "received")


@pytest.mark.area(name="spark_more")
def test_rows_of_a_log_come_back_the_same(
    spark: Any, log: Any, event: Callable[..., Any], gateway: GatewayProcess
) -> None:
    log.append(*(event(str(n), **sample) for n, sample in enumerate(SAMPLES)))
    log.append(*(event(f"many-{n}", b"%d" % n) for n in range(1200)))
    mine = spark.read.format("tidegate").option("location", str(log.folder)).load()
    mine.write.format("tidegate").option("url", gateway.ingress()).mode("append").save()
    back = spark.read.format("tidegate").option("location", str(gateway.data_dir / "log/default")).load()

    def rows(frame: Any) -> list[dict[str, Any]]:
        return sorted((r.asDict() for r in frame.drop(*PLACE).collect()), key=lambda r: str(r["id"]))

    assert rows(back) == rows(mine)
    assert [r.id for r in back.orderBy("position").collect()] == [r.id for r in mine.orderBy("position").collect()]


def test_faults_name_the_option_the_column_and_the_event(spark: Any, gateway: GatewayProcess) -> None:
    from pyspark.errors import PySparkException

    one = spark.createDataFrame([("1", "/s", "t", "never")], "id string, source string, type string, time string")

    def save(frame: Any = one, mode: str = "append", **options: str) -> str:
        writer = frame.write.format("tidegate").options(**{"url": gateway.ingress(), **options}).mode(mode)
        with pytest.raises(PySparkException) as e:
            writer.save()
        return str(e.value)

    assert "needs the option 'url'" in save(url="")
    assert "no option 'batchsze'; did you mean 'batchSize'" in save(batchSze="3")
    assert "must be a whole number" in save(batchSize="0")
    assert "must be seconds" in save(timeout="soon")
    assert "must be true or false" in save(insecure="yes")
    assert "http(s)://HOST" in save(url="ftp://x/")
    assert "can only append" in save(mode="overwrite")
    assert "no column colour" in save(one.withColumnRenamed("time", "colour"))
    said = save(one.replace("/s", "no uri", "source"))
    assert "refused event '1' of 'no uri': 400" in said
    assert "URI-reference" in said


def numbers(log: Any) -> list[int]:
    return sorted(int(r.id) for r in log.select("id").collect())


@pytest.mark.full
def test_a_stream_that_dies_with_its_gateway_loses_nothing(
    spark: Any, log: Any, event: Callable[..., Any], tmp_path: Path, wait: Callable[..., Any]
) -> None:
    from pyspark.errors import StreamingQueryException

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gateway = GatewayProcess(GATEWAY % (port, ""), tmp_path)
    frame = spark.readStream.format("tidegate").option("location", str(log.folder)).load()

    def start(retries: int) -> Any:
        writer = frame.writeStream.format("tidegate").option("url", gateway.ingress()).option("batchSize", "2")
        writer = writer.option("maxRetries", str(retries)).option("checkpointLocation", str(tmp_path / "c"))
        return writer.trigger(availableNow=True).start()

    def accepted() -> int:
        return int(gateway.status()["brokers"][0]["accepted"])

    log.append(*(event(str(n)) for n in range(2000)))
    with gateway:
        query = start(0)
        wait(lambda: accepted() > 200, "some events")
        gateway.kill()
        with pytest.raises(StreamingQueryException, match="accepted no events"):
            query.awaitTermination(60)
        # now one that waits for a gateway that comes back
        gateway.start()
        query = start(100)
        wait(lambda: accepted() > 200, "some events")
        gateway.kill()
        gateway.start()
        assert query.awaitTermination(60)
    back = spark.read.format("tidegate").option("location", str(gateway.data_dir / "log/default")).load()
    found = [int(r.id) for r in back.select("id").collect()]
    assert sorted(set(found)) == list(range(2000))
    assert len(found) > 2200  # what was sent before the first kill was sent again: the ids are how one tells
