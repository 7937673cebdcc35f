"""A scenario replays past events to a trigger, as `tidegate replay` does."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from gateway_scenario.result import Result, failure_text

pytestmark = pytest.mark.spec("AGAIN-35")
Play = Callable[..., Result]

TWO = """
brokers: {default: {delivery: {retry: 3, backoff_delay_s: 1}}}
triggers:
  a: {subscriber: "http://127.0.0.1:1/a", filter: {type: x}}
  b: {subscriber: "http://127.0.0.1:1/b"}
"""
GOOD = {
    "by time, to one trigger alone": """
        events:
          - {event: {type: x, id: "i{n}"}, count: 2, at_s: 1}
          - {event: {type: x, id: i3}, at_s: 10}
          - {event: {type: y, id: i4}, at_s: 10}
          - {event: {type: x, id: i5}, at_s: 20}
          - {replay: {trigger: a, from_s: 10, to_s: 20}, at_s: 30}
        expect:
          triggers:
            a: {delivered: 4, replayed: [i3], order: [i1, i2, i3, i5, i3], attempts: 5}
            b: {delivered: 5, replayed: 0, attempts: 5}
    """,
    "by position and filter, marked": """
        events:
          - {event: {type: x, id: "i{n}", subject: "s{n}"}, count: 4}
          - {replay: {trigger: a, positions: [2, 3, 4], filters: [subject=s3], mark: true}}
          - {replay: {trigger: a, positions: [1]}}
        expect:
          triggers:
            a:
              replayed: [i3, i1]
              sent:
                - {id: i3, headers: {ce-tidegatereplay: replay-1}}
                - {id: i1, headers: {ce-tidegatereplay: null}}
    """,
    "what failed then, delivered now, and the other way round": """
        events:
          - {event: {type: x, id: i1}}
          - {event: {type: x, id: i2}}
          - {replay: {trigger: a}, at_s: 60}
        answers: {a: [{status: 400, for_id: i1}, {status: 200, for_id: i2}, {status: 422, for_id: i2}]}
        expect: {triggers: {a: {delivered: [i2], replayed: [i1], dead_lettered: [i1, i2], attempts: 4}}}
    """,
    "with the trigger's retries": """
        events:
          - {event: {type: x, id: i1}}
          - {replay: {trigger: a}, at_s: 60}
        answers: {a: [200, 503, refused]}
        expect: {triggers: {a: {delivered: [i1], replayed: [i1], attempts: 4, waits_s: [[0.5, 1], [1, 2]]}}}
    """,
    "beside a live delivery of the same event": """
        events:
          - {event: {type: x, id: i1}}
          - {replay: {trigger: a}, at_s: 0.1}
        answers: {a: [503]}
        expect: {triggers: {a: {delivered: [i1], replayed: [i1], attempts: 3}}}
    """,
    "more than fit at once, in order": """
        events:
          - {event: {type: x, id: "{n}", partitionkey: k}, count: 700}
          - {replay: {trigger: a, from_s: 0}, at_s: 1}
        expect: {triggers: {a: {delivered: 700, replayed: 700}}}
    """,
}


@pytest.mark.parametrize("name", GOOD)
def test_replays(play: Play, name: str) -> None:
    result = play(GOOD[name], TWO)
    assert result.passed, failure_text(result)


def test_a_failure_says_what_the_replay_did(play: Play) -> None:
    result = play(
        """
        events: [{event: {type: x, id: i1}}, {replay: {trigger: a}, at_s: 5}]
        answers: {a: [200, 400]}
        expect: {triggers: {a: {replayed: [i1]}}}
        """,
        TWO,
    )
    text = failure_text(result)
    assert "expected i1" in text
    assert "trigger a: replayed" in text
    assert "attempt 1 at 5 s: 400 Bad Request" in text


@pytest.mark.parametrize(
    ("said", "step"),
    [
        ("no trigger 'aa': did you mean `a`?", "{trigger: aa}"),
        ("events: replay: filters: ", "{trigger: a, filters: ['type = ']}"),
    ],
)
def test_what_can_not_be_replayed_says_why(play: Play, said: str, step: str) -> None:
    result = play(f"events: [{{event: {{type: x}}}}, {{replay: {step}}}]\nexpect: {{}}", TWO)
    assert said in failure_text(result)


@pytest.mark.parametrize(
    ("said", "entry"),
    [
        ("write one of `event`, `message`, `file` and `replay`", "{event: {type: x}, replay: {trigger: a}}"),
        ("a `replay` names its `trigger`", "{replay: {trigger: a}, to: default}"),
    ],
)
def test_a_step_that_is_no_replay_is_a_fault(play: Play, said: str, entry: str) -> None:
    with pytest.raises(Exception, match=re.escape(said)):
        play(f"events: [{{event: {{type: x}}}}, {entry}]\nexpect: {{}}", TWO)
