"""A token (RFC 7519) that sluice verifies by a secret."""

import base64
import hashlib
import hmac
import json
import time

SECRET = "0123456789abcdef0123456789abcdef"
ISSUER = "https://id.example.com"
LIFE_SECONDS = 24 * 60 * 60
BYTES = 1024


def _base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _token(claims):
    signed = b".".join(_base64url(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims))
    return signed + b"." + _base64url(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest())


def token_of_1_kib():
    """Of the user `alice`, HS256, valid for a day."""
    claims = {"iss": ISSUER, "exp": int(time.time()) + LIFE_SECONDS, "sub": "alice", "roles": ""}
    while len(token := _token(claims)) < BYTES:
        claims["roles"] += "r"
    return token
