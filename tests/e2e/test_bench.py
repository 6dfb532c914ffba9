"""The commands of bench/ that measure time and admissions: that they run, and tell what they claim."""

import argparse
import contextlib
import importlib
import json
import os
import selectors
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from harness import program
from harness.certificates import Authority
from harness.client import Client
from harness.ports import free_port
from harness.wait import until

BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                     "bench")
LOAD = os.environ.get("BENCH_LOAD")
FLOOR = os.environ.get("BENCH_FLOOR")
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
    seen = _load(Server(stalls_after=100).port, "--rate", 200, "--arrivals", "even", "--ms", 2400,
                 "--connections", 2)
    assert seen["requests"] == seen["ok"] == 480
    # 200 of 480 were to be sent in that second, though two alone were on their way.
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
    assert len(lines) == 200 and {line[3] for line in lines} == {"200"}
    assert all(int(intended) <= int(sent) <= int(answered) for intended, sent, answered, _ in lines)


def _close_all(listener):
    with contextlib.suppress(OSError):  # it is over
        while True:
            listener.accept()[0].close()


def test_nobody_there_is_an_error_and_a_server_that_leaves_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=_close_all, args=(listener,), daemon=True).start()
        seen = _load(port, "--connections", 1, "--requests", 3, "--rate", 100)
        assert seen["ok"] == 0 and seen["failed"] + seen["unanswered"] == seen["requests"] == 3
        listener.shutdown(socket.SHUT_RDWR)
    result = subprocess.run([LOAD, str(port), "/"], capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode == 1 and "connect" in result.stderr


@contextlib.contextmanager
def _floor(*options, to=None):
    """A port where bench_floor listens; `to`: the port of its upstream."""
    port = free_port()
    with subprocess.Popen([FLOOR, *map(str, options), str(port), *([str(to)] if to else [])]) as process:
        until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "the floor to listen")
        yield port
        assert process.poll() is None
        process.terminate()


def test_the_floor_passes_on_what_comes_and_denies_without_an_upstream():
    server = Server(stalls_after=0)
    with _floor(to=server.port) as port:
        seen = _load(port, "--requests", 300, "--connections", 3)
        assert seen["requests"] == seen["ok"] == server.n_answers == 300
    with _floor() as port, Client(("127.0.0.1", port)) as client:
        assert [client.ask().status for _ in range(3)] == [429] * 3


def test_the_floor_speaks_tls_and_handshakes_are_full_or_resumed(tmp_path):
    server = Server(stalls_after=0)
    certificate, key = Authority(tmp_path / "ca").sign("floor", "DNS:floor.test")
    context = ssl.create_default_context(cafile=tmp_path / "ca" / "ca.pem")
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the authority has no key usage
    with _floor("--tls", certificate, key, to=server.port) as port:
        with socket.create_connection(("127.0.0.1", port)) as plain, \
                context.wrap_socket(plain, server_hostname="floor.test") as client:
            for _ in range(3):
                client.sendall(b"GET / HTTP/1.1\r\nHost: floor.test\r\n\r\n")
                assert client.recv(4096) == ANSWER
        for kind in ("full", "resumed"):
            seen = _part_of_bench("handshakes").load(port, "/", kind, 2, 0.5)
            assert seen["requests"] > 2 and not seen["socket_errors"] and not seen["not_ok"]


def test_the_floor_speaks_http_2(tmp_path):
    server = Server(stalls_after=0)
    certificate, key = Authority(tmp_path / "ca").sign("floor", "DNS:floor.test")
    h2load, load = _part_of_bench("h2load"), _part_of_bench("rows").Load(is_secure=True, streams=10)
    with _floor("--http2", certificate, key, to=server.port) as port:
        seen = h2load.load(port, load, 2, 1)
        assert seen["requests"] > 20 and not seen["not_ok"] and not seen["socket_errors"]
        assert server.n_answers >= seen["requests"]
    with _floor("--http2", certificate, key) as port:
        seen = h2load.load(port, load, 2, 1)
        assert seen["requests"] == seen["not_ok"] > 20


def test_the_ratios_of_earlier_runs_stand_beside_those_of_this_one():
    sys.path.insert(0, os.path.join(BENCH, "lib"))
    summary, rows = importlib.import_module("summary"), importlib.import_module("rows")
    chosen = rows.select(["sluice-bare"])
    published = {"at": "2026-01-02T00:00:00Z", "machine": {"processor": "another"},
                 "rows": [{"name": "sluice-bare", "ratio": 1.5, "earlier": [{"ratio": 1.1}]}]}
    rounds = [{row.name: dict.fromkeys(summary.FIGURES, cost) for row, cost in zip(chosen, (10, 12))}]
    line = summary.summarize(chosen, rounds, published)[1]
    assert line["ratio"] == 1.2 and summary.between_runs(line) == (1.1, 1.5)
    assert line["earlier"][1] == {"ratio": 1.5, "at": "2026-01-02T00:00:00Z", "processor": "another"}


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


