"""Tokens, the keys that sign them, and an issuer that tells its keys over https."""

import base64
import hashlib
import hmac
import http.server
import json
import ssl
import subprocess
import threading
import time

SECRET = "0123456789abcdef0123456789abcdef"


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _part(value):
    return base64url(value if isinstance(value, bytes) else json.dumps(value).encode())


def claims(sub="alice", life_s=600, **more):
    return {"iss": "https://id.test", "aud": "api", "exp": time.time() + life_s, "sub": sub, **more}


def hs256(payload, secret=SECRET, header=None):
    signed = f"{_part(header or {'alg': 'HS256', 'typ': 'JWT'})}.{_part(payload)}"
    return f"{signed}.{base64url(hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest())}"


def bearer(token):
    return [("Authorization", f"Bearer {token}")]


def _number(der, at):
    """The integer of DER at that place, in 32 bytes, and where the next thing is."""
    assert der[at] == 2
    end = at + 2 + der[at + 1]
    return der[at + 2:end].lstrip(b"\0").rjust(32, b"\0"), end


class Es256Key:
    """A key pair on P-256, of OpenSSL's programs."""

    def __init__(self, folder, kid):
        self.kid = kid
        self.path = folder / f"{kid}.key"
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.path)
        self.pem = self._openssl("pkey", "-in", self.path, "-pubout").decode()
        point = self._openssl("pkey", "-in", self.path, "-pubout", "-outform", "DER")[-64:]
        self.jwk = {"kty": "EC", "crv": "P-256", "x": base64url(point[:32]), "y": base64url(point[32:]),
                    "kid": kid, "use": "sig", "alg": "ES256"}

    @staticmethod
    def _openssl(*words, given=b""):
        return subprocess.run(["openssl", *map(str, words)], input=given, check=True, capture_output=True).stdout

    def sign(self, payload, **header):
        signed = f"{_part({'alg': 'ES256', 'kid': self.kid, **header})}.{_part(payload)}"
        der = self._openssl("dgst", "-sha256", "-sign", self.path, given=signed.encode())
        r, at = _number(der, 2)
        s, _ = _number(der, at)
        return f"{signed}.{base64url(r + s)}"


class Issuer:
    """Answers with its key set at `url`, over TLS. A test changes what it says while it runs."""

    def __init__(self, authority):
        self.keys = []
        self.body = None  # in place of the key set
        self.status = 200
        self.fields = []
        self.n_asked = 0
        self.held = threading.Event()  # answers wait for it
        self.held.set()
        certificate, key = authority.sign("issuer", "IP:127.0.0.1")
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.n_asked += 1
                issuer.held.wait()
                body = issuer.body
                if body is None:
                    body = json.dumps({"keys": [key.jwk for key in issuer.keys]}).encode()
                self.send_response(issuer.status)
                for name, value in issuer.fields:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass  # a body that is too long is not read to its end

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that breaks off

        self._server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True,
                                                  do_handshake_on_connect=False)
        self.port = self._server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}/jwks.json"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self):
        """May be called again."""
        self.held.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
