"""Sections and kinds of documents that a plugin of someone else adds to the config."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from gateway_admin import documents
from gateway_admin.permits import Permits
from gateway_api.routes import Problem, Request
from gateway_inspect.schema import schema

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, Component, Config, SinkRef, Transport
from gateway_core.contract.config_extension import (
    ConfigFinding,
    ConfigSection,
    DocumentContent,
    DocumentEntry,
    DocumentKind,
    DocumentOrigin,
    TriggerDocuments,
)
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Node
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError, Fault, StartError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.loaded import Loaded

PLUGIN = '''
"""Adds the section `quotas`, and documents of `version: pipes/1`, each of them a trigger."""

from gateway_core.contract.component import Config
from gateway_core.contract.config_extension import (
    ConfigSection, DocumentContent, DocumentEntry, DocumentKind, DocumentOrigin
)
from gateway_core.contract.hookspecs import hookimpl


class QuotaConfig(Config):
    """How much a tenant may send."""

    per_s: float
    """Events in a second."""


def read(documents, sections, env):
    entries = []
    for document in documents:
        name, to = document.value["pipe"], document.value["to"]
        origin = DocumentOrigin("Pipe", name.value, "", document.file, document.lines["pipe"], "pipe")
        entries.append(DocumentEntry("triggers", name.value, origin, {"subscriber": to.copy(written="to")}))
    return DocumentContent(entries)


@hookimpl
def gateway_config_sections():
    return [ConfigSection("quotas", "How much each tenant may send.", QuotaConfig)]


@hookimpl
def gateway_config_documents():
    return [DocumentKind("pipe", "Pipes.", lambda document: "pipe" in document.value, read)]
'''


class SinkConfig(Config):
    word: str = ""


class QuotaConfig(Config):
    """How much a tenant may send."""

    per_s: float
    """Events in a second."""
    overflow: SinkRef | None = None
    """Where the rest goes."""

    def warnings(self) -> list[tuple[tuple[str, ...], str, str]]:
        return [(("per_s",), "nothing gets through", "write more than 0")] if self.per_s == 0 else []


def build(options: Any, context: BuildContext) -> Any:
    return options


def has(key: str, document: Node) -> bool:
    return key in document.value


def pipes(found: Sequence[Node], sections: Mapping[str, Node], env: Mapping[str, str]) -> DocumentContent:
    """`pipe: NAME` and `to: SINK` become a trigger, `start` unless the section has it; `stop` is no pipe's key."""
    entries, faults = [], []
    for one in found:
        name = one.value["pipe"]
        if "stop" in one.value:
            faults.append(Fault("pipes don't stop", "stop", one.file, one.lines["stop"]))
        entries.append(
            DocumentEntry(
                "triggers",
                str(name.value),
                DocumentOrigin("Pipe", str(name.value), env.get("SPACE", ""), one.file, one.lines["pipe"], "pipe"),
                {"subscriber": one.value["to"].copy(one.lines["to"], "to")},
                {"start": Node("earliest", one.file, one.line)},
            )
        )
    warnings = [Fault("no pipe here", "", "", 0)] if not found else []
    return DocumentContent(entries, faults, warnings)


def pipe_triggers(document: Node, env: Mapping[str, str]) -> TriggerDocuments:
    return TriggerDocuments([(document.value["pipe"].value, document)])


PIPE = DocumentKind(
    "pipe", "Pipes.", lambda node: has("pipe", node), pipes, triggers=pipe_triggers, trigger_hint="a `pipe:`"
)
QUOTAS = ConfigSection("quotas", "How much each tenant may send.", QuotaConfig)


class Plugin:
    def __init__(self, sections: Sequence[ConfigSection] = (), kinds: Sequence[DocumentKind] = ()) -> None:
        self.sections = sections
        self.kinds = kinds

    @hookimpl
    def gateway_config_sections(self) -> Sequence[ConfigSection]:
        return self.sections

    @hookimpl
    def gateway_config_documents(self) -> Sequence[DocumentKind]:
        return self.kinds


class Checking:
    def __init__(self, check: Callable[[GatewayConfig], Iterable[ConfigFinding]]) -> None:
        self.check = check

    @hookimpl
    def gateway_config_checks(self) -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
        return [self.check]


class Sinks:
    @hookimpl
    def gateway_transports(self) -> list[Transport]:
        return [Transport("sink", sink=Component("sink", "A sink.", SinkConfig, build))]

    @hookimpl
    def gateway_channels(self) -> list[Component]:
        return [Component("log", "A channel.", SinkConfig, build)]

    @hookimpl
    def gateway_dead_letters(self) -> list[Component]:
        return [Component("deadletter", "A dead letter.", SinkConfig, build)]


