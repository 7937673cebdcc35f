"""All code in the documentation: configs load without a fault, commands exist with their options, Python runs.

Text in a page in another language, or in a place that no test here knows, fails the first test.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from gateway_core.cli.app import app
from gateway_core.cli.lazy import loaded
from gateway_core.config.registry import Registry
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.configs import load
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests.admin_routes import all_routes
from tests.docs.blocks import ROOT, Block, blocks, of_page
from tests.installed import REGISTRY

LANGUAGES = {"", "yaml", "sh", "python", "json", "toml", "promql", "ini"}
SECTIONS = {*GatewayConfig.model_fields, *REGISTRY.sections}
_CODE = re.compile(r"^\s*(\$ |tidegate \w+|import |from \w+ import )", re.MULTILINE)
IDS: Any = {"ids": lambda block: block.name}


def test_every_block_says_a_language_that_is_tested() -> None:
    assert {block.language for block in blocks()} <= LANGUAGES
    untold = [
        b.name
        for b in blocks("")
        if re.search(r"^\s*(\$ |tidegate \w+|import |from \w+ import )", b.text, re.MULTILINE)
    ]
    assert untold == [], "code without a language is not tested"


# -- configs ----------------------------------------------------------------------------------------------------------


def _whole(value: dict[str, Any]) -> dict[str, Any]:
    """A config around a fragment of one."""
    broker = {"ingress": [{"http": {"listen": "127.0.0.1:0"}}]}
    kafka = {"bootstrap": "127.0.0.1:9092", "topic": "t"}
    match sorted(value):
        case ["delivery"]:
            return {"brokers": {"default": broker}, "triggers": {"t": {"subscriber": "http://127.0.0.1:1/", **value}}}
        case ["spark"]:
            return {"brokers": {"default": broker}, "triggers": {"t": {"subscriber": value}}}
        case ["sasl"] | ["tls"] | ["sasl", "tls"]:
            return {"bridges": {"b": {"source": {"http": {"listen": "127.0.0.1:0"}}, "sink": {"kafka": kafka | value}}}}
        case _:
            return value


def _secrets(text: str) -> set[str]:
    return set(re.findall(r"\$\{secret:([\w-]+)\}", text))


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("yaml"), **IDS)
def test_a_config_has_no_faults(block: Block, tmp_path: Path) -> None:
    yaml = YAML(typ="safe", pure=True)
    value = yaml.load(block.text)
    assert isinstance(value, dict), "a block of YAML is a mapping"
    if "scrape_configs" in value:  # Prometheus's own file
        assert value["scrape_configs"][0]["static_configs"][0]["targets"] == ["127.0.0.1:9080"]
        return
    if block.page.parent.name == "tidegate-github" or block.page.name in ("write-a-plugin.md", "a-transport.md"):
        return  # `test_github_package.py`, `test_plugin_page.py` and `test_transport_tutorial.py` install the plugins
    config = _whole(value)
    assert set(config) <= SECTIONS, "a fragment that this test does not know"
    if names := _secrets(block.text) - set(config.get("secrets", {})):
        config["secrets"] = {**config.get("secrets", {}), **{n: {"env": "A_SECRET"} for n in names}}
    for secret in (one["file"] for one in config.get("secrets", {}).values() if "file" in one):
        (tmp_path / secret).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / secret).write_text("5e" * 32)  # as long as a key
    tests = config.pop("tests", None)
    file = tmp_path / "tidegate.yaml"
    if tests is not None:  # next to a config: tests/scenario plays such files, the one of the page is read here
        yaml.dump({"tests": tests}, tmp_path / "tidegate.scenario.yaml")
        config = {"triggers": {n: {"subscriber": "http://127.0.0.1:1/"} for n in _named(tests)}}
    if "refs" in config or any("subscriber" not in t for t in config.get("triggers", {}).values()):
        config = _beside_manifests(config)
    yaml.dump(config, file)
    env = {"A_SECRET": "s3cret", **dict.fromkeys(re.findall(r"env: *(\w+)", block.text), "s3cret")}
    assert _faults(file, env) == []


def _faults(file: Path, env: dict[str, str]) -> list[str]:
    """But for a connector that does not exist yet for the Spark that is installed."""
    try:
        load([file], Registry.installed(), env)
    except ConfigError as e:
        return [str(f) for f in e.faults if "Iceberg has no connector" not in f.message]
    return []


def _named(tests: dict[str, Any]) -> set[str]:
    return {name for case in tests.values() for name in case["expect"]["triggers"]}


def _beside_manifests(config: dict[str, Any]) -> dict[str, Any]:
    """What a Knative manifest would have brought."""
    triggers = {
        name: {"subscriber": "http://127.0.0.1:1/", "broker": name.rpartition(".")[0] + ".default", **trigger}
        for name, trigger in config.get("triggers", {}).items()
    }
    return {**config, **({"triggers": triggers} if triggers else {})}


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tidegate() -> Any:
    """The whole command line, with the commands of plugins."""
    root: Any = typer.main.get_command(app)
    added = {n: loaded(c) for n, (c, _) in Registry.installed().commands.items()}
    root.commands.update(added)
    return root


@pytest.mark.parametrize("block", blocks("sh"), **IDS)
@pytest.mark.usefixtures("processes")
def test_a_shell_block_can_be_run(block: Block, tidegate: Any) -> None:
    checked = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True)
    assert checked.returncode == 0, checked.stderr
    for program, code in re.findall(r"<<'(PY)'\n(.*?)^PY$", block.text, re.DOTALL | re.MULTILINE):
        ast.parse(code, program)
    goals = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in _commands(block.text):
        if words[0] == "tidegate":
            _parse(tidegate, words[1:])
        elif words[0] == "make":
            assert words[1] in goals
        elif words[0] == "curl":
            _known_address([w for w in words if "localhost:9080" in w or "127.0.0.1:9080" in w])


@pytest.mark.slow
@pytest.mark.parametrize("words", ["run --no-such-option", "nonsense", "dlq nonsense", "dlq show", "get --json --yaml"])
def test_a_command_that_does_not_exist_is_found(words: str, tidegate: Any) -> None:
    with pytest.raises(Exception, match=r"option|command|needs"):
        _parse(tidegate, words.split())


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a script, as words."""
    text = re.sub(r"<<'(\w+)'\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE).replace("\\\n", " ")
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words: list[str] = []
        redirected = False
        for word in [*lexer, ";"]:
            if set(word) <= set("();|&"):
                if words := [w for w in words if not re.match(r"[A-Z_]+=", w)]:
                    yield words[words.index("tidegate") :] if "tidegate" in words[:2] else words
                words = []
            elif set(word) <= set("<>"):
                redirected = True
            elif redirected:
                redirected = False
            elif word not in ("{", "}"):
                words.append(word)


def _parse(command: Any, words: list[str]) -> None:
    """Raises where a command, an option or an argument does not exist."""
    path = "tidegate"
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands and (default := getattr(command, "default_command", None)):
            words = [default, *words]
        assert words[0] in command.commands, f"`{path}` has no command `{words[0]}`"
        path, command, words = f"{path} {words[0]}", command.commands[words[0]], words[1:]
    context = command.context_class(command, info_name=path, **command.context_settings)
    command.make_parser(context).parse_args(list(words))
    # the types and the number of arguments too, but for files, which are not there
    left = [w for w in words if w not in ("ID", "[ID…]", "TRIGGER")]
    missing = [p.name for p in command.params if p.required and p.param_type_name == "argument"]
    assert len(left) >= len(missing) or len(words) >= len(missing), f"`{path}` needs {missing}"


def _known_address(urls: list[str]) -> None:
    settings = Settings(data_dir=Path("unused"), admin="off")
    gateway = Gateway(GatewayConfig.model_validate({}), settings, Registry.installed())
    paths = [re.sub(r"\{\w+\}", "[^/]+", r.path) for r in all_routes(gateway)]
    paths += ["/metrics", "/status", "/health/(live|ready|startup)"]
    for url in urls:
        path = "/" + url.partition("9080/")[2].partition("?")[0]
        assert any(re.fullmatch(known, path) for known in paths), f"the admin API has no {path}"


# -- Python -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", blocks("python"), **IDS)
def test_a_block_of_python_can_be_read(block: Block) -> None:
    ast.parse(block.text, block.name)


PYTHON = sorted({str(b.page.relative_to(ROOT)) for b in blocks("python")})


def test_every_page_with_python_is_run_somewhere() -> None:
    """`test_plugin_page.py` runs the pages of plugins' authors, `tests/spark/test_spark_pages.py` those of Spark,
    `tests/websocket` its own."""
    assert (
        sorted(
            [
                "docs/howto/pyspark.md",
                "docs/howto/read-the-table.md",
                "docs/howto/test-a-plugin.md",
                "docs/howto/tracing.md",
                "docs/howto/websocket.md",
                "docs/howto/write-a-plugin.md",
                "docs/howto/write-a-service.md",
                "docs/howto/write-a-transport.md",
                "docs/reference/hooks.md",
                "docs/reference/spark-tables.md",
                "docs/tutorial/a-transport.md",
            ]
        )
        == PYTHON
    )


def test_json_and_toml_of_the_pages_can_be_read() -> None:
    import json
    import tomllib

    for block in blocks("json"):
        assert json.loads(block.text)
    for block in blocks("toml"):
        assert tomllib.loads(block.text)


def test_the_vectors_of_the_page_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    block = of_page("docs/howto/test-a-plugin.md", "python")[-1]
    exec(compile(block.text, block.name, "exec"), {})
    assert "required-only" in capsys.readouterr().out


@pytest.mark.parametrize("block", blocks("promql"), **IDS)
def test_a_query_names_metrics_that_exist(block: Block) -> None:
    from gateway_admin.metric_table import METRICS

    known = {m.name + end for m in METRICS for end in ("", "_bucket", "_count", "_sum")}
    named = set(re.findall(r"tidegate_\w+", block.text))
    assert named
    assert named <= known
