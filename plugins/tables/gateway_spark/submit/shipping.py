"""What a session on a cluster needs in addition to a local one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from gateway_core.contract.errors import StartError

from .wheel import write_wheel

EXECUTOR_JVM = "spark.executor.extraJavaOptions"
PY_FILES = "spark.submit.pyFiles"
UTC = "-Duser.timezone=UTC"


def shipped(conf: Mapping[str, str], folder: Path, wheel: Path | None = None) -> dict[str, str]:
    """The settings of a session, with what remote executors need: our wheel on their Python path, and UTC. Writes the
    files for that into the folder; builds the wheel if none is given. Raises `StartError`."""
    if conf["spark.master"].startswith("local"):
        return dict(conf)
    archive = folder / "tidegate-spark.zip"  # Spark does not add files that end in .whl to Python's path
    try:
        shutil.copyfile(wheel or write_wheel(folder), archive)
    except OSError as e:
        raise StartError(f"can't copy the wheel {wheel} to {archive}: {e}") from e
    return {
        **conf,
        PY_FILES: ",".join(filter(None, [str(archive), conf.get(PY_FILES)])),
        EXECUTOR_JVM: f"{UTC} {conf.get(EXECUTOR_JVM, '')}".strip(),
    }
