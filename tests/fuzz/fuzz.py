"""`python -m tests.fuzz.fuzz TARGET --seconds 600 [--corpus DIR]`: fuzzes a target, guided by the coverage of our code.

Ends with 0 where nothing was found. Else the input that fails is written into the corpus folder (its name begins with
`crash-` or `timeout-`), and the traceback says what does not hold.
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

import atheris

HANG_S = 3
"""An input that takes longer than this many seconds of the processor hangs: on a busy machine others may just wait."""
_WALL_S = 300  # where nothing of Python's runs any more

INSTRUMENTED = [
    *("gateway_http", "gateway_cloudevents", "gateway_kafka.records", "gateway_kafka.non_cloudevent"),
    *("gateway_serving.content_coding", "gateway_core.config", "gateway_serving", "tests.fuzz.planted"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="a module of this folder, without _target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="where inputs are read from and written to; else forgotten")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzzer's own choices; 0 takes another each time")
    parser.add_argument("--plant", choices=["hang", "crash"], help="a fault to find, for a test of the fuzzer")
    options = parser.parse_args()
    with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
        target = importlib.import_module(f"tests.fuzz.{options.target}_target")
        if options.plant:
            importlib.import_module("tests.fuzz.planted").plant(options.plant)
    with tempfile.TemporaryDirectory() as scratch:
        corpus = options.corpus or Path(scratch) / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        seeds = Path(scratch) / "seeds"
        seeds.mkdir()
        for number, seed in enumerate(target.SEEDS):
            (seeds / f"{number:04}").write_bytes(seed)
        kept = Path(__file__).parent / "corpus" / options.target
        words = Path(scratch) / "words"
        words.write_text("".join([f'"{_escaped(word)}"\n' for word in target.WORDS]))
        arguments = [
            *(sys.argv[0], f"-max_total_time={options.seconds}", f"-timeout={_WALL_S}", f"-dict={words}"),
            *(
                f"-artifact_prefix={corpus}/",
                "-max_len=8192",
                f"-seed={options.seed}",
                "-len_control=0",
                "-rss_limit_mb=2048",
                "-print_final_stats=1",
            ),
            *(str(corpus), str(seeds), *([str(kept)] if kept.is_dir() else [])),
        ]
        atheris.Setup(arguments, _watched(target.check, corpus))
        atheris.Fuzz()


def _watched(check: Callable[[bytes], None], corpus: Path) -> Callable[[bytes], None]:
    """`check`, of which an input that hangs is kept and ends the process."""
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
        check(data)

    signal.signal(signal.SIGVTALRM, hangs)
    return watched


def _escaped(word: bytes) -> str:
    return "".join([f"\\x{byte:02x}" for byte in word])


if __name__ == "__main__":
    main()
