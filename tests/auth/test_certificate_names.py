"""The authenticator `mtls`: names in certificates. `tests/access` has real ones over real TLS."""

from __future__ import annotations

from typing import Any

import pytest

from gateway_core.contract.authenticator import Forbidden
from tests.auth.signing import Bench

CN, ORG = "commonName", "organizationName"


def certificate(*subject: tuple[str, str], dns: Any = (), uri: Any = ()) -> dict[str, Any]:
    """As `ssl.SSLSocket.getpeercert` has it; with alternative names only, the subject is another one."""
    subject = subject or (((ORG, "x"),) if dns or uri else ())
    names = [("DNS", name) for name in dns] + [("URI", name) for name in uri]
    return {"subject": tuple((pair,) for pair in subject), "subjectAltName": tuple(names)}


ORDERS = certificate(("countryName", "DE"), (ORG, "Shop"), (CN, "orders"))


def subject(options: dict[str, Any], found: Any) -> str | None:
    return Bench("mtls", options).subject({}, certificate=found)


@pytest.mark.spec("HM-13")
@pytest.mark.parametrize(
    ("options", "found", "who"),
    [
        ({}, ORDERS, "CN=orders,O=Shop,C=DE"),
        ({"common_names": ["orders"], "identity": "common_name"}, ORDERS, "CN=orders"),
        ({"subjects": ["CN=orders,O=Shop,C=DE"]}, ORDERS, "CN=orders,O=Shop,C=DE"),
        ({"dns": ["a.example"], "identity": "dns"}, certificate(dns=["b.example", "A.example"]), "dns a.example"),
        ({"dns": ["*.svc"], "identity": "dns"}, certificate(dns=["orders.svc"]), "dns orders.svc"),
        ({"uris": ["spiffe://x/ns/*"], "identity": "uri"}, certificate(uri=["spiffe://x/ns/a"]), "uri spiffe://x/ns/a"),
        ({"identity": "uri"}, certificate(uri=["system:serviceaccount:a:b"]), "uri system:serviceaccount:a:b"),
        ({"identity": "uri"}, certificate(uri=["key billing"]), "uri key billing"),
        ({"uris": ["spiffe://x/a"], "common_names": ["orders"]}, ORDERS, "CN=orders,O=Shop,C=DE"),
        ({}, certificate((ORG, 'A, "B" + C'), (CN, " #x ")), 'CN=\\ #x\\ ,O=A\\, \\"B\\" \\+ C'),
        ({}, None, None),
    ],
)
def test_who_comes_in(options: dict[str, Any], found: Any, who: str | None) -> None:
    assert subject(options, found) == who


@pytest.mark.spec("HM-14")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"common_names": ["orders"]}, certificate((CN, "orders\0.evil"))),
        ({"common_names": ["orders"]}, certificate((CN, "Orders"))),
        ({"common_names": ["orders"]}, certificate((CN, "evil"), (CN, "orders"))),
        ({"common_names": ["orders"]}, certificate((ORG, "orders"), (CN, "evil"))),
        ({"common_names": ["orders"]}, certificate(dns=["orders"])),
        ({"subjects": ["CN=orders,O=Shop"]}, certificate((CN, "orders,O=Shop"))),
        ({"subjects": ["CN=orders,O=Shop"]}, certificate((ORG, "Shop,CN=orders"))),
        ({"subjects": ["CN=orders"]}, ORDERS),
        ({"dns": ["orders.svc"]}, certificate(dns=["orders.svc\0.evil"])),
        ({"dns": ["orders.svc"]}, certificate(dns=["*.svc"])),
        ({"dns": ["*.svc"]}, certificate(dns=["*.svc"])),
        ({"dns": ["*.svc"]}, certificate(dns=["a.b.svc", ".svc", "svc", "a.svc.evil"])),
        ({"dns": ["orders.svc"]}, certificate((CN, "orders.svc"))),
        ({"uris": ["spiffe://x/ns/*"]}, certificate(uri=["spiffe://x/ns", "spiffe://x.evil/ns/a", "spiffe://x/nsa/b"])),
        ({"uris": ["spiffe://x/a"], "identity": "uri"}, certificate(uri=["spiffe://x/a", "spiffe://x/b"])),
        ({"common_names": ["orders"], "identity": "dns"}, ORDERS),
        ({}, certificate((CN, "a\nb"))),
        ({}, certificate()),
        ({"identity": "dns"}, certificate(dns=["*.svc"])),
        ({"identity": "dns"}, certificate(dns=["a\0.svc"])),
        ({"uris": ["spiffe://x/ns/*"]}, certificate(uri=["spiffe://x/ns/a\nb"])),
        # what is no name of the form that only certificates have
        ({}, certificate(("user name of a type", "x"))),
        ({}, certificate((CN, "="))),
        ({"identity": "common_name"}, certificate((CN, "="))),
    ],
)
def test_who_does_not(options: dict[str, Any], found: Any) -> None:
    with pytest.raises(Forbidden) as error:
        subject(options, found)
    assert error.value.status == 403


@pytest.mark.spec("HM-10")
def test_a_refusal_names_whose_certificate_it_was() -> None:
    for found, name in ((ORDERS, "of CN=orders"), (certificate((CN, "x" * 5000)), "of CN=xx")):
        with pytest.raises(Forbidden) as error:
            subject({"dns": ["billing.svc"]}, found)
        assert name in error.value.detail
        assert error.value.detail.isprintable()
        assert len(error.value.detail) < 300


@pytest.mark.spec("HM-10")
@pytest.mark.parametrize(
    "options",
    [
        {"common_names": ["*"]},
        {"subjects": ["CN=*"]},
        {"dns": ["a.*.b"]},
        {"dns": ["*"]},
        {"dns": ["*.*.b"]},
        {"dns": ["bücher.example"]},
        {"uris": ["spiffe://*"]},
        {"uris": ["orders"]},
        {"identity": "email"},
    ],
)
def test_wrong_options_are_faults(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Bench("mtls", options)
