"""What counts as a URI-reference and as a URI: the grammar of RFC 3986, appendix A."""

from __future__ import annotations

import json
import re
import time

import pytest
from gateway_cloudevents import values
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message
from gateway_core.contract.interfaces import Codec
from tests.budget import examples

URIS = [
    *(
        "http://example.com",
        "http://example.com:80/a/b?c=d/e?f#g?/",
        "HTTP://u:p@h:/",
        "ftp://ftp.is.co.za/rfc/rfc1808.txt",
    ),
    *(
        "ldap://[2001:db8::7]/c=GB?objectClass?one",
        "mailto:John.Doe@example.com",
        "news:comp.infosystems.www.servers.unix",
    ),
    *("tel:+1-816-555-1212", "telnet://192.0.2.16:80/", "urn:oasis:names:specification:docbook:dtd:xml:4.1.2"),
    *(
        "file:///etc/hosts",
        "a+b-c.1:x",
        "http://[::ffff:1.2.3.4]:8080/",
        "http://[fe80::1%25eth0]/",
        "http://[v1.a:b]/",
    ),
    *("urn:a:b#c", "a:/b", "a:b:c", "http://straße.example/ü?ü#ü", "http://h/%20%E2%82%AC", "http://@:/", "x:a@b:c"),
]
REFERENCES = [
    *(
        "/",
        "/a/b:c",
        "a",
        "a/b:c",
        "./a:b",
        "../a",
        "?a:b",
        "#",
        "#a:b",
        "//h",
        "//h:1/a",
        "///a",
        "//[::1]",
        "a@b",
        "a?b:c",
    ),
    *("/h/[a]", "a[0]", "?a[]=1", "a#b[0]"),  # beyond RFC 3986, and what Go and browsers leave as it is
    *("/cloudevents/spec/pull/123", "mycontext", "/straße", "a;b=c,d", "%41", "*", "1a", "~user", "/a//b", "(a)"),
]
NEITHER = [
    *(
        "http://[::1",
        "1a:b",
        ":x",
        ":",
        "a b",
        "http://[::1]a/",
        "http://[1:2]/",
        "http://[:::]/",
        "http://[]/",
        "//[::1",
    ),
    *(
        "http://::1]/",
        "http://h:80a/",
        "http://a:b:c/",
        "http://u@v@h/",
        "a%",
        "a%2",
        "a%zz",
        "%?1",  # accepted with Python before 3.11.5: gh-106052
        "%#1",
        "//%:1",
        "/a#b#c",
        "é:x",
        "-a:b",
        "a_b:c",
    ),
    *(
        "<a>",
        'a"b',
        "a\\b",
        "a^b",
        "a`b",
        "a{b}",
        "a|b",
        "http://[v1]/",
        "http://[g::1]/",
    ),
    *("http://[::1%eth0]/", "//h:x", "http://h h/", "+:a", "http://[1.2.3.4]/"),
]


@pytest.mark.spec("SAFE-21")
def test_the_grammar() -> None:
    assert [t for t in URIS if values.check_uri(t) or values.check_uri_reference(t)] == []
    assert [t for t in REFERENCES if values.check_uri_reference(t)] == []
    assert [t for t in REFERENCES if not values.check_uri(t)] == []
    assert [t for t in NEITHER if not values.check_uri_reference(t) or not values.check_uri(t)] == []


@pytest.mark.spec("SAFE-21")
@pytest.mark.parametrize("source", ["http://[::1", "1a:b", ":x"])
@pytest.mark.parametrize("version", ["1.0", "0.3", "0.2", "0.1"])
def test_a_source_that_is_none_is_refused_by_name(codec: Codec, version: str, source: str) -> None:
    attributes = {"specversion": version, "id": "1", "type": "t", "source": source}
    structured = Message([(b"content-type", b"application/cloudevents+json")], json.dumps(attributes).encode())
    binary = Message([(b"ce-" + n.encode(), v.encode()) for n, v in attributes.items()], b"")
    for message in (structured, binary):
        with pytest.raises(Refused, match=re.escape("is not a URI-reference (RFC 3986 section 4.1)")) as refused:
            codec.decode(message)
        assert (refused.value.attribute, refused.value.status) == ("source", 400)
        assert version in refused.value.rule


@examples(300)
@given(st.text("a1:/?#[]@%2.-+ é", max_size=12))
@example("%?1")
def test_any_text_is_checked_by_the_parts_that_it_has(text: str) -> None:
    """The five parts by the pattern of RFC 3986 appendix B, and what the grammar lets each have."""
    parts = re.fullmatch(r"(([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(\?([^#]*))?(#(.*))?", text)
    assert parts is not None
    scheme, authority, path, query, fragment = parts[2], parts[4], parts[5], parts[7] or "", parts[9] or ""
    fine = all(re.fullmatch(r"(?:[^% ]|%[0-9A-Fa-f]{2})*", part) for part in (authority or "", path, query, fragment))
    fine = fine and "#" not in fragment
    if scheme is not None:
        fine = fine and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*", scheme) is not None
    elif authority is None:
        fine = fine and ":" not in path.partition("/")[0]
    if authority is not None:
        if "[" in authority:
            return  # the tables have those
        fine = fine and re.fullmatch(r"(?:[^@\]]*@)?[^@:\]]*(?::\d*)?", authority, re.ASCII) is not None
    assert (values.check_uri_reference(text) == "") == fine
    assert (values.check_uri(text) == "") == (fine and scheme is not None and text != f"{scheme}:")


LONG = {
    "path": "a" * 200_000 + " ",
    "user": "http://" + "a:" * 100_000 + "[",
    "escapes": "%41" * 70_000 + "%",
    "slashes": "/" * 200_000 + " ",
}


@pytest.mark.spec("SAFE-21")
@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_long_values_are_checked_in_linear_time(text: str) -> None:
    begin = time.process_time()
    assert values.check_uri_reference(text)
    assert time.process_time() - begin < 5, "in quadratic time it takes minutes"
