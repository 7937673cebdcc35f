"""The reference pages, made from what the code says of itself."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, cast, get_args

import docs_fields as fields
import docs_metrics
import docs_picture
import docs_proof
import docs_transports
import typer
from code_map import code_map
from gateway_api import routes
from gateway_inspect.schema import whole_model
from oldest import oldest
from public_contract import public_contract
from pydantic import BaseModel
from typer.core import TyperArgument, TyperGroup

from gateway_core.cli.app import app
from gateway_core.cli.lazy import loaded
from gateway_core.contract import (
    capabilities,
    config_extension,
    config_node,
    errors,
    event,
    hookspecs,
    interfaces,
    outcome,
    runners,
    services,
)
from gateway_core.contract.component import Binding, BuildContext, Command, Component, Guarantees, Kind, Transport
from gateway_core.contract.config_extension import (
    ConfigFinding,
    ConfigSection,
    DocumentContent,
    DocumentEntry,
    DocumentKind,
    DocumentOrigin,
    TriggerDocuments,
)
from gateway_core.contract.configs import Registry, installed
from gateway_core.contract.offer import Offer
from gateway_core.contract.settings import Settings

EXTENSIONS = (
    ConfigSection,
    ConfigFinding,
    DocumentKind,
    DocumentContent,
    DocumentEntry,
    DocumentOrigin,
    TriggerDocuments,
)
_EVERYWHERE = ("install_completion", "show_completion")
HEAD = "<!-- Written by `make docs`; do not edit. -->\n\n"

_KINDS: dict[Kind, str] = {
    "source": "Bring events in: a broker's `ingress`, a bridge's `source`.",
    "sink": "Send events out: a trigger's `subscriber`, a bridge's `sink`, and `dead_letter`.",
    "channel": "Keep a broker's events between ingress and delivery: its `channel`.",
    "codec": "Turn messages into events and events into messages: the `codec` of transports.",
    "filter": "Select the events that a trigger or a bridge wants: an entry of `filters`.",
    "key_mapper": "Choose the record key of outgoing events.",
    "dead_letter": "Store undeliverable events: `dead_letter`. Every sink can be one, too.",
    "observer": "Are notified of what happens to events: an entry of `observers`.",
    "authenticator": "Find out who sends: an entry of `authenticate` of an ingress.",
    "client": "Reach the servers of a transport that can use several client libraries: its `client`.",
}


def _ours(registry: Registry, plugin: str) -> bool:
    """Whether a plugin is of this tree; others that are installed here have no place in its pages."""
    return registry.plugins[plugin].startswith(("tidegate ", "tidegate-dev "))


def _page(*parts: str) -> str:
    return HEAD + "\n".join(parts).rstrip() + "\n"


# -- config -------------------------------------------------------------------------------------------------------


def config() -> str:
    """Sections of a config file, and the settings of the process."""
    registry = installed()
    model = whole_model(section for section, plugin in registry.sections.values() if _ours(registry, plugin))
    lines = ["# Config", "", fields.text_of(model), ""]
    lines += [
        "In every value `${NAME}` is the environment variable NAME, `${NAME:-text}` has a default, `${secret:NAME}` is",
        "a secret, and `$${` is the text `${`. Keys that are not listed are faults, as are wrong types and unknown",
        "components; `tidegate check` reports all of them. `tidegate schema` prints a JSON Schema for editors.",
        "",
    ]
    lines += fields.table(model, "components.md")
    for inner in fields.nested(model):
        lines += ["", f"## {inner.__name__}", "", fields.text_of(inner), "", *fields.table(inner, "components.md")]
    lines += ["", "## Process settings", "", fields.text_of(Settings), "", *_settings()]
    return _page(*lines)


def _settings() -> list[str]:
    rows = fields.table(Settings)
    return [rows[0].replace("| key", "| variable"), rows[1], *(_as_variable(row) for row in rows[2:])]


def _as_variable(row: str) -> str:
    name, rest = row.removeprefix("| `").split("`", 1)
    return f"| `TIDEGATE_{name.upper()}`{rest}"


# -- components ---------------------------------------------------------------------------------------------------


def components() -> str:
    """All components that this tree ships, with their options."""
    registry = installed()
    lines = [
        "# Components",
        "",
        "What a config can name: a component's name alone, `name: {options}`, or, where a component has URL schemes, a",
        "URL. `tidegate plugins` lists what is installed and what is missing.",
    ]
    for kind in get_args(Kind):
        lines += ["", f"## {kind}", "", _KINDS[kind]]
        for offer in registry.offers(kind):
            if offer.kind == kind and _ours(registry, offer.plugin):
                lines += _component(offer)
    return _page(*lines)


def _component(offer: Offer) -> Iterator[str]:
    component = offer.component
    yield from ("", f"### {offer.kind}: {component.name}", "", component.summary)
    facts = [f"Plugin `{offer.plugin}`."]
    if component.extra:
        facts.append(f"Needs the extra `tidegate[{component.extra}]`.")
    if component.schemes:
        facts.append(f"URLs: {', '.join(f'`{s}://…`' for s in component.schemes)}.")
    yield from ("", " ".join(facts), "", *_options(component.model))
    for model in fields.nested(component.model):
        if table := fields.table(model):
            yield from ("", f"#### {model.__name__}", "", fields.text_of(model), "", *table)


def _options(model: type[BaseModel]) -> list[str]:
    text = fields.text_of(model)
    if "root" in model.model_fields:
        return [f"Takes a {fields.root_type(model)}: {text[:1].lower()}{text[1:]}"]
    table = fields.table(model)
    return [text, "", *table] if table else [text]


# -- hooks --------------------------------------------------------------------------------------------------------


def hooks() -> str:
    """Hook specifications, descriptors and interfaces."""
    lines = ["# Hooks", "", inspect.getdoc(hookspecs) or ""]
    for name, function in vars(hookspecs).items():
        if name.startswith("gateway_"):
            lines += ["", f"## {name}", "", _signature(function), "", inspect.getdoc(function) or ""]
    lines += ["", "# Descriptors", ""]
    cls: type
    for cls in (Component, Guarantees, Transport, Command, BuildContext, Binding):
        lines += [f"## {cls.__name__}", "", _fenced(_fields_of(cls)), "", _listed(inspect.getdoc(cls) or ""), ""]
    lines += ["`gateway_core.contract.config_extension`. " + (inspect.getdoc(config_extension) or ""), ""]
    for cls in EXTENSIONS:
        lines += [f"## {cls.__name__}", "", _fenced(_fields_of(cls)), "", _listed(inspect.getdoc(cls) or ""), ""]
    lines += ["`gateway_core.contract.config_node`. " + (inspect.getdoc(config_node) or ""), ""]
    lines += _classes(config_node)
    lines += ["# Values", "", "`gateway_core.contract.event` and `gateway_core.contract.outcome`.", ""]
    lines += [*_classes(event), *_classes(outcome)]
    lines += [
        "# Errors",
        "",
        "`gateway_core.contract.errors`. " + (inspect.getdoc(errors) or ""),
        "",
        *_classes(errors),
    ]
    lines += ["# Interfaces", "", "`gateway_core.contract.interfaces`. " + (inspect.getdoc(interfaces) or ""), ""]
    lines += _classes(interfaces)
    lines += ["# Capabilities", "", "`gateway_core.contract.capabilities`. " + (inspect.getdoc(capabilities) or ""), ""]
    lines += _classes(capabilities)
    for module in (services, runners, routes):
        title = module.__name__.rpartition(".")[2].capitalize()
        lines += [f"# {title}", "", f"`{module.__name__}`. " + (inspect.getdoc(module) or ""), "", *_classes(module)]
    return _page(*lines)


def _fields_of(cls: type) -> str:
    # the formatter reads the code in pages, too
    lines = (f"{name}: {annotation}" for name, annotation in inspect.get_annotations(cls).items())
    return "\n".join(lines).replace("'", '"')


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def _signature(function: Callable[..., Any]) -> str:
    returns = inspect.signature(function).return_annotation
    return _fenced(f"@hookimpl\ndef {function.__name__}() -> {returns}: ...")


def _classes(module: ModuleType) -> Iterator[str]:
    """Every public class of a module and every name that has a docstring, read from its source so that order and
    wording stay."""
    source = inspect.getsource(module)
    lines, body = source.splitlines(), ast.parse(source).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            of = f"`class {node.name}({bases})`" if bases and "Protocol" not in bases else ""
            yield from (f"## {node.name}", "", *([of, ""] if of else []), _listed(ast.get_docstring(node) or ""), "")
            for part, after in zip(node.body, [*node.body[1:], None], strict=True):
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(part.name):
                    yield from _method(part, node.name)
                elif isinstance(part, ast.AnnAssign) and _is_public(ast.unparse(part.target)):
                    yield from _attribute(part, lines[part.end_lineno - 1] if part.end_lineno else "", after)
        elif isinstance(node, ast.Assign) and (doc := _text(following)):
            yield from (
                f"## {ast.unparse(node.targets[0])}",
                "",
                _fenced(ast.get_source_segment(source, node) or ""),
                "",
                doc,
                "",
            )


def _listed(doc: str) -> str:
    """A docstring in which lines that begin with a name, as in a table, are a list."""
    return (
        re.sub(r"^(`\w+`) {1,}(?=\S)", r"- \1: ", doc, flags=re.MULTILINE)
        if re.search(r"^`\w+` {2,}", doc, re.MULTILINE)
        else doc
    )


def _is_public(name: str) -> bool:
    return name == "__init__" or not name.startswith("_")


def _text(node: ast.stmt | None) -> str:
    """The text of a string that stands by itself, "" for anything else."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""


