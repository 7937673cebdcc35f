"""Which layer of tests catches which fault: `python -m tests.mutants`.

`mutants.toml` has faults, each a replacement of exact text in one file. Each is planted in a copy of the tree, and the
tests that are named with it run there, a layer after another from the cheapest to the most expensive, each until its
first failure. What only an expensive layer catches is what that layer is for.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.planting import Change
from tests.tree import DEV, GROUPS, ROOT

FILE = Path(__file__).with_suffix(".toml")
LAYERS: Mapping[str, str] = {
    "quick": "unit and not full and not area and not twin and not slow",
    "slow": "unit and not full and not area and (twin or slow)",
    "process": "process and not full and not area",
    "kafka": "kafka and not full and not area",
    "spark": "spark and not full and not area",
}
"""The layers, the cheapest first, as pytest's `-m`."""
LIMIT_S = 150.0
"""The longest run of a layer. What takes longer is ended, and says nothing: a busy machine is slow, too."""
NO_TESTS = 5
"""pytest's exit code if none is selected."""


@dataclass(frozen=True)
class Mutant:
    """A fault: `what` it does, and the tests that should notice it, as pytest's arguments."""

    name: str
    what: str
    change: Change
    tests: Sequence[str]


@dataclass(frozen=True)
class Ran:
    """A run of a layer: the first test that failed, empty if none did, and otherwise what was the case instead."""

    failed: str
    cpu_s: float
    otherwise: str = "not caught"


def mutants() -> dict[str, Mutant]:
    """All mutants, by name."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8")).items()
    return {
        name: Mutant(name, entry["what"], Change(entry["file"], entry["old"], entry["new"]), tuple(entry["tests"]))
        for name, entry in entries
    }


def copied(to: Path) -> None:
    """Copies the tree as it is, without what git ignores."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, files):
        if (source := ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name)
    (to / ".venv").symlink_to(ROOT / ".venv")


def environment(tree: Path) -> dict[str, str]:
    """One in which Python finds the packages of a copy before those that are installed."""
    folders = [ROOT, *GROUPS.values(), DEV]
    path = os.pathsep.join(str(tree / folder.relative_to(ROOT)) for folder in folders)
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def ran(tree: Path, layer: str, tests: Sequence[str], limit_s: float) -> Ran:
    """Runs the tests of a layer until one fails, and that one again: a busy machine fails some, too."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile", "quick"]

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [*command, *arguments], cwd=tree, env=environment(tree), capture_output=True, text=True, timeout=limit_s
        )
        found = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", done.stdout, re.MULTILINE)
        return done.returncode, found[1] if found else done.stdout[-200:].strip()

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended, again = False, 1
    try:
        code, said = run("-m", LAYERS[layer], *tests)
        if code == 1 and said.startswith("tests/"):
            again, _ = run(said)
    except subprocess.TimeoutExpired:
        code, said, ended = 0, "", True
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if ended or code == NO_TESTS:
        return Ran("", cpu_s, f"ended after {limit_s:g} s" if ended else "no tests")
    if again == 0:
        return Ran("", cpu_s, f"failed once, and not again: {said}")
    return Ran("" if code == 0 else said, cpu_s)


def studied(mutant: Mutant, layers: Sequence[str], tree: Path, limit_s: float = LIMIT_S) -> Iterator[tuple[str, Ran]]:
    """Plants the mutant in the copy, and runs the layers. Raises `ValueError` if it does not fit the code."""
    file = tree / mutant.change.file
    text = file.read_text(encoding="utf-8")
    file.write_text(mutant.change.applied(text), encoding="utf-8")
    try:
        for layer in layers:
            yield layer, ran(tree, layer, mutant.tests, limit_s)
    finally:
        file.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """The command line. Fails if no layer caught a mutant."""
    parser = argparse.ArgumentParser("tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only these mutants")
    parser.add_argument("--layers", default=",".join(LAYERS), help=f"of {', '.join(LAYERS)}")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="the longest run of a layer, in seconds")
    given = parser.parse_args(arguments)
    known = mutants()
    escaped = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copied(Path(folder))
        for name in given.names or known:
            caught = False
            for layer, run in studied(known[name], given.layers.split(","), Path(folder), given.limit):
                print(f"{name:45} {layer:8} {run.cpu_s:5.1f} s  {run.failed or run.otherwise}", flush=True)
                caught = caught or bool(run.failed)
            if not caught:
                escaped.append(name)
    print(f"{len(escaped)} not caught by any layer: {', '.join(escaped) or 'none'}")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
