"""What operators see of certificates: GET /v1/certificates, `ctl certificates`, and the metric of their ends."""

import datetime
import subprocess
import time

import pytest

from harness import program
from harness.admin import Admin, addresses
from harness.certificates import Authority, dated
from harness.reload import reload

RESPOND = "routes: [{respond: {status: 204}}]\n"


@pytest.fixture(name="authority", scope="module")
def an_authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("certificates") / "ca", days=30)
    authority.sign("one", "DNS:b.test,DNS:a.test")
    authority.sign("two", "DNS:two.test")
    return authority


def listen(authority, *names):
    pairs = ", ".join(f"{{cert: {authority.folder}/{name}.pem, key: {authority.folder}/{name}.key}}" for name in names)
    return f"{{address: 127.0.0.1:0, tls: {{certificates: [{pairs}]}}}}"


def fingerprint(authority, name):
    told = subprocess.run(["openssl", "x509", "-in", authority.folder / f"{name}.pem", "-noout", "-fingerprint",
                           "-sha256"], check=True, capture_output=True, text=True).stdout
    return told.strip().rpartition("=")[2].replace(":", "").lower()


def ends(admin):
    """The samples of the metric: labels, and the time."""
    with admin.connect() as client:
        page = client.ask(path="/metrics", host="127.0.0.1").body.decode()
    lines = [line for line in page.splitlines() if line.startswith("sluice_certificate_not_after_seconds{")]
    return {line.split("{")[1].split("}")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_what_is_in_force_is_told_and_what_a_reload_brings(start, authority):
    admin_section = "admin: {listen: 127.0.0.1:0}\n"
    proxy = start(f"listen: {listen(authority, 'one', 'two')}\n{admin_section}{RESPOND}")
    place = addresses(proxy)[0]
    admin = Admin(place)
    one, two = admin.read("/v1/certificates")["certificates"]
    assert one["names"] == ["a.test", "b.test"] and two["names"] == ["two.test"]
    assert one["file"] == f"{authority.folder}/one.pem" and "CN" in one["issuer"] and "ca" in one["issuer"]
    assert one["fingerprint"] == fingerprint(authority, "one")
    assert one["days_left"] in (29, 30)  # in the second of its issue it has thirty whole days
    end = datetime.datetime.fromisoformat(one["not_after"].replace("Z", "+00:00")).timestamp()
    assert 29 * 86400 < end - time.time() <= 30 * 86400
    samples = ends(admin)
    assert samples[f'listener="{one["listener"]}",name="a.test",fingerprint="{one["fingerprint"][:8]}"'] == end
    assert len(samples) == 2
    told = program.command("ctl", "--url", f"http://{place[0]}:{place[1]}", "certificates")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("LISTENER") and "a.test, b.test" in told.stdout and "two.test" in told.stdout
    reload(proxy, admin_section + RESPOND, listen(authority, "two"))
    assert [found["names"] for found in admin.read("/v1/certificates")["certificates"]] == [["two.test"]]
    assert list(ends(admin)) == [f'listener="{two["listener"]}",name="two.test",fingerprint="{two["fingerprint"][:8]}"']


def test_one_that_has_expired_has_less_than_no_days_left(start, tmp_path):
    cert, key = dated(tmp_path, "old", "DNS:old.test", "20200101000000Z", "20210101000000Z")
    proxy = start(f"listen: {{address: 127.0.0.1:0, tls: {{cert: {cert}, key: {key}}}}}\n"
                  f"admin: {{listen: 127.0.0.1:0}}\n{RESPOND}")
    found, = Admin(addresses(proxy)[0]).read("/v1/certificates")["certificates"]
    assert found["not_after"] == "2021-01-01T00:00:00Z" and found["days_left"] < -1000


def test_without_tls_there_are_none(start):
    proxy = start(f"admin: {{listen: 127.0.0.1:0}}\n{RESPOND}")
    admin = Admin(addresses(proxy)[0])
    assert admin.read("/v1/certificates") == {"certificates": []}
    assert not ends(admin)
