"""docs/howto/secure-a-gateway.md: its blocks, in their order, in one folder.

A block of YAML that begins with `# NAME.yaml` becomes that file. The lines of a block of shell run one by one: in bash,
or in this process, where it costs a fifth, if a line has nothing but a command of Tidegate and its words. One that ends
with `# 401` must fail with this number in its output, one with `# accepted` must succeed, both within some time, as a
gateway notices changes within seconds. `tidegate run` runs in the background from there on.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import tidegate
from tests.docs.blocks import Block, blocks
from tests.ledger import free_port

PAGE = "secure-a-gateway.md"
PATIENCE_S = 60.0
_EXPECTED = re.compile(r"\s+# (accepted|\d{3})$")


_CURL = """#!{python}
import sys, urllib.error, urllib.request
*options, url = sys.argv[1:]
headers = dict(h.split(": ", 1) for o, h in zip(options, options[1:]) if o == "-H")
try:
    print(urllib.request.urlopen(urllib.request.Request(url, headers=headers)).read().decode())
except urllib.error.HTTPError as e:
    sys.exit(f"curl: the server answered {{e.code}}")
"""
"""What the page needs of curl, for machines that have none."""


class Reader:
    """Someone who does what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = {"127.0.0.1:9080": f"127.0.0.1:{free_port()}"}
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        self._env |= {
            "TIDEGATE_ADMIN": self._ports["127.0.0.1:9080"],
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        if shutil.which("curl") is None:
            tools = folder / "tools"
            tools.mkdir()
            (tools / "curl").write_text(_CURL.format(python=sys.executable))
            (tools / "curl").chmod(0o700)
            self._env["PATH"] += f"{os.pathsep}{tools}"
        self.gateway: subprocess.Popen[bytes] | None = None

    def do(self, block: Block) -> None:
        text = self._own_ports(block.text)
        if block.language == "yaml":
            name = re.match(r"# (\S+\.yaml)\n", text)
            if name is not None:  # others show options
                (self.folder / name[1]).write_text(text)
        elif block.language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                self._line(line, block)

    def _own_ports(self, text: str) -> str:
        def own(found: re.Match[str]) -> str:
            return self._ports.setdefault(found[0], f"127.0.0.1:{free_port()}")

        return re.sub(r"127\.0\.0\.1:[89]\d{3}\b", own, text)

    def _line(self, line: str, block: Block) -> None:
        if line.startswith("tidegate run"):
            with (self.folder / "gateway.log").open("ab") as log:
                self.gateway = subprocess.Popen(
                    line.split(), cwd=self.folder, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            return
        expected = found[1] if (found := _EXPECTED.search(line)) else ""
        end = time.monotonic() + PATIENCE_S
        while True:
            ran = self._ran(line)
            said = ran.stdout + ran.stderr
            fits = ran.returncode != 0 and expected in said if expected.isdigit() else ran.returncode == 0
            if fits:
                return
            if not expected or time.monotonic() > end:
                raise AssertionError(f"{block.name}: {line}\n{said}\n{self._log()}")
            time.sleep(0.2)

    def _ran(self, line: str) -> subprocess.CompletedProcess[str]:
        program, *words = shlex.split(line, comments=True)
        if program != "tidegate" or re.search(r"[$`|&;<>*?~\\]", line.partition(" #")[0]):
            return subprocess.run(["bash", "-c", line], cwd=self.folder, env=self._env, capture_output=True, text=True)
        return tidegate(*words, env={"TIDEGATE_ADMIN": self._env["TIDEGATE_ADMIN"]}, cwd=self.folder)

    def _log(self) -> str:
        log = self.folder / "gateway.log"
        return log.read_text()[-4000:] if log.exists() else ""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    if made.gateway is not None:
        made.gateway.terminate()
        made.gateway.wait(60)


@pytest.mark.spec("AU-08")
@pytest.mark.usefixtures("processes")
def test_the_page_leads_from_nothing_to_closed(reader: Reader) -> None:
    for block in blocks():
        if block.page.name == PAGE:
            reader.do(block)
    # nothing that came in without a key was stored, and nothing of a key was written down
    sent = (reader.folder / "orders.jsonl").read_text().splitlines()
    assert len(sent) >= 3
    secrets = [line[17:].strip() for file in reader.folder.glob("*.key") for line in file.read_text().splitlines()]
    assert secrets
    kept = [f for f in reader.folder.rglob("*") if f.is_file() and f.suffix != ".key"]
    assert [f for f in kept for s in secrets if s.encode() in f.read_bytes()] == []
