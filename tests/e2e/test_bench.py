"""The commands of bench/ that measure time and admissions: that they run, and tell what they claim."""

import json
import os
import selectors
import shutil
import socket
import subprocess
import threading
import time

import pytest

from harness import program

BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                     "bench")
LOAD = os.environ.get("BENCH_LOAD")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STALL_S = 1

needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")


class Server:
    """Answers at once, but for one time: then nobody is answered for STALL_S."""

    def __init__(self, stalls_after):
        self.stalls_after = stalls_after
        self.n_answers = 0
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.selector.register(self.listener, selectors.EVENT_READ)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.listener:
                    self.selector.register(self.listener.accept()[0], selectors.EVENT_READ)
                else:
                    self._answer(key.fileobj)

    def _answer(self, sock):
        if not sock.recv(65536):
            self.selector.unregister(sock)
            sock.close()
            return
        self.n_answers += 1
        if self.n_answers == self.stalls_after:
            time.sleep(STALL_S)
        sock.sendall(ANSWER)


def _load(port, *words):
    result = subprocess.run([LOAD, *map(str, words), str(port), "/"], capture_output=True, text=True,
                            timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def _bench(name, tmp_path, *words):
    """The result of a bench command, on the proxy under test."""
    result = subprocess.run([os.path.join(BENCH, name), "--json", "--to", tmp_path / "result.json",
                             "--sluice", program.PROGRAM, "--load", LOAD, *map(str, words)],
                            capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == json.loads((tmp_path / "result.json").read_text())
    return json.loads(result.stdout)


def test_a_stall_is_charged_to_every_request_that_was_to_be_sent_meanwhile():
    seen = _load(Server(stalls_after=300).port, "--rate", 500, "--arrivals", "even", "--ms", 2400,
                 "--connections", 2)
    assert seen["requests"] == seen["ok"] == 1200
    # 500 of 1,200 were to be sent in that second, though two alone were on their way.
    assert seen["latency_us"]["p99"] > 0.9e6 * STALL_S
    assert seen["latency_us"]["p90"] > 0.5e6 * STALL_S
    assert seen["service_us"]["p90"] < 0.3e6 * STALL_S, "which would be all that one sees otherwise"


def test_a_load_without_a_rate_waits_for_its_answers_and_ends_with_its_last_request(tmp_path):
    log = tmp_path / "log"
    server = Server(stalls_after=50)
    seen = _load(server.port, "--requests", 200, "--connections", 4, "--log", log, "--ms", 60000)
    assert seen["requests"] == seen["ok"] == server.n_answers == 200
    assert seen["latency_us"]["p90"] < 0.3e6 * STALL_S, "nothing was to be sent in the stall"
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len(lines) == 200 and {line[2] for line in lines} == {"200"}
    assert all(int(sent) <= int(answered) for sent, answered, _ in lines)


def test_nobody_there_is_an_error_and_a_server_that_leaves_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
        seen = _load(port, "--connections", 1, "--requests", 1, "--rate", 10, "--ms", 200)
    assert seen["ok"] == 0 and seen["failed"] + seen["unanswered"] == seen["requests"]
    result = subprocess.run([LOAD, str(port), "/"], capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == 1 and "does not take connections" in result.stderr


@needs_nginx
def test_bench_latency_tells_what_each_row_adds_to_a_direct_connection(tmp_path):
    result = _bench("latency", tmp_path, "--only", "sluice", "--rate", 100, "--seconds", 0.5,
                    "--rounds", 1, "--connections", 4)
    rows = {row["name"]: row for row in result["rows"]}
    assert list(rows) == ["direct", "nginx-limit-req", "sluice"]
    direct, sluice = rows["direct"], rows["sluice"]
    assert sluice["added_p99_us"] == pytest.approx(sluice["p99_us"] - direct["p99_us"])
    assert result["redis_round_trip_us"]["p50"] > 0
    assert [bound["name"] for bound in result["bounds"]] == ["sluice"]