def _attribute(node: ast.AnnAssign, line: str, following: ast.stmt | None) -> Iterator[str]:
    """An attribute with its docstring, or the comment behind it."""
    default = f" = {ast.unparse(node.value)}" if node.value is not None else ""
    yield f"- `{ast.unparse(node.target)}: {ast.unparse(node.annotation)}{default}`"
    if doc := _text(following) or line.partition("  # ")[2]:
        yield textwrap.indent(doc, "  ")
    yield ""


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> Iterator[str]:
    head = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self")
    if node.name == "__init__":
        yield f"- `{owner}({arguments})`"
    else:
        yield f"- `{head} {node.name}({arguments}){returns}`"
    if doc := ast.get_docstring(node):
        yield textwrap.indent(doc, "  ")
    yield ""


# -- command line -------------------------------------------------------------------------------------------------


def cli() -> str:
    """Every command with its arguments and options, those of plugins too."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    lines = ["# Command line", "", inspect.cleandoc(root.help or ""), "", *_parameters(root)]
    registry = installed()
    for name in root.list_commands(typer.Context(root)):
        command, plugin = registry.commands.get(name, (None, ""))
        if command is None:
            lines += _command(root.commands[name], f"tidegate {name}")
        elif _ours(registry, plugin):
            lines += _command(loaded(cast(Command, command)), f"tidegate {name}")
    return _page(*lines)


def _command(command: Any, path: str) -> Iterator[str]:
    commands = command.commands if isinstance(command, TyperGroup) else {}
    arguments = [_argument(p) for p in command.params if isinstance(p, TyperArgument)]
    usage = " ".join([path, "[OPTIONS]", *arguments, *(["COMMAND"] if commands else [])])
    about = re.sub(r"\[/?bold\]", "`", inspect.cleandoc(command.help or ""))
    yield from ("", f"## {path}", "", f"`{usage}`", "", about)
    if rows := _parameters(command):
        yield from ("", *rows)
    for name, sub in commands.items():
        yield from _command(sub, f"{path} {name}")


def _parameters(command: Any) -> list[str]:
    rows = []
    for parameter in (p for p in command.params if p.name not in _EVERYWHERE):
        names = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts])
        if isinstance(parameter, TyperArgument):
            names = f"`{_argument(parameter)}`"
        meaning = " ".join((parameter.help or "").split()).replace("|", "\\|")
        rows.append(f"| {names} | {_words(parameter)} | {_default(parameter)} | {meaning} |")
    return ["| option | type | default | meaning |", "| --- | --- | --- | --- |", *rows] if rows else []


def _argument(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    name = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _words(parameter: Any) -> str:
    return "" if getattr(parameter, "is_flag", False) else fields.words(parameter.type_descriptor.annotation)


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "(required)"
    if value is None or callable(value) or isinstance(value, bool) or value in ((), [], ""):
        return ""
    return f"`{getattr(value, 'value', value)}`"


# -- metrics ------------------------------------------------------------------------------------------------------


def metrics() -> str:
    """All metrics with their labels."""
    return _page(*docs_metrics.metrics())


# -- transports ---------------------------------------------------------------------------------------------------


def transports() -> str:
    """What each source, sink and channel that this tree ships promises, and what it is tested with."""
    registry = installed()
    return _page(*docs_transports.transports([o for o in registry.offers() if _ours(registry, o.plugin)]))


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/config.md": config,
    "docs/reference/components.md": components,
    "docs/reference/hooks.md": hooks,
    "docs/reference/cli.md": cli,
    "docs/reference/metrics.md": metrics,
    "docs/reference/transports.md": transports,
    "docs/pipeline.svg": docs_picture.picture,
    "docs/discussion/code-map.md": code_map,
    "docs/discussion/proof.md": docs_proof.proof,
    "tests/contract/public.txt": public_contract,
    "requirements/oldest.txt": oldest,
}
"""File -> the function that makes its text."""