def made(*plugins: Plugin | Checking) -> Registry:
    registry = Registry()
    registry.add("sinks", Sinks())
    for name, plugin in zip(("pipes", "other"), plugins, strict=False):
        registry.add(name, plugin)
    registry.check()
    return registry


REGISTRY = made(Plugin([QUOTAS], [PIPE]))
BROKER = "brokers: {default: {}}\n"


def loaded(folder: Path, *texts: str, registry: Registry = REGISTRY, env: Mapping[str, str] | None = None) -> Loaded:
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
    return load_all([folder], registry, env or {})


def faults(folder: Path, *texts: str, registry: Registry = REGISTRY) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, *texts, registry=registry)
    return [
        f"{Path(f.file).name}:{f.line}: {f.path}: {f.message}" + f" [{f.remedy}]" * bool(f.remedy)
        for f in caught.value.faults
    ]


# -- sections -----------------------------------------------------------------------------------------------------


def test_a_section_is_merged_from_files_and_reaches_its_plugin_with_places(tmp_path: Path) -> None:
    overflow = "overflow: {sink: {word: '${WORD}'}}"
    texts = [f"{BROKER}quotas:\n  a tenant: {{per_s: 3, {overflow}}}\n", "quotas:\n\n  b/c: {per_s: 0.5}\n"]
    found = loaded(tmp_path, *texts, env={"WORD": "w"})
    quotas = found.config.section("quotas")
    assert {name: quota.per_s for name, quota in quotas.items()} == {"a tenant": 3, "b/c": 0.5}
    assert quotas["a tenant"].overflow.options == SinkConfig(word="w")
    assert found.place("quotas", "b/c") == (str(tmp_path / "1.yaml"), 3)
    assert found.place("quotas", "nobody") is None
    assert loaded(tmp_path, BROKER, "").config.section("quotas") == {}


def test_faults_of_a_section_have_their_lines_and_remedies(tmp_path: Path) -> None:
    text = f"{BROKER}quotas:\n  a: {{per_s: many}}\n  b: {{per_s: 1, overflow: snik}}\nquota: {{}}\n"
    assert faults(tmp_path, text, "quotas: {a: {per_s: 1}}\n") == [
        "0.yaml:3: quotas.a.per_s: expected a number, found the text 'many'",
        "0.yaml:4: quotas.b.overflow: unknown sink `snik` [did you mean `sink`?]",
        "0.yaml:5: quota: unknown section `quota` [did you mean `quotas`?]",
        f"1.yaml:1: quotas.a: `a` is defined twice; first in {tmp_path}/0.yaml:3 [rename or remove one of them]",
    ]
    (tmp_path / "1.yaml").unlink()
    expected = "0.yaml:1: quotas: expected a mapping of names"
    assert faults(tmp_path, "quotas: [1]\n") == [expected]
    assert faults(tmp_path, "quotas:\n") == [f"{expected} [write entries, or remove it]"]
    (far,) = faults(tmp_path, "unlike: {}\n")
    assert "[sections: `brokers`, `triggers`, `bridges`, `observers`, `secrets`, `quotas`, `include`]" in far


def test_an_entry_may_warn(tmp_path: Path) -> None:
    warnings = loaded(tmp_path, f"{BROKER}quotas:\n  a: {{per_s: 0}}\n").warnings
    assert ("quotas.a.per_s", 3, "nothing gets through") in [(w.path, w.line, w.message) for w in warnings]


def test_an_entry_whose_check_fails_names_the_plugin(tmp_path: Path) -> None:
    class Fussy(Config):
        def warnings(self) -> list[Any]:
            raise KeyError("oh")

    registry = made(Plugin([ConfigSection("quotas", "Fussy.", Fussy)]))
    assert faults(tmp_path, "quotas: {a: {}}\n", registry=registry) == [
        "0.yaml:1: quotas.a: the plugin `pipes` failed to check this: KeyError: 'oh'"
    ]


@pytest.mark.slow
def test_the_editor_schema_has_the_section() -> None:
    document = schema(REGISTRY)
    section = document["$defs"]["GatewayConfig"]["properties"]["quotas"]
    assert section["description"] == "How much each tenant may send."
    validator = jsonschema.Draft202012Validator(document)
    assert validator.is_valid({"quotas": {"a tenant": {"per_s": 1, "overflow": "sink"}}})
    assert not validator.is_valid({"quotas": {"a tenant": {"per_second": 1}}})
    assert not validator.is_valid({"tests": {}}), "no plugin offers it"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["copy", "schema", "model_config", "x-limits"])
