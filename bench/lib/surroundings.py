"""The upstream that all rows of bench/run share, with its bodies and uploads."""

import os
import subprocess

from proxies import NGINX_MODULES, PEERS
from rows import GIB, KIB, MIB
from stage import free_port, render

BODIES = {"64k": 64 * KIB, "10m": 10 * MIB, "1g": GIB}


def make_certificate(stage):
    """Of a name of its own, ECDSA on P-256, with its key in the same file."""
    path = stage.dir / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=bench.example", "-addext", "subjectAltName=DNS:bench.example,IP:127.0.0.1",
                    "-keyout", stage.dir / "key.pem", "-out", path], check=True, capture_output=True)
    path.write_text(path.read_text() + (stage.dir / "key.pem").read_text())
    path.chmod(0o600)
    return path


def start_upstream(stage, cores=None):
    port = free_port()
    (stage.dir / "bodies").mkdir()
    for name, size in BODIES.items():
        stage.write(f"bodies/{name}", "")
        os.truncate(stage.dir / "bodies" / name, size)  # takes no room on the disk
    config = stage.write("upstream.conf", render(PEERS / "upstream.conf", dir=stage.dir, port=port,
                                                 modules=NGINX_MODULES))
    return stage.start("upstream", ["nginx", "-e", stage.dir / "upstream.err", "-c", config], port,
                       cores=cores)
