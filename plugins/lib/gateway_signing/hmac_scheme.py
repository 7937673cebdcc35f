"""Schemes of signatures with a shared secret: which header field has what, and what is signed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.component import Config
from gateway_core.contract.config_node import Place

PRESETS: Mapping[str, Mapping[str, str]] = {
    # https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    "github": {"header": "x-hub-signature-256", "prefix": "sha256="},
    # https://docs.stripe.com/webhooks#verify-manually: v0 is for test events and proves nothing
    "stripe": {
        "header": "stripe-signature",
        "signature_field": "v1",
        "timestamp_field": "t",
        "signed": "{timestamp}.{body}",
    },
    # https://docs.slack.dev/authentication/verifying-requests-from-slack
    "slack": {
        "header": "x-slack-signature",
        "prefix": "v0=",
        "timestamp_header": "x-slack-request-timestamp",
        "signed": "v0:{timestamp}:{body}",
    },
    # https://shopify.dev/docs/apps/build/webhooks/verify-deliveries
    "shopify": {"header": "x-shopify-hmac-sha256", "encoding": "base64"},
}
"""What a preset sets; options beside it count first."""

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PART = re.compile(r"(\{[^{}]*\})")


def _header(name: str) -> str:
    if name and not _HEADER.fullmatch(name):
        raise ValueError("this is not the name of a header field")
    return name.lower()


Header = Annotated[str, AfterValidator(_header)]
Text = Annotated[str, Field(pattern=r"^[!-~]{0,64}$")]


class HmacScheme(Config):
    """How a signature is made and written."""

    preset: Literal["github", "stripe", "slack", "shopify"] | None = None
    """A well-known scheme: sets the options below. Those that are written here count first."""
    header: Header = ""
    """The header field with the signature."""
    algorithm: Literal["sha256", "sha512", "sha1"] = "sha256"
    """The hash function. `sha1` is for those that know nothing better."""
    encoding: Literal["hex", "base64"] = "hex"
    """How the signature is written."""
    prefix: Text = ""
    """What is written before the signature, such as `sha256=`."""
    signature_field: Text = ""
    """If the header field holds several values (`t=…,v1=…`): the name of the signature. It may be there several times,
    once for each secret; one match is enough."""
    timestamp_field: Text = ""
    """The name of the timestamp there."""
    timestamp_header: Header = ""
    """The header field with the timestamp (Unix seconds), if it has one of its own."""
    signed: str = "{body}"
    """What is signed: text with `{body}`, and `{timestamp}` if there is one."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        name = given.get("preset") if isinstance(given, dict) else None
        return {**PRESETS[name], **given} if isinstance(name, str) and name in PRESETS else given

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.header:
            raise ValueError("`header` is missing: name the header field with the signature, or a `preset`")
        if self.timestamp_field and not self.signature_field:
            raise ValueError("`timestamp_field` is a field beside `signature_field`: set that too")
        if self.timestamp_field and self.timestamp_header:
            raise ValueError("the timestamp is in `timestamp_field` or in `timestamp_header`, not in both")
        if self.timestamp_header == self.header:
            raise ValueError("`header` and `timestamp_header` are the same")
        parts = self.parts()
        if unknown := [p for p in parts if p[:1] == "{" and p not in ("{body}", "{timestamp}")]:
            raise ValueError(f"`signed` has the unknown part {unknown[0]}: write {{body}} and {{timestamp}}")
        if parts.count("{body}") != 1:
            raise ValueError("`signed` must have {body}, once: the signature would say nothing about the event")
        if parts.count("{timestamp}") != (1 if self.has_timestamp else 0):
            raise ValueError(
                "the timestamp is not signed: anyone could change it; add {timestamp} to `signed`"
                if self.has_timestamp
                else "`signed` has {timestamp}: set `timestamp_header` or `timestamp_field`"
            )
        return self

    @property
    def has_timestamp(self) -> bool:
        return bool(self.timestamp_field or self.timestamp_header)

    def parts(self) -> list[str]:
        """`signed` in pieces: text, `{body}` and `{timestamp}`."""
        return [part for part in _PART.split(self.signed) if part]

    def outdated(self) -> Iterator[tuple[Place, str, str]]:
        """A warning of an outdated hash function."""
        if self.algorithm == "sha1":
            yield ("algorithm",), "SHA-1 is outdated", "use sha256 if the other side can"
