"""The environment of processes on the PySpark that has an Iceberg."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from gateway_java import java
from gateway_spark.submit.wheel import write_wheel


def environment_with(folder: Path) -> dict[str, str]:
    """They have of Tidegate what a cluster gets, below this folder."""
    installed = folder / "installed"
    with zipfile.ZipFile(write_wheel(folder)) as wheel:
        wheel.extractall(installed)
    return {**os.environ, "PYTHONPATH": str(installed), "JAVA_HOME": str(java.find().home)}
