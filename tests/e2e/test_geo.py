"""Where clients are: countries and autonomous systems by databases that the tests make."""

import json
import pathlib
import signal
import threading

import pytest

from harness import mmdb
from harness.message import request
from harness.program import command
from harness.tunnel import ASK, SWITCH
from harness.wait import until

DATA = pathlib.Path(__file__).parent.parent / "data" / "geo"
COUNTRIES = {"192.0.2.0/24": mmdb.country("DE"), "192.0.2.128/25": mmdb.country("FR"),
             "198.51.100.0/24": mmdb.country("US"), "2001:db8::/32": mmdb.country("JP")}
SYSTEMS = {"192.0.2.0/25": mmdb.asn(64496), "192.0.2.128/25": mmdb.asn(64497), "2001:db8::/33": mmdb.asn(4200000000)}
N_REPLACEMENTS = 5


def test_the_databases_of_the_unit_tests_are_what_they_say():
    assert (DATA / "country.mmdb").read_bytes() == mmdb.build(
        {"192.0.2.0/24": mmdb.country("DE"), "192.0.2.128/25": mmdb.country("FR"),
         "198.51.100.0/24": {"registered_country": {"iso_code": "US"}}, "2001:db8::/32": mmdb.country("JP"),
         "203.0.113.0/24": mmdb.country("GERMANY")}, record_size=24, kind="Test-Country")
    assert (DATA / "asn.mmdb").read_bytes() == mmdb.build(
        {"192.0.2.0/24": mmdb.asn(64496), "198.51.100.0/24": {"asn": "AS4200000000"},
         "203.0.113.0/24": {"asn": "none"}}, ip_version=4, record_size=32, kind="Test-ASN")
    assert (DATA / "flat.mmdb").read_bytes() == mmdb.build(
        {"192.0.2.0/24": {"country": "Austria", "country_code": "AT", "asn": "AS64497"},
         "2001:db8:8000::/33": {"country_code": "CH", "autonomous_system_number": mmdb.Short(65000)}})


POLICY = """
trusted_proxies: [127.0.0.1]
{more}
geo: {{database: [{folder}/country.mmdb, {folder}/asn.mmdb]}}
limits:
  country: {{key: client.country, rate: 2/day}}
  system: {{key: client.asn | client.ip, rate: 2/day}}
  known: {{key: client.country, rate: 100/day, missing: deny}}
routes:
  - {{name: country, match: {{path: /country}}, limits: [country], respond: {{status: 204}}}}
  - {{name: system, match: {{path: /system}}, limits: [system], respond: {{status: 204}}}}
  - {{name: known, match: {{path: /known}}, limits: [known], respond: {{status: 204}}}}
  - {{name: german, match: {{path: /where, country: [de, AT]}}, respond: {{status: 200, body: german}}}}
  - {{name: large, match: {{path: /where, asn: [AS4200000000, 1]}}, respond: {{status: 200, body: large}}}}
  - {{name: both, match: {{path: /where, country: FR, asn: 64497}}, respond: {{status: 200, body: both}}}}
  - {{name: rest, match: {{path: /where}}, respond: {{status: 200, body: rest}}}}
"""


@pytest.fixture(name="folder")
def a_folder_of_databases(tmp_path):
    folder = tmp_path / "geo"
    folder.mkdir()
    mmdb.write(folder / "country.mmdb", COUNTRIES)
    mmdb.write(folder / "asn.mmdb", SYSTEMS, record_size=24)
    return folder


@pytest.fixture(name="proxy")
def a_proxy(start_in_store, folder):
    return start_in_store(POLICY.format(folder=folder, more=""))


def ask(proxy, path, client):
    return proxy.ask(path=path, fields={"X-Forwarded-For": client})


