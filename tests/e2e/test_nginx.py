"""nginx asks first: auth_request against a route that answers by itself."""

import shutil

import pytest

from harness.client import Client
from harness.nginx import Nginx

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")

LOCATIONS = """
        location / {{
            auth_request /limit;
            auth_request_set $ratelimit $upstream_http_ratelimit;
            auth_request_set $retry_after $upstream_http_retry_after;
            add_header RateLimit $ratelimit always;
            add_header Retry-After $retry_after always;
            error_page 403 =429 /refused;
            proxy_pass http://{upstream};
        }}
        location = /limit {{
            internal;
            proxy_pass http://{sluice}/check;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_set_header X-Forwarded-For $remote_addr;
        }}
        location = /refused {{
            internal;
            add_header RateLimit $ratelimit always;
            add_header Retry-After $retry_after always;
            return 429 "slow down";
        }}
"""

POLICY = """
    trusted_proxies: [127.0.0.1]
    limits: {per-client: {key: client.ip, rate: 2/day, deny: {status: 403}}}
    routes: [{match: {path: /check}, limits: [per-client], respond: {status: 204}}]
"""


@pytest.fixture(name="start_nginx")
def start_nginx_and_end_it(tmp_path):
    started = []

    def make(upstream, proxy):
        started.append(Nginx(tmp_path / "nginx", LOCATIONS.format(
            upstream=upstream.address, sluice=f"127.0.0.1:{proxy.port}")))
        return started[-1].address

    yield make
    for nginx in started:
        nginx.stop()


def test_nginx_passes_on_what_sluice_lets_pass_and_refuses_the_rest(
        start_in_store, start_upstream, start_nginx):
    upstream = start_upstream()
    nginx = start_nginx(upstream, start_in_store(POLICY))

    def ask(source):
        client = Client(nginx, source)
        try:
            return client.ask("POST", "/order", body=b"twelve")
        finally:
            client.close()

    responses = [ask("127.0.0.1") for _ in range(4)]
    assert [response.status for response in responses] == [200, 200, 429, 429]
    assert responses[0].get("RateLimit") == '"per-client";r=1;t=43200'
    assert responses[2].get("RateLimit").startswith('"per-client";r=0;')
    assert 43140 <= int(responses[2].get("Retry-After")) <= 43200
    assert ask("127.0.0.2").status == 200, "each client has its own"
    assert [request.body for request in upstream.requests] == [b"twelve"] * 3
