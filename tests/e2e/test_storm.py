"""Clients, upstreams and Redis that misbehave at random, all at once: the proxy stays up, ends
cleanly, and whoever behaved got the right answer. The seed is told when a test fails."""

import random
import threading
import time

from harness import message
from harness.upstream import answer
from harness.wait import until

STORM_S = 6.0
N_RIGHT = 20  # at least, however long that takes on a machine that stalls
N_CLIENTS = 16
BODY_BYTES_MAX = 300_000


def behave(peer, request):
    """What the path asks for; every behaviour that is right answers with the body it got."""
    what = request.target.split("/")[1]
    body = request.body
    if what == "length":
        peer.send(answer(body=body))
    elif what == "chunked":
        cut = len(body) // 2
        pieces = [piece for piece in (body[:cut], body[cut:]) if piece]
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                  message.chunked(*pieces))
    elif what == "until-close":
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        peer.close()
    elif what == "interim":
        peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(body=body))
    elif what == "pieces":
        whole = answer(body=body)
        for at in range(0, len(whole), 1 + len(whole) // 7):
            peer.send(whole[at:at + 1 + len(whole) // 7])
    elif what == "slow":
        peer.reader.sock.settimeout(0.05)
        try:
            peer.reader.has_ended()
        except TimeoutError:
            pass
        peer.reader.sock.settimeout(None)
        peer.send(answer(body=body))
    elif what == "reset":
        peer.reset()
    elif what == "close":
        peer.close()
    elif what == "cut":
        peer.send(answer(body=body + b"x" * 1000)[:-500])
        peer.close()
    elif what == "garbage":
        peer.send(b"\x16\x03\x01 nonsense\r\n\r\n")
    elif what == "hang":
        peer.hang()
    elif what == "more":
        peer.send(answer(body=body) + b"HTTP/1.1 200 OK\r\n\r\n")


RIGHT = ["length", "chunked", "until-close", "interim", "pieces", "slow"]
WRONG = ["reset", "close", "cut", "garbage", "hang"]


class Storm:
    """Clients that ask the proxies at random for STORM_S."""

    def __init__(self, proxies, seed, statuses):
        self.proxies = proxies
        self.seed = seed
        self.statuses = statuses  # that a well-behaved request may get beside 200
        self.failures = []
        self.n_right = 0
        self.end = time.monotonic() + STORM_S

    def _is_over(self):
        late_s = time.monotonic() - self.end
        return late_s > 0 and (self.n_right > N_RIGHT or late_s > 60)

    def _right(self, client, rng):
        """Requests, some pipelined, to upstreams that behave."""
        asked = []
        data = b""
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            body = rng.randbytes(rng.choice([0, 1, 100, 5000, rng.randrange(BODY_BYTES_MAX)]))
            path = "/" + rng.choice(RIGHT)
            if rng.random() < 0.5 or not body:
                data += message.request("PUT", path, body=body)
            else:
                cut = 1 + len(body) // 3
                pieces = [body[at:at + cut] for at in range(0, len(body), cut)]
                data += message.request("PUT", path, {"Transfer-Encoding": "chunked"},
                                        body=message.chunked(*pieces))
            asked.append(body)
        sender = threading.Thread(target=self._send, args=(client, data))
        sender.start()
        try:
            for body in asked:
                response = client.read()
                while response.status < 200:
                    response = client.read()
                if response.status == 200:
                    assert response.body == body, "another body came back"
                    self.n_right += 1
                else:
                    assert response.status in self.statuses, response.raw
                if response.get("Connection") == "close":
                    return False
        finally:
            sender.join()
        return True

    @staticmethod
    def _send(client, data):
        try:
            client.send(data)
        except OSError:
            pass  # the proxy has answered and closed

    @staticmethod
    def _wrong(client, rng):
        """A request to an upstream that does not behave, or one of a client that does not."""
        kind = rng.randrange(5)
        if kind == 0:
            client.send(message.request("POST", "/" + rng.choice(WRONG), body=b"x" * 1000))
            try:
                client.read()
            except message.Cut:
                pass
        elif kind == 1:
            data = message.request("POST", "/length", body=rng.randbytes(50_000))
            client.send(data[:rng.randrange(1, len(data))])
        elif kind == 2:
            client.send(message.request("POST", "/" + rng.choice(RIGHT), body=b"y" * 200_000))
        elif kind == 3:
            client.send(message.request("GET", "/length") * 20)
        else:
            client.send(rng.randbytes(rng.randrange(1, 2000)))
        if rng.random() < 0.5:
            client.reset()
        return False

    def _run(self, number):
        rng = random.Random(self.seed * 1000 + number)
        while not self._is_over() and not self.failures:
            try:
                with rng.choice(self.proxies).connect() as client:
                    while (self._wrong if rng.random() < 0.3 else self._right)(client, rng):
                        if self._is_over():
                            break
            except (BrokenPipeError, ConnectionResetError):
                pass  # an answer came before all was sent
            except Exception as failure:
                self.failures.append(repr(failure))

    def blow(self, meanwhile=lambda: None):
        threads = [threading.Thread(target=self._run, args=(i,)) for i in range(N_CLIENTS)]
        for thread in threads:
            thread.start()
        while not self._is_over() and not self.failures:
            meanwhile()
            time.sleep(0.01)
        for thread in threads:
            thread.join()
        assert not self.failures, f"seed {self.seed}: {self.failures[:3]}"
        assert self.n_right > N_RIGHT


def routes(upstream):
    return f"""
        timeouts: {{head: 1m, idle: 1m}}
        upstreams: {{api: {{servers: "{upstream.url}", timeout: {{connect: 1m, response: 1m}}}},
        hanging: {{servers: "{upstream.url}", timeout: {{connect: 1m, response: 3s}}}}}}
        routes: [{{match: {{path: /hang}}, limits: [wide], upstream: hanging}}, {{limits: [wide], upstream: api}}]
    """


def test_a_storm_of_clients_and_upstreams_is_weathered(start, start_upstream, seed):
    upstream = start_upstream(behave)
    proxy = start("limits: {wide: {key: client.ip, rate: 1000000/hour}}\n" +
                  "\n".join(line.strip() for line in routes(upstream).splitlines()))
    Storm([proxy], seed, statuses={502}).blow()
    until(lambda: proxy.ask(path="/length").status == 200, "an answer after the storm")


def test_a_storm_in_which_redis_comes_and_goes_is_weathered(
        start, start_upstream, start_redis, seed):
    upstream = start_upstream(behave)
    redis = start_redis()
    text = (f"store: {{redis: '{redis.url}', deadline: 30ms}}\n"
            "limits: {wide: {key: [client.ip, path], rate: 1000000/hour}}\n" +
            "\n".join(line.strip() for line in routes(upstream).splitlines()))
    proxies = [start(text) for _ in range(2)]
    faults = random.Random(seed)

    def meanwhile():
        fault = faults.randrange(4)
        if fault == 0:
            redis.pause()
            time.sleep(faults.random() * 0.3)
            redis.resume()
        elif fault == 1:
            redis.kill()
            time.sleep(faults.random() * 0.3)
            redis.start()
        elif fault == 2:
            redis.call("SCRIPT", "FLUSH")
        else:
            redis.call("CLIENT", "KILL", "TYPE", "normal")
        time.sleep(faults.random() * 0.3)

    Storm(proxies, seed, statuses={502}).blow(meanwhile)
    for proxy in proxies:
        until(lambda proxy=proxy: proxy.ask(path="/length").status == 200, "an answer")