def test_limits_count_by_the_country_and_the_system(proxy):
    def statuses(path, *clients):
        return [ask(proxy, path, client).status for client in clients]

    assert statuses("/country", "192.0.2.1", "192.0.2.127", "192.0.2.2") == [204, 204, 429]
    assert statuses("/country", "192.0.2.128", "::ffff:192.0.2.129", "192.0.2.130") == [204, 204, 429]
    assert statuses("/country", "2001:db8::1", "2001:db8:ffff::1", "2001:db8:1::1") == [204, 204, 429]
    # A client that no database knows lacks the part.
    assert statuses("/country", "203.0.113.1", "2001:db9::1", "10.0.0.1") == [204, 204, 429]
    assert statuses("/system", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.129") == [204, 204, 429, 204]
    assert statuses("/system", "198.51.100.1", "198.51.100.1", "198.51.100.2", "198.51.100.1") == [204, 204, 204, 429]
    assert statuses("/known", "203.0.113.1", "192.0.2.1") == [403, 204]


def test_routes_match_by_the_country_and_the_system(proxy):
    for client, body in (("192.0.2.1", b"german"), ("192.0.2.200", b"both"), ("198.51.100.1", b"rest"),
                         ("2001:db8:1::1", b"large"), ("2001:db8:8000::1", b"rest"), ("203.0.113.1", b"rest")):
        assert ask(proxy, "/where", client).body == body, client


class Load:
    """A client that asks again and again, until the end of `with`."""

    def __init__(self, proxy):
        self.proxy, self.bodies, self.failures = proxy, [], []
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._run) for _ in range(4)]

    def _run(self):
        try:
            with self.proxy.connect() as client:
                while not self.is_over.is_set():
                    response = client.ask(path="/where", fields={"X-Forwarded-For": "192.0.2.1"})
                    assert response.status == 200
                    self.bodies.append(response.body)
        except Exception as failure:  # pylint: disable=broad-exception-caught
            self.failures.append(repr(failure))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def test_a_database_is_replaced_under_load(start, folder):
    proxy = start(POLICY.format(folder=folder, more="watch: true\nworkers: 2"))
    with Load(proxy) as load:
        for number in range(N_REPLACEMENTS):
            code, body = (("US", b"rest"), ("DE", b"german"))[number % 2]
            mmdb.write(folder / "country.mmdb", {**COUNTRIES, "192.0.2.0/24": mmdb.country(code)})
            until(lambda body=body: ask(proxy, "/where", "192.0.2.1").body == body, f"a client of {code}")
    print(f"{N_REPLACEMENTS} replacements, {len(load.bodies)} requests, {len(load.failures)} failures")
    assert load.failures == []
    assert set(load.bodies) == {b"german", b"rest"}
    assert proxy.log_at_end().count('msg="the policy is in force"') == N_REPLACEMENTS


@pytest.mark.parametrize("broken, problem", [
    (b"", "is no MaxMind DB: "), (b"\0" * 5000, "is no MaxMind DB: "), (None, "cannot be opened: No such file"),
    (mmdb.build(COUNTRIES)[:500], "is no MaxMind DB: "),
])
def test_the_old_database_stays_where_the_new_one_is_broken(start, folder, broken, problem):
    proxy = start(POLICY.format(folder=folder, more="watch: true"))
    path = folder / "country.mmdb"
    with Load(proxy) as load:
        if broken is None:
            path.unlink()
        else:
            path.write_bytes(broken)  # in place: a file that is mapped would be cut under the readers
        proxy.await_said('msg="not reloaded')
        proxy.await_said(f"{path}: {problem}")
        assert ask(proxy, "/where", "192.0.2.1").body == b"german"
        mmdb.write(path, {"192.0.2.0/24": mmdb.country("US")})  # the next change is another try
        until(lambda: ask(proxy, "/where", "192.0.2.1").body == b"rest", "the good one")
    assert load.failures == []


def test_a_reload_reads_what_has_changed(start, folder):
    proxy = start(POLICY.format(folder=folder, more=""))
    mmdb.write(folder / "country.mmdb", {"192.0.2.0/24": mmdb.country("US")})
    assert ask(proxy, "/where", "192.0.2.1").body == b"german"
    proxy.signal(signal.SIGHUP)
    until(lambda: ask(proxy, "/where", "192.0.2.1").body == b"rest", "the new database")
    assert ask(proxy, "/where", "192.0.2.200").body == b"rest"


