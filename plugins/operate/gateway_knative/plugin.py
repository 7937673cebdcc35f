"""The plugin's hooks: Knative manifests as documents of a config, and the sections `refs` and `subjects` with the
addresses and the identities of the objects that manifests refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.config_extension import ConfigSection, DocumentContent, DocumentKind, TriggerDocuments
    from gateway_core.contract.config_node import Node


def _matches(document: Node) -> bool:
    return "kind" in document.value or "apiVersion" in document.value


def _read(documents: Sequence[Node], sections: Mapping[str, Node], env: Mapping[str, str]) -> DocumentContent:
    if not documents and not {"refs", "subjects"} & sections.keys():
        from gateway_core.contract.config_extension import DocumentContent

        return DocumentContent()
    from .manifests import read

    return read(documents, sections, env)


def _triggers(document: Node, env: Mapping[str, str]) -> TriggerDocuments:
    from .manifests import triggers

    return triggers(document, env)


_REFS = (
    "Addresses of the objects that Knative manifests refer to: `Kind/name` or `Kind/namespace/name` (optionally with "
    "`apiVersion/` in front) and a URL or any sink."
)
_SUBJECTS = (
    "Subjects of the objects that `from.ref` of an EventPolicy names: `Kind/name` or `Kind/namespace/name` (optionally "
    "with `apiVersion/` in front) and one subject or a list, such as `system:serviceaccount:shop:orders`."
)


@hookimpl
def gateway_config_sections() -> list[ConfigSection]:
    from gateway_core.contract.component import SinkRef
    from gateway_core.contract.config_extension import ConfigSection

    return [ConfigSection("refs", _REFS, SinkRef), ConfigSection("subjects", _SUBJECTS, str | list[str])]


@hookimpl
def gateway_config_documents() -> list[DocumentKind]:
    from gateway_core.contract.config_extension import DocumentKind

    manifest = DocumentKind(
        name="manifest",
        summary="Knative manifests: `kind: Broker` and `kind: Trigger` of eventing.knative.dev/v1, `kind: EventPolicy` "
        "of v1alpha1.",
        matches=_matches,
        read=_read,
        fallback=True,  # other manifests get a warning, or a fault if they restrict what the gateway does not enforce
        triggers=_triggers,
        trigger_hint="manifests of `kind: Trigger`",
    )
    return [manifest]
