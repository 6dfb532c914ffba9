"""The built program: `sluice run` with a policy, and every other command."""

import os
import re
import resource
import shutil
import signal
import subprocess
import textwrap

from harness import log
from harness import redis_tls
from harness.client import Client
from harness.wait import until

PROGRAM = os.environ.get("SLUICE", "")
PLACE = re.compile(r"unix:|(?<=[\w\]]):\d+\b")  # in the line of a policy that says where to listen
LISTENING = re.compile(r"mod=proxy\.listening msg=listening address=(\S+)\n")
SANITIZER = re.compile(r"Sanitizer|runtime error:")
STOP_WITHIN_S = 60.0  # on a machine that does much else


def environment(extra=None):
    return {**os.environ, **redis_tls.environment(), "UBSAN_OPTIONS": "print_stacktrace=1", **(extra or {})}


def command(*arguments, env=None, stdin=""):
    """Run a command that ends by itself."""
    result = subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True, text=True,
                            timeout=300, env=environment(env), check=False)
    assert not SANITIZER.search(result.stderr), result.stderr
    return result


def _address_of(place):
    """(host, port), or the path of a unix socket."""
    if place.startswith("unix:"):
        return place.removeprefix("unix:")
    host, _, port = place.rpartition(":")
    return host.strip("[]"), int(port)


def _allow(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Sluice:
    """A proxy. The policy is told without `listen`: it listens where a port is free. Unless the policy says how it
    logs, each request has its line. `descriptors` are
    the soft and the hard limit of what it may open; `options` those of `sluice run`; `ids` a user, its group and
    another group, all of them numbers, that it runs as, from a copy of the program in its folder."""

    def __init__(self, folder, policy, env=None, log_format="logfmt", descriptors=None, options=(), ids=None):
        policy = textwrap.dedent(policy)
        if not re.search(r"^listen:", policy, re.MULTILINE):
            policy = "listen: 127.0.0.1:0\n" + policy
        if not re.search(r"^(log|include):", policy, re.MULTILINE):
            policy = policy.rstrip() + "\nlog: {denied_lines: 1000000}\n"
        folder.mkdir()
        self.folder = folder
        self.log_format = log_format
        self.clients = []
        self.is_killed = False
        (folder / "policy.yaml").write_text(policy)
        program = shutil.copy(PROGRAM, folder) if ids else PROGRAM
        user, group, more_groups = (*ids[:2], ids[2:]) if ids else (None, None, None)
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            self.process = subprocess.Popen([program, "run", *options, str(folder / "policy.yaml")],
                                            user=user, group=group, extra_groups=more_groups,
                                            stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                            env=environment(env),
                                            preexec_fn=descriptors and _allow(*descriptors))
        listen = re.search(r"^listen:.*(?:\n[ \t]+\S.*)*", policy, re.MULTILINE).group()
        n_places = max(1, len(PLACE.findall(listen)))
        self.addresses = until(lambda: self.find_addresses(n_places), "the proxy to listen", within=30)
        self.await_said("msg=started ")  # and so what it says of its start
        self.address = self.addresses[0]
        self.port = self.address[1] if isinstance(self.address, tuple) else None

    def find_addresses(self, n_places):
        """Where it says that it listens, when it has said so of that many places."""
        assert self.process.poll() is None, f"the proxy ended:\n{self.stderr()}"
        found = LISTENING.findall(self.stderr())
        return [_address_of(place) for place in found] if len(found) >= n_places else None

    def stderr(self):
        """While it runs without a line that is being written."""
        runs = self.is_running()
        text = (self.folder / "stderr").read_text(errors="replace")
        return text[:text.rfind("\n") + 1] if runs else text

    def stdout(self):
        return (self.folder / "stdout").read_bytes()

    # --- clients ---

    def connect(self, source=None, address=None):
        client = Client(address or self.address, source)
        self.clients.append(client)
        return client

    def ask(self, method="GET", path="/", fields=(), body=None, source=None, **how):
        """One request on a connection of its own."""
        with self.connect(source) as client:
            return client.ask(method, path, fields, body, **how)

    def send(self, data):
        """A connection on which exactly these bytes have been sent."""
        client = self.connect()
        client.send(data)
        return client

    # --- what it says: threads of its own write it, later than answers and numbers are seen ---

    def await_said(self, text, n=1):
        """Its log, when that has the text n times at least."""
        def find():
            log_text = self.stderr()
            return log_text if log_text.count(text) >= n else None

        return until(find, f"{text!r} in the log, {n} times")

    def log_at_end(self):
        """Its whole log, after which nothing comes: it is stopped for that."""
        self.stop()
        return self.stderr()

    def log_lines(self, n):
        """The first n lines of the access log, when they have come; more fail the test."""
        until(lambda: self.stdout().count(b"\n") >= n, f"{n} lines in the access log")
        lines = self.stdout().split(b"\n")
        assert lines.pop() == b"" and len(lines) == n, f"{len(lines)} lines, not {n}"
        return [log.parse(line, self.log_format) for line in lines]

    def all_log_lines(self):
        """Every line so far that is whole."""
        return [log.parse(line, self.log_format) for line in self.stdout().split(b"\n")[:-1]]

    def lines_of(self, path, n):
        """n lines of the requests for `path`, when they have come. Each worker writes its own:
        lines of different connections may stand in another order."""
        def find():
            lines = [line for line in self.all_log_lines() if line["path"] == path]
            return lines if len(lines) >= n else None

        return until(find, f"{n} lines of {path}")

    def memory_bytes(self):
        """Resident memory; 0 under ThreadSanitizer, which keeps far more of its own."""
        if "TSAN_OPTIONS" in os.environ:
            return 0
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            found = re.search(r"^VmRSS:\s+(\d+) kB", status.read(), re.MULTILINE)
        return int(found.group(1)) * 1024

    def _stat(self):
        """proc(5), from the state on."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()

    def cpu_s(self):
        """Time of processors that it has taken so far."""
        fields = self._stat()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_halted(self):
        return self._stat()[0] == "T"

    def waited_s(self):
        """How long a thread of it wanted to run so far and had no processor: the one that waited longest."""
        waits_ns = []
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat", encoding="ascii") as file:
                waits_ns.append(int(file.read().split()[1]))
        return max(waits_ns) / 1e9

    def n_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    # --- the end ---

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def is_running(self):
        return self.process.poll() is None

    def wait(self):
        """The exit status, when it has ended."""
        return self.process.wait(STOP_WITHIN_S)

    def kill(self):
        """As if its machine went away: nothing is finished, nothing is said to anybody."""
        self.process.kill()
        self.process.wait()
        self.is_killed = True

    def stop(self):
        """End it as an operator does: it must end by itself, with 0 and no sanitizer's report."""
        for client in self.clients:
            client.close()
        if self.is_killed:
            self.check()
            return
        is_drained = self.is_running()
        if is_drained:
            self.signal()
        try:
            status = self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not stop:\n{self.stderr()}") from None
        self.check()
        assert status == 0, f"ended with {status}:\n{self.stderr()}"
        assert not is_drained or "drain timed out" not in self.stderr(), self.stderr()

    def check(self):
        assert not SANITIZER.search(self.stderr()), self.stderr()
