"""Where a manifest sends events: a `uri`, or a `ref` to a Kubernetes object that the section `refs` maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urljoin

from gateway_core.contract.config_node import Node
from gateway_core.contract.faults import near

from .part import Part

_REF_KEYS = ("apiVersion", "kind", "name", "namespace", "group", "address")
_OWN = "map a `ref` in `refs` to a sink with all its options instead"
_UNSUPPORTED = {"CACerts": _OWN}
_TOKEN = (
    "map a `ref` in `refs` to `http` with `credentials` for this audience: "
    "`bearer_file: {path: …, audience: …}`, or `oauth2` with `audience`"
)


@dataclass(frozen=True)
class Objects:
    """The objects that a `ref` can name: those in the section `refs`, and brokers of the same config by
    `namespace/name`, each with its URL."""

    refs: Node | None = None
    brokers: Mapping[str, str] = field(default_factory=dict)


def destination(part: Part, objects: Objects, namespace: str) -> Node | None:
    """The sink of a subscriber or a dead letter sink; None if it has a fault."""
    part.only(("ref", "uri", "audience"), _UNSUPPORTED)
    found = _sink(part, objects, namespace)
    if found is None or not part.has("audience"):
        return found
    audience = part.text("audience")
    if audience is None or _has_token_for(audience, found, part):
        return found if audience is not None else None
    text = f"the subscriber wants a token for the audience `{audience}`, and the gateway would send none"
    part.fault("audience", text, _TOKEN)
    return None


def _sink(part: Part, objects: Objects, namespace: str) -> Node | None:
    if part.has("ref"):
        ref = part.part("ref")
        found = _mapped(ref, part, objects, namespace) if ref else None
        return _beneath(part, found) if found and part.has("uri") else found
    if not part.has("uri"):
        part.fault("uri", "`uri` or `ref` is missing", "add `uri: http://HOST/PATH`")
        return None
    if "${" in str(part.node.value["uri"].value):  # filled in later, perhaps with a secret
        return part.moved("uri")
    uri = part.text("uri")
    if uri is not None and "://" not in uri:
        part.fault("uri", f"expected an absolute URL, found `{uri}`", "write http://HOST[:PORT]/PATH")
        return None
    return None if uri is None else part.moved("uri")


def _mapped(ref: Part, part: Part, objects: Objects, namespace: str) -> Node | None:
    ref.only(_REF_KEYS)
    for key in ("kind", "name"):
        if not ref.has(key):
            ref.fault(key, f"the key `{key}` is missing", f"add `{key}`")
    kind, name, version = ref.text("kind"), ref.text("name"), ref.text("apiVersion")
    if kind is None or name is None:
        return None
    namespace = ref.text("namespace") or namespace
    refs = objects.refs
    table = refs.value if refs is not None else {}
    for key in object_keys(kind, namespace, name, version):
        if key in table:
            found: Node = table[key]
            return found.copy(refs.lines[key] if refs else None)
    if kind == "Broker" and f"{namespace}/{name}" in objects.brokers:
        return part.made("ref", objects.brokers[f"{namespace}/{name}"])
    wanted = f"{kind}/{namespace}/{name}"
    alike = [key for key in (*table, *(f"Broker/{b}" for b in objects.brokers)) if f"{kind}/" in key]
    remedy = near(name, [end for key in alike if (end := key.rpartition("/")[2]) != name])
    remedy = remedy or f"add its address to `refs`: `refs: {{{wanted}: http://HOST/PATH}}`"
    part.fault("ref", f"`{wanted}` is a Kubernetes object that `refs` does not map", remedy)
    return None


def object_keys(kind: str, namespace: str, name: str, version: str | None) -> Iterator[str]:
    """The keys of `refs` and `subjects` that match an object, the most specific first."""
    for end in (f"{kind}/{namespace}/{name}", f"{kind}/{name}"):
        if version:
            yield f"{version}/{end}"
        yield end


def _beneath(part: Part, base: Node) -> Node | None:
    """A `uri` next to a `ref` is relative to the object's address."""
    uri = part.text("uri")
    if uri is None:
        return None
    if "://" in uri:
        part.fault("uri", "a `uri` next to a `ref` must be relative", "remove one of them")
    elif not isinstance(base.value, str) or "://" not in base.value:
        part.fault("uri", f"`{base.written}` is not a base URL for a relative `uri`", "write a URL there")
    else:
        return part.made("uri", urljoin(base.value, uri))
    return None


def _has_token_for(audience: str, sink: Node, part: Part) -> bool:
    """Whether a sink of `refs` has credentials for this audience."""
    options = next(iter(sink.value.values())).value if isinstance(sink.value, dict) and sink.value else None
    credentials = options["credentials"].value if isinstance(options, dict) and "credentials" in options else None
    kinds = credentials.values() if isinstance(credentials, dict) else ()
    return any(
        isinstance(kind.value, dict) and Part(kind, "refs", part.notes).text("audience") == audience for kind in kinds
    )
