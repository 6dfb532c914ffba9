"""An upstream behind TLS, and a policy with it."""

import contextlib
import ssl

from harness import message
from harness.upstream import Upstream

PATIENT = ", timeout: {connect: 30s}"  # for upstreams that have to share the machine with their clients


class SecureUpstream(Upstream):
    """An upstream behind TLS."""

    def __init__(self, context, *args, **kwargs):
        self.context = context
        self.names = []  # that clients asked for, None without one
        self.refusals = []  # handshakes that failed, as they look here
        self.handshakes = []  # (version, resumed, certificate) of the others
        context.sni_callback = lambda _sock, name, _context: self.names.append(name)
        super().__init__(*args, **kwargs)
        self.url = f"https://{self.address}"

    def _serve(self, peer):
        try:
            peer.sock = self.context.wrap_socket(peer.sock, server_side=True, suppress_ragged_eofs=False)
        except OSError as refusal:
            self.refusals.append(str(refusal))
            peer.close()
            return
        peer.reader = message.Reader(peer.sock)
        self.handshakes.append((peer.sock.version(), peer.sock.session_reused, peer.sock.getpeercert()))
        super()._serve(peer)


def files_of(authority, name):
    return authority.folder / f"{name}.pem", authority.folder / f"{name}.key"


def policy(url, authority, tls="", more=""):
    ca = f"ca: {authority.certificate}" if "ca:" not in tls and "verify" not in tls else ""
    rules = ", ".join(rule for rule in (ca, tls) if rule)
    return (f"admin: {{listen: 127.0.0.1:0}}\n"
            f"upstreams: {{api: {{servers: {url}, tls: {{{rules}}}{more}}}}}\n"
            f"routes: [{{upstream: api}}]\n")


@contextlib.contextmanager
def starter(authority):
    """What starts such upstreams, with a pair of the authority; they are stopped at the end of `with`."""
    upstreams = []

    def begin(*args, pair=None, version=None, prepare=lambda _context: None, **kwargs):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*(pair or files_of(authority, "server")))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        prepare(context)
        upstreams.append(SecureUpstream(context, *args, **kwargs))
        return upstreams[-1]

    yield begin
    for upstream in upstreams:
        upstream.stop()
        assert not upstream.failures, upstream.failures
