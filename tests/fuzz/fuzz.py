"""`python -m tests.fuzz.fuzz TARGET [--seconds 60] [--corpus DIR]`: fuzzes a target, guided by our code's coverage.

Ends with 0 where nothing was found. Else the input that fails is written into the corpus folder (its name begins with
`crash-` or `timeout-`), and the traceback says what does not hold. `run.py` does this for all targets.

With `--plant` there is a fault to find (`planted.py`). Then there may be several targets, each in a process of its own,
and it ends with 0 where all of them found theirs.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import atheris

from tests.fuzz.targets import TARGETS

HANG_S = 3
"""An input that takes longer than this many seconds of the processor hangs: on a busy machine others may just wait."""
_WALL_S = 300  # where nothing of Python's runs any more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="+", metavar="TARGET", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="where inputs are read from and written to; else forgotten")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzzer's own choices; 0 takes another each time")
    parser.add_argument("--plant", choices=["hang", "crash"], help="a fault to find, for a test of the fuzzer")
    options = parser.parse_args()
    names = list(TARGETS) if "all" in options.targets else options.targets
    guiding = [prefix for name in names for prefix in TARGETS[name]]
    with atheris.instrument_imports(include=[*guiding, "tests.fuzz.planted"], enable_loader_override=False):
        targets = {name: importlib.import_module(f"tests.fuzz.{name}_target") for name in names}
        planted = importlib.import_module("tests.fuzz.planted") if options.plant else None
    with tempfile.TemporaryDirectory() as scratch:
        corpus = options.corpus or Path(scratch) / "corpus"
        if len(names) == 1:
            if planted is not None:
                planted.plant(names[0], targets[names[0]], options.plant)
            _fuzz(names[0], targets[names[0]], corpus, options.seconds, options.seed)
        if planted is None:
            parser.error("several targets: use tests.fuzz.run")
        missed = []
        for name in names:
            found, used_s = _finds(name, targets[name], planted, corpus / name, options)
            if not found:
                missed.append(name)
            print(f"{name}: {'found' if found else 'missed'}, after {used_s:.1f} s of the processor", flush=True)
    sys.exit(f"missed: {', '.join(missed)}" if missed else 0)


def _finds(name: str, target: Any, planted: Any, corpus: Path, options: argparse.Namespace) -> tuple[bool, float]:
    """Whether the fault is found, in a process of its own: the fuzzer's library ends the process. And how many seconds
    of the processor that took."""
    child = os.fork()
    if child == 0:
        try:
            corpus.mkdir(parents=True, exist_ok=True)
            log = os.open(corpus / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            planted.plant(name, target, options.plant)
            for seed in target.SEEDS:  # it has to search
                target.check(seed)
            _fuzz(name, target, corpus, options.seconds, options.seed)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(3)
    used = os.wait4(child, 0)[2]
    return any(corpus.glob("crash-*")) or any(corpus.glob("timeout-*")), used.ru_utime + used.ru_stime


def _fuzz(name: str, target: Any, corpus: Path, seconds: int, seed: int) -> None:
    """Does not return."""
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        seeds = Path(scratch) / "seeds"
        seeds.mkdir()
        for number, data in enumerate(target.SEEDS):
            (seeds / f"{number:04}").write_bytes(data)
        kept = Path(__file__).parent / "corpus" / name
        words = Path(scratch) / "words"
        words.write_text("".join([f'"{_escaped(word)}"\n' for word in target.WORDS]))
        arguments = [
            *(sys.argv[0], f"-max_total_time={seconds}", f"-timeout={_WALL_S}", f"-dict={words}", f"-seed={seed}"),
            *(f"-artifact_prefix={corpus}/", "-max_len=8192", "-len_control=0", "-rss_limit_mb=2048"),
            *("-print_final_stats=1", str(corpus), str(seeds), *([str(kept)] if kept.is_dir() else [])),
        ]
        atheris.Setup(arguments, _watched(target.check, corpus))
        atheris.Fuzz()


def _watched(check: Callable[[bytes], None], corpus: Path) -> Callable[[bytes], None]:
    """`check`, of which an input that fails is kept; one that hangs ends the process."""
    under_way = b""

    def hangs(signal_number: int, frame: FrameType | None) -> None:
        (corpus / f"timeout-{hashlib.sha1(under_way).hexdigest()}").write_bytes(under_way)
        traceback.print_stack(frame)
        print(f"an input hangs: {base64.b64encode(under_way).decode()}", file=sys.stderr, flush=True)
        os._exit(70)

    def watched(data: bytes) -> None:
        nonlocal under_way
        under_way = data
        signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
        try:
            check(data)
        except BaseException:
            (corpus / f"crash-{hashlib.sha1(data).hexdigest()}").write_bytes(data)
            raise

    signal.signal(signal.SIGVTALRM, hangs)
    return watched


def _escaped(word: bytes) -> str:
    return "".join([f"\\x{byte:02x}" for byte in word])


if __name__ == "__main__":
    main()
