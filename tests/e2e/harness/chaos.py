"""Traffic through servers that are killed, stopped, restarted, hang and cut their answers at random; and
whether each request got what it should.

A request may fail where that cannot be hidden: a byte of its answer had been sent; it could not be sent
again, like a POST; it was not answered in time; or it died at more servers than `retries` allows, or at all there are. Never may
an answer be another's, or look whole and not be, or a request that is not idempotent reach two servers."""

import asyncio
import collections
import os
import random
import signal
import socket
import subprocess
import sys
import time

from harness.chaos_server import body_of
from harness.ports import free_port

SERVERS = 4
DISTURBED_MAX = 2  # of them, at one time
RETRIES = 2
TIMEOUT_S = 1  # to connect, and to answer
METHODS = ["GET"] * 14 + ["HEAD", "DELETE"] + ["POST"] * 4
IDEMPOTENT = ("GET", "HEAD", "DELETE")
SIZES = [0, 1, 100, 100, 1000, 1000, 5000, 20_000, 200_000]
DISTURBANCES = ("kill", "stop", "bad", "bad", "hang", "slow")
CLIENT_TIMEOUT_S = 60
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def policy(ports, more=""):
    servers = ", ".join(f"http://127.0.0.1:{port}" for port in ports)
    return f"""
        workers: 2
        log: off
        max: {{connections: 20000}}
        upstreams:
          api:
            servers: [{servers}]
            timeout: {{connect: {TIMEOUT_S}s, response: {TIMEOUT_S}s}}
            retries: {RETRIES}
            eject: {{failures: 5, for: 200ms, max: 1s}}
            slow_start: 500ms
            {more}
        routes: [{{upstream: api}}]
    """


