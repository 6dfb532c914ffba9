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


@pytest.mark.parametrize("form", ["logfmt", "json", "combined"])
def test_denials_of_a_client_have_so_many_lines_a_second(start, start_upstream, form):
    proxy = start(f"""
        workers: 1
        admin: {{listen: 127.0.0.1:0}}
        log: {{format: {form}, denied_lines: 5, sample: 0%}}
        limits: {{some: {{key: client.ip, rate: 1/day}}}}
        upstreams: {{api: {{servers: "{start_upstream().url}"}}}}
        routes: [{{match: {{path: /none/**}}, limits: [], upstream: api}}, {{limits: [some], upstream: api}}]
    """)
    started = time.monotonic()
    with proxy.connect() as client:
        assert [client.ask().status for _ in range(301)].count(429) == 300
        assert {client.ask(path="/%zz").status for _ in range(50)} == {400}
    until(lambda: "lines of denied requests left out" in proxy.stderr(), "the report")
    proxy.stop()
    n_seconds = int(time.monotonic() - started) + 2
    reports = re.findall(r'msg="lines of denied requests left out" lines=(\d+) clients=1 most_of=127.0.0.1 '
                         r'lines_of_it=(\d+) limit="(some|)" hint="see log.denied_lines"', proxy.stderr())
    n_lines = proxy.stdout().count(b"\n")
    assert 5 <= n_lines <= 5 * n_seconds
    assert sum(int(n) for n, _, _ in reports) == 350 - n_lines, reports
    assert all(n == n_of_it for n, n_of_it, _ in reports) and len(reports) <= n_seconds


def test_without_lines_for_denials_only_their_number_is_said(start, start_upstream):
    proxy = start(f"""
        workers: 1
        log: {{denied_lines: 0}}
        limits: {{some: {{key: client.ip, rate: 1/day}}}}
        upstreams: {{api: {{servers: "{start_upstream().url}"}}}}
        routes: [{{limits: [some], upstream: api}}]
    """)
    assert [proxy.ask().status for _ in range(4)] == [200, 429, 429, 429]
    assert proxy.log_lines(1)[0]["status"] == "200"
    proxy.stop()
    assert proxy.stdout().count(b"\n") == 1
    assert "lines=3 " in proxy.stderr()


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


# --- what a policy chooses ---

ALL = "fields: [query, referer, user_agent]"
WITH_ALL = [("Referer", 'http://a.test/"x"'), ("User-Agent", "agent/1 (\xe9\t)"), ("User-Agent", "another")]


@pytest.mark.parametrize("log_format", ["logfmt", "json"])
def test_query_referer_and_user_agent_are_in_the_line_where_the_policy_says_so(start, log_format):
    proxy = start(f"workers: 1\nlog: {{format: {log_format}, {ALL}}}\n" + ROUTES, log_format=log_format)
    proxy.ask(path="/a?b=c&d", fields=WITH_ALL)
    proxy.ask(path="/a?")
    full, bare = proxy.log_lines(2)
    assert (full["path"], full["query"], full["referer"]) == ("/a", "b=c&d", 'http://a.test/"x"')
    assert full["user_agent"].startswith("agent/1 (") and "\t" in full["user_agent"]
    assert not {"query", "referer", "user_agent"} & set(bare)


def test_they_are_in_no_line_otherwise(start):
    proxy = start("log: {format: logfmt, fields: [user_agent]}\n" + ROUTES)
    proxy.ask(path="/a?secret=1", fields=WITH_ALL)
    line, = proxy.log_lines(1)
    assert "user_agent" in line and not {"query", "referer"} & set(line)
    assert b"secret" not in proxy.stdout()


@pytest.mark.parametrize("log_format", ["logfmt", "json", "combined"])
def test_a_line_with_all_that_may_be_in_it_is_cut_and_not_dropped(start, log_format):
    proxy = start(f"log: {{format: {log_format}, {ALL}}}\nmax: {{head: 64KiB}}\n" + ROUTES)
    filler = "\xff" * 4000
    proxy.ask(path="/" + "%ff" * 1000 + "?" + "%22" * 1000,
              fields=[("Referer", filler), ("User-Agent", filler), ("X-Request-ID", filler)], host="a" * 200)
    until(lambda: proxy.stdout().count(b"\n") == 1, "its line")
    assert 3 * 1024 < len(proxy.stdout()) < 32 * 1024


# --- the combined format ---

COMBINED = re.compile(r'(?P<client>\S+) - - \[(?P<time>[^]]+)\] "(?P<request>(?:[^"\\]|\\x[0-9a-f]{2})*)" '
                      r'(?P<status>\d{3}) (?P<bytes>\d+) "(?P<referer>[^"]*)" "(?P<agent>[^"]*)"\n')
