"""What a session on a cluster needs over a local one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from gateway_core.errors import StartError

from .wheel import write_wheel

EXECUTOR_JVM = "spark.executor.extraJavaOptions"
PY_FILES = "spark.submit.pyFiles"
UTC = "-Duser.timezone=UTC"


def shipped(conf: Mapping[str, str], folder: Path, wheel: Path | None = None) -> dict[str, str]:
    """The settings of a session, with what executors elsewhere need: our wheel on their Python's path, and UTC. Files
    for that are written into the folder; a wheel that is not given is made. Raises `StartError`."""
    if conf["spark.master"].startswith("local"):
        return dict(conf)
    archive = folder / "tidegate-spark.zip"  # Spark puts no file on Python's path whose name ends in .whl
    try:
        shutil.copyfile(wheel or write_wheel(folder), archive)
    except OSError as e:
        raise StartError(f"can't copy the wheel {wheel} to {archive}: {e}") from e
    return {
        **conf,
        PY_FILES: ",".join(filter(None, [str(archive), conf.get(PY_FILES)])),
        EXECUTOR_JVM: f"{UTC} {conf.get(EXECUTOR_JVM, '')}".strip(),
    }