class Server:
    """One upstream: a process that comes back on its port."""

    def __init__(self, folder, number):
        self.port = free_port()
        self.log = str(folder / f"server-{number}.log")
        self.number = number
        self.process = None
        self.down = []  # [from, to] by the monotonic clock
        self.kills = []  # the same

    def start(self, seed):
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-m", "harness.chaos_server", str(self.port), self.log,
             str(seed)], cwd=FOLDER, stdin=subprocess.PIPE)

    async def until_up(self):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(0.02)

    def order(self, mode):
        self.process.stdin.write(mode.encode() + b"\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


class Disturber:
    """Disturbs servers, never more than DISTURBED_MAX at one time."""

    def __init__(self, servers, rng):
        self.servers = servers
        self.random = rng
        self.n = collections.Counter()
        self.is_over = False

    async def run(self):
        disturbed = {}
        while not self.is_over:
            free = [server for server in self.servers if server not in disturbed]
            if len(disturbed) < DISTURBED_MAX:
                server = self.random.choice(free)
                disturbed[server] = asyncio.ensure_future(self.disturb(server))
            await asyncio.sleep(self.random.uniform(0.02, 0.15))
            for server, task in list(disturbed.items()):
                if task.done():
                    task.result()
                    del disturbed[server]
        for task in disturbed.values():
            await task

    async def disturb(self, server):
        what = self.random.choice(DISTURBANCES)
        self.n[what] += 1
        begun = time.monotonic()
        if what == "kill":
            await self.kill(server)
            server.down.append((begun, time.monotonic()))
        elif what == "stop":
            server.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(self.random.uniform(0.1, 2))
            server.process.send_signal(signal.SIGCONT)
        else:
            server.order(what)
            await asyncio.sleep(self.random.uniform(0.1, 1.5))
            server.order("good")
        await asyncio.sleep(self.random.uniform(0, 0.3))

    async def kill(self, server):
        begun = time.monotonic()
        server.kill()
        server.kills.append((begun, time.monotonic()))
        await asyncio.sleep(self.random.uniform(0, 1))
        server.start(self.random.randrange(1 << 30))
        await server.until_up()


# --- clients ---


class Result:
    """What a client saw of one request. outcome: "whole", "cut", "nothing", "left" or a fault."""

    __slots__ = "identity", "method", "outcome", "status", "begun", "ended"

    def __init__(self, identity, method):
        self.identity = identity
        self.method = method
        self.outcome = "nothing"
        self.status = 0
        self.begun = time.monotonic()
        self.ended = 0.0


class Fault(Exception):
    """An answer that must not be."""


Load = collections.namedtuple("Load", "n_connections n_requests pause_s")


class Client:
    """One connection after another, one request after another."""

    def __init__(self, number, port, load, rng):
        self.number = number
        self.port = port
        self.load = load
        self.random = rng
        self.results = []
        self.reader = self.writer = None

    async def run(self):
        for i in range(self.load.n_requests // self.load.n_connections):
            await asyncio.sleep(self.random.uniform(0, self.load.pause_s))
            result = Result(f"{self.number}-{i}", self.random.choice(METHODS))
            self.results.append(result)
            try:
                await asyncio.wait_for(self.ask(result), CLIENT_TIMEOUT_S)
            except (asyncio.IncompleteReadError, ConnectionError):
                self.close()
            except Fault as fault:
                result.outcome = str(fault)
                self.close()
            except asyncio.TimeoutError:
                result.outcome = "no answer at all"
                self.close()
            result.ended = time.monotonic()
        self.close()

    def close(self):
        if self.writer is not None:
            self.writer.transport.abort()
            self.reader = self.writer = None

    async def ask(self, result):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        size = self.random.choice(SIZES)
        self.writer.write(self.request(result, size))
        await self.writer.drain()
        if self.random.random() < 0.01:
            await asyncio.sleep(self.random.random() * 0.05)
            result.outcome = "left"
            self.close()
            return
        await self.read(result, size)

    def request(self, result, size):
        head = f"{result.method} /{result.identity}/{size} HTTP/1.1\r\nHost: chaos\r\n"
        if result.method != "POST":
            return f"{head}\r\n".encode()
        sent = self.random.choice(SIZES)
        body = body_of(result.identity, sent)
        head += f"X-Size: {sent}\r\n"
        if self.random.random() < 0.5:
            return f"{head}Content-Length: {sent}\r\n\r\n".encode() + body
        chunk = b"%x\r\n%s\r\n" % (sent, body) if sent else b""
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + b"0\r\n\r\n"

    async def read(self, result, size):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        result.outcome = "cut"
        line, *fields = head.split("\r\n")
        fields = dict(field.lower().split(": ", 1) for field in fields if field)
        result.status = int(line.split(" ")[1])
        body = b"" if result.method == "HEAD" else await self.body(fields)
        if result.status == 200:
            check(result, fields, body, size)
        result.outcome = "whole"
        if fields.get("connection") == "close":
            self.close()

    async def body(self, fields):
        if "content-length" in fields:
            return await self.reader.readexactly(int(fields["content-length"]))
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)
        return body


def check(result, fields, body, size):
    if fields.get("x-id") != result.identity:
        raise Fault(f"the answer of {fields.get('x-id')}")
    if result.method != "HEAD" and body != body_of(result.identity, size):
        raise Fault(f"a body of {len(body)} bytes that looks whole and is not the one of {size}")


# --- the verdict ---


class Judge:
    """Says which results could not be helped, by what the servers have written down."""

    def __init__(self, servers):
        self.servers = servers
        self.events = collections.defaultdict(list)  # of an ID: (server, letter)
        for server in servers:
            with open(server.log, encoding="ascii") as log:
                for line in log:
                    letter, identity = line.split()
                    self.events[identity].append((server.number, letter))

    def faults(self, results):
        return [f"{result.method} {result.identity}: {fault}" for result in results
                if (fault := self.fault_of(result)) is not None]

    def fault_of(self, result):
        events = self.events[result.identity]
        letters = [letter for _, letter in events]
        n_starts = letters.count("S")
        if "W" in letters:
            return "its body did not arrive as it was sent"
        if result.method not in IDEMPOTENT and n_starts > 1:
            return f"it reached a server {n_starts} times"
        if letters.count("F") > 1:
            return "it was sent again after a byte of the answer"
        if result.outcome == "left" or (result.outcome == "whole" and result.status == 200):
            return None
        if result.outcome not in ("whole", "cut", "nothing"):
            return result.outcome
        if "B" in letters:
            return None if result.outcome == "cut" or result.status in (502, 504) else \
                f"{result.outcome} {result.status} after a byte of the answer"
        return self.unhidden(result, events)

    def unhidden(self, result, events):
        """No byte of an answer came; an error of ours has to have been."""
        if result.outcome != "whole" or result.status not in (502, 504):
            return f"{result.outcome} {result.status} without a byte of an answer"
        if result.method not in IDEMPOTENT:
            return None
        if result.status == 504:
            return None if result.ended - result.begun >= TIMEOUT_S else "a timeout before its time"
        died_at = {server for server, letter in events if letter == "S"}
        unseen = sum(since <= result.ended and until >= result.begun
                     for server in self.servers for since, until in server.kills)
        if len(died_at) + unseen > RETRIES or len(died_at | self.down_during(result)) == SERVERS:
            return None
        return (f"{result.status}, which another try could have hidden: it died at {len(died_at)} "
                f"servers, and {unseen} were killed meanwhile")

    def down_during(self, result):
        """Numbers of servers that were down at some time between the request and its end."""
        return {server.number for server in self.servers for since, until in server.down
                if since <= result.ended and until >= result.begun}


class Report:
    def __init__(self, results, faults, disturbances, seconds):
        self.n = len(results)
        self.faults = faults
        self.disturbances = dict(disturbances)
        self.outcomes = collections.Counter(
            (result.method if result.method == "POST" else "idempotent",
             result.outcome if result.outcome != "whole" else str(result.status))
            for result in results)
        self.seconds = seconds

    def __str__(self):
        outcomes = ", ".join(f"{method} {outcome}: {n}"
                             for (method, outcome), n in sorted(self.outcomes.items()))
        return (f"{self.n} requests in {self.seconds:.1f} s; {outcomes}; disturbances "
                f"{self.disturbances}; faults: {len(self.faults)}")


async def run(folder, start_proxy, load, seed, more=""):
    """Drive a Load through the proxy that start_proxy(policy) gives the port of; a Report."""
    rng = random.Random(seed)
    servers = [Server(folder, number) for number in range(SERVERS)]
    try:
        for server in servers:
            server.start(rng.randrange(1 << 30))
        await asyncio.gather(*(server.until_up() for server in servers))
        port = start_proxy(policy([server.port for server in servers], more))
        disturber = Disturber(servers, rng)
        disturbing = asyncio.ensure_future(disturber.run())
        clients = [Client(number, port, load, random.Random(seed + number))
                   for number in range(load.n_connections)]
        begun = time.monotonic()
        await asyncio.gather(*(client.run() for client in clients))
        seconds = time.monotonic() - begun
        disturber.is_over = True
        await disturbing
    finally:
        for server in servers:
            if server.process is not None:
                server.kill()
    results = [result for client in clients for result in client.results]
    return Report(results, Judge(servers).faults(results), disturber.n, seconds)


def raise_descriptors():
    import resource
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