def test_a_section_may_have_any_name_that_is_free(tmp_path: Path, name: str) -> None:
    registry = made(Plugin([ConfigSection(name, "Named like something in Python.", QuotaConfig)]))
    assert loaded(tmp_path, f"{BROKER}{name}: {{a: {{per_s: 1}}}}\n", registry=registry).config.section(name)
    assert name in schema(registry)["$defs"]["GatewayConfig"]["properties"]


# -- documents ----------------------------------------------------------------------------------------------------


def test_a_document_becomes_an_entry_that_knows_its_origin(tmp_path: Path) -> None:
    found = loaded(tmp_path, f"{BROKER}---\npipe: a\nto: sink\n", env={"SPACE": "lab"})
    trigger = found.config.triggers["a"]
    assert trigger.origin == DocumentOrigin("Pipe", "a", "lab")
    assert trigger.origin is not None
    assert (trigger.origin.file, trigger.origin.line) == (str(tmp_path / "0.yaml"), 3)
    assert found.place("triggers", "a") == (str(tmp_path / "0.yaml"), 3)
    assert (trigger.subscriber.name, trigger.start) == ("sink", "earliest")


def test_a_section_adds_to_a_documents_entry_in_any_order(tmp_path: Path) -> None:
    own, pipe = "triggers: {a: {start: latest, delivery: {retry: 1}}}\n", "pipe: a\nto: sink\n"
    for texts in ((own, pipe), (pipe, own)):
        trigger = loaded(tmp_path, *texts).config.triggers["a"]
        assert (trigger.start, trigger.delivery.retry, trigger.subscriber.name) == ("latest", 1, "sink")
        assert trigger.origin is not None


def test_faults_about_documents_name_their_lines_and_keys(tmp_path: Path) -> None:
    text = "triggers:\n  a: {subscriber: sink}\n---\npipe: a\nto: sink\nstop: 1\n---\npipe: '-'\nto: sink\n"
    assert faults(tmp_path, text, "pipe: a\nto: sink\n---\npipe: b\nto: {sink: {wrod: x}}\n") == [
        f"0.yaml:2: triggers.a.subscriber: the pipe sets this too: to in {tmp_path}/0.yaml:5 [remove one of them]",
        "0.yaml:6: stop: pipes don't stop",
        "0.yaml:8: pipe: `-` can't be a name [a name is made of letters, digits, `.`, `_` and `-`, at most 63, with a"
        " letter or digit at both ends]",
        f"1.yaml:1: pipe: `a` is defined twice; first in {tmp_path}/0.yaml:4 [rename or remove one of them]",
        "1.yaml:5: to.sink.wrod: unknown key `wrod` [did you mean `word`?]",
    ]


def test_a_kind_is_read_without_documents_too(tmp_path: Path) -> None:
    assert "no pipe here" in [w.message for w in loaded(tmp_path, BROKER).warnings]


def test_a_document_with_a_section_is_never_offered_to_a_kind(tmp_path: Path) -> None:
    assert faults(tmp_path, "pipe: a\nto: sink\nquotas: {}\n")[0].startswith("0.yaml:1: pipe: unknown section `pipe`")


def test_a_kind_that_fails_is_named(tmp_path: Path) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("oh")

    def elsewhere(found: Sequence[Node], sections: Any, env: Any) -> DocumentContent:
        return DocumentContent([DocumentEntry("observers", "a", DocumentOrigin("Pipe", "a")) for _ in found])

    pipe = "pipe: a\nto: sink\n"
    for kind, message in (
        (replace(PIPE, read=fail), "0.yaml:1: : the plugin `pipes` failed to read documents of the kind `pipe`"),
        (replace(PIPE, matches=fail), "0.yaml:1: : the plugin `pipes` failed to look at this document: KeyError"),
        (replace(PIPE, read=elsewhere), ":0: : the plugin `pipes` adds to `observers`, which has no named entries"),
    ):
        (fault,) = faults(tmp_path, BROKER + "---\n" + pipe, registry=made(Plugin([], [kind])))
        assert fault.replace("0.yaml:3", "0.yaml:1").startswith(message)


def test_a_document_of_two_kinds_is_a_fault_unless_one_is_a_fallback(tmp_path: Path) -> None:
    other = replace(PIPE, name="tube", read=lambda *_: DocumentContent())
    text = f"{BROKER}---\npipe: a\nto: sink\n"
    (fault,) = faults(tmp_path, text, registry=made(Plugin([], [PIPE]), Plugin([], [other])))
    assert fault.startswith(
        "0.yaml:3: : the document is of two kinds: `pipe` (plugin `pipes`) and `tube` (plugin `other`)"
    )
    for plugins in (
        (Plugin([], [PIPE]), Plugin([], [replace(other, fallback=True)])),
        (Plugin([], [replace(other, fallback=True)]), Plugin([], [PIPE])),
    ):
        assert "a" in loaded(tmp_path, text, registry=made(*plugins)).config.triggers


