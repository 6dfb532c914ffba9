"""What docs/redis.md tells operators to type does what it says."""

import pathlib
import re
import subprocess

from harness.upstream import answer
from harness.wait import until

ROOT = pathlib.Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "redis.md").read_text()
SENT_BY_ITSELF = {"eval", "evalsha", "script|load", "ping", "select", "subscribe"}

EVERY_ALGORITHM = """
    workers: 2
    store: {{redis: "{url}", user: sluice, password: s3cret, deadline: 10s, on_failure: deny}}
    limits:
      bucket: {{key: client.ip, rate: [100/s, 5000/hour]}}
      leaky: {{key: client.ip, algorithm: leaky_bucket, rate: 100/s}}
      cells: {{key: client.ip, algorithm: gcra, rate: 100/s}}
      window: {{key: client.ip, algorithm: fixed_window, rate: 5000/day}}
      sliding: {{key: client.ip, algorithm: sliding_window, rate: 5000/hour}}
      log: {{key: client.ip, algorithm: sliding_log, rate: 20/hour}}
      slots: {{key: client.ip, algorithm: concurrency, rate: 10, lease: 1s}}
      tries: {{key: client.ip, algorithm: {algorithm}, rate: 900/hour, charge_on: [404]}}
    upstreams: {{api: {{servers: "{upstream}"}}}}
    routes:
      - {{match: {{path: /tries}}, limits: [tries], upstream: api}}
      - {{match: {{path: /last}}, limits: [window], upstream: api}}
      - {{limits: [bucket, leaky, cells, window, sliding, log, slots], upstream: api}}
"""


def acl_line():
    line = re.search(r"^ACL SETUSER .*$", MANUAL, re.MULTILINE).group()
    return line.replace("PASSWORD", "s3cret").split()


def test_the_user_of_the_manual_may_do_what_sluice_does_and_no_more():
    granted = {word[1:] for word in acl_line() if word.startswith("+")}
    called = {name.lower() for path in (ROOT / "src").rglob("*.lua")
              for name in re.findall(r"redis\.call\('([A-Z]+)'", path.read_text())}
    assert granted == called | SENT_BY_ITSELF
    assert not re.search(r"redis\.p?call\([^']", "".join(
        path.read_text() for path in (ROOT / "src").rglob("*.lua"))), "a command without a name"


def test_every_algorithm_works_under_the_acl_line_of_the_manual(
        start, start_redis, start_upstream):
    redis = start_redis("--user", "operator", "on", ">op", "~*", "+@all",
                        "--user", "default", "off")
    upstream = start_upstream(lambda peer, request: peer.send(answer(body=b"x" * 10)))
    redis.call(*acl_line())
    for algorithm in ("token_bucket", "fixed_window", "sliding_window", "sliding_log"):
        redis.call("FLUSHALL")
        proxy = start(EVERY_ALGORITHM.format(url=redis.url, upstream=upstream.url,
                                             algorithm=algorithm))
        until(lambda proxy=proxy: proxy.stderr().count('msg="link up"') == 2, "Redis")
        with proxy.connect() as client:
            statuses = {client.ask().status for _ in range(40)}  # beyond the log's 20
            assert statuses == {200, 429}
            assert {client.ask(path="/tries").status for _ in range(10)} == {200}
            assert client.ask(path="/last").status == 200, "what was settled on that link is answered"
        until(lambda: redis.call("EXISTS", "sluice:instances"), "a heartbeat")
        log = proxy.log_at_end()
        assert "NOPERM" not in log and re.search(r" failures=0 .* settlements_lost=0$", log, re.MULTILINE)
        assert {line["source"] for line in proxy.log_lines(51)} <= {"redis", "cache"}
    denied = redis.call("ACL", "LOG")
    assert denied == [], "nothing was tried that it may not do"


def test_the_commands_that_read_the_keys_do_so(start, start_redis):
    redis = start_redis()
    proxy = start(f"""
        workers: 1
        store: {{redis: "{redis.url}", deadline: 10s, on_failure: deny}}
        limits: {{per-client: {{key: client.ip, rate: 100/hour}}}}
        routes: [{{limits: [per-client], respond: {{status: 204}}}}]
    """)
    until(lambda: 'msg="link up"' in proxy.stderr() and redis.call("EXISTS", "sluice:instances"), "Redis")
    assert proxy.ask().status == 204
    commands, = [block for block in re.findall(r"```sh\n(.*?)```", MANUAL, re.DOTALL)
                 if "--scan" in block]
    script = f'redis-cli() {{ command redis-cli -p {redis.port} "$@" || exit 1; }}\n' + commands
    result = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("sluice:{client.ip:9=127.0.0.1}:per-client:")
    assert lines[1] == "string" and 0 < int(lines[2]) <= 38 and int(lines[3]) > 40
    assert int(lines[4]) == 3_600_000_000, "one unit, times the period"
    assert "ERR" not in result.stdout and lines[-1] == "1"
    assert not redis.call("KEYS", "sluice:*:per-client:*")
