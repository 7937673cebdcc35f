"""What happens in a scenario is what a gateway would do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_scenario.result import Result, failure_text

Play = Callable[..., Result]

GOOD = {
    "a retry after each 503, a delivery at the third": """
        events: [{event: {type: x}}]
        answers: {a: [503, 503, 200]}
        expect: {triggers: {a: {delivered: ["1"], attempts: 3, waits_s: [[0.5, 1], [1, 2]]}}}
    """,
    "the longest waits": """
        events: [{event: {type: x}}]
        answers: {a: [503, timeout]}
        jitter: 1
        expect: {triggers: {a: {delivered: ["1"], waits_s: [1, 2]}}}
    """,
    "the shortest waits": """
        events: [{event: {type: x}}]
        answers: {a: [503, refused]}
        jitter: 0
        expect: {triggers: {a: {delivered: ["1"], waits_s: [0.5, 1]}}}
    """,
    "Retry-After is honoured": """
        events: [{event: {type: x}}]
        answers: {a: {status: 503, headers: {retry-after: 7}}}
        expect: {triggers: {a: {delivered: ["1"], waits_s: [7]}}}
    """,
    "a final answer is the end": """
        events: [{event: {type: x}}]
        answers: {a: {status: 400, body: {why: no}}}
        expect: {triggers: {a: {dead_lettered: [{id: "1", attributes: {knativeerrordata: eyJ3aHkiOiJubyJ9}}]}}}
    """,
    "no answer leaves no code": """
        events: [{event: {type: x}}]
        answers: {a: {error: "connection reset", times: 9}}
        expect:
          triggers:
            a:
              dead_lettered:
                - {attributes: {knativeerrorcode: null, tidegateattempts: 4, tidegatereason: connection reset}}
    """,
    "an error that is final": """
        events: [{event: {type: x}}]
        answers: {a: {error: "too large", final: true}}
        expect: {triggers: {a: {dead_lettered: ["1"], attempts: 1}}}
    """,
    "answers by id": """
        events: [{event: {type: x, id: "i{n}"}, count: 3}]
        answers: {a: [{status: 400, for_id: i2}]}
        expect: {triggers: {a: {delivered: [i1, i3], dead_lettered: [i2], order: [i1, i3]}}}
    """,
    "a slow answer is still an answer": """
        events: [{event: {type: x, id: slow}}, {event: {type: x, id: fast}}]
        answers: {a: [{status: 200, after_s: 3, for_id: slow}]}
        expect: {triggers: {a: {order: [fast, slow]}}}
    """,
    "no answer takes as long as it may": """
        events: [{event: {type: x}}]
        answers: {a: timeout}
        run_for_s: 29.9
        expect: {triggers: {a: {waiting: ["1"], attempts: 1}}}
    """,
    "slower than the time limit is none": """
        events: [{event: {type: x}}]
        answers: {a: [{status: 200, after_s: 31}]}
        expect: {triggers: {a: {delivered: ["1"], attempts: 2}}}
    """,
    "a reply goes to whom it concerns": """
        events: [{event: {type: x, traceparent: abc}}]
        answers: {a: {event: {id: r, type: reply.done, data: {ok: true}}}}
        expect:
          triggers:
            a:
              delivered: ["1"]
              replies: [{id: r, attributes: {type: reply.done, traceparent: abc}, data: {ok: true}, to: [b]}]
            b: {delivered: [r], sent: [{headers: {ce-type: reply.done}, data: {ok: true}}]}
    """,
    "a reply that is no event is a failed delivery": """
        events: [{event: {type: x}}]
        answers: {a: [{event: {id: null}}, 200]}
        expect: {triggers: {a: {delivered: ["1"], attempts: 2, replies: []}}}
    """,
    "a loop of replies ends": """
        events: [{event: {type: reply}}]
        answers: {b: {event: {type: reply}, times: 999}}
        expect: {triggers: {b: {delivered: 254, dead_lettered: 1}}}
    """,
    "time passes between events, and then stops": """
        events: [{event: {type: x, id: i1}}, {event: {type: x, id: i2}, at_s: 10}]
        answers: {a: {status: 503, times: 5, for_id: i2}}
        run_for_s: 10.6
        expect: {triggers: {a: {delivered: [i1], waiting: [i2], attempts: 2}}}
    """,
    "a message in binary mode": """
        events:
          - message: {headers: {ce-specversion: "1.0", ce-id: b1, ce-source: /s, ce-type: x}, body: "\\x01"}
        expect: {triggers: {a: {delivered: [b1], sent: [{id: b1, body: "\\x01", headers: {content-type: null}}]}}}
    """,
    "a batch": """
        events:
          - message:
              headers: {content-type: application/cloudevents-batch+json}
              body:
                - {specversion: "1.0", id: i1, source: /s, type: x}
                - {specversion: "1.0", id: i2, source: /s, type: y}
        expect: {accepted: 2, unrouted: [i2], triggers: {a: {delivered: [i1]}}}
    """,
    "what the ingress refuses": """
        events: [{event: {type: null}}, {message: {headers: {content-type: application/cloudevents+xml}, body: <e/>}}]
        expect: {accepted: 0, refused: [{status: 400, attribute: type}, {status: 415, detail: xml}]}
    """,
    "text, JSON text and bytes go through as they are": """
        events:
          - event: {type: x, id: t, data: hi}
          - event: {type: x, id: j, datacontenttype: application/json, data: '{"a" : 1}'}
          - event: {type: x, id: b, data_base64: AAE=}
        expect:
          triggers:
            a:
              sent: [{id: t, body: hi, headers: {content-type: text/plain}}, {id: j, body: '{"a" : 1}'}]
              delivered: [t, j, b]
    """,
    "the dead letter fails for a while": """
        events: [{event: {type: x}}]
        answers: {a: 400}
        dead_letters: {default: [{error: disk full, times: 3}]}
        expect: {triggers: {a: {dead_lettered: 1, blocked: false}}}
    """,
}


@pytest.mark.parametrize("scenario", GOOD.values(), ids=GOOD)
def test_this_holds(scenario: str, play: Play) -> None:
    result = play(scenario)
    assert result.passed, failure_text(result)


EVENT = "events: [{event: {type: x, data: {n: 1}}}]\n"
BAD = {
    "accepted: 2": "accepted",
    "refused: 1": "refused",
    "unrouted: ['1']": "unrouted",
    "triggers: {a: {delivered: 0}}": "triggers.a.delivered",
    "triggers: {a: {delivered: ['2']}}": "triggers.a.delivered",
    "triggers: {a: {order: ['1', '2']}}": "triggers.a.order",
    "triggers: {a: {dead_lettered: ['1']}}": "triggers.a.dead_lettered[0]",
    "triggers: {a: {not_matched: ['1']}}": "triggers.a.not_matched",
    "triggers: {b: {not_matched: []}}": "triggers.b.not_matched",
    "triggers: {a: {waiting: 1}}": "triggers.a.waiting",
    "triggers: {a: {attempts: 2}}": "triggers.a.attempts",
    "triggers: {a: {waits_s: [1]}}": "triggers.a.waits_s",
    "triggers: {a: {blocked: true}}": "triggers.a.blocked",
    "triggers: {a: {replies: [{}]}}": "triggers.a.replies",
    "triggers: {b: {sent: [{}]}}": "triggers.b.sent[0]",
    "triggers: {a: {sent: [{attempt: 2}]}}": "triggers.a.sent[0]",
    "triggers: {a: {sent: [{id: '2'}]}}": "triggers.a.sent[0]",
    "triggers: {a: {sent: [{method: PUT}]}}": "triggers.a.sent[0].method",
    "triggers: {a: {sent: [{url: 'http://x/'}]}}": "triggers.a.sent[0].url",
    "triggers: {a: {sent: [{topic: t}]}}": "triggers.a.sent[0].topic",
    "triggers: {a: {sent: [{key: k}]}}": "triggers.a.sent[0].key",
    "triggers: {a: {sent: [{headers: {ce-id: null}}]}}": "triggers.a.sent[0].headers.ce-id",
    "triggers: {a: {sent: [{headers: {ce-id: '2'}}]}}": "triggers.a.sent[0].headers.ce-id",
    "triggers: {a: {sent: [{body: {n: true}}]}}": "triggers.a.sent[0].body",
    "triggers: {a: {sent: [{body: null}]}}": "triggers.a.sent[0].body",
    "triggers: {a: {sent: [{data: text}]}}": "triggers.a.sent[0].data",
    "triggers: {a: {sent: [{attributes: {type: y}}]}}": "triggers.a.sent[0].attributes.type",
    "triggers: {a: {sent: [{attributes: {type: null}}]}}": "triggers.a.sent[0].attributes.type",
}


@pytest.mark.parametrize(("expect", "path"), BAD.items(), ids=BAD)
def test_an_expectation_that_does_not_hold_is_named(expect: str, path: str, play: Play) -> None:
    result = play(f"{EVENT}expect: {{{expect}}}")
    assert [f.path for f in result.failures] == [path]
    assert result.failures[0].expected != result.failures[0].found
    assert "event 1 (x) to default" in failure_text(result)


def test_the_facts_of_a_letter_are_compared(play: Play) -> None:
    result = play(
        f"{EVENT}answers: {{a: 400}}\nexpect: {{triggers: {{a: {{dead_lettered: "
        "[{id: '1', attributes: {knativeerrorcode: '503', tidegateattempts: 1}}]}}}"
    )
    assert [(f.path, f.expected, f.found) for f in result.failures] == [
        ("triggers.a.dead_lettered[0].attributes.knativeerrorcode", "'503'", "'400'")
    ]


def test_a_letter_too_many_is_a_failure(play: Play) -> None:
    result = play(
        "events: [{event: {type: x}, count: 2}]\nanswers: {a: {status: 400, times: 2}}\n"
        "expect: {triggers: {a: {dead_lettered: ['1']}}}"
    )
    assert [f.path for f in result.failures] == ["triggers.a.dead_lettered"]


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("answers: {c: 503}\nexpect: {}", "answers.c"),
        ("dead_letters: {defualt: 503}\nexpect: {}", "dead_letters.defualt"),
        ("expect: {triggers: {aa: {delivered: 1}}}", "expect.triggers.aa"),
        ("expect: {bridges: {a: {delivered: 1}}}", "expect.bridges.a"),
    ],
)
def test_a_name_that_the_config_has_not_is_a_failure(scenario: str, said: str, play: Play) -> None:
    assert [f.path for f in play(EVENT + scenario).failures] == [said]


def test_a_broker_that_does_not_exist_is_an_error(play: Play) -> None:
    result = play("events: [{event: {type: x}, to: orders}]\nexpect: {}")
    assert not result.passed
    assert "no broker or bridge 'orders'" in result.error


def test_a_missing_file_is_an_error(play: Play) -> None:
    assert "nowhere.json" in play("events: [{file: nowhere.json}]\nexpect: {}").error


def test_events_of_a_file(play: Play, tmp_path: Path) -> None:
    line = '{"specversion":"1.0","id":"%d","source":"/s","type":"x"}\n'
    (tmp_path / "events.jsonl").write_text("".join(line % n for n in range(3)))
    result = play("events: [{file: events.jsonl}]\nexpect: {triggers: {a: {delivered: ['0', '1', '2']}}}")
    assert result.passed, failure_text(result)


KAFKA = """
    brokers:
      default:
        ingress: [http, {kafka: {topic: in}}]
        channel: {kafka: {key: {attribute: {name: subject, required: true}}}}
    triggers:
      a: {subscriber: {kafka: {topic: "out-{type}", key: record, codec: {cloudevents: {mode: structured}}}}}
