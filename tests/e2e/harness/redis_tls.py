"""The environment variable REDIS_TLS=1: tests that say no more of a Redis than its URL speak TLS to it,
with a certificate of an authority that the proxies trust as if it were the system's."""

import atexit
import functools
import os
import pathlib
import shutil
import ssl
import tempfile

from harness.certificates import Authority

IS_WANTED = os.environ.get("REDIS_TLS") == "1"


@functools.cache
def _files():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="redis-tls-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    authority = Authority(folder / "authority")
    return authority.certificate, *authority.sign("redis", "IP:127.0.0.1,DNS:localhost")


def files():
    """What a Redis with a port for TLS is started with besides; nothing unless TLS is wanted."""
    if not IS_WANTED:
        return []
    authority, certificate, key = _files()
    return ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-auth-clients", "no",
            "--tls-ca-cert-file", str(authority)]


def options(port):
    """What a Redis is started with."""
    return ["--tls-port", str(port), *files()]


@functools.cache
def _context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_files()[1:])
    return context


def scheme():
    """Of the URL of what stands in a Redis's place."""
    return "rediss" if IS_WANTED else "redis"


def secured(sock):
    """An accepted socket, after the handshake where TLS is wanted."""
    return _context().wrap_socket(sock, server_side=True) if IS_WANTED else sock


def environment():
    """What a proxy is started with."""
    return {"SSL_CERT_FILE": str(_files()[0])} if IS_WANTED else {}
