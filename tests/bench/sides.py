"""What a comparison runs: a gateway of this tree, of another revision or of another interpreter, and the floor in Go.

Each run has a process of its own: two that do the same differ by up to a tenth for as long as they live.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from gateway_testing import GatewayProcess
from measure import HERE, Program

ROOT = HERE.parent.parent
INTO_KAFKA = 'bridges: {b: {source: {http: {listen: "127.0.0.1:0"}}, sink: {kafka: {bootstrap: "%s", topic: %s}}}}\n'
OUT_OF_KAFKA = 'bridges: {b: {source: {kafka: {bootstrap: "%s", topic: %s, group: %s, start: earliest}}, sink: "%s"}}\n'
INTO_HTTP = 'bridges: {b: {source: {http: {listen: "127.0.0.1:0"}}, sink: "%s"}}\n'
INTO_LOG = 'brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}\n'
TRIGGER = 'triggers: {all: {subscriber: "%s"}}\n'


class Started(Protocol):
    """A process under load. `url` is where it takes events, "" if it takes none."""

    pid: int
    url: str

    def stop(self) -> None: ...


class Side(Protocol):
    """Who takes part. `name` is for the table."""

    name: str

    def into_kafka(self, folder: Path, bootstrap: str, topic: str) -> Started: ...
    def out_of_kafka(self, folder: Path, bootstrap: str, topic: str, group: str, url: str) -> Started: ...


class _Gateway(GatewayProcess):
    """A gateway that another interpreter or tree may run."""

    def __init__(self, config: str, folder: Path, python: str, env: Mapping[str, str]) -> None:
        folder.mkdir()
        super().__init__(config, folder, env)
        self._python = python
        self.url = ""

    def _begin(self, command: Sequence[str], env: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return super()._begin([self._python, *command[1:]], env, log)


class Gateway:
    """Gateways of this tree; of the interpreter `python` and what is installed for it; or of the `tree` of another
    revision."""

    def __init__(self, name: str, python: str = sys.executable, tree: Path | None = None) -> None:
        self.name = name
        self._python = python
        self._env = {"PYTHONPATH": ":".join(map(str, _import_path(tree)))} if tree is not None else {}

    def started(self, folder: Path, config: str, broker: str = "") -> _Gateway:
        """A running gateway; `broker` names the broker or bridge that takes events."""
        gateway = _Gateway(config, folder, self._python, self._env)
        gateway.start()
        gateway.url = gateway.ingress(broker) if broker else ""
        return gateway

    def into_kafka(self, folder: Path, bootstrap: str, topic: str) -> Started:
        return self.started(folder, INTO_KAFKA % (bootstrap, topic), "b")

    def out_of_kafka(self, folder: Path, bootstrap: str, topic: str, group: str, url: str) -> Started:
        return self.started(folder, OUT_OF_KAFKA % (bootstrap, topic, group, url))

    def into_http(self, folder: Path, url: str) -> Started:
        """HTTP into a subscriber, by a bridge."""
        return self.started(folder, INTO_HTTP % url, "b")

    def into_log(self, folder: Path, subscriber: str = "") -> _Gateway:
        """HTTP into the log, with a trigger if there is a subscriber."""
        return self.started(folder, INTO_LOG + (TRIGGER % subscriber if subscriber else ""), "default")


def _import_path(tree: Path) -> list[Path]:
    """Where a revision keeps its packages: in groups of `plugins`; earlier ones had them all in `plugins`."""
    groups = [folder for folder in sorted((tree / "plugins").iterdir()) if not (folder / "__init__.py").exists()]
    return [tree / "entry-points", tree, tree / "plugins", *groups, tree / "dev"]


class Floor:
    """The same work in Go: `tests/bench/floor`."""

    name = "Go"

    def __init__(self, folder: Path) -> None:
        if shutil.which("go") is None:
            raise SystemExit(
                "There is no Go here (https://go.dev/dl); without it, compare with a revision: COMPARE=REV."
            )
        self._program = str(folder / "floor")
        subprocess.run(["go", "build", "-o", self._program, "."], cwd=HERE / "floor", check=True)

    def into_kafka(self, folder: Path, bootstrap: str, topic: str) -> Started:
        return Program([self._program, "into", bootstrap, topic], tells=True)

    def out_of_kafka(self, folder: Path, bootstrap: str, topic: str, group: str, url: str) -> Started:
        return Program([self._program, "out", bootstrap, topic, group, url], tells=False)

    def sink(self) -> Started:
        """A subscriber that counts."""
        return Program([self._program, "sink"], tells=True)


def _declare(tree: Path, described: Path, name: str) -> None:
    """Declares the plugins of a distribution of the tree. It hides the installed one of that name, even if the tree has
    no such distribution: earlier ones had all plugins in one."""
    project = tomllib.loads(described.read_text())["project"] if described.exists() else {}
    version = project.get("version", "0")
    found = tree / "entry-points" / f"{name.replace('-', '_')}-{version}.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line
        for group, names in project.get("entry-points", {}).items()
        for line in (f"[{group}]", *(f"{key} = {place}" for key, place in names.items()))
    ]
    (found / "entry_points.txt").write_text("\n".join(lines) + "\n")


def revision(rev: str, folder: Path) -> Gateway:
    """The gateway of another commit, in a tree below this folder. It runs with what is installed for this one."""
    tree = folder / "tree"
    commit = subprocess.run(
        ["git", "rev-parse", "--short", f"{rev}^{{commit}}"], cwd=ROOT, capture_output=True, text=True
    )
    if commit.returncode:
        raise SystemExit(f"{rev!r} is no revision here: {commit.stderr.strip()}")
    tree.mkdir()
    archive = subprocess.run(["git", "archive", commit.stdout.strip()], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    _declare(tree, tree / "pyproject.toml", "tidegate")
    _declare(tree, tree / "dev" / "pyproject.toml", "tidegate-dev")
    return Gateway(commit.stdout.strip(), tree=tree)


def side(what: str, folder: Path) -> Side:
    """`go`, the path of an interpreter, or a revision."""
    if what == "go":
        return Floor(folder)
    if os.path.sep in what and os.access(what, os.X_OK):
        return Gateway(what, python=os.path.abspath(what))
    return revision(what, folder)
