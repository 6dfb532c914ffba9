"""What /metrics shows is what has happened, and promtool finds nothing wrong with it."""

import json
import os
import re
import signal
import ssl
import subprocess
import time

from harness import program
from harness.admin import addresses
from harness.certificates import Authority
from harness.client import Client
from harness.message import Reader
from harness.ports import free_port
from harness.wait import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([0-9.]+)$")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')
ADMIN = "admin: 127.0.0.1:0\n"


def ask_admin(proxy, path):
    with Client(addresses(proxy)[0]) as client:
        return client.ask("GET", path, [("Host", "127.0.0.1")])


def page_of(proxy):
    answer = ask_admin(proxy, "/metrics")
    assert answer.status == 200
    assert answer.get("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    return answer.body.decode()


class Metrics:
    """The samples of a page, by name and labels."""

    def __init__(self, page):
        self.samples = {}
        for line in page.splitlines():
            if not line.startswith("#"):
                name, labels, value = SAMPLE.match(line).groups()
                key = (name, frozenset(LABEL.findall(labels or "")))
                assert key not in self.samples, f"{line} is there twice"
                self.samples[key] = float(value)

    def get(self, name, **labels):
        return self.samples.get((name, frozenset(labels.items())))

    def sum(self, name, **labels):
        """Of all that have these labels, and any other."""
        wanted = set(labels.items())
        return sum(value for (of, has), value in self.samples.items()
                   if of == name and wanted <= has)


def read(proxy):
    return Metrics(page_of(proxy))


def settle(proxy, name, value, **labels):
    """The metrics, when `name` has come to `value`: a request is counted after its answer."""
    def find():
        metrics = read(proxy)
        return metrics if metrics.sum(name, **labels) == value else None

    return until(find, f"{name} {labels} to be {value}")


def families(page):
    return re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE)


