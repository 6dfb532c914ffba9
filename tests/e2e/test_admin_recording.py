"""/v1/recording: this proxy's own requests, recorded in memory and replayed."""

import json

import pytest

from harness.admin import JSON, READ_TOKEN, TOKEN, Admin, addresses, audit, bearer, is_problem
from harness.client import Client
from harness.wait import until

BYTES = ("Content-Type", "application/octet-stream")
BYTES_MAX = 8 * 1024 * 1024

POLICY = """
workers: 2
{log}
admin:
  listen: ["unix:{folder}/admin.sock", 127.0.0.1:0]
  token: 0123456789abcdef0123456789abcdef
  read_token: fedcba9876543210fedcba9876543210
limits:
  per-client: {{key: client.ip, rate: 1000/hour}}
  per-key: {{key: header.x-api-key | client.ip, algorithm: fixed_window, align: first, rate: 1000/hour}}
  per-session: {{key: cookie.sid, algorithm: fixed_window, align: first, rate: 1000/hour, missing: skip}}
  per-user: {{key: query.user, algorithm: fixed_window, align: first, rate: 1000/hour, missing: skip}}
routes:
  - {{name: keys, match: {{path: "/keys/**"}}, limits: [per-key], respond: {{status: 200}}}}
  - {{name: sessions, match: {{path: "/sessions/**"}}, limits: [per-session], respond: {{status: 200}}}}
  - {{name: users, match: {{path: "/users/**"}}, limits: [per-user], respond: {{status: 200}}}}
  - {{name: rest, limits: [per-client], respond: {{status: 204}}}}
"""


@pytest.fixture(name="proxy", params=["log: off", "log: {format: combined}", ""])
def a_proxy(request, start, tmp_path):
    return start(POLICY.format(folder=tmp_path, log=request.param))


@pytest.fixture(name="quiet")
def a_quiet_proxy(start, tmp_path):
    return start(POLICY.format(folder=tmp_path, log="log: off"))


def admin_of(proxy):
    return Admin(addresses(proxy, 2)[0])


def record(admin, seconds=300):
    return admin.change("POST", "/v1/recording", json.dumps({"seconds": seconds}).encode())


def state(admin):
    return admin.read("/v1/recording")


def replay(admin, *changes, status=200):
    path = "&".join(["/v1/replay?source=recording", *(f"set={change}" for change in changes)])
    answer = admin.ask("POST", path, [BYTES], b"")
    assert answer.status == status, (answer.start_line, answer.body)
    return answer.json()


def limits_of(report, side="against"):
    return {limit["name"]: (limit["judged"], limit["denied"]) for limit in report[side]["limits"]}


def test_what_is_recorded_is_replayed_with_other_numbers(proxy):
    admin = admin_of(proxy)
    assert state(admin) == {"state": "none", "seconds_left": 0, "lines": 0, "bytes": 0, "bytes_max": BYTES_MAX,
                            "too_long": 0}
    for _ in range(5):
        proxy.ask("GET", "/before")
    told = record(admin)
    assert told["state"] == "recording" and 290 <= told["seconds_left"] <= 300 and told["lines"] == 0
    for i in range(12):
        proxy.ask("GET", "/x")
        proxy.ask("GET", f"/keys/{i}", [("X-API-Key", "one" if i % 3 else "two")])  # 8 and 4
        proxy.ask("GET", "/sessions/x", [("Cookie", f"other=1; sid={'a' if i < 9 else 'b'}")])  # 9 and 3
        proxy.ask("GET", f"/users/x?page={i}&user={'u' if i < 7 else 'v'}")  # 7 and 5
    told = until(lambda: state(admin)["lines"] == 48 and state(admin), "48 lines")
    assert 48 * 100 < told["bytes"] < 48 * 400
    report = replay(admin, "per-client.rate=10/hour", "per-key.rate=5/hour", "per-session.rate=6/hour",
                    "per-user.rate=6/hour")
    assert report["log"]["requests"] == 48 and report["log"]["unread"] == 0
    assert limits_of(report, "policy") == {"per-client": (12, 0), "per-key": (12, 0), "per-session": (12, 0),
                                           "per-user": (12, 0)}
    assert limits_of(report) == {"per-client": (12, 2), "per-key": (12, 3), "per-session": (12, 3),
                                 "per-user": (12, 1)}
    assert report["policy"]["notes"] == []
    assert state(admin)["state"] == "recording"  # it goes on


