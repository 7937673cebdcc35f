"""`python -m tests.fuzz.fuzz TARGET --seconds 600 [--corpus DIR]`: fuzzes a target, guided by the coverage of our code.

Ends with 0 where nothing was found. Else the input that fails is written into the corpus folder (its name begins with
`crash-` or `timeout-`), and the traceback says what does not hold.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

import atheris

HANG_S = 5
"""An input that takes longer than this many seconds hangs."""

INSTRUMENTED = [
    *("gateway_http", "gateway_cloudevents", "gateway_kafka.records", "gateway_kafka.foreign"),
    *("gateway_core.content_coding", "gateway_core.config", "gateway_core.serving", "tests.fuzz.planted"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="a module of this folder, without _target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="where inputs are read from and written to; else forgotten")
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
            *(sys.argv[0], f"-max_total_time={options.seconds}", f"-timeout={HANG_S}", f"-dict={words}"),
            *(
                f"-artifact_prefix={corpus}/",
                "-max_len=8192",
                "-len_control=0",
                "-rss_limit_mb=2048",
                "-print_final_stats=1",
            ),
            *(str(corpus), str(seeds), *([str(kept)] if kept.is_dir() else [])),
        ]
        atheris.Setup(arguments, target.check)
        atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join([f"\\x{byte:02x}" for byte in word])


if __name__ == "__main__":
    main()