def test_bench_redis_tls_has_both_links_make_decisions(tmp_path):
    result = _bench("redis-tls", tmp_path, "--rounds", 1, "--seconds", 0.5)
    plain, secure = result["rows"]
    assert (plain["link"], secure["link"]) == ("plain", "tls")
    for row in result["rows"]:
        assert row["decisions_per_second"] > 2 * result["half_rate"] * 0.99 and row["proxy_us"] > 0 and row["redis_us"] > 0
        assert 0 < row["alone_p50_us"] <= row["alone_p99_us"]
    assert result["proxy_us_ratio"] == pytest.approx(secure["proxy_us"] / plain["proxy_us"])
    assert result["alone_p50_us_added"] == pytest.approx(secure["alone_p50_us"] - plain["alone_p50_us"])


@needs_nginx
def test_bench_accuracy_counts_what_passes_a_limit_and_the_edge_of_a_window(tmp_path):
    result = _bench("accuracy", tmp_path, "--only", "sluice-redis-two-token", "--only",
                    "edge-sluice-sliding-log", "--rounds", 1, "--requests", 2000, "--connections", 8,
                    "--edge-rate", 500)
    [row], [edge] = result["rows"], result["edges"]
    assert row["rounds"][0]["asked"] == 2000
    # On a machine that stands still for a second, sluice goes on without its Redis.
    assert row["by_itself"] or row["limit"] <= row["admitted_max"] <= row["rounds"][0]["most"]
    assert 0 < edge["most"] <= edge["limit"]


def test_bench_accuracy_refuses_a_rate_at_which_nobody_can_knock_at_the_edge_of_a_window():
    result = subprocess.run([os.path.join(BENCH, "accuracy"), "--edge-rate", "499"],
                            capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "--edge-rate 499: 500 at least" in result.stderr


def _part_of_bench(name):
    sys.path.insert(0, os.path.join(BENCH, "lib"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@pytest.fixture(name="admitted")
def the_part_of_bench_accuracy_that_judges():
    return _part_of_bench("admitted")


def _round(direct_us, redis_us, trip_p50_us, trip_p99_us):
    def load(p99_us):
        return {"latency_us": {"p99": p99_us}, "saturated": False}
    return {"redis_round_trip_us": {"p50": trip_p50_us, "p99": trip_p99_us},
            "loads": {"100": {"direct": load(direct_us), "sluice-redis": load(redis_us)}}}


def test_what_redis_adds_is_held_against_both_readings_of_a_round_trip_in_the_same_round():
    judge = _part_of_bench("latency_report").bounds
    rows = [argparse.Namespace(name="direct"), argparse.Namespace(name="sluice-redis")]
    rounds = [_round(100, 400, 60, 150), _round(1000, 1350, 60, 160), _round(100, 9000, 300, 500)]
    of_p99, of_median = judge(rows, 100, rounds)
    assert (of_p99["is"], of_p99["at_most"], of_p99["holds"]) == (190, 200, True)  # of 150, 190 and 8400
    assert (of_median["is"], of_median["at_most"], of_median["holds"]) == (290, 200, False)  # of 240, 290 and 8600
    assert "the p99 of a round trip" in of_p99["of"] and "the median of a round trip" in of_median["of"]


def test_one_stall_does_not_move_the_middle_half_of_the_rounds():
    report = _part_of_bench("latency_report")
    assert report.middle_half([3, 1, 2, 5, 4]) == report.middle_half([3, 1, 2, 5000, 4]) == (2, 4)
    assert report.middle_half([7]) == (7, 7)


def test_too_many_and_too_few_are_told_beyond_what_the_times_of_decisions_explain(admitted):
    def judge(kind, *groups):
        """@groups: how many passed, when they were sent, and answered; in seconds."""
        at_us = 10 * admitted.HOUR_US
        return admitted.judge(kind, [admitted.Seen(at_us + int(sent * 1e6), at_us + int(done * 1e6), True)
                                     for n, sent, done in groups for _ in range(n)])

    seen = judge("bucket", (600, 1, 2), (402, 59, 62))
    assert (seen["least"], seen["most"], seen["over"], seen["under"]) == (1000, 1001, 1, 0)
    seen = judge("bucket", (500, 1, 2), (500, 63, 64))
    assert (seen["least"], seen["over"], seen["under"]) == (1001, 0, 1)
    assert judge("clock", (1000, -2, -1), (1000, 1, 2))["over"] == 0, "the hour between them is another"
    assert judge("sliding", (1000, -2, -1), (1, 1, 2))["over"] == 1


def test_what_passes_in_a_period_counts_where_it_is_certain_to_lie_within(admitted):
    seen = [admitted.Seen(0, 10, True), admitted.Seen(5, 95, True), admitted.Seen(50, 60, False),
            admitted.Seen(60, 105, True), admitted.Seen(95, 99, True)]
    assert admitted.most_within(seen, 100) == 3
    assert admitted.most_within(seen, 101) == 3, "of the first, second and last; or without the first"
    assert admitted.most_within(seen, 106) == 4
    assert admitted.most_within([], 100) == 0
