"""Starts Spark's JVM. All users of a machine can read a process's command line, and settings may be secrets: so they
are in files that only this user can read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

JVM_OPTIONS = "spark.driver.extraJavaOptions"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def launched(conf: Mapping[str, str], folder: Path, **process: Any) -> Any:
    """The gateway to a new JVM with these settings; `process` are arguments of `Popen`. Files for it are in the folder,
    until it has read them. Raises `PySparkRuntimeError` if it does not start."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    file = folder / "tidegate-spark.conf"
    write_private(file, properties(conf))
    before = os.environ.get(_ARGUMENTS)
    ours = shlex.join(["--properties-file", str(file), "--load-spark-defaults"])
    os.environ[_ARGUMENTS] = f"{ours} {before or 'pyspark-shell'}"
    try:
        # without settings: PySpark would make arguments of them
        return launch_gateway(SparkConf(loadDefaults=False), process)  # type: ignore[no-untyped-call]
    finally:
        if before is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = before
        with suppress(OSError):
            file.unlink()


def hidden_options(conf: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The settings, with the JVM's options in a file of the folder, which must stay as long as the JVM may start."""
    options = conf.get(JVM_OPTIONS)
    if not options:
        return dict(conf)
    file = folder / "tidegate-jvm.options"
    escaped = [option.replace("\\", "\\\\").replace('"', '\\"') for option in shlex.split(options)]
    write_private(file, "".join(f'"{option}"\n' for option in escaped).encode())
    return {**conf, JVM_OPTIONS: '"@{}"'.format(str(file).replace("\\", r"\\").replace('"', r"\""))}


def properties(conf: Mapping[str, str]) -> bytes:
    """Settings as a file of Java properties."""
    return "".join(f"{key} {_escaped(value)}\n" for key, value in conf.items()).encode()


def write_private(file: Path, data: bytes) -> Path:
    """A new file that only this user can read."""
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(data)
    return file


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