PLANS = """
workers: 1
log: off
admin: "unix:{folder}/admin.sock"
trusted_proxies: 127.0.0.1
tenants: plans.txt
limits:
  header: {{key: client.ip, rate: 60/hour, plans: {{trial: 5/hour}}, plan: header.x-plan}}
  counted: {{key: [client.ip, header.x-plan], rate: 60/hour, plans: {{trial: 5/hour}}, plan: header.x-plan, missing: skip}}
  table: {{key: client.ip, rate: 60/hour, plans: {{trial: 5/hour}}, plan: tenant}}
  hashed: {{key: header.x-api-key | client.ip, rate: 60/hour, plans: {{trial: 5/hour}}, plan: tenant}}
routes: [{{limits: [header, counted, table, hashed], respond: {{status: 204}}}}]
"""


def test_the_plans_that_a_recording_lacks_are_said(start, tmp_path):
    (tmp_path / "plans.txt").write_text("127.0.0.1 trial\nheader.x-api-key=k trial\n")
    policy = PLANS.format(folder=tmp_path).replace("plans.txt", str(tmp_path / "plans.txt"))
    proxy = start(policy)
    admin = Admin(addresses(proxy)[0])
    record(admin)
    for _ in range(10):
        proxy.ask("GET", "/", [("X-Plan", "trial"), ("X-Api-Key", "k")])
    until(lambda: state(admin)["lines"] == 10, "10 lines")
    report = replay(admin, "header.plans.trial=1/hour", "table.plans.trial=1/hour")
    for side, passed in (("policy", 5), ("against", 1)):
        assert limits_of(report, side) == {"header": (10, 0), "counted": (10, 0), "table": (10, 10 - passed),
                                           "hashed": (10, 0)}
        assert sorted(report[side]["notes"]) == [
            'limit "counted" is judged by its rate without a plan: the log lacks header.x-plan',
            'limit "hashed" is judged by its rate without a plan: the table of tenants does not know the keys of a log '
            'that has hashes in place of values',
            'limit "header" is judged by its rate without a plan: the log lacks header.x-plan']


READ = """
workers: 1
log: off
admin: "unix:{folder}/admin.sock"
limits: {{counted: {{key: [header.x-plan, query.kind], rate: 60/hour, missing: skip}}}}
routes:
  - {{name: gold, match: {{header: {{x-plan: gold}}}}, limits: [counted], respond: {{status: 204}}}}
  - {{name: big, match: {{query: {{kind: big}}}}, limits: [counted], respond: {{status: 204}}}}
  - {{name: any, match: {{header: {{x-plan: true}}}}, limits: [counted], respond: {{status: 204}}}}
  - {{limits: [counted], cost: {{from: header.x-plan, max: 3, trust: any}}, respond: {{status: 204}}}}
"""


def test_the_routes_that_read_what_a_recording_has_as_hashes_are_said(start, tmp_path):
    proxy = start(READ.format(folder=tmp_path))
    admin = Admin(addresses(proxy)[0])
    record(admin)
    for path in ("/?kind=big", "/?kind=small"):
        proxy.ask("GET", path, {"X-Plan": "gold"})
    until(lambda: state(admin)["lines"] == 2, "2 lines")
    assert sorted(replay(admin, "counted.rate=5/hour")["policy"]["notes"]) == [
        'route "big" takes no request: it matches by query.kind, of which the log has hashes',
        'route "gold" takes no request: it matches by header.x-plan, of which the log has hashes',
        'route "route-4" takes each request to cost 3, the most: the log has at most a hash of header.x-plan']


def test_no_secret_is_in_its_memory_as_it_came(quiet):
    """The names of clients come from the log: no value of a header, cookie or parameter does."""
    admin = admin_of(quiet)
    record(admin)
    quiet.ask("GET", "/users/x?user=s3cret", [("X-API-Key", "s3cret"), ("Cookie", "sid=s3cret")])
    until(lambda: state(admin)["lines"] == 1, "a line")
    assert "s3cret" not in json.dumps(replay(admin, "per-user.rate=1/hour"))


