"""Proxies whose bans, exemptions and resets tests set."""

import hashlib
import json

from harness.admin import Admin, addresses
from harness.wait import until

POLICY = """
    workers: 2
    admin: unix:{folder}/admin.sock
    store: {{{store}}}
    limits:
      per-client: {{key: client.ip, rate: 1000000/hour, burst: 1000000}}
      login: {{key: header.x-user, rate: 1/hour, burst: 1}}
      quiet: {{key: client.ip, rate: 1000/hour, shadow: true}}
      office: {{key: client.ip, rate: 1000/hour, except: {{client: [127.0.0.1]}}}}
    routes:
      - {{match: {{path: /login}}, limits: [login], respond: {{status: 204}}}}
      - {{match: {{path: /both}}, limits: [login, per-client], respond: {{status: 204}}}}
      - {{match: {{path: /quiet}}, limits: [quiet], respond: {{status: 204}}}}
      - {{match: {{path: /office}}, limits: [office], respond: {{status: 204}}}}
      - {{match: {{path: /free}}, limits: [], respond: {{status: 204}}}}
      - {{limits: [per-client], respond: {{status: 204}}}}
"""
LOCAL = "memory: 64MiB"
USER = [("X-User", "bob")]
KEYS = "/v1/limits/{}/keys/{}"
CLIENT = KEYS.format("per-client", "127.0.0.1")
BOB = KEYS.format("login", "header.x-user=bob")


class Proxy:
    """A proxy and its admin API."""

    def __init__(self, start, tmp_path, number, store, policy=POLICY):
        self.folder = tmp_path / f"admin-{number}"
        self.folder.mkdir()
        self.sluice = start(policy.format(folder=self.folder, store=store))
        self.place = addresses(self.sluice)[0]
        self.admin = Admin(self.place)
        if "redis" in store:
            until(lambda: self.admin.read(CLIENT)["source"] == "redis", "the admin's link to Redis")

    def statuses(self, path="/", n=4, fields=()):
        """Of some requests: more than one worker answers them."""
        return {self.sluice.ask(path=path, fields=fields).status for _ in range(n)}

    def bans(self):
        return self.admin.read("/v1/bans")["bans"]


def at(redis, more=""):
    return f'redis: "{redis.url}", deadline: 10s, on_failure: local{more}'


def statuses(proxies, path="/", **how):
    return set().union(*(proxy.statuses(path, **how) for proxy in proxies))


def await_statuses(proxies, wanted, path="/", **how):
    until(lambda: statuses(proxies, path, **how) == wanted, f"{wanted} at {path}")


def body(**members):
    return json.dumps(members).encode()


def hash_of(identity):
    return hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
