"""Plans of keys: by a header of a trusted proxy, and by the table of tenants."""

import hashlib
import json
import pathlib
import re
import threading
import time

import pytest

from harness import tokens
from harness.admin import JSON, Admin, addresses, audit, ctl, is_problem
from harness.bans import at, body
from harness.program import command
from harness.reload import reload
from harness.tokens import bearer, claims, hs256
from harness.wait import soon, until

DOCS = pathlib.Path(__file__).parents[2] / "docs"
POLICY = """
    workers: 2
    admin: unix:{folder}/admin.sock
    trusted_proxies: [{trusted}]
    store: {{{store}}}
    limits:
      per-tenant:
        key: header.x-api-key
        rate: 10/day
        plans: {{free: 10/day, gold: {{rate: 1000/day, burst: 20}}, unlimited: none}}
        plan: tenant | header.x-plan
      pair:
        key: header.x-api-key
        algorithm: sliding_window
        rate: [100/minute, 5/day]
        plans: {{more: [9/day, 100/minute]}}
        plan: tenant
    routes:
      - {{match: {{path: /pair}}, limits: [pair], respond: {{status: 204}}}}
      - {{limits: [per-tenant], respond: {{status: 204}}}}
"""
LOCAL = "memory: 64MiB"


class Proxy:
    """A proxy with plans, and its admin API."""

    def __init__(self, start, tmp_path, number, store, trusted="127.0.0.1"):
        self.folder = tmp_path / f"admin-{number}"
        self.folder.mkdir()
        self.sluice = start(POLICY.format(folder=self.folder, store=store, trusted=trusted))
        self.place = addresses(self.sluice)[0]
        self.admin = Admin(self.place)

    def count(self, key="k", path="/", fields=(), most=60):
        """How many requests in a row are allowed."""
        for n in range(most):
            if self.sluice.ask(path=path, fields=[("X-Api-Key", key), *fields]).status != 204:
                return n
        return most

    def status(self, key="k", path="/"):
        return self.sluice.ask(path=path, fields=[("X-Api-Key", key)]).status

    def set(self, key, plan, **more):
        return self.admin.change("POST", "/v1/tenants",
                                 body(key=f"header.x-api-key={key}", plan=plan, **more))


@pytest.fixture(name="open_proxies")
def fixture_open_proxies(start, tmp_path):
    return lambda store, n=2, **how: [Proxy(start, tmp_path, i, store, **how) for i in range(n)]


# --- headers ---


def test_a_trusted_proxy_names_the_plan_and_what_was_used_counts_on(open_proxies):
    proxy, = open_proxies(LOCAL, 1)
    gold = [("X-Plan", "gold")]
    assert proxy.count() == 10
    assert proxy.count(fields=gold) == 10, "20 at once, of which 10 are used"
    assert proxy.count(fields=[("X-Plan", "unlimited")]) == 60
    assert proxy.status() == 429
    assert proxy.count("other", fields=gold) == 20
    answer = proxy.sluice.ask(fields=[("X-Api-Key", "third"), *gold])
    assert "q=1000;w=86400" in answer.get("RateLimit-Policy")
    assert "r=19" in answer.get("RateLimit")


def test_a_client_names_no_plan(open_proxies):
    proxy, = open_proxies(LOCAL, 1, trusted="192.0.2.1")
    assert proxy.count(fields=[("X-Plan", "gold")]) == 10


def test_an_unknown_plan_is_the_limits_own_rate_counted_and_told_of_once(open_proxies):
    proxy, = open_proxies(LOCAL, 1)
    assert proxy.count(fields=[("X-Plan", "platinum")]) == 10
    warnings = [line for line in proxy.sluice.await_said("unknown plan").splitlines() if "unknown plan" in line]
    assert len(warnings) == 1 and "limit=per-tenant plan=platinum" in warnings[0]
    metrics = proxy.admin.ask("GET", "/metrics").body.decode()
    assert re.search(r"^sluice_unknown_plans_total 11$", metrics, re.MULTILINE)


# --- tenants ---


