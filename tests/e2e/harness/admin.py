"""The admin API of a running proxy."""

import re

from harness import program
from harness.client import Client
from harness.wait import until

LISTENING = re.compile(r'mod=admin\.listener msg="listening for operators" address=(\S+)\n')
TOKEN = "0123456789abcdef0123456789abcdef"
READ_TOKEN = "fedcba9876543210fedcba9876543210"
JSON = ("Content-Type", "application/json")
PROBLEM = "application/problem+json"

# To be formatted with the folder of the socket.
POLICY = """
workers: 2
admin:
  listen: ["unix:{folder}/admin.sock", 127.0.0.1:0]
  token: 0123456789abcdef0123456789abcdef
  read_token: fedcba9876543210fedcba9876543210
  hosts: [sluice.example]
limits:
  per-client: {{key: client.ip, rate: 60/hour, burst: 5}}
  per-key: {{key: [header.x-api-key, method], rate: [10/hour, 100/day]}}
  quiet: {{key: global, rate: 1/hour, shadow: true, algorithm: fixed_window}}
routes:
  - {{name: a, match: {{path: "/a/{{id}}/**", method: [GET]}}, limits: [per-client, per-key],
     respond: {{status: 200}}}}
  - {{limits: [quiet], respond: {{status: 204}}}}
"""


def bearer(token=TOKEN):
    return ("Authorization", f"Bearer {token}")


def addresses(proxy, n=1):
    """Where it listens for operators, in the policy's order, when it has said so of n places."""
    def find():
        assert proxy.is_running(), proxy.stderr()
        found = LISTENING.findall(proxy.stderr())
        return found if len(found) >= n else None

    def read(place):
        if place.startswith("unix:"):
            return place.removeprefix("unix:")
        host, _, port = place.rpartition(":")
        return host.strip("[]"), int(port)

    return [read(place) for place in until(find, "the admin API to listen", within=30)]


class Admin:
    """Asks at one address; a connection a request."""

    def __init__(self, address):
        self.address = address

    def connect(self):
        return Client(self.address)

    def ask(self, method="GET", path="/", fields=(), body=None, host="localhost", **how):
        with self.connect() as client:
            return client.ask(method, path, fields, body, host=host, **how)

    def read(self, path, status=200):
        """What stands at the path."""
        answer = self.ask("GET", path)
        assert answer.status == status, (path, answer.start_line, answer.body)
        return answer.json()

    def change(self, method, path, value=b"{}", status=200):
        answer = self.ask(method, path, [JSON], value)
        assert answer.status == status, (path, answer.start_line, answer.body)
        return answer.json() if answer.body else None


def n_server_http2_connections(proxy):
    """Connections to servers that speak HTTP/2, by the metrics of a proxy whose admin API asks for no token."""
    page = Admin(addresses(proxy)[0]).ask("GET", "/metrics").body.decode()
    return sum(map(int, re.findall(r"^sluice_server_http2_connections\{.*\} (\d+)$", page, re.MULTILINE)))


def ctl(place, *words, **how):
    """`sluice ctl` at an address, or with a policy file."""
    where = ["--socket", place] if isinstance(place, str) else [
        "--url", f"http://{place[0]}:{place[1]}"]
    return program.command("ctl", *where, *words, **how)


def audit(proxy, n):
    """n lines of the audit, when they have come."""
    def find():
        lines = [line for line in proxy.stderr().splitlines() if "mod=admin.audit" in line]
        return lines if len(lines) >= n else None

    return until(find, f"{n} lines of audit")


def is_problem(answer, status):
    """It is a problem document that gives a reason."""
    assert answer.status == status, (answer.start_line, answer.body)
    assert answer.get("Content-Type") == PROBLEM
    assert answer.json()["status"] == status
    assert len(answer.json()["detail"]) > 10
    return answer.json()["detail"]
