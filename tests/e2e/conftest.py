"""Fixtures: each makes as many as a test asks for, and ends them all, the proxies first."""

import shutil

import pytest

from harness import program
from harness.redis import Redis
from harness.upstream import Upstream


def pytest_configure(config):
    if not program.PROGRAM:
        raise pytest.UsageError("set SLUICE to the built program")


def _stop_all(things):
    """Stop each, also when another does not stop cleanly; then tell the first failure."""
    failures = []
    for thing in things:
        try:
            thing.stop()
        except AssertionError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def _upstreams():
    upstreams = []

    def start(*args, **kwargs):
        upstreams.append(Upstream(*args, **kwargs))
        return upstreams[-1]

    yield start
    _stop_all(upstreams)
    for upstream in upstreams:
        assert not upstream.failures, upstream.failures


def _proxies(folder):
    proxies = []

    def start(policy, **kwargs):
        proxies.append(program.Sluice(folder / f"sluice-{len(proxies)}", policy, **kwargs))
        return proxies[-1]

    yield start
    _stop_all(proxies)


@pytest.fixture
def start_upstream():
    yield from _upstreams()


@pytest.fixture
def start_redis(tmp_path):
    if shutil.which("redis-server") is None:
        pytest.fail("redis-server is not installed: see scripts/install-packages")
    servers = []

    def make(*options):
        servers.append(Redis(tmp_path / f"redis-{len(servers)}", *options))
        return servers[-1].start()

    yield make
    _stop_all(servers)


@pytest.fixture
def start(tmp_path, start_upstream, start_redis):
    """start(policy): a running proxy. Ends before the upstreams and the Redis that it uses."""
    yield from _proxies(tmp_path)


@pytest.fixture(scope="module")
def start_shared_upstream():
    """For modules whose tests only look: one upstream for all of them."""
    yield from _upstreams()


@pytest.fixture(scope="module")
def start_shared(tmp_path_factory, start_shared_upstream):
    """The same for the proxy."""
    yield from _proxies(tmp_path_factory.mktemp("shared"))