def test_a_tenant_has_its_plan_in_all_limits_at_every_proxy(open_proxies, start_redis):
    proxies = open_proxies(at(start_redis()))
    until(lambda: proxies[0].admin.ask("POST", "/v1/tenants", [JSON], body(
        key="header.x-api-key=k", plan="more")).status == 200, "Redis")
    until(lambda: proxies[1].admin.read("/v1/tenants")["n"] == 1, "the other to know")
    assert proxies[1].count(path="/pair") == 9
    assert proxies[1].count("other", path="/pair") == 5
    told = proxies[0].set("k", "gold")
    assert told["plan"] == "gold" and "until" not in told
    until(lambda: proxies[1].admin.read("/v1/tenants")["tenants"][0]["plan"] == "gold", "the other")
    assert proxies[1].count() == 20 and proxies[0].count() == 0
    proxies[1].admin.change("DELETE", "/v1/tenants/header.x-api-key=k")
    until(lambda: proxies[0].admin.read("/v1/tenants")["n"] == 0, "the other")
    assert proxies[0].status() == 429
    until(lambda: any("gold" in line and "changed" in line and "by=socket" in line
                      for line in proxies[0].sluice.stderr().splitlines()), "the change in the log")


def test_a_plan_ends_and_holds_while_redis_is_away(open_proxies, start_redis):
    redis = start_redis()
    proxy, = open_proxies(at(redis), 1)
    until(lambda: proxy.admin.ask("POST", "/v1/tenants", [JSON], body(**{
        "key": "header.x-api-key=brief", "plan": "unlimited", "for": "2s"})).status == 200, "Redis")
    proxy.set("k", "unlimited", **{"for": "30d"})
    assert proxy.count("brief") == 60
    redis.kill()
    until(lambda: "link lost" in proxy.sluice.stderr(), "no Redis")
    assert proxy.count() == 60
    until(lambda: proxy.count("brief", most=30) < 30, "its end")
    detail = is_problem(proxy.admin.ask("POST", "/v1/tenants", [JSON], body(
        key="header.x-api-key=k", plan="free")), 503)
    assert "nothing was changed" in detail


def test_any_program_writes_the_table_as_the_manual_says(open_proxies, start_redis):
    redis = start_redis()
    proxy, = open_proxies(at(redis), 1)
    until(lambda: proxy.count("probe", most=1) == 1, "Redis")
    code = re.search(r"```python\n(.*?)```", (DOCS / "tenants.md").read_text(), re.DOTALL).group(1)

    class Client:
        """What the manual uses of a client of Redis."""

        def hset(self, *words):
            redis.call("HSET", *words)

        def hincrby(self, *words):
            return int(redis.call("HINCRBY", *map(str, words)))

        def publish(self, *words):
            redis.call("PUBLISH", *words)

    names = {}
    exec(code, names)  # pylint: disable=exec-used
    names["set_plan"](Client(), "header.x-api-key=k", "gold")
    until(lambda: proxy.admin.read("/v1/tenants")["n"] == 1, "the message")
    assert proxy.count() == 20
    digest = names["hash_of"]("x-api-key", "hashed", "")
    assert digest == ctl(proxy.place, "tenant", "hash", "header.x-api-key=hashed").stdout.strip()
    names["set_plan"](Client(), digest, "unlimited")
    until(lambda: proxy.admin.read("/v1/tenants")["n"] == 2, "the message")
    assert proxy.count("hashed") == 60
    redis.call("HSET", "sluice:tenants", "header.x-api-key=k", "unlimited")
    redis.call("HINCRBY", "sluice:tenants", "version", "1")  # no message: the poll sees it
    soon(lambda: {tenant["plan"] for tenant in proxy.admin.read("/v1/tenants")["tenants"]} == {"unlimited"},
         "the poll", within=10)
    assert proxy.count() == 60


