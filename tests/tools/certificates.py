"""Certificates of a cluster's own authority, by openssl, as docs/cluster.md has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["make_certificates"]


def make_certificates(folder: Path, *hosts: str) -> tuple[str, str, str]:
    """Paths of a certificate for localhost and ``hosts`` (addresses), its key, and the authority's."""
    folder.mkdir(parents=True, exist_ok=True)

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    addresses = ",".join(f"IP:{host}" for host in ("127.0.0.1", *hosts))
    (folder / "names").write_text(f"subjectAltName=DNS:localhost,{addresses}")
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=ca")
    openssl(*new, "-keyout", "key.pem", "-out", "asked.pem", "-subj", "/CN=localhost")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "asked.pem", "-out", "cert.pem", *signed)
    return str(folder / "cert.pem"), str(folder / "key.pem"), str(folder / "ca.pem")