def check_with_promtool(page):
    result = subprocess.run(["promtool", "check", "metrics"], input=page, text=True,
                            capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


# --- the page ---

ALL_KINDS = """
    admin: {listen: 127.0.0.1:0, metrics_top: 3}
    limits:
      strict: {key: client.ip, rate: 2/hour}
      canary: {key: client.ip, rate: 1/hour, shadow: true}
    upstreams:
      pool: {servers: [%s]}
    routes:
      - {name: limited, match: {path: /limited}, limits: [strict, canary], respond: {status: 204}}
      - {name: forwarded, match: {path: /forwarded}, upstream: pool}
"""


def test_promtool_finds_nothing_with_the_embedded_store(start, start_upstream):
    proxy = start(ALL_KINDS % start_upstream().url)
    for path in ("/limited", "/limited", "/limited", "/forwarded", "/nowhere"):
        proxy.ask(path=path)
    settle(proxy, "sluice_requests_total", 5)
    check_with_promtool(page_of(proxy))


def test_promtool_finds_nothing_with_redis(start, start_redis, start_upstream):
    redis = start_redis()
    proxy = start(f"    store: {{redis: {redis.url}}}{ALL_KINDS}" % start_upstream().url)
    for _ in range(3):
        proxy.ask(path="/limited")
    settle(proxy, "sluice_requests_total", 3)
    check_with_promtool(page_of(proxy))


def test_every_metric_is_documented_with_its_type_and_nothing_else_is(start):
    page = page_of(start(ADMIN + "routes: [{respond: {status: 204}}]\n"))
    with open(os.path.join(ROOT, "docs/metrics.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `((?:sluice|process)_\w+)` \| (\w+) \|", file.read(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert sorted(rows) == sorted(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))


# --- what is counted ---


def test_requests_are_counted_by_route_status_and_verdict_and_decisions_by_limit(start):
    proxy = start(ALL_KINDS % "http://127.0.0.1:1")
    assert [proxy.ask(path="/limited").status for _ in range(5)] == [204, 204, 429, 429, 429]
    assert proxy.ask(path="/nowhere").status == 404
    settle(proxy, "sluice_requests_total", 6)
    metrics = settle(proxy, "sluice_request_duration_seconds_count", 6)  # after that
    for labels, value in (({"route": "limited", "status": "2xx", "verdict": "allowed"}, 2),
                          ({"route": "limited", "status": "4xx", "verdict": "denied"}, 3),
                          ({"route": "(none)", "status": "4xx", "verdict": "none"}, 1)):
        assert metrics.get("sluice_requests_total", **labels) == value
    for limit, verdict, value in (("strict", "allowed", 2), ("strict", "denied", 3),
                                  ("canary", "allowed", 1), ("canary", "would_deny", 4)):
        assert metrics.get("sluice_decisions_total", limit=limit, verdict=verdict,
                           source="memory") == value
    assert metrics.get("sluice_request_duration_seconds_count") == 6
    assert metrics.get("sluice_decision_duration_seconds_count") == 5
    assert metrics.get("sluice_connections_accepted_total") == 6


def test_buckets_add_up_and_end_with_all(start):
    proxy = start(ADMIN + "routes: [{respond: {status: 204}}]\n")
    for _ in range(10):
        proxy.ask()
    metrics = settle(proxy, "sluice_request_duration_seconds_count", 10)
    buckets = {dict(labels)["le"]: value for (name, labels), value in metrics.samples.items()
               if name == "sluice_request_duration_seconds_bucket"}
    in_order = [buckets[edge] for edge in sorted(buckets, key=lambda edge: float(edge.strip("+")))]
    assert in_order == sorted(in_order) and in_order[-1] == buckets["+Inf"] == 10
    assert 0 < metrics.get("sluice_request_duration_seconds_sum") < 60


def test_handshakes_are_counted_by_version_and_those_that_fail_by_reason(start, tmp_path):
    """One that fails is no request: no limit is charged, no request counted, and the log has a line a second at most."""
    certificate, key = Authority(tmp_path / "ca").sign("one", "DNS:one.test")
    proxy = start(ADMIN + f"listen: {{address: 127.0.0.1:0, tls: {{cert: {certificate}, key: {key}}}}}\n"
                  "limits: {all: {key: client.ip, algorithm: fixed_window, align: first, rate: 9/day}}\n"
                  "routes: [{limits: all, respond: {status: 204}}]\n")
    started = time.monotonic()
    for _ in range(20):
        assert proxy.ask().status == 400  # plain text
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def ask(version, session=None):
        context.minimum_version = context.maximum_version = version
        with proxy.connect() as client:
            client.sock = context.wrap_socket(client.sock, server_hostname="one.test", session=session)
            client.reader = Reader(client.sock)
            return client.ask(host="one.test"), client.sock.session

    ask(ssl.TLSVersion.TLSv1_2)
    _, session = ask(ssl.TLSVersion.TLSv1_3)
    response, _ = ask(ssl.TLSVersion.TLSv1_3, session)
    assert '"all";r=6' in response.get("RateLimit")
    metrics = settle(proxy, "sluice_tls_handshakes_total", 3)
    for version, resumed, n in (("1.2", "no", 1), ("1.3", "no", 1), ("1.3", "yes", 1)):
        assert metrics.get("sluice_tls_handshakes_total", version=version, resumed=resumed) == n
    assert metrics.get("sluice_tls_handshake_failures_total", reason="plain_text") == 20
    assert metrics.sum("sluice_tls_handshake_failures_total") == 20
    assert metrics.get("sluice_tls_handshake_duration_seconds_count") == 3
    assert settle(proxy, "sluice_requests_total", 3)
    lines = proxy.await_said("TLS handshake failed").count("TLS handshake failed")
    assert lines <= 2 * (1 + time.monotonic() - started), "a line a second of each worker"


def test_servers_are_counted_by_what_became_of_requests(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"""
        admin: 127.0.0.1:0
        upstreams:
          good: {{servers: ["{upstream.url}"]}}
          dead: {{servers: ["http://127.0.0.1:1"]}}
        routes:
          - {{match: {{path: /good}}, upstream: good}}
          - {{match: {{path: /dead}}, upstream: dead}}
    """)
    with proxy.connect() as client:
        for _ in range(3):
            assert client.ask(path="/good", body=b"12345", method="POST").status == 200
        assert client.ask(path="/dead").status == 502
        metrics = settle(proxy, "sluice_requests_total", 4)
        assert metrics.get("sluice_connections") == 1
    good = {"upstream": "good", "server": upstream.url}
    dead = {"upstream": "dead", "server": "http://127.0.0.1:1"}
    assert metrics.get("sluice_server_requests_total", **good) == 3
    assert metrics.sum("sluice_server_failures_total", **good) == 0
    assert metrics.get("sluice_server_connects_total", **good) == 1
    assert metrics.get("sluice_server_connections", state="idle", **good) == 1
    assert metrics.get("sluice_server_failures_total", reason="unreachable", **dead) == 1
    assert metrics.sum("sluice_server_connections", **dead) == 0
    assert metrics.get("sluice_upstream_response_duration_seconds_count", upstream="good") == 3
    assert metrics.get("sluice_request_body_bytes_total") == 15
    settle(proxy, "sluice_connections", 0)


def test_a_server_that_is_passed_over_is_seen(start, start_upstream):
    upstream = start_upstream()
    proxy = start(f"""
        admin: 127.0.0.1:0
        upstreams:
          pool:
            servers: ["{upstream.url}", "http://127.0.0.1:1"]
            eject: {{failures: 2, for: 1h, max: 1h}}
        routes: [{{upstream: pool}}]
    """)
    dead = {"upstream": "pool", "server": "http://127.0.0.1:1"}
    assert read(proxy).get("sluice_server_up", **dead) == 1
    for _ in range(10):
        assert proxy.ask().status == 200
    metrics = settle(proxy, "sluice_server_up", 0, **dead)
    assert metrics.get("sluice_server_up", upstream="pool", server=upstream.url) == 1
    assert metrics.get("sluice_server_outages_total", **dead) == 1


def test_redis_is_seen_to_be_asked_to_go_away_and_to_come_back(start, start_redis):
    redis = start_redis()
    proxy = start(f"""
        admin: 127.0.0.1:0
        workers: 2
        store: {{redis: {redis.url}, on_failure: local, deadline: 10s}}
        limits: {{all: {{key: global, rate: 1000/hour}}}}
        routes: [{{limits: [all], respond: {{status: 204}}}}]
    """)
    metrics = settle(proxy, "sluice_store_links_up", 2)
    node = {"node": f"127.0.0.1:{redis.port}"}
    assert metrics.get("sluice_store_links", **node) == 2
    assert proxy.ask().status == 204
    metrics = settle(proxy, "sluice_decisions_total", 1, source="redis", verdict="allowed")
    assert metrics.get("sluice_store_calls_total", **node) == 1
    redis.kill()
    settle(proxy, "sluice_store_links_up", 0)
    assert proxy.ask().status == 204
    metrics = settle(proxy, "sluice_decisions_total", 1, source="local", verdict="allowed")
    assert metrics.sum("sluice_store_failures_total", **node) == 1
    assert metrics.get("sluice_store_links", **node) == 2
    redis.start()
    metrics = settle(proxy, "sluice_store_links_up", 2)
    assert metrics.get("sluice_store_connects_total", **node) >= 4


def test_the_round_trip_to_redis_is_measured_once_a_second_without_any_request(start, start_redis):
    redis = start_redis()
    proxy = start(f"""
        admin: 127.0.0.1:0
        workers: 4
        store: {{redis: {redis.url}}}
        limits: {{all: {{key: global, rate: 1000/hour}}}}
        routes: [{{limits: [all], respond: {{status: 204}}}}]
    """)
    node = {"node": f"127.0.0.1:{redis.port}"}

    def measured():
        metrics = read(proxy)
        return [metrics.get(f"sluice_store_round_trip_seconds_{what}", **node) or 0 for what in ("count", "sum")]

    begun = time.monotonic()
    n, _ = until(lambda: measured() if measured()[0] >= 3 else None, "three round trips")
    assert n <= time.monotonic() - begun + 2  # of the process, not of each worker
    redis.pause()
    with_pause = time.monotonic()
    until(lambda: time.monotonic() > with_pause + 1.5, "a round trip to be under way")
    before = measured()
    redis.resume()
    after = until(lambda: measured() if measured()[0] > before[0] else None, "the reply after the pause")
    assert 0.2 < after[1] - before[1] < 4 * (time.monotonic() - with_pause), (before, after)


def change(proxy, policy):
    """Another policy, and SIGHUP."""
    (proxy.folder / "policy.yaml").write_text(policy)
    proxy.signal(signal.SIGHUP)


def test_counters_outlive_reloads_also_of_routes_that_come_back(start, tmp_path):
    places = f"listen: 127.0.0.1:{free_port()}\nadmin: 'unix:{tmp_path}/admin'\n"
    b = places + "routes: [{name: b, respond: {status: 204}}]\n"
    both = b.replace("[", "[{name: a, match: {path: /a}, respond: {status: 204}}, ")
    proxy = start(both)
    proxy.ask(path="/a")
    settle(proxy, "sluice_requests_total", 1, route="a")
    change(proxy, b)
    metrics = settle(proxy, "sluice_reloads_total", 1, result="done")
    assert metrics.get("sluice_requests_total", route="a", status="2xx", verdict="none") == 1
    change(proxy, places + "routes: [\n")
    metrics = settle(proxy, "sluice_reloads_total", 1, result="failed")
    assert metrics.get("sluice_last_reload_successful") == 0
    loaded = metrics.get("sluice_policy_loaded_timestamp_seconds")
    change(proxy, both)
    metrics = settle(proxy, "sluice_reloads_total", 2, result="done")
    assert metrics.get("sluice_last_reload_successful") == 1
    assert loaded < metrics.get("sluice_policy_loaded_timestamp_seconds") <= time.time() + 1
    proxy.ask(path="/a")
    settle(proxy, "sluice_requests_total", 2, route="a")


# --- who is denied most ---

LISTED = """
    admin: {listen: 127.0.0.1:0, metrics_top: %d}
    limits: {strict: {key: client.ip, rate: 1/hour}}
    routes: [{limits: [strict], respond: {status: 204}}]
"""


def test_who_is_denied_most_is_listed_first(start):
    proxy = start(LISTED % 2)
    for n_requests, source in ((3, "127.0.0.2"), (6, "127.0.0.3"), (2, "127.0.0.4"), (1, "127.0.0.5")):
        for _ in range(n_requests):
            proxy.ask(source=source)
    metrics = settle(proxy, "sluice_requests_total", 8, verdict="denied")
    top = ask_admin(proxy, "/v1/top?limit=strict").json()["top"]
    assert [(line["key"], line["denied"], line["denied_at_most"]) for line in top] == [
        ("client.ip=127.0.0.3", 5, 5), ("client.ip=127.0.0.2", 2, 2), ("client.ip=127.0.0.4", 1, 1)]
    assert all(line["limit"] == "strict" for line in top)
    assert len(ask_admin(proxy, "/v1/top?n=1").json()["top"]) == 1
    assert ask_admin(proxy, "/v1/top?limit=&n=").json()["top"] == top
    assert metrics.get("sluice_top_denied_total", limit="strict", key="client.ip=127.0.0.3") == 5
    assert len([name for name, _ in metrics.samples if name == "sluice_top_denied_total"]) == 2


def test_keys_are_no_metric_unless_the_policy_says_so(start):
    proxy = start(LISTED % 0)
    for _ in range(3):
        proxy.ask()
    metrics = settle(proxy, "sluice_requests_total", 3)
    assert metrics.sum("sluice_top_denied_total") == 0
    assert len(ask_admin(proxy, "/v1/top").json()["top"]) == 1


def test_what_cannot_be_listed_is_refused_with_a_reason(start):
    proxy = start(LISTED % 0)
    for query, status, reason in (("n=0", 400, "n: must be a number from 1 to 1000"),
                                  ("n=1001", 400, "n: must be"), ("n=x", 400, "n: must be"),
                                  ("n=9999999999999999999999", 400, "n: must be"),
                                  ("within=soon", 400, "within: "), ("limit=none", 404, "no such limit")):
        answer = ask_admin(proxy, f"/v1/top?{query}")
        assert answer.status == status, query
        assert reason in answer.json()["detail"]
    assert ask_admin(proxy, "/v1/top?n=1000&within=10m").json() == {"top": []}


# --- Prometheus and Grafana ---

NAME = re.compile(r"\b(?:sluice|process)_\w+")


def of(*path):
    with open(os.path.join(ROOT, "docker", *path), encoding="utf-8") as file:
        return file.read()


def promtool(*arguments):
    result = subprocess.run(["promtool", *arguments], cwd=ROOT, text=True, capture_output=True,
                            timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_metric_that_alerts_and_dashboard_ask_for_is_there(start):
    shown = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page_of(start(
            ADMIN + "routes: [{respond: {status: 204}}]\n")), re.MULTILINE):
        shown |= {name + suffix for suffix in ("_bucket", "_sum", "_count")} \
            if kind == "histogram" else {name}
    dashboard = json.loads(of("grafana", "dashboards", "sluice.json"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    queries += [variable["query"] for variable in dashboard["templating"]["list"]]
    asked = set(NAME.findall(" ".join(queries)))
    assert len(asked) > 30 and asked <= shown, asked - shown
    asked = set(NAME.findall(of("prometheus", "alerts.yml")))
    assert len(asked) > 10 and asked <= shown, asked - shown


def test_promtool_finds_nothing_in_configuration_and_rules():
    assert "SUCCESS" in promtool("check", "config", "docker/prometheus/prometheus.yml")
    assert "SUCCESS" in promtool("check", "rules", "docker/prometheus/alerts.yml")


def test_alerts_ring_when_they_should_and_not_before():
    assert "SUCCESS" in promtool("test", "rules", "tests/data/alerts_test.yml")


def test_every_alert_is_explained():
    rules = re.findall(r"^ +- alert: (\w+)$", of("prometheus", "alerts.yml"), re.MULTILINE)
    with open(os.path.join(ROOT, "docs/metrics.md"), encoding="utf-8") as file:
        assert re.findall(r"^\| `(Sluice\w+)` \|", file.read(), re.MULTILINE) == rules


def test_prometheus_has_the_token_and_the_names_of_the_policy():
    config, policy = of("prometheus", "prometheus.yml"), of("sluice", "policy.yaml")
    token = re.search(r"credentials: (\S+?)}", config).group(1)
    assert f"METRICS_TOKEN:-{token}}}" in policy
    targets = re.search(r"targets: \[(.*)\]", config).group(1).split(", ")
    hosts = re.search(r"hosts: \[(.*)\]", policy).group(1).split(", ")
    assert [target.split(":")[0] for target in targets] == hosts


def test_a_scrape_takes_nothing_from_the_workers():
    result = subprocess.run([os.path.join(ROOT, "bench/scrape"), "--sluice", program.PROGRAM,
                             "--routes", "100", "--scrapes", "10"], text=True,
                            capture_output=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("100 routes, 100 limits: ")


# --- the manual ---

RUN = re.compile(r"```sh\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)


def steady(text):
    """What is the same whenever it is run."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return [re.sub(r" +", " ", line).rstrip() for line in text.strip().splitlines()]


def run(commands):
    result = subprocess.run(["bash", "-c", f'sluice() {{ "{program.PROGRAM}" "$@"; }}\n{commands}'],
                            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
                            env=program.environment())
    return steady(result.stdout + result.stderr)


def test_each_command_of_the_manual_tells_what_stands_there(start):
    with open(os.path.join(ROOT, "docs/metrics.md"), encoding="utf-8") as file:
        manual = file.read()
    policy = re.search(r"```yaml\n(listen:.*?)```", manual, re.DOTALL).group(1)
    assert policy.count("127.0.0.1:8080") == 1 and policy.count("127.0.0.1:9900") == 1
    proxy = start(policy.replace(":8080", ":0").replace(":9900", ":0"))
    operators = addresses(proxy)[0][1]
    runs = [(commands.replace(":8080", f":{proxy.port}").replace(":9900", f":{operators}"), told)
            for commands, told in RUN.findall(manual)]
    assert len(runs) == manual.count("```sh") > 2
    requests, told = runs.pop(0)
    assert run(requests) == steady(told)
    settle(proxy, "sluice_requests_total", 8)
    for commands, told in runs:
        assert run(commands) == steady(told), commands


# --- the last hour ---

def test_the_history_has_the_requests_in_the_steps_of_their_time(start):
    proxy = start(LISTED % 0)
    for _ in range(4):
        proxy.ask()
    settle(proxy, "sluice_requests_total", 4)

    def find():
        fine = ask_admin(proxy, "/v1/history").json()["fine"]
        return fine if sum(fine["denied"]) == 3 else None

    fine = until(find, "the step of the requests to end")
    assert fine["step_s"] == 1
    assert sum(fine["allowed"]) == 1
    assert sum(fine["decisions"]) == 4
    assert sum(fine["unlimited"]) == sum(fine["undecided"]) == sum(fine["server_errors"]) == 0
    assert sum(fine["request_us"]) > 0
    columns = [fine[name] for name in fine if isinstance(fine[name], list) and name not in ("routes", "limits")]
    columns += [line["steps"] for kind in ("routes", "limits") for line in fine[kind]]
    assert len(columns) >= 11
    assert {len(column) for column in columns} == {len(fine["denied"])}
    coarse = ask_admin(proxy, "/v1/history").json()["coarse"]
    assert coarse["step_s"] == 10
    assert sum(coarse["denied"]) in (0, 3)