LIMITED = """
log: {format: combined, fields: [query]}
workers: 1
trusted_proxies: [127.0.0.1]
limits: {once: {key: client.ip, rate: 1/day}}
routes: [{match: {path: /slow}, limits: [], upstream: api}, {limits: [once], respond: {status: 200, body: hello}}]
"""


def lines_of(proxy):
    text = proxy.stdout().decode("ascii")
    found = list(COMBINED.finditer(text))
    assert "".join(match.group() for match in found) == text
    return found


def test_a_line_in_the_combined_format_is_as_nginx_writes_it(start):
    proxy = start(LIMITED.replace("/slow}, limits: [], upstream: api", "/slow}, limits: [], respond: {status: 204}"))
    sent = [("X-Forwarded-For", "192.0.2.7"), ("Referer", "http://b.test/"), ("User-Agent", 'x" 200 "\\\xe9')]
    for path in ("/a?b=c", "/a"):
        proxy.ask(path=path, fields=sent)
    proxy.send(b"GET /bad HTTP/1.1\r\nHost : a\r\n\r\n")
    proxy.ask("OPTIONS", "*")
    until(lambda: proxy.stdout().count(b"\n") == 4, "four lines")
    passed, denied, bad, options = lines_of(proxy)
    assert passed.group("client", "request", "status", "bytes", "referer", "agent") == (
        "192.0.2.7", "GET /a?b=c HTTP/1.1", "200", "5", "http://b.test/", r"x\x22 200 \x22\x5c\xe9")
    assert denied.group("client", "request", "status") == ("192.0.2.7", "GET /a HTTP/1.1", "429")
    assert (bad.group("status"), bad.group("agent")) == ("400", "-")
    assert options.group("request") == "OPTIONS * HTTP/1.1"
    when = datetime.datetime.strptime(passed.group("time"), "%d/%b/%Y:%H:%M:%S %z").timestamp()
    assert abs(when - time.time()) < 120


def test_a_client_that_left_has_the_status_that_nginx_gives_it(start, start_upstream):
    upstream = start_upstream(lambda peer, request: peer.hang())
    proxy = start(LIMITED + f"upstreams: {{api: {{servers: '{upstream.url}'}}}}\n")
    client = proxy.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    until(lambda: upstream.requests, "the request to reach the server")
    client.reset()
    until(lambda: proxy.stdout().count(b"\n") == 1, "its line")
    assert lines_of(proxy)[0].group("request", "status", "bytes") == ("GET /slow HTTP/1.1", "499", "0")


def test_replay_reads_it(start, tmp_path):
    proxy = start(LIMITED.replace(", upstream: api", ", respond: {status: 204}"))
    for _ in range(3):
        proxy.ask(path="/a", fields=[("X-Forwarded-For", "192.0.2.7"), ("User-Agent", 'x" 200 "')])
    until(lambda: proxy.stdout().count(b"\n") == 3, "three lines")
    (tmp_path / "log").write_bytes(proxy.stdout())
    told = program.command("replay", "--json", str(proxy.folder / "policy.yaml"), str(tmp_path / "log"))
    assert told.returncode == 0, told.stderr
    log = json.loads(told.stdout)["log"]
    assert log["lines"] == 3 and log.get("unreadable", 0) == 0, log


def test_the_filter_of_the_manual_finds_denied_clients_and_nobody_else(start):
    manual = (pathlib.Path(__file__).parents[2] / "docs/access-log.md").read_text()
    failregex = re.search(r"^failregex = (.*)$", manual, re.MULTILINE).group(1)
    # As fail2ban does: the date is cut out of the line, and <HOST> is an address.
    pattern = re.compile(failregex.replace("<HOST>", r"(?P<host>[0-9a-f.:]+)"))
    proxy = start(LIMITED.replace(", upstream: api", ", respond: {status: 204}"))
    for path, client in (("/a", "192.0.2.7"), ("/a", "192.0.2.7"), ("/a", "2001:db8::1"), ("/a", "2001:db8::1"),
                         ("/b", "192.0.2.9"), ("/slow", "192.0.2.10")):
        proxy.ask(path=path, fields=[("X-Forwarded-For", client), ("User-Agent", '" 429 5 "'), ("Referer", '" 429 1')])
    until(lambda: proxy.stdout().count(b"\n") == 6, "six lines")
    cut = [line.group().replace(line.group("time"), "") for line in lines_of(proxy)]
    assert [match.group("host") for match in map(pattern.search, cut) if match] == ["192.0.2.7", "2001:db8::1"]


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
    proxy.await_said('msg="no link"')
    assert ('level=warn mod=store.redis msg="no link" err="Connection refused" address=127.0.0.1:1 '
            "on_failure=local,allow\n") in proxy.stderr()
    assert "store=redis:127.0.0.1:1 " in proxy.stderr() and "s3cret" not in proxy.stderr()