"""


def test_a_record_is_what_the_sinks_codec_writes(play: Play) -> None:
    result = play(
        """
        events: [{event: {type: x, id: i1, subject: s7}}]
        expect:
          triggers:
            a:
              sent:
                - topic: out-x
                  key: s7
                  headers: {content-type: "application/cloudevents+json; charset=utf-8"}
                  body: {specversion: "1.0", id: i1, source: /tests, type: x, subject: s7}
        """,
        KAFKA,
    )
    assert result.passed, failure_text(result)


def test_what_the_channel_can_not_write_is_refused(play: Play) -> None:
    result = play("events: [{event: {type: x}}]\nexpect: {accepted: 0, refused: [{attribute: subject}]}", KAFKA)
    assert result.passed, failure_text(result)


def test_what_the_sink_can_not_write_goes_to_the_dead_letter(play: Play) -> None:
    config = """
        brokers: {default: {ingress: [http]}}
        triggers: {a: {subscriber: {kafka: {topic: "out-{region}"}}}}
    """
    result = play(
        "events: [{event: {}}]\nexpect: {triggers: {a: "
        "{dead_lettered: [{attributes: {tidegatestage: encode}}], attempts: 1}}}",
        config,
    )
    assert result.passed, failure_text(result)
    assert "region" in "".join(result.histories[0])


def test_a_sink_without_a_status_can_not_answer_one(play: Play) -> None:
    result = play("events: [{event: {subject: s}}]\nanswers: {a: 503}\nexpect: {}", KAFKA)
    assert "triggers.a.subscriber (kafka) has no status" in result.error


def test_certificates_need_not_be_there(play: Play) -> None:
    config = """
        brokers: {default: {ingress: [http: {tls: {cert_file: none.pem, key_file: none.pem}}]}}
        triggers:
          a: {subscriber: {http: {url: "https://127.0.0.1:1/", tls: {ca_file: none.pem}}}}
          b: {subscriber: {http: {url: "https://127.0.0.1:1/", client: httpx, tls: {ca_file: none.pem}}}}
    """
    result = play("events: [{event: {}}]\nexpect: {triggers: {a: {delivered: 1}, b: {delivered: 1}}}", config)
    assert result.passed, failure_text(result)


def test_the_command_leaves_no_trace_and_asks_no_observer(play: Play, tmp_path: Path) -> None:
    config = """
        brokers: {default: {ingress: [http], dead_letter: {deadletter: {path: letters.jsonl}}}}
        triggers: {a: {subscriber: {file: {path: out.jsonl}}}, t: {subscriber: {spark: {path: table}}}}
        observers: [otel]
    """
    result = play(
        "events: [{event: {}}]\nanswers: {a: [{error: no, final: true}]}\n"
        "expect: {triggers: {a: {dead_lettered: 1}, t: {delivered: 1}}}",
        config,
    )
    assert result.passed, failure_text(result)
    assert {f.name for f in tmp_path.iterdir()} == {"tidegate.yaml", "tidegate.scenario.yaml"}
    assert not Path("tidegate-data").exists()
    assert not Path("out.jsonl").exists()


ONCE = """
    brokers:
      default: {ingress: [http], deduplicate: {window: 1h, on_conflict: CONFLICT}}
    triggers:
      a: {subscriber: "http://127.0.0.1:1/a", filter: {type: x}}