def test_a_reload_reads_the_table_by_its_own_keys_over_the_same_links(open_proxies, start_redis):
    redis = start_redis()
    proxy, = open_proxies(at(redis), 1)
    redis.call("HSET", "sluice:tenants", "header.x-user=k", "gold")

    def subscribers():
        return set(re.findall(rb"^id=(\d+) ", redis.call("CLIENT", "LIST", "TYPE", "pubsub"), re.MULTILINE))

    until(lambda: len(subscribers()) == 2, "the subscriptions for bans and for tenants")
    before = subscribers()
    text = POLICY.format(folder=proxy.folder, store=at(redis), trusted="127.0.0.1")
    reload(proxy.sluice, text.replace("header.x-api-key", "header.x-user"))
    soon(lambda: proxy.admin.read("/v1/tenants")["n"] == 1, "the table to be read", within=5)
    assert proxy.count(fields=[("X-User", "k")]) == 20
    reload(proxy.sluice, text)
    soon(lambda: proxy.admin.read("/v1/tenants")["n"] == 0, "the table to be read", within=5)
    assert subscribers() == before


@pytest.mark.takes(13)
def test_no_decision_is_by_a_plan_older_than_a_second(open_proxies, start_redis):
    redis = start_redis()
    proxies = open_proxies(at(redis))
    until(lambda: all(proxy.count("probe", most=1) == 1 for proxy in proxies), "Redis")
    until(lambda: len(redis.call("CLIENT", "LIST", "TYPE", "pubsub").splitlines()) >= 4,
          "the subscriptions")
    for proxy in proxies:
        proxy.count(most=30)
    changes = []  # when which plan was in force
    late = []
    is_over = threading.Event()

    def ask(proxy):
        while not is_over.is_set():
            asked = time.monotonic()
            status = proxy.status()
            answered = time.monotonic()
            possible = {plan for i, (since, plan) in enumerate(changes)
                        if since <= answered and (i + 1 == len(changes) or
                                                  changes[i + 1][0] >= asked - 1)}
            if possible and not any((plan == "unlimited") == (status == 204) for plan in possible):
                late.append((status, possible))

    askers = [threading.Thread(target=ask, args=(proxy,)) for proxy in proxies]
    changes.append((time.monotonic(), "free"))
    proxies[0].set("k", "free")
    for asker in askers:
        asker.start()
    for i in range(1000):
        plan = "unlimited" if i % 2 == 0 else "free"
        changes.append((time.monotonic(), plan))
        proxies[i // 2 % 2].set("k", plan)
        if i % 100 == 99:
            time.sleep(1.1)  # no message: a plan that was missed would show
    is_over.set()
    for asker in askers:
        asker.join()
    assert late == []


def test_ctl_sets_shows_and_unsets(open_proxies):
    proxy, = open_proxies(LOCAL, 1)

    def told(*words):
        result = ctl(proxy.place, "tenant", *words)
        assert result.returncode == 0, (result.stdout, result.stderr)
        return result.stdout

    key = "header.x-api-key=secret-k"
    assert re.search(r"^header#[0-9a-f]{32}: gold until 20", told("set", key, "gold", "30d"))
    assert ": gold" in told("show", key)
    assert told("list").splitlines()[0].split() == ["KEY", "PLAN", "UNTIL", "BY"]
    assert "gold" in told("list")
    assert "no plan" in told("unset", key)
    assert "no plan" in ctl(proxy.place, "tenant", "unset", key).stderr
    assert "gold" in audit(proxy.sluice, 1)[0] and "secret-k" not in proxy.sluice.log_at_end()


@pytest.mark.parametrize("value, reason", [
    (b"{}", "say which key"), (b"[]", "a JSON object"), (body(key="k"), "say which key"),
    (body(key="header.x-api-key=k", plan=1), "say which key"),
    (body(key="header.x-api-key=k", plan="gold", why="x"), "say which key"),
    (body(key="header.x-api-key=k", plan="silver"), "has this plan"),
    (body(key="client.ip=1.2.3.4", plan="gold"), "key: "),
    (body(**{"key": "header.x-api-key=k", "plan": "gold", "for": "1"}), "for: "),
    (body(key="header.x-api-key=k", plan="gold", until="2020-01-01T00:00:00Z"), "lies in the past"),
])
def test_a_body_that_makes_no_sense_is_refused_with_a_reason(open_proxies, value, reason):
    proxy, = open_proxies(LOCAL, 1)
    assert reason in is_problem(proxy.admin.ask("POST", "/v1/tenants", [JSON], value), 400)
    assert proxy.admin.read("/v1/tenants")["n"] == 0


# --- tokens ---


@pytest.mark.parametrize("limits", ["a", "ample, a"])  # behind one with the same key, which both read once
def test_a_claim_names_the_plan(start, limits):
    proxy = start(f"jwt: {{main: {{secret: {tokens.SECRET}, issuer: 'https://id.test', audience: api}}}}\n"
                  "workers: 1\n"
                  "limits:\n"
                  "  ample: {key: client.ip, rate: 1000/day}\n"
                  "  a: {key: client.ip, rate: 3/day, plans: {gold: 7/day, all: none}, plan: jwt.plan}\n"
                  f"routes: [{{limits: [{limits}], jwt: {{required: false}}, respond: {{status: 204}}}}]\n")

    def statuses(plan, n):
        fields = bearer(hs256(claims(plan=plan))) if plan else []
        return [proxy.ask(fields=fields).status for _ in range(n)]

    assert statuses(None, 4) == [204] * 3 + [429]
    assert statuses("gold", 5) == [204] * 4 + [429]
    assert statuses("all", 5) == [204] * 5
    assert statuses("other", 1) == [429]


# --- the file of tenants ---

IN_FORCE = "the tenants of the file are in force"
NOT_TAKEN = "the file of tenants is not taken"


class FileProxy(Proxy):
    """A proxy whose tenants are in a file beside its policy."""

    def __init__(self, start, tmp_path, lines):
        self.file = tmp_path / "plans.txt"
        self.file.write_text(lines)
        super().__init__(lambda policy: start(policy + f"    tenants: {self.file}\n"), tmp_path, 0, LOCAL)

    def loads(self):
        """How many loads of the file are counted as done, as failed, and whether the latest was good."""
        page = self.admin.ask("GET", "/metrics").body.decode()
        return tuple(int(re.search(rf"^sluice_{name} (\d+)$", page, re.MULTILINE)[1]) for name in (
            'tenants_file_loads_total{result="done"}', 'tenants_file_loads_total{result="failed"}',
            "last_tenants_file_load_successful"))

    def rename(self, lines):
        """As programs write it: a file of its own, then renamed."""
        new = self.file.with_suffix(".new")
        new.write_text(lines)
        new.replace(self.file)

    def replace(self, lines):
        n = self.sluice.stderr().count(IN_FORCE)
        self.rename(lines)
        self.sluice.await_said(IN_FORCE, n + 1)


@pytest.fixture(name="open_with_file")
def fixture_open_with_file(start, tmp_path):
    return lambda lines: FileProxy(start, tmp_path, lines)


def test_a_file_says_who_has_which_plan_and_counts_carry_over(open_with_file):
    proxy = open_with_file("# plans\nheader.x-api-key=k gold\n")
    assert proxy.count() == 20 and proxy.count("other") == 10
    proxy.replace("header.x-api-key=k free\nheader.x-api-key=other gold\n")
    assert proxy.status() == 429, "20 are used, of 10"
    assert proxy.count("other") == 10, "20, of which 10 are used"
    digest = ctl(proxy.place, "tenant", "hash", "header.x-api-key=hashed").stdout.strip()
    n = proxy.sluice.stderr().count(IN_FORCE)
    proxy.rename(f"{digest} unlimited\n{'header.x-api-key=past gold 1'}\n"
                  'header.x-api-key="a b" gold 2036-01-01T00:00:00Z\n')
    soon(lambda: proxy.sluice.stderr().count(IN_FORCE) > n, "the new file", within=10)
    assert proxy.count("hashed") == 60 and proxy.count("a b") == 20 and proxy.count("past") == 10
    assert {(tenant["plan"], tenant["by"]) for tenant in proxy.admin.read("/v1/tenants")["tenants"]} == {
        ("unlimited", "file"), ("gold", "file")}
    proxy.replace("")
    assert proxy.admin.read("/v1/tenants")["n"] == 0 and proxy.count("hashed", most=2) == 2
    proxy.file.write_text("header.x-api-key=in-place unlimited\n")
    until(lambda: proxy.count("in-place") == 60, "a file that is written in place")


@pytest.mark.takes(4)
def test_a_plan_of_the_file_ends_in_time(open_with_file):
    proxy = open_with_file(f"header.x-api-key=k unlimited {int(time.time() * 1000) + 4000}\n")
    assert proxy.count(most=30) == 30
    until(lambda: proxy.count(most=30) < 30, "its end")


def test_a_file_with_errors_or_none_changes_nothing(open_with_file):
    good = "header.x-api-key=k gold\n"
    proxy = open_with_file(good)
    assert proxy.loads() == (1, 0, 1)
    proxy.file.write_text(good + "header.x-api-key=s3cret golt\n")
    proxy.sluice.await_said(NOT_TAKEN)
    assert re.search(r"file=\S*plans.txt line=2 column=25 .*did you mean", proxy.sluice.stderr())
    assert "s3cret" not in proxy.sluice.stderr()
    assert proxy.count() == 20 and proxy.loads() == (1, 1, 0)
    proxy.file.unlink()
    proxy.sluice.await_said("the file of tenants is gone")
    assert proxy.count("other") == 10 and proxy.admin.read("/v1/tenants")["n"] == 1
    until(lambda: proxy.loads() == (1, 2, 0), "its end among the failures")
    told = ctl(proxy.place, "reload")
    assert told.returncode != 0 and "plans.txt: error: cannot be read" in told.stdout + told.stderr
    proxy.replace("header.x-api-key=k unlimited\n")
    assert proxy.count() == 60 and proxy.loads() == (2, 2, 1)


def test_what_the_file_says_no_operator_changes(open_with_file):
    proxy = open_with_file("header.x-api-key=k gold\n")
    for method, path in (("POST", "/v1/tenants"), ("DELETE", "/v1/tenants/header.x-api-key=k")):
        detail = is_problem(proxy.admin.ask(method, path, [JSON], body(key="header.x-api-key=k", plan="free")), 409)
        assert "plans.txt: edit it" in detail
    assert "edit it" in ctl(proxy.place, "tenant", "set", "header.x-api-key=k", "free").stderr
    assert ": gold" in ctl(proxy.place, "tenant", "show", "header.x-api-key=k").stdout
    assert proxy.count() == 20


def test_a_reload_reads_the_file_for_the_plans_that_are_then(open_with_file):
    proxy = open_with_file("header.x-api-key=k gold\n")
    policy = proxy.sluice.folder / "policy.yaml"
    text = policy.read_text()
    policy.write_text(text.replace("gold:", "platinum:"))
    told = ctl(proxy.place, "reload")
    assert told.returncode != 0 and "plans.txt:1:20: error: no limit" in told.stdout + told.stderr
    proxy.file.write_text("header.x-api-key=k platinum\n")
    assert ctl(proxy.place, "reload").returncode == 0
    assert proxy.count() == 20
    proxy.file.unlink()
    until(lambda: proxy.loads()[2] == 0, "its end among the failures")
    policy.write_text(text.replace("tenants:", "# tenants:"))
    assert ctl(proxy.place, "reload").returncode == 0
    assert proxy.admin.read("/v1/tenants")["n"] == 0
    assert proxy.loads()[2] == 1, "no file is refused"
    assert proxy.set("k", "unlimited")["plan"] == "unlimited"
    assert proxy.count() == 60


def test_requests_under_way_see_the_old_or_the_new_table(open_with_file):
    lines = "".join(f"header.x-api-key=t{i} free\n" for i in range(5000))
    proxy = open_with_file("header.x-api-key=k unlimited\n" + lines)
    failures = []
    is_over = threading.Event()

    def ask():
        while not is_over.is_set():
            if proxy.status() != 204:
                failures.append(1)

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    for i in range(10):
        proxy.replace(f"header.x-api-key=extra{i} gold\n" + lines + "header.x-api-key=k unlimited\n")
    is_over.set()
    for asker in askers:
        asker.join()
    assert failures == []


def test_no_process_starts_with_a_bad_file_and_check_says_why(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("listen: 127.0.0.1:0\ntenants: plans.txt\nlimits:\n"
                      "  a: {key: client.ip, rate: 1/s, plans: {gold: 9/s}, plan: tenant}\n"
                      "routes: [{limits: [a], respond: {status: 204}}]\n")
    for lines, error in ((None, ": error: cannot be read: No such file"),
                         ("192.0.2.1 golf\n", ":1:11: error: no limit"),
                         ("192.0.2.1 gold\nclient.ip=192.0.2.1 gold\n", ":2:1: error: the key of line 1")):
        if lines is not None:
            (tmp_path / "plans.txt").write_text(lines)
        checked = command("check", str(policy))
        assert checked.returncode == 1 and f"{tmp_path}/plans.txt{error}" in checked.stderr
        started = command("run", str(policy))
        assert started.returncode == 1 and "error in the file of tenants" in started.stderr
    (tmp_path / "plans.txt").write_text("192.0.2.1 gold\n")
    assert command("check", str(policy)).returncode == 0


# --- numbers in place of a plan ---

def unknown(proxy):
    metrics = proxy.admin.ask("GET", "/metrics").body.decode()
    return int(re.search(r"^sluice_unknown_plans_total (\d+)$", metrics, re.MULTILINE).group(1))


def test_numbers_are_a_plan_of_one_tenant(open_proxies):
    proxy, = open_proxies(LOCAL, 1)
    assert proxy.count() == 10
    assert proxy.set("k", "1000/day:25")["plan"] == "1000/day:25"
    assert proxy.count() == 15, "25 at once, of which 10 are used"
    answer = proxy.sluice.ask(fields=[("X-Api-Key", "k")])
    assert answer.status == 429 and "q=1000;w=86400" in answer.get("RateLimit-Policy")
    assert unknown(proxy) == 0
    assert proxy.count(path="/pair") == 5 and unknown(proxy) == 6, "a limit of other periods takes its own rate"
    until(lambda: re.search(r"plan[ =]1000/day:25", proxy.sluice.stderr()), "the log to tell")
    proxy.set("k", "12/day,100/minute")
    assert proxy.count(path="/pair") == 7
    for numbers in ("1000/hour", "0/day", "10/day:0", "10/day:5:5", "1/day,1/day", "1/fortnight"):
        detail = is_problem(proxy.admin.ask("POST", "/v1/tenants", [JSON], body(
            key="header.x-api-key=k", plan=numbers)), 400)
        assert "takes it as numbers" in detail, numbers
    told = ctl(proxy.place, "tenant", "set", "header.x-api-key=other", "30/day", "30d")
    assert ": 30/day until" in told.stdout, told
    assert proxy.count("other") == 30
    assert ": 30/day" in ctl(proxy.place, "tenant", "show", "header.x-api-key=other").stdout


def test_a_header_gives_no_numbers(open_proxies):
    proxy, = open_proxies(LOCAL, 1)
    assert proxy.count(fields=[("X-Plan", "1000/day:25")]) == 10 and unknown(proxy) == 11


@pytest.mark.takes(5)
def test_numbers_hold_in_redis_and_at_their_share_without(open_proxies, start_redis):
    redis = start_redis()
    proxies = open_proxies(at(redis))
    until(lambda: all(proxy.count("probe", most=1) == 1 for proxy in proxies), "Redis")

    def write(key, value):
        redis.call("HSET", "sluice:tenants", f"header.x-api-key={key}", value)
        version = redis.call("HINCRBY", "sluice:tenants", "version", "1")
        redis.call("PUBLISH", "sluice:changes", f"tenant {int(version)} header.x-api-key={key}")

    assert proxies[0].count() + proxies[1].count() == 10
    write("k", "1000/day:25")
    until(lambda: all(proxy.admin.read("/v1/tenants")["n"] == 1 for proxy in proxies), "the message")
    assert proxies[0].count(most=8) + proxies[1].count() == 15
    write("bad", "1000/hour")
    until(lambda: all(proxy.admin.read("/v1/tenants")["n"] == 2 for proxy in proxies), "the message")
    assert proxies[0].count("bad") == 10 and unknown(proxies[0]) == 11
    write("away", "1000/day:30")
    until(lambda: all(proxy.admin.read("/v1/tenants")["n"] == 3 for proxy in proxies), "the message")
    until(lambda: b"\nsluice_store_instances 2\n" in proxies[0].admin.ask("GET", "/metrics").body, "both")
    redis.kill()
    until(lambda: "link lost" in proxies[0].sluice.stderr(), "no Redis")
    assert proxies[0].count("away") == 15, "half of 30: there are two proxies"


def test_numbers_in_a_file(open_with_file):
    proxy = open_with_file("header.x-api-key=k 1000/day:25\n")
    assert proxy.count() == 25
    proxy.file.write_text("header.x-api-key=k 1000/hour\n")
    proxy.sluice.await_said(NOT_TAKEN)
    assert "takes it as numbers" in proxy.sluice.stderr()


# --- what the tools say of plans ---

STORY = """listen: 127.0.0.1:8080
trusted_proxies: 192.0.2.0/24
limits:
  per-tenant:
    key: header.x-api-key
    rate: 10/day
    plans: {gold: {rate: 1000/day, burst: 20}, unlimited: none}
    plan: tenant | header.x-plan
routes:
  - {limits: [per-tenant], respond: {status: 204}}
"""


def test_policy_tests_know_tenants(tmp_path):
    (tmp_path / "policy.yaml").write_text(STORY)
    (tmp_path / "good.yaml").write_text("""
policy: policy.yaml
defaults: {headers: {X-Api-Key: k}}
tests:
  - name: what is used counts on
    steps:
      - {request: GET /, repeat: 11, expect: {allowed: 10}}
      - {request: GET /, tenant: gold, repeat: 11, expect: {allowed: 10}}
      - {request: GET /, tenant: "1000/day:25", repeat: 6, expect: {allowed: 5}}
      - {request: GET /, tenant: unlimited, repeat: 100, expect: {allowed: 100}}
      - {request: GET /, headers: {X-Plan: unlimited}, repeat: 5, expect: {allowed: 5}}
      - {request: GET /, headers: {X-Plan: unlimited}, tenant: gold, expect: denied}
      - {request: GET /, expect: denied}
""")
    result = command("test", str(tmp_path / "good.yaml"))
    assert result.stdout.endswith("1 test, 0 failed, 135 requests\n"), result.stdout + result.stderr
    for plan, is_good in (("gold", True), ("10/day", True), ("golden", False), ("10/hour", False), ("", False)):
        (tmp_path / "one.yaml").write_text("policy: policy.yaml\ntests:\n  - name: a\n    steps:\n"
                                           f"      - {{request: GET /, tenant: '{plan}'}}\n")
        result = command("test", str(tmp_path / "one.yaml"))
        assert (result.returncode == 0) is is_good, (plan, result)
        assert is_good or "one.yaml:5:34: error: no limit" in result.stderr, result.stderr


def explained(path, *more, status=0):
    result = command("explain", str(path), "GET", "/", "-H", "X-Api-Key: k", *more)
    assert (result.returncode, result.stderr) == (status, ""), result
    return result.stdout


def plan_of(path, *more):
    limit, = json.loads(explained(path, *more, "--json"))["limits"]
    return limit["plan"]


def test_explain_says_which_plan_counts_and_why(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(STORY)
    trusted = ["--from", "192.0.2.9", "-H", "X-Plan: gold"]
    told = explained(path)
    assert "  per-tenant: 10 per 1d, token_bucket, burst 10\n" in told
    assert "    plan   none; the table of tenants is not known here: see --live and --tenant\n" in told
    assert plan_of(path) is None and plan_of(path, "-H", "X-Plan: gold") is None, "no trusted proxy"
    told = explained(path, *trusted)
    assert "  per-tenant: 1000 per 1d, token_bucket, burst 20\n" in told
    assert "    plan   gold, by header.x-plan; the table" in told
    assert plan_of(path, *trusted) == {"name": "gold", "by": "header.x-plan", "known": True, "unlimited": False}
    told = explained(path, "--tenant", "500/day:7", *trusted)
    assert "500 per 1d, token_bucket, burst 7\n" in told
    assert "    plan   500/day:7, by the table of tenants\n" in told
    told = explained(path, "--tenant", "golden")
    assert "per-tenant: 10 per 1d" in told
    assert "    plan   golden, by the table of tenants: unknown, so the limit's own rate counts\n" in told
    told = explained(path, "--tenant", "unlimited")
    assert "  per-tenant: does not judge it: its plan is unlimited\n" in told
    assert plan_of(path, "--tenant", "unlimited")["unlimited"] is True
    assert plan_of(path, "--tenant", "golden")["known"] is False
    path.write_text(STORY.replace("plan: tenant", "plan: jwt.plan") + "jwt: {main: {secret: %s, issuer: i}}\n" % tokens.SECRET)
    assert "    plan   gold, by jwt.plan\n" in explained(path, "--claim", "plan=gold")
    assert "    plan   none\n" in explained(path)


def test_explain_reads_the_file_of_tenants(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("tenants: plans.txt\n" + STORY)
    (tmp_path / "plans.txt").write_text("header.x-api-key=k gold\n")
    assert "    plan   gold, by the table of tenants\n" in explained(path)
    assert plan_of(path, "--tenant", "unlimited")["name"] == "unlimited"
    (tmp_path / "plans.txt").write_text("header.x-api-key=other gold\n")
    assert "    plan   none\n" in explained(path)
    (tmp_path / "plans.txt").write_text("header.x-api-key=k\n")
    assert "the table of tenants is not known: its file cannot be read or has errors" in explained(path)


def test_the_admin_api_tells_how_a_key_stands_under_a_plan(open_proxies):
    proxy, = open_proxies(LOCAL, 1)
    gold = [("X-Plan", "gold")]
    assert proxy.count(fields=gold, most=11) == 11
    path = "/v1/limits/{}/keys/header.x-api-key=k".format

    def told(query, limit="per-tenant"):
        json_ = proxy.admin.read(path(limit) + query)
        return json_.get("plan"), json_["allowed"], json_["rates"][0]["remaining"]

    assert told("") == (None, False, 0) and told("?plan=free") == ("free", False, 0)
    assert told("?plan=gold") == ("gold", True, 9) and told("?plan=%67old") == ("gold", True, 9)
    assert told("?plan=unlimited")[:2] == ("unlimited", True)
    proxy.set("k", "gold")
    assert told("") == ("gold", True, 9), "as a tenant"
    assert told("?plan=") == (None, False, 0) and told("?plan=free") == ("free", False, 0)
    told_of = is_problem(proxy.admin.ask("GET", path("per-tenant") + "?plan=golden"), 400)
    assert told_of == 'plan: limit "per-tenant" has no plan "golden": it has free, gold, unlimited'
    for limit, plan in (("pair", "gold"), ("per-tenant", "1000/day:25"), ("per-tenant", "gold" * 500)):
        assert "has no plan" in is_problem(proxy.admin.ask("GET", f"{path(limit)}?plan={plan}"), 400)
    assert proxy.count(fields=gold) == 9, "nothing was charged"


def live(proxy, key="k", status=0):
    """What --live tells of the key, with the policy as it runs."""
    result = command("explain", str(proxy.sluice.folder / "policy.yaml"), "GET", "/", "-H", f"X-Api-Key: {key}", "--live")
    assert (result.returncode, result.stderr) == (status, ""), result
    return result.stdout


def test_explain_live_knows_the_tenants_of_the_proxy(open_proxies, start_redis):
    local, = open_proxies(LOCAL, 1)
    local.set("k", "gold")
    assert local.count("k", most=5) == 5
    told = live(local)
    assert "    plan   gold, by the table of tenants\n" in told and "15 of 20 left: allows it" in told
    assert "    plan   none\n" in live(local, "other")
    local.set("free", "unlimited")
    assert "its plan is unlimited" in live(local, "free")


def test_explain_live_judges_by_the_plan_in_redis(start, tmp_path, start_redis):
    proxy = Proxy(start, tmp_path, 7, at(start_redis()))
    until(lambda: proxy.admin.ask("POST", "/v1/tenants", [JSON], body(
        key="header.x-api-key=k", plan="1000/day:25")).status == 200, "Redis")
    assert proxy.count("k", most=5) == 5
    told = live(proxy)
    assert "    plan   1000/day:25, by the table of tenants\n" in told and "20 of 25 left: allows it" in told
    assert proxy.count("k", most=60) == 20 and "DENIES it" in live(proxy, status=3)
