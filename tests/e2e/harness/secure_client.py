"""A client that speaks TLS to the proxy, and the certificates that it needs."""

import ssl

from harness import message
from harness.client import Client


def pair(authority, name):
    return f"cert: {authority.folder}/{name}.pem, key: {authority.folder}/{name}.key"


def context_of(authority, name=None, version=None):
    context = ssl.create_default_context(cafile=authority.certificate)
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the authority has no key usage
    if name is not None:
        context.load_cert_chain(authority.folder / f"{name}.pem", authority.folder / f"{name}.key")
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


class SecureClient(Client):
    """A client whose bytes go through TLS; `before` is sent in plain text."""

    def __init__(self, proxy, authority, name="one.test", before=b"", context=None, session=None):
        super().__init__(proxy.address)
        proxy.clients.append(self)
        self.sock.sendall(before)
        self.sock = (context or context_of(authority)).wrap_socket(
            self.sock, server_hostname=name, session=session, suppress_ragged_eofs=False)
        self.reader = message.Reader(self.sock)

    def leaf_names(self):
        return [value for kind, value in self.sock.getpeercert()["subjectAltName"] if kind == "DNS"]