PERMITS = Permits(None, Path("unused"))


def test_a_request_to_the_admin_api_may_hold_such_documents() -> None:
    body = b"triggers: {own: {subscriber: sink}}\n---\npipe: a\nto: sink\n"
    assert set(documents.entries(Request("POST", "/", body=body), REGISTRY, {}, PERMITS)) == {"own", "a"}
    alone = Request("PUT", "/", body=b"pipe: a\nto: sink\n")
    assert set(documents.entry(alone, "a", REGISTRY, {}, PERMITS)) == {"a"}
    with pytest.raises(Problem, match=r"no trigger in the body: write `triggers:`, or a `pipe:`"):
        documents.entries(Request("POST", "/", body=b"triggers: {}"), REGISTRY, {}, PERMITS)
    without = made(Plugin([], [replace(PIPE, triggers=None)]))
    with pytest.raises(Problem) as caught:
        documents.entries(alone, without, {}, PERMITS)
    assert [f.message for f in caught.value.faults] == [
        "only triggers can be applied to a running gateway, and a pipe has none"
    ]


# -- checks -------------------------------------------------------------------------------------------------------


def test_a_plugin_checks_the_whole_config(tmp_path: Path) -> None:
    def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
        for name in config.brokers:
            yield ConfigFinding("too many", ("brokers", name), "have fewer", warning=name == "default")

    registry = made(Checking(check))
    assert ("brokers.default", 1, "too many", "have fewer") in [
        (w.path, w.line, w.message, w.remedy) for w in loaded(tmp_path, BROKER, registry=registry).warnings
    ]
    assert faults(tmp_path, "brokers:\n  a: {}\n  b: {ingress: x}\n", registry=registry) == [
        "0.yaml:2: brokers.a: too many [have fewer]",
        "0.yaml:3: brokers.b.ingress: expected a list, found the text 'x' [begin each entry with `- `]",
    ]


def test_a_check_that_fails_is_named(tmp_path: Path) -> None:
    def check(config: GatewayConfig) -> list[ConfigFinding]:
        raise KeyError("oh")

    (fault,) = faults(tmp_path, BROKER, registry=made(Checking(check)))
    assert fault.endswith("the plugin `pipes` failed to check the config: KeyError: 'oh'")


# -- plugins ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Plugin([QUOTAS]), "config section 'quotas' comes from two plugins: 'pipes' and 'other'"),
        (Plugin([], [PIPE]), "document kind 'pipe' comes from two plugins: 'pipes' and 'other'"),
        (
            Plugin([replace(QUOTAS, name="brokers")]),
            "config section 'brokers' of plugin 'other' is one of the gateway's",
        ),
    ],
)
def test_a_name_that_is_taken_stops_the_start(second: Plugin, message: str) -> None:
    with pytest.raises(StartError, match=message):
        made(Plugin([QUOTAS], [PIPE]), second)


def test_what_ships_comes_in_by_the_same_door() -> None:
    registry = Registry.installed()
    sections = {name: plugin for name, (_, plugin) in registry.sections.items()}
    assert sections == {
        "apply": "admin",
        "console": "console",
        "operators": "admin",
        "policies": "access",
        "refs": "knative",
        "subjects": "knative",
        "tests": "scenario",
    }
    assert {name: plugin for name, (_, plugin) in registry.documents.items()} == {"manifest": "knative"}


@pytest.mark.usefixtures("processes")
def test_the_command_line_knows_an_installed_plugins_section_and_documents(tmp_path: Path) -> None:
    info = tmp_path / "tidegate_pipes-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate-pipes\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[tidegate]\npipes = tidegate_pipes\n")
    (tmp_path / "tidegate_pipes.py").write_text(PLUGIN)
    config = tmp_path / "gateway.yaml"

    def tidegate(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "gateway_core.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    config.write_text(f"{BROKER}quotas: {{a tenant: {{per_s: 1}}}}\n---\npipe: a\nto: http://127.0.0.1:9/\n")
    assert tidegate("check", "gateway.yaml").returncode == 0
    config.write_text(f"{BROKER}quotas: {{a tenant: {{per_s: x}}}}\n---\npipe: a\nto: htp://127.0.0.1:9/\n")
    checked = tidegate("check", "gateway.yaml")
    assert checked.returncode == 1
    assert "gateway.yaml:2: quotas.a tenant.per_s: expected a number" in checked.stdout
    assert "gateway.yaml:5: to: no sink takes `htp://` URLs" in checked.stdout
    assert '"quotas"' in tidegate("schema").stdout
    listed = tidegate("plugins", "--json").stdout
    assert '"quotas"' in listed
    assert '"pipe"' in listed
