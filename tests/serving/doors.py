"""A gateway with one listener of each kind, for the tests of what they have in common."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gateway_testing import GatewayProcess, Subscriber


class Doors:
    """A gateway with one listener of each kind."""

    def __init__(self, folder: Path, limits: str, env: Mapping[str, str] | None = None) -> None:
        self.certificate = folder / "cert.pem"
        self.key = folder / "key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-keyout", str(self.key), "-out", str(self.certificate), "-days", "2", "-subj", "/CN=localhost"]
        subprocess.run(command, check=True, capture_output=True)
        self.trust = ssl.create_default_context(cafile=str(self.certificate))
        self.trust.check_hostname = False
        self.subscriber = Subscriber()
        tls = f"tls: {{cert_file: {self.certificate}, key_file: {self.key}}}"
        http = 'http: {listen: "127.0.0.1:0", codec: cloudevents'
        self.gateway = GatewayProcess(
            f"""
brokers:
  default:
    ingress:
      - fn: {{listen: "127.0.0.1:0", function: "{self.subscriber.url}", {limits}}}
      - {http}, {limits}}}
      - {http}, server: hypercorn, {limits}}}
      - {http}, {limits}, {tls}}}
      - {http}, server: hypercorn, {limits}, {tls}}}
triggers:
  all: {{subscriber: "{self.subscriber.url}"}}
""",
            folder,
            env,
        )

    def address(self, door: str) -> tuple[str, int]:
        urls = self.gateway.status()["brokers"][0]["ingress"]
        names = ["fn", "native", "hypercorn", "native with TLS", "hypercorn with TLS"]
        url = str(self.gateway.admin("/status").url) if door == "admin" else urls[names.index(door)]
        parts = urlsplit(url)
        return str(parts.hostname), int(parts.port or 0)