"""


@pytest.mark.spec("ONCE-01", "ONCE-02")
@pytest.mark.parametrize(
    ("conflict", "more"), [("accept_first", "accepted: 5"), ("refuse", "refused: [{status: 409}]")]
)
def test_a_broker_that_deduplicates(play: Play, conflict: str, more: str) -> None:
    result = play(
        f"""
        events:
          - {{event: {{type: x, id: "7"}}}}
          - {{event: {{type: x, id: "7"}}}}
          - {{event: {{type: x, id: "8"}}}}
          - {{event: {{type: y, id: "8"}}}}
          - {{event: {{type: x, id: "7"}}, at_s: 3601}}
        expect: {{{more}, unrouted: 0, triggers: {{a: {{delivered: ["7", "8", "7"]}}}}}}
        """,
        ONCE.replace("CONFLICT", conflict),
    )
    assert result.passed, failure_text(result)
    assert sum("a duplicate" in line for way in result.histories for line in way) == (2 if conflict != "refuse" else 1)


@pytest.mark.spec("DELAY-05")
def test_what_is_due_later_waits_in_simulated_time(play: Play) -> None:
    config = """
        brokers: {default: {ingress: [http]}}
        triggers:
          later: {subscriber: "http://127.0.0.1:1/a", delay: PT1H, deliver_at: {attribute: deliverat}}
    """
    events = "events: [{event: {type: x}}, {event: {type: x, deliverat: PT2H}}, {event: {type: x, deliverat: soon}}]"
    done = play(events + """
run_for_s: 5000
expect: {triggers: {later: {delivered: ["1"], dead_lettered: ["3"]}}}
""", config)  # fmt: skip
    assert done.passed, failure_text(done)
    done = play(events + """
expect: {triggers: {later: {delivered: ["1", "2"], dead_lettered: ["3"]}}}
""", config)  # fmt: skip
    assert done.passed, failure_text(done)
