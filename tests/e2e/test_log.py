"""The access log: what a line says and where it goes; that each is well-formed is test_bytes.py's."""

import datetime
import json
import os
import pathlib
import re
import socket
import time

import pytest

from harness import program
from harness.wait import until

ROUTES = "routes: [{respond: {status: 204}}]\n"


@pytest.mark.parametrize("log_format", ["logfmt", "json"])
def test_a_line_says_what_happened(start, start_upstream, log_format):
    upstream = start_upstream()
    proxy = start(f"""
        workers: 1
        log: {log_format}
        limits: {{once: {{key: client.ip, rate: 1/day}}}}
        upstreams: {{api: {{servers: "{upstream.url}"}}}}
        routes: [{{name: all, limits: [once], upstream: api}}]
    """, log_format=log_format)
    proxy.ask("POST", "/a?b=c", host="api.test", body=b"hello")
    proxy.ask("GET", "/a", host="api.test")
    admitted, denied = proxy.log_lines(2)
    assert {key: admitted[key] for key in (
        "client", "method", "host", "path", "status", "route", "verdict", "source", "upstream",
        "in", "out")} == {
            "client": "127.0.0.1", "method": "POST", "host": "api.test", "path": "/a",
            "status": "200", "route": "all", "verdict": "allowed", "source": "memory",
            "upstream": upstream.url, "in": "5", "out": "3"}
    assert int(admitted["us"]) >= int(admitted["upstream_us"]) > 0
    assert "fault" not in admitted
    assert (denied["status"], denied["verdict"], denied["limit"]) == ("429", "denied", "once")
    assert "upstream" not in denied


def test_what_is_long_is_cut_and_the_line_stays_whole(start):
    proxy = start("log: json\n" + ROUTES, log_format="json")
    proxy.ask(path="/" + "a" * 8000)
    assert proxy.log_lines(1)[0]["path"] == "/" + "a" * 1023


def test_the_log_goes_to_a_file_and_is_appended_to(start, tmp_path):
    path = tmp_path / "access.log"
    path.write_text("before\n")
    proxy = start(f"log: {{format: json, to: {path}}}\n" + ROUTES)
    proxy.ask(path="/x")
    until(lambda: path.read_text().count("\n") == 2, "a line in the file")
    before, line = path.read_text().splitlines()
    assert before == "before" and json.loads(line)["path"] == "/x"
    assert proxy.stdout() == b""


def test_the_log_can_be_off(start):
    proxy = start("log: off\n" + ROUTES)
    proxy.ask()
    proxy.stop()
    assert proxy.stdout() == b""


def test_a_log_that_nobody_reads_does_not_hold_requests_up(start, tmp_path):
    """A full disk, as the kernel plays it."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    proxy = start("log: {to: /dev/full}\n" + ROUTES)
    started = time.monotonic()
    with proxy.connect() as client:  # at one worker
        assert {client.ask().status for _ in range(1000)} == {204}
    until(lambda: "lines lost" in proxy.stderr(), "the loss to be told")
    n_told = proxy.stderr().count("lines lost")
    assert n_told <= 1 + time.monotonic() - started, "more than once a second"


def test_a_sampled_log_has_every_denial(start, start_upstream):
    proxy = start(f"""
        workers: 1
        log: {{sample: 10%}}
        limits: {{some: {{key: client.ip, rate: 100/day}}}}
        upstreams: {{api: {{servers: "{start_upstream().url}"}}}}
        routes: [{{limits: [some], upstream: api}}]
    """)
    for _ in range(105):
        proxy.ask()
    lines = proxy.log_lines(15)
    proxy.stop()
    assert proxy.stdout().count(b"\n") == 15
    assert [line["verdict"] for line in lines].count("denied") == 5
    assert {len(line["key"]) for line in lines if line["verdict"] == "denied"} == {32}


def test_the_log_goes_to_syslog(start, tmp_path):
    path = tmp_path / "syslog"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(path))
        syslog.settimeout(60)
        proxy = start(f"log: {{to: 'syslog:{path}'}}\n" + ROUTES)
        proxy.ask(path="/x")
        message = syslog.recv(10_000).decode()
    assert re.match(r"<30>\w{3} [ \d]\d \d\d:\d\d:\d\d sluice\[\d+\]: time=\S+ client=127.0.0.1 "
                    r"method=GET \S+ path=/x status=204 ", message)
    assert "\n" not in message and proxy.stdout() == b""


# --- the program's own log ---


def test_the_start_tells_what_runs(start, tmp_path):
    place = f"unix:{tmp_path}/a.sock"
    proxy = start(f"listen: [127.0.0.1:0, '{place}']\nadmin: 'unix:{tmp_path}/b.sock'\nlimit: 1/s\n"
                  "upstream: http://127.0.0.1:1\n")
    line = until(lambda: re.search(r"^.* msg=started .*$", proxy.stderr(), re.MULTILINE), "the line").group()
    version = program.command("version").stdout.split()[1]
    assert re.search(
        rf"level=info mod=app\.run msg=started version={version} pid={proxy.process.pid} "
        rf"policy={proxy.folder}/policy\.yaml listen=127\.0\.0\.1:0,{place} admin=unix:{tmp_path}/b\.sock "
        rf"store=memory routes=1 limits=1 upstreams=1$", line), line


def test_a_redis_that_is_away_is_told_with_its_address_and_what_happens_instead(start):
    proxy = start("""
        workers: 1
        store: {redis: "redis://user:s3cret@127.0.0.1:1/0"}
        limits:
          a: {key: client.ip, rate: 5/s, on_failure: allow}
          b: {key: client.ip, rate: 5/s}
        routes: [{limits: [a, b], respond: {status: 204}}]
    """)
    until(lambda: 'msg="no link"' in proxy.stderr(), "the line")
    assert ('level=warn mod=store.redis msg="no link" err="Connection refused" address=127.0.0.1:1 '
            "on_failure=local,allow\n") in proxy.stderr()
    assert "store=redis:127.0.0.1:1 " in proxy.stderr() and "s3cret" not in proxy.stderr()
