"""GET /ui/ and what it reads: its files, /v1/access, /v1/live and the lines of /v1/history."""

import gzip
import json
import re
import signal
import time

import pytest

from harness.admin import POLICY, READ_TOKEN, Admin, addresses, audit, bearer, is_problem
from harness.client import Client
from harness.wait import Stalls, until

MAX_BYTES = 300 * 1024
VIEWERS_MAX = 8
OF_PAGE = [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")]


@pytest.fixture
def proxy(start, tmp_path):
    return start(POLICY.format(folder=tmp_path))


@pytest.fixture
def admin(proxy):
    return Admin(addresses(proxy, 2)[1])


class Viewer:
    """Follows /v1/live."""

    def __init__(self, address, fields=()):
        self.client = Client(address)
        self.client.send(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n" +
                         b"".join(f"{name}: {value}\r\n".encode() for name, value in fields) + b"\r\n")
        self.reader = self.client.sock.makefile("rb")
        self.status = int(self.reader.readline().split()[1])
        while self.reader.readline() not in (b"\r\n", b""):
            pass

    def line(self):
        """The next line; None: the stream has ended."""
        size = self.reader.readline()
        if size in (b"", b"0\r\n"):
            self.is_whole = size != b"" and self.reader.read(2) == b"\r\n"
            return None
        text = self.reader.read(int(size, 16) + 2)[:-2]
        assert text.endswith(b"\n") and text.count(b"\n") == 1
        return json.loads(text)

    def close(self):
        self.reader.close()
        self.client.close()


# --- the files ---

def files_of(admin):
    """All files that the page loads, by name."""
    files = {"": admin.ask(path="/ui/")}
    left = set(re.findall(r'(?:src|href)="/ui/([^"]+)"', files[""].body.decode()))
    while left:
        name = left.pop()
        files[name] = admin.ask(path=f"/ui/{name}")
        if name.endswith(".js"):
            left |= set(re.findall(r'from "\./([^"]+)"', files[name].body.decode())) - set(files)
    return files


def test_the_page_loads_nothing_from_elsewhere_and_is_small(admin):
    files = files_of(admin)
    assert {"", "app.js", "chart.js", "icon.svg", "style.css", "report.js"} < set(files)
    assert sum(len(answer.body) for answer in files.values()) <= MAX_BYTES
    for name, answer in files.items():
        assert answer.status == 200, name
        policy = answer.get("Content-Security-Policy")
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert answer.get("X-Content-Type-Options") == "nosniff"
        if name != "chart.js":
            # Nothing from elsewhere, no script in the markup, and no text that is read as markup.
            text = answer.body.decode().replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?://(?!\")|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name
            assert not re.search(r"<script>|\son[a-z]+=|style=", text), name


def test_a_file_is_compressed_where_that_is_asked_for_and_sent_once(admin):
    plain = admin.ask(path="/ui/chart.js")
    small = admin.ask(path="/ui/chart.js", fields=[("Accept-Encoding", "br, gzip;q=0.5")])
    assert small.get("Content-Encoding") == "gzip" and plain.get("Content-Encoding") is None
    assert gzip.decompress(small.body) == plain.body and len(small.body) < len(plain.body) / 2
    assert plain.get("ETag") != small.get("ETag") and plain.get("Vary") == "Accept-Encoding"
    for encoding, expected in (("gzip;q=0", plain), ("gzip; q=0.000", plain), ("GZIP", small), ("identity", plain)):
        assert admin.ask(path="/ui/chart.js", fields=[("Accept-Encoding", encoding)]).body == expected.body, encoding
    for tags in (f'W/{plain.get("ETag")}', f'"a", {plain.get("ETag")}'):
        assert admin.ask(path="/ui/chart.js", fields=[("If-None-Match", tags)]).status == 304, tags
    again = admin.ask(path="/ui/chart.js", fields=[("If-None-Match", plain.get("ETag"))])
    assert again.status == 304 and again.body == b"" and again.get("Content-Length") is None
    assert admin.ask(path="/ui/chart.js", fields=[("If-None-Match", small.get("ETag"))]).status == 200
    assert admin.ask("HEAD", "/ui/chart.js").get("Content-Length") == str(len(plain.body))
    is_problem(admin.ask(path="/ui/..%2fchart.js"), 404)
    is_problem(admin.ask(path="/ui/none.js"), 404)


def test_the_page_says_who_may_change(admin):
    assert admin.read("/v1/access") == {"by": "loopback", "may_change": False}
    for token, may in ((None, False), (READ_TOKEN, False), ("", True)):
        fields = OF_PAGE + ([] if token is None else [bearer(token)] if token else [bearer()])
        assert admin.ask(path="/v1/access", fields=fields).json()["may_change"] is may
    others = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")]
    assert admin.ask(path="/v1/access", fields=others).status == 403
    assert admin.ask(path="/ui/app.js", fields=others).status == 403


def test_the_page_is_no_change_and_fills_no_log(proxy, admin):
    for path in ("/ui/", "/ui/app.js", "/ui/none"):
        admin.ask(path=path, fields=[("Via", "1.1 x")])
    assert admin.ask("DELETE", "/v1/limits/per-client/keys/127.0.0.1", [bearer()]).status == 200
    assert len(audit(proxy, 1)) == 1


# --- the stream ---

def test_a_line_a_second_says_what_is_counted(proxy, admin):
    viewer = Viewer(admin.address, OF_PAGE)
    assert viewer.status == 200
    first = viewer.line()
    assert first["status"] == "ready" and sum(first["values"][:5]) == 0
    for _ in range(7):
        proxy.ask(path="/a/1/")
    with Stalls() as stalls:
        began = time.monotonic()
        lines = [viewer.line()]
        while sum(lines[-1]["values"][:5]) != 7:
            lines.append(viewer.line())
        line = lines[-1]
        took_s = time.monotonic() - began
    assert took_s < 2 + stalls.total_s
    assert line["routes"][0] == ["a", 7, 2, 0, line["routes"][0][4]]
    assert ["per-client", 5, 2, 0] in line["limits"]
    following = viewer.line()
    assert following["second"] == line["second"] + 1
    steps = [one["step"] for one in lines + [following] if one["step"]]
    assert sum(sum(step["values"][:5]) for step in steps) <= 7  # a second may end between the requests
    assert all(step["routes"][0][1] == sum(step["values"][:5]) for step in steps)
    history = admin.read("/v1/history")
    assert sum(step[0] for ring in history["fine"]["routes"][:1] for step in ring["steps"] if step) == 7
    assert history["now"]["values"][1:3] == [5, 2]
    assert sum(sum(step) for step in history["fine"]["latency"] if step) == 7
    viewer.close()


def test_there_are_eight_viewers_and_each_that_leaves_makes_room(admin):
    viewers = [Viewer(admin.address) for _ in range(VIEWERS_MAX)]
    assert [viewer.status for viewer in viewers] == [200] * VIEWERS_MAX
    ninth = admin.ask(path="/v1/live")
    assert "8 viewers" in is_problem(ninth, 503)
    assert admin.ask("HEAD", "/v1/live").status == 503
    viewers.pop().close()
    until(lambda: admin.ask("HEAD", "/v1/live").status == 200, "room for another viewer")
    assert admin.ask("HEAD", "/v1/live").status == 200  # it takes none
    again = Viewer(admin.address)
    assert again.status == 200 and again.line()["values"] is not None
    for viewer in viewers + [again]:
        viewer.close()


def test_who_may_change_something_takes_the_place_of_the_oldest_viewer_that_may_not(admin):
    viewers = [Viewer(admin.address) for _ in range(VIEWERS_MAX)]
    operators = [Viewer(admin.address, [bearer()]) for _ in range(VIEWERS_MAX)]
    assert [operator.status for operator in operators] == [200] * VIEWERS_MAX
    for viewer in viewers:
        while viewer.line() is not None:
            pass
    assert all(operator.line() is not None for operator in operators)
    assert is_problem(admin.ask(path="/v1/live", fields=[bearer()]), 503), "all may change something now"
    for viewer in viewers + operators:
        viewer.close()


def test_a_viewer_that_does_not_read_misses_lines_and_stops_nobody(admin):
    slow, quick = Viewer(admin.address), Viewer(admin.address)
    seen = [quick.line()["second"] for _ in range(4)]
    assert seen[-1] - seen[0] >= 2
    assert admin.ask(path="/healthz").status == 200
    slow.close()
    quick.close()


def test_with_another_policy_the_stream_ends_and_its_token_is_looked_at_again(proxy, admin):
    viewer = Viewer(admin.address, [bearer(READ_TOKEN)])
    viewer.line()
    policy = proxy.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace(READ_TOKEN, "another-token-0123456789abcdef01"))
    proxy.signal(signal.SIGHUP)
    until(lambda: viewer.line() is None, "the end of the stream")
    assert viewer.is_whole
    viewer.client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")  # the connection goes on
    assert viewer.reader.readline().startswith(b"HTTP/1.1 200")
    viewer.close()
    assert Viewer(admin.address, [bearer(READ_TOKEN)]).status == 401
    assert Viewer(admin.address, [bearer("another-token-0123456789abcdef01")]).status == 200


def test_a_client_of_http_1_0_gets_lines_without_chunks(admin):
    client = Client(admin.address)
    client.send(b"GET /v1/live HTTP/1.0\r\nHost: localhost\r\n\r\n")
    reader = client.sock.makefile("rb")
    while (field := reader.readline()) != b"\r\n":
        assert not field.lower().startswith((b"transfer-encoding", b"content-length"))
    assert json.loads(reader.readline())["second"] < json.loads(reader.readline())["second"]
    reader.close()
    client.close()
