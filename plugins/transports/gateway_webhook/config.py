"""The codec's options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, Field

from gateway_core.contract.component import Config
from gateway_core.contract.config_node import Place

from .template import parse


def _template(text: str) -> str:
    parse(text)
    return text


def _names(extensions: dict[str, str]) -> dict[str, str]:
    for name in extensions:
        if name in ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data"):
            raise ValueError(f"`{name}` is no extension")
    return extensions


Template = Annotated[str, AfterValidator(_template)]
Name = Annotated[str, Field(pattern="^[a-z0-9]{1,100}$")]


class WebhookConfig(Config):
    """Webhooks that are no CloudEvents. Each POST becomes one event of CloudEvents 1.0, whose data is the body as it
    came. Attributes are text; `{x-github-event}` in it is a header field of the request, `{/data/object/id}` a value
    in the JSON body (a JSON pointer, RFC 6901), `{sha256(body)}` the digest of the body in hexadecimal. Of a form, the
    field `payload` counts as the JSON body, or else its fields do as members. An optional attribute whose value is not
    valid is left out, and counted."""

    type: Annotated[Template, Field(min_length=1)]
    """The event's `type`."""
    source: Annotated[Template, Field(min_length=1)]
    """The event's `source`, a URI-reference. Parts of the request in it are percent-encoded where a URI needs that; one
    with which it begins (`{/repository/url}`) may be a URI itself."""
    id: Template = ""
    """The event's `id`. A delivery that the sender repeats should have the same one. Without this option each delivery
    gets a new, random one."""
    subject: Template = ""
    """The event's `subject`. Where the request lacks a part of it, the event has none."""
    time: Template = ""
    """The event's `time`: RFC 3339, or whole Unix seconds. Where the request lacks it, the event has none."""
    extensions: Annotated[dict[Name, Template], AfterValidator(_names)] = {}
    """Extension attributes. Where the request lacks a part of one, the event has none of that name."""

    def warnings(self) -> Iterable[tuple[Place, str, str]]:
        """See `Config`."""
        if not self.id:
            text = "without `id`, a delivery that the sender repeats becomes another event"
            yield (), text, "add `id`, such as `{/id}`, `{webhook-id}` or `{sha256(body)}`"