def test_it_ends_by_itself(quiet):
    admin = admin_of(quiet)
    record(admin, 1)
    quiet.ask("GET", "/x")
    until(lambda: state(admin)["state"] == "complete", "its end")
    n_lines = state(admin)["lines"]
    quiet.ask("GET", "/x")
    assert state(admin)["lines"] == n_lines <= 1
    assert state(admin)["seconds_left"] == 0


def test_it_is_full_at_its_bound_and_says_so(quiet):
    admin = admin_of(quiet)
    record(admin)
    request = b"GET /%s HTTP/1.1\r\nHost: a.test\r\n\r\n" % (b"x" * 900)
    with quiet.connect() as client:
        for _ in range(100):
            client.send(request * 100)
            for _ in range(100):
                client.read()
    told = state(admin)
    assert told["state"] == "full" and BYTES_MAX - 2000 < told["bytes"] <= BYTES_MAX
    assert replay(admin)["log"]["lines"] == told["lines"]


def test_it_is_stopped_and_kept(quiet):
    admin = admin_of(quiet)
    assert is_problem(admin.ask("POST", "/v1/recording/stop", [JSON], b"{}"), 409)
    record(admin)
    quiet.ask("GET", "/x")
    until(lambda: state(admin)["lines"] == 1, "a line")
    told = admin.change("POST", "/v1/recording/stop", b"{}")
    assert (told["state"], told["lines"], told["seconds_left"]) == ("complete", 1, 0)
    quiet.ask("GET", "/x")
    assert state(admin)["lines"] == 1
    assert replay(admin)["log"]["requests"] == 1
    assert is_problem(admin.ask("POST", "/v1/recording/stop", [JSON], b"{}"), 409)
    far = Admin(addresses(quiet, 2)[1])
    assert far.ask("POST", "/v1/recording/stop", [JSON, bearer(READ_TOKEN)], b"{}").status == 403
    assert any("the recording is stopped" in line for line in audit(quiet, 2))


def test_a_new_one_replaces_it_and_it_can_be_forgotten(quiet):
    admin = admin_of(quiet)
    assert is_problem(admin.ask("POST", "/v1/replay?source=recording", [BYTES], b""), 409)
    record(admin)
    quiet.ask("GET", "/x")
    until(lambda: state(admin)["lines"] == 1, "a line")
    assert record(admin)["lines"] == 0
    quiet.ask("GET", "/x")
    until(lambda: state(admin)["lines"] == 1, "a line")
    assert admin.change("DELETE", "/v1/recording", b"{}")["state"] == "none"
    quiet.ask("GET", "/x")
    assert state(admin)["lines"] == 0
    assert is_problem(admin.ask("POST", "/v1/replay?source=recording", [BYTES], b""), 409)


NAMES = ["n" * 60 + str(i) for i in range(12)]


def test_requests_that_are_too_long_are_counted_and_no_part_of_one_is_recorded(start, tmp_path):
    limits = "".join(f"  l{i}: {{key: query.{name}, rate: 9/hour, missing: skip}}\n" for i, name in enumerate(NAMES))
    proxy = start(f"""
admin: "unix:{tmp_path}/admin.sock"
limits:
{limits}
routes: [{{limits: [{", ".join(f"l{i}" for i in range(len(NAMES)))}], respond: {{status: 204}}}}]
""")
    admin = Admin(addresses(proxy)[0])
    record(admin)
    for names in (NAMES, NAMES[:1], NAMES):
        assert proxy.ask("GET", "/?" + "&".join(f"{name}=1" for name in names)).status == 204
    told = until(lambda: state(admin) if state(admin)["lines"] + state(admin)["too_long"] == 3 else None, "three requests")
    assert (told["lines"], told["too_long"]) == (1, 2)
    report = replay(admin, "l0.rate=1/hour")
    assert report["log"]["lines"] == 1 and report["log"]["unread"] == 0
    assert record(admin)["too_long"] == 0


HEADERS = ["User-Agent", "Referer", "X-Forwarded-For", "Cookie", "X-One", "X-Two", "X-Three", "X-Four", "X-Five"]