def test_tunnels_keep_few_versions_of_a_database(start, start_upstream, folder):
    """A client with a tunnel from before each update would have the process keep all of them in memory."""
    over = threading.Event()

    def switch(peer, _request):
        peer.send(SWITCH)
        over.wait(60)

    route = "\n  - {match: {path: /chat}, upstream: %s}" % start_upstream(switch).url
    proxy = start(POLICY.format(folder=folder, more="workers: 1").rstrip() + route)
    tunnels = []
    try:
        for number in range(6):
            tunnels.append(proxy.send(request("GET", "/chat", ASK)))
            assert tunnels[-1].read().status == 101
            code, body = (("US", b"rest"), ("DE", b"german"))[number % 2]
            mmdb.write(folder / "country.mmdb", {**COUNTRIES, "192.0.2.0/24": mmdb.country(code)})
            proxy.signal(signal.SIGHUP)
            until(lambda body=body: ask(proxy, "/where", "192.0.2.1").body == body, f"a client of {code}")
        for tunnel in tunnels[:3]:
            with pytest.raises(ConnectionResetError):
                tunnel.sock.recv(1)
        assert all(tunnel.is_quiet(0.1) for tunnel in tunnels[3:])
        assert 'msg="requests under old policies or databases of addresses are cut"' in proxy.stderr()
        maps = pathlib.Path(f"/proc/{proxy.process.pid}/maps")
        until(lambda: maps.read_text().count("memfd:geo") <= 5, "the old databases to be gone")  # the other file's, too
    finally:
        over.set()


def written(folder, policy):
    path = folder / "policy.yaml"
    path.write_text("listen: 127.0.0.1:0\n" + policy)
    return str(path)


def test_explain_shows_where_a_client_is(folder):
    path = written(folder, POLICY.format(folder=".", more=""))
    said = command("explain", "--from", "192.0.2.200", path, "GET", "/where").stdout
    assert "192.0.2.200, country FR, AS64497" in said
    assert "no: the client is in none of its countries" in said
    assert "no: the client is in none of its autonomous systems" in said
    said = command("explain", "--from", "203.0.113.1", path, "GET", "/system").stdout
    assert "203.0.113.1, country unknown, AS unknown" in said
    client = json.loads(command("explain", "--json", "--from", "2001:db8::1", path, "GET", "/country").stdout)["client"]
    assert (client["country"], client["asn"]) == ("JP", 4200000000)


def test_check_says_what_is_wrong(folder):
    def problems(policy):
        return command("check", written(folder, policy)).stderr

    missing = POLICY.replace("geo: {{database: [{folder}/country.mmdb, {folder}/asn.mmdb]}}", "")
    said = problems(missing.format(more=""))
    for what in ("client.country", "client.asn", "country", "asn"):
        assert f"error: {what} needs a database of addresses: write geo: {{database: FILE}}" in said
    said = problems(POLICY.format(folder="nowhere", more=""))
    assert "error: nowhere/country.mmdb: cannot be opened: No such file or directory" in said
    said = problems(POLICY.format(folder=folder, more="").replace(f", {folder}/asn.mmdb", ""))
    assert "warning: client.asn: no database of geo has the AS of its first records" in said
    assert problems(POLICY.format(folder=folder, more="").replace("FR, asn", "FRA, asn")).count("error") == 1
    assert problems(POLICY.format(folder=folder, more="").replace("64497", "0")).count("error") == 1


def test_tests_of_a_policy_say_where_a_client_is_and_need_no_database(folder):
    path = written(folder, POLICY.format(folder="nowhere", more=""))
    tests = folder / "tests.yaml"
    tests.write_text(f"""
policy: {path}
defaults: {{from: 192.0.2.1}}
tests:
  - name: by country
    steps:
      - {{request: GET /country, country: DE, repeat: 2, expect: allowed}}
      - {{request: GET /country, country: DE, expect: denied}}
      - {{request: GET /country, country: FR, asn: 64497, expect: allowed}}
      - {{request: GET /where, asn: 64497, country: fr, expect: {{route: both}}}}
      - {{request: GET /where, asn: 1, expect: {{route: large}}}}
      - {{request: GET /where, expect: {{route: rest}}}}
""")
    result = command("test", str(tests))
    assert result.returncode == 0, result.stdout + result.stderr
    tests.write_text(tests.read_text().replace("asn: 1,", "asn: 2,"))
    assert command("test", str(tests)).returncode == 1


def test_replay_asks_the_databases(folder):
    path = written(folder, POLICY.format(folder=".", more=""))
    log = folder / "log"
    line = '{} - - [28/Nov/2026:10:00:0{} +0000] "GET /country HTTP/1.1" 200 5 "-" "-"\n'
    log.write_text("".join(line.format(f"192.0.2.{i}", i) for i in range(5)))
    report = json.loads(command("replay", "--json", path, str(log)).stdout)
    assert "is not judged" not in json.dumps(report)
    assert report["policy"]["denied"] == 3
