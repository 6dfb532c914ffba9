"""Fixtures: each makes as many as a test asks for, and ends them all, the proxies first."""

import itertools
import os
import random
import shutil
import textwrap
import zlib

import pytest

from harness import bans, program, redis_tls
from harness.ports import free_port
from harness.cluster import Cluster
from harness.http2 import Http2Client
from harness.http2_server import Http2Server
from harness.redis import SERVER, Redis
from harness.sentinel import DOWN_AFTER_MS, Sentinel, Watched
from harness.upstream import Upstream
from harness.wait import until

WORKERS = 2  # of a proxy whose store a test chooses
TAKES_S = 0.5  # a test that does not say what it takes


def pytest_addoption(parser):
    parser.addoption("--shard", default="1/1", help="I/N: the I-th of N parts of the tests, from 1")


def _part(items, number, count):
    """The part of that number, from 1, of `count` which take about as long. What takes longest is dealt first, and the
    parameters of a test one after another: in no order of theirs, since quick and slow ones often alternate."""
    parts = [set() for _ in range(count)]
    loads = [0.0] * count

    def takes_s(item):
        mark = item.get_closest_marker("takes")
        return mark.args[0] if mark else TAKES_S

    def order(item):
        return -takes_s(item), item.location[1], zlib.crc32(item.nodeid.encode())

    for item in sorted(items, key=order):
        lightest = loads.index(min(loads))
        parts[lightest].add(item)
        loads[lightest] += takes_s(item)
    return [item for item in items if item in parts[number - 1]]


def pytest_collection_modifyitems(config, items):
    items[:] = _part(items, *map(int, config.getoption("--shard").split("/")))
    # Of so many that follow each other the one of that number, from 0: see scripts/test.
    every = int(os.environ.get("E2E_EVERY", "1"))
    first = int(os.environ.get("E2E_FIRST", "0"))
    config.is_thinned = len(items) > 0 and every > 1
    items[:] = items[first % every::every]


def pytest_sessionfinish(session, exitstatus):
    """Of a file with fewer tests than are passed over none is left at times: that is no failure."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and getattr(session.config, "is_thinned", False):
        session.exitstatus = pytest.ExitCode.OK


def pytest_configure(config):
    config.addinivalue_line("markers", "takes(seconds): that a test waits, where they are many: see _part()")
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


def _upstreams(kind=Upstream):
    upstreams = []

    def start(*args, **kwargs):
        upstreams.append(kind(*args, **kwargs))
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
def seed():
    """Of what is random in this run; pytest shows it when the test fails."""
    number = random.randrange(1 << 30)
    print(f"seed {number}")
    return number


@pytest.fixture
def start_upstream():
    yield from _upstreams()


@pytest.fixture
def start_http2_server():
    yield from _upstreams(Http2Server)


@pytest.fixture
def start_redis(tmp_path):
    if shutil.which(SERVER) is None:
        pytest.fail(f"{SERVER} is not installed: see scripts/install-packages")
    servers = []

    def make(*options):
        servers.append(Redis(tmp_path / f"redis-{len(servers)}", *options))
        return servers[-1].start()

    yield make
    _stop_all(servers)


@pytest.fixture
def start_cluster(tmp_path):
    clusters = []

    def make(*args, **kwargs):
        clusters.append(Cluster(tmp_path / f"cluster-{len(clusters)}", *args, **kwargs))
        return clusters[-1].start()

    yield make
    _stop_all(clusters)


@pytest.fixture
def start_watched(tmp_path, start_redis):
    """start_watched(): a master, a replica and three sentinels, ready for a failover."""
    sentinels = []

    def make(*options, n_sentinels=3, lines=(), down_after_ms=DOWN_AFTER_MS, tls=()):
        tls = tls or redis_tls.files()

        def more():
            return ["--tls-replication", "yes", "--tls-port", str(free_port()), *tls] if tls else []

        def lines_of_tls():
            words = more()
            return [f"{key[2:]} {value}" for key, value in zip(words[::2], words[1::2])]

        master = start_redis("--repl-diskless-sync-delay", "0", *options, *more())
        replica = start_redis("--repl-diskless-sync-delay", "0", *options, *more(),
                              "--replicaof", "127.0.0.1", str(master.announced_port))
        mine = [Sentinel(tmp_path / f"sentinel-{len(sentinels) + i}", master,
                         n_sentinels // 2 + 1, down_after_ms, *lines, *lines_of_tls())
                for i in range(n_sentinels)]
        sentinels.extend(mine)
        for sentinel in mine:
            sentinel.start()
        watched = Watched([master, replica], mine)
        watched.wait_until_ready()
        return watched

    yield make
    _stop_all(sentinels)


@pytest.fixture
def start(tmp_path, start_upstream, start_redis, start_cluster):
    """start(policy): a running proxy. Ends before the upstreams and the Redis that it uses."""
    yield from _proxies(tmp_path)


@pytest.fixture(name="connect")
def a_connect():
    """connect(proxy): a client of it by HTTP/2."""
    clients = []

    def connect(proxy, **options):
        clients.append(Http2Client(proxy.address, **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.sock.close()


@pytest.fixture
def start_sharing(start, start_redis):
    """start_sharing(policy): a proxy that shares one Redis with the others of the test, which alone
    decides."""
    redis = []

    def make(policy, workers=WORKERS, **kwargs):
        if not redis:
            redis.append(start_redis())
        proxy = start(f"workers: {workers}\nstore: {{redis: '{redis[0].url}', deadline: 10s, "
                      f"on_failure: deny}}\n{textwrap.dedent(policy)}", **kwargs)
        until(lambda: proxy.stderr().count('msg="link up"') == workers, "Redis")
        return proxy

    make.redis = redis
    return make


@pytest.fixture(params=["memory", "redis"])
def start_in_store(request, start):
    """start_in_store(policy): a proxy; the test is run with each of the stores."""
    if request.param == "memory":
        return lambda policy, workers=WORKERS, **kwargs: start(
            f"workers: {workers}\n{textwrap.dedent(policy)}", **kwargs)
    return request.getfixturevalue("start_sharing")


@pytest.fixture
def start_proxies(start, tmp_path):
    """start_proxies(store): two of them, for bans; more join them."""
    numbers = itertools.count()

    def make(store, n=2):
        return [bans.Proxy(start, tmp_path, next(numbers), store) for _ in range(n)]

    return make


@pytest.fixture(scope="module")
def start_shared_upstream():
    """For modules whose tests only look: one upstream for all of them."""
    yield from _upstreams()


@pytest.fixture(scope="module")
def start_shared(tmp_path_factory, start_shared_upstream):
    """The same for the proxy."""
    yield from _proxies(tmp_path_factory.mktemp("shared"))
