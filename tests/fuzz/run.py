"""`python -m tests.fuzz.run [TARGET…] [--minutes 10] [--out .fuzz]`: fuzzes all targets, or those that are named, one
after the other. `make fuzz` runs it.

What each target has learnt is kept in `OUT/corpus/TARGET` and used by the next run. An input that fails goes to
`OUT/findings/TARGET/` with the traceback beside it; the target then goes on, until its time is over or it has found
three. `OUT/figures.json` and a table have executions and coverage. Ends with 0 where nothing was found, 1 where
something was, 2 where a target could not run.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.targets import TARGETS

MOST_FINDINGS = 3
_ROOT = Path(__file__).parents[2]
_LINE = re.compile(r"#(\d+)\s+[A-Z]\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/\S+ .*?exec/s: (\d+)")
_SHOWN_S = 10.0


@dataclass
class Figures:
    """One target's run: `seconds` of it, `executions` in all, `coverage` in edges of our code, `features` that
    libFuzzer tells apart, inputs in its `corpus`, and files with its `findings`. `broken` says why it could not run."""

    target: str
    seconds: float = 0.0
    executions: int = 0
    coverage: int = 0
    features: int = 0
    corpus: int = 0
    findings: list[str] = field(default_factory=list)
    broken: str = ""

    @property
    def per_second(self) -> int:
        """Executions in a second."""
        return round(self.executions / self.seconds) if self.seconds else 0


class Run:
    """A target's run, which goes on after a finding."""

    def __init__(self, name: str, seconds: float, out: Path, options: Sequence[str] = ()) -> None:
        self.figures = Figures(name)
        self._name = name
        self._seconds = seconds
        self._corpus = out / "corpus" / name
        self._found = out / "findings" / name
        self._options = options
        self._shown = 0.0

    def run(self) -> Figures:
        begin = time.monotonic()
        while (left := self._seconds - (time.monotonic() - begin)) > 1 and len(self.figures.findings) < MOST_FINDINGS:
            before = self.figures.executions
            code, said = self._once(max(2, round(left)), begin)
            if code == 0:
                break
            if not self._keep(said) or self.figures.executions == before:
                if not self.figures.findings:
                    self.figures.broken = said[-1].strip() if said else f"ended with {code}"
                break
        self.figures.seconds = round(time.monotonic() - begin, 1)
        return self.figures

    def _once(self, seconds: int, begin: float) -> tuple[int, list[str]]:
        """Ends with a finding, or after `seconds`. The exit code, and the last lines of output."""
        command = [sys.executable, "-m", "tests.fuzz.fuzz", self._name, "--seconds", str(seconds)]
        command += ["--corpus", str(self._corpus), *self._options]
        said: list[str] = []
        executions = self.figures.executions
        with subprocess.Popen(
            command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if (found := _LINE.match(line)) is None:
                    said = [*said[-60:], line]
                    continue
                count, *rest = map(int, found.groups())
                self.figures.executions = executions + count
                self.figures.coverage, self.figures.features, self.figures.corpus = rest[:3]
                self._show(begin, rest[3])
        return child.returncode, said

    def _show(self, begin: float, per_second: int) -> None:
        now = time.monotonic()
        if now - self._shown >= _SHOWN_S:
            self._shown, figures = now, self.figures
            shown = f"{figures.executions:,} executions, {per_second:,}/s, coverage {figures.coverage:,}"
            print(f"  {self._name}: {now - begin:.0f} of {self._seconds:.0f} s, {shown}", file=sys.stderr, flush=True)

    def _keep(self, said: Sequence[str]) -> bool:
        """Moves inputs that failed to the findings; whether there are any."""
        found = [file for kind in ("crash", "timeout", "oom") for file in self._corpus.glob(f"{kind}-*")]
        for file in found:
            self._found.mkdir(parents=True, exist_ok=True)
            kept = self._found / file.name[:20]
            shutil.move(file, kept)
            kept.with_suffix(".txt").write_text("".join(said))
            if str(kept) not in self.figures.findings:
                self.figures.findings.append(str(kept))
            reason = next((line.strip() for line in said if re.match(r"\w+(Error|Exception)\b", line)), "see its .txt")
            print(f"  {self._name}: FOUND {kept}: {reason[:200]}", file=sys.stderr, flush=True)
        return bool(found)


def table(all_figures: Sequence[Figures]) -> str:
    """The figures as a Markdown table."""
    rows = [
        "| target | seconds | executions | per second | coverage | inputs | findings |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {f.target} | {f.seconds:.0f} | {f.executions:,} | {f.per_second:,} | {f.coverage:,} | {f.corpus:,} |"
        f" {'could not run: ' + f.broken if f.broken else len(f.findings)} |"
        for f in all_figures
    ]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--out", type=Path, default=_ROOT / ".fuzz", help="where all goes")
    parser.add_argument("--plant", action="store_true", help="with a fault to find, for a test of this program")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.targets) - set(TARGETS)):
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    out: Path = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    found: list[Figures] = []
    for name in options.targets or TARGETS:
        run = Run(name, options.minutes * 60, out, ["--plant", "crash"] if options.plant else [])
        found.append(run.run())
        (out / "figures.json").write_text(json.dumps([asdict(f) for f in found], indent=1) + "\n")
    print(table(found))
    if any(f.broken for f in found):
        return 2
    return 1 if any(f.findings for f in found) else 0


if __name__ == "__main__":
    sys.exit(main())