def test_four_headers_and_those_that_logs_have_are_judged(start, tmp_path):
    limits = "".join(f"  l{i}: {{key: header.{name.upper() if i % 2 else name}, algorithm: fixed_window, align: first, rate: 9/hour, "
                     "missing: skip}\n" for i, name in enumerate(HEADERS))
    proxy = start(f"""
admin: "unix:{tmp_path}/admin.sock"
trusted_proxies: [127.0.0.1]
limits:
{limits}
routes: [{{limits: [{", ".join(f"l{i}" for i in range(len(HEADERS)))}], respond: {{status: 204}}}}]
""")
    admin = Admin(addresses(proxy)[0])
    record(admin)
    for _ in range(3):
        proxy.ask("GET", "/", [(name, "1") for name in HEADERS])
    until(lambda: state(admin)["lines"] == 3, "three lines")
    report = replay(admin, "l8.rate=1/hour")
    judged = {limit["name"]: limit["judged"] for limit in report["policy"]["limits"]}
    assert judged == {**{f"l{i}": 3 for i in range(len(HEADERS) - 1)}, "l8": 0}, judged
    assert any("x-five" in str(note).lower() for note in report["policy"]["notes"]), report["policy"]["notes"]


def test_a_field_that_only_a_trusted_proxy_can_send_is_recorded_as_it_was_counted(start, tmp_path):
    proxy = start(f"""
admin: "unix:{tmp_path}/admin.sock"
trusted_proxies: [127.0.0.1]
limits: {{few: {{key: header.x-forwarded-host, missing: skip, rate: 9/hour}}}}
routes: [{{limits: [few], respond: {{status: 204}}}}]
""")
    admin = Admin(addresses(proxy)[0])
    record(admin)
    for source in ("127.0.0.2", "127.0.0.1", "127.0.0.2"):
        with Client(proxy.address, source) as client:
            assert client.ask("GET", "/", [("X-Forwarded-Host", "a.test")]).status == 204
    until(lambda: state(admin)["lines"] == 3, "three lines")
    report = replay(admin, "few.rate=1/hour")
    assert [limit["judged"] for limit in report["policy"]["limits"]] == [1], report


@pytest.mark.parametrize("parameter", ["format=json", "host=a.test", "field=header.X=x"])
def test_what_says_what_a_body_is_does_not_go_with_a_recording(quiet, parameter):
    admin = admin_of(quiet)
    record(admin)
    quiet.ask("GET", "/x")
    until(lambda: state(admin)["lines"] == 1, "a line")
    for query in (f"{parameter}&source=recording", f"source=recording&{parameter}"):
        said = is_problem(admin.ask("POST", f"/v1/replay?{query}", [BYTES], b""), 400)
        assert parameter.split("=")[0] in said and "recording" in said
    assert replay(admin)["log"]["lines"] == 1


@pytest.mark.parametrize("body", [b"", b"{}", b'{"seconds": 0}', b'{"seconds": 301}', b'{"seconds": "9"}',
                                  b'{"seconds": 1.5}', b'{"seconds": -1}', b'{"seconds": 9, "x": 1}', b"[]"])
def test_a_time_that_is_none_is_a_400(quiet, body):
    admin = admin_of(quiet)
    assert is_problem(admin.ask("POST", "/v1/recording", [JSON], body), 400)
    assert state(admin)["state"] == "none"


def test_who_may_and_the_audit(quiet):
    admin, far = (Admin(address) for address in addresses(quiet, 2))
    body = b'{"seconds": 5}'
    assert far.ask("GET", "/v1/recording", [bearer(READ_TOKEN)]).status == 200
    assert far.ask("POST", "/v1/recording", [JSON], body).status == 401
    assert far.ask("POST", "/v1/recording", [JSON, bearer(READ_TOKEN)], body).status == 403
    assert far.ask("POST", "/v1/recording", [JSON, bearer(TOKEN)], body).status == 200
    admin.change("DELETE", "/v1/recording", b"{}")
    lines = [line for line in audit(quiet, 3) if "msg=changed" in line]
    assert "recorded for 5 s" in lines[0] and "method=DELETE" in lines[1]
