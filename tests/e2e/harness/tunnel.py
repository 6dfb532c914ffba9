"""Tunnels: how one is asked for and opened, and how many are."""

import select
import threading

from harness import message
from harness.wait import is_readable, until

ASK = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x" * 22 + "==",
       "Sec-WebSocket-Version": "13"}
SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
          b"Sec-WebSocket-Accept: y\r\n\r\n")


def policy(upstream, top="", route="", limits="", applied="slots", upstream_rest=""):
    return f"""
workers: 1
{top}
upstreams: {{api: {{servers: "{upstream.url}"{upstream_rest}}}}}
limits:
  slots: {{key: global, algorithm: concurrency, rate: 1000}}
  {limits}
routes:
  - {{match: {{path: /look}}, limits: [slots], respond: {{status: 204}}}}
  - {{limits: [{applied}], upstream: api{route}}}
"""


def slots_taken(proxy):
    fields = proxy.ask(path="/look").get("RateLimit")
    return 999 - int(fields.partition(";r=")[2].partition(";")[0])


def wait_for_slots_taken(proxy, n):
    until(lambda: slots_taken(proxy) == n, f"{n} slots to be taken")


class Switch:
    """An upstream that switches, then hands its side to the test."""

    def __init__(self, answer_with=SWITCH):
        self.answer_with = answer_with
        self.peers = []
        self.is_over = threading.Event()

    def __call__(self, peer, request):
        peer.send(self.answer_with)
        self.peers.append(peer)
        self.is_over.wait(60)

    def peer(self, n=1):
        until(lambda: len(self.peers) >= n, "the upstream's side of the tunnel")
        return self.peers[n - 1]


def open_tunnel(proxy, switch, fields=None, n=1, rest=b""):
    """Both ends of a tunnel: the client, and the upstream's peer."""
    client = proxy.send(message.request("GET", "/chat", fields or ASK) + rest)
    response = client.read()
    assert response.status == 101
    return client, switch.peer(n)


def is_reset(peer):
    """Its connection is gone. An end in order would leave it the half that it has not ended."""
    poll = select.poll()
    poll.register(peer.sock, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def is_quiet(peer, for_s=0.1):
    return not peer.reader.buffer and not is_readable(peer.sock, for_s)
