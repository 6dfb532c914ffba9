"""store.redis_cell: CL.THROTTLE decides gcra limits that stand alone, where the server has it."""

import os
import time

import pytest

from harness.wait import until

MODULE = os.environ.get("REDIS_CELL_MODULE", "")

POLICY = """
listen: 127.0.0.1:0
workers: 2
store: {{redis: "{url}", redis_cell: true, denial_cache: false, deadline: 10s, on_failure: deny}}
limits:
  alone: {{algorithm: gcra, rate: 3/minute, key: client.ip}}
  quick: {{algorithm: gcra, rate: 1/3s, key: client.ip}}
  beside: {{algorithm: gcra, rate: 100/s, key: client.ip}}
  other: {{rate: 100/s, key: client.ip}}
routes:
  - {{match: {{path: /alone}}, limits: [alone], respond: {{status: 204}}}}
  - {{match: {{path: /quick}}, limits: [quick], respond: {{status: 204}}}}
  - {{match: {{path: /both}}, limits: [beside, other], respond: {{status: 204}}}}
"""


def calls(redis, command):
    """How often @command was called."""
    for line in redis.call("INFO", "commandstats").decode().lower().splitlines():
        if line.startswith(f"cmdstat_{command}:"):
            return int(line.split("calls=")[1].split(",")[0])
    return 0


@pytest.fixture
def with_cell(start_redis, start):
    redis = start_redis("--loadmodule", MODULE)
    proxy = start(POLICY.format(url=redis.url))
    until(lambda: proxy.stderr().count("link up") == 2, "the workers to reach Redis")
    return redis, proxy


def test_a_lone_gcra_limit_is_throttled_by_redis_cell(with_cell):
    redis, proxy = with_cell
    answers = [proxy.ask("GET", "/alone") for _ in range(5)]
    assert [answer.status for answer in answers] == [204, 204, 204, 429, 429]
    assert [answer.get("RateLimit").split(";")[1] for answer in answers] == [
        "r=2", "r=1", "r=0", "r=0", "r=0"]
    assert 1 <= int(answers[3].get("Retry-After")) <= 21
    assert calls(redis, "cl.throttle") == 7  # and each worker's question whether it is there
    assert calls(redis, "evalsha") == 0
    assert [key for key in redis.keys() if b"alone" in key][0].endswith(b":cell")


def test_retry_after_of_redis_cell_is_never_too_early(with_cell):
    _, proxy = with_cell
    assert proxy.ask("GET", "/quick").status == 204
    denied = proxy.ask("GET", "/quick")
    assert denied.status == 429
    time.sleep(int(denied.get("Retry-After")))
    assert proxy.ask("GET", "/quick").status == 204


def test_a_limit_that_has_others_beside_it_is_the_scripts(with_cell):
    redis, proxy = with_cell
    assert proxy.ask("GET", "/both").status == 204
    assert calls(redis, "cl.throttle") == 2  # each worker's question whether it is there
    assert calls(redis, "evalsha") == 1


def test_a_second_cookie_of_the_same_name_opens_no_second_count(start_redis, start):
    redis = start_redis("--loadmodule", MODULE)
    proxy = start(f"""
        workers: 1
        store: {{redis: "{redis.url}", redis_cell: true, deadline: 10s, on_failure: deny}}
        limits: {{session: {{key: cookie.sid, algorithm: gcra, rate: 3/hour}}}}
        routes: [{{limits: [session], respond: {{status: 204}}}}]
    """)
    until(lambda: "link up" in proxy.stderr(), "Redis")

    def ask(cookies):
        return proxy.ask(fields=[("Cookie", cookies)]).status

    assert [ask("sid=real") for _ in range(4)] == [204, 204, 204, 429]
    assert [ask(f"sid=real; sid=other{i}") for i in range(4)] == [429] * 4
    assert not [key for key in redis.keys() if key.endswith(b":cell")]


def test_where_redis_cell_is_not_the_script_decides_and_the_log_says_so_once(start_redis, start):
    redis = start_redis()
    proxy = start(POLICY.format(url=redis.url))
    until(lambda: proxy.stderr().count("link up") == 2, "the workers to reach Redis")
    assert [proxy.ask("GET", "/alone").status for _ in range(4)] == [204, 204, 204, 429]
    assert proxy.log_at_end().count("no redis-cell here") == 1
    assert not [key for key in redis.keys() if key.endswith(b":cell")]


ONE_WORKER = """
    workers: 1
    store: {{redis: "{url}", redis_cell: true, deadline: 10s, on_failure: deny{more}}}
    limits: {{alone: {{key: global, algorithm: gcra, rate: {rate}/hour}}, other: {{key: global, rate: 100/hour}}}}
    routes:
      - {{match: {{path: /other}}, limits: [other], respond: {{status: 204}}}}
      - {{limits: [alone], respond: {{status: 204}}}}
"""


def start_linked(start, redis, rate=6, more=""):
    proxy = start(ONE_WORKER.format(url=redis.url, rate=rate, more=more))
    until(lambda: "link up" in proxy.stderr(), "Redis")
    return proxy


def test_equal_requests_at_once_are_asked_one_by_one_and_denials_too(start_redis, start):
    redis = start_redis("--loadmodule", MODULE)
    proxy = start_linked(start, redis, rate=20)
    redis.pause()
    clients = [proxy.connect() for _ in range(30)]
    for client in clients:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    redis.resume()
    assert sorted(client.read().status for client in clients) == [204] * 20 + [429] * 10
    assert proxy.ask().status == 429
    assert calls(redis, "cl.throttle") == 1 + 31  # the first asks whether it is there
    assert calls(redis, "evalsha") == 0


def test_a_redis_that_loses_the_module_is_asked_by_the_script_and_no_request_fails(
        start_redis, start):
    redis = start_redis("--loadmodule", MODULE, "--enable-module-command", "yes")
    proxy = start_linked(start, redis)
    assert proxy.ask().status == 204
    redis.call("MODULE", "UNLOAD", "redis-cell")
    # Redis 8.0 crashes when a connection repeats a command of a module that is gone: another is between.
    assert proxy.ask(path="/other").status == 204
    assert [proxy.ask().status for _ in range(8)] == [204] * 6 + [429] * 2
    assert proxy.log_at_end().count("no redis-cell here") == 1


def test_a_user_who_may_not_use_redis_cell_has_the_script(start_redis, start):
    redis = start_redis("--loadmodule", MODULE, "--user", "default", "on", ">op", "~*", "+@all",
                        "-cl.throttle")
    proxy = start_linked(start, redis, more=", password: op")
    assert [proxy.ask().status for _ in range(8)] == [204] * 6 + [429] * 2
    assert proxy.log_at_end().count("no redis-cell here") == 1


# --- in a cluster ---

IN_A_CLUSTER = """
    workers: 2
    store: {{redis: "{url}", redis_cell: true, deadline: 10s, on_failure: deny}}
    limits: {{alone: {{key: header.x-user, algorithm: gcra, rate: 3/hour}}}}
    routes: [{{limits: [alone], respond: {{status: 204}}}}]
"""


def ask_as(proxy, user):
    return proxy.ask(fields=[("X-User", user)]).status


def start_in_cluster(start, cluster):
    proxy = start(IN_A_CLUSTER.format(url=cluster.url))
    until(lambda: proxy.stderr().count('msg="map of the cluster"') >= 2, "the map")
    until(lambda: proxy.stderr().count('msg="link up"') >= 2 * len(cluster.nodes), "each worker's links")
    return proxy


def test_each_node_of_a_cluster_throttles_its_own_keys_also_while_they_move(start_cluster, start):
    cluster = start_cluster(3, 0, "--loadmodule", MODULE)
    proxy = start_in_cluster(start, cluster)
    for i in range(20):
        assert [ask_as(proxy, f"user-{i}") for _ in range(5)] == [204] * 3 + [429] * 2
    for node in cluster.nodes:
        assert calls(node, "cl.throttle") > 5
        assert calls(node, "evalsha") == 0

    cluster.flush()
    assert ask_as(proxy, "mover") == 204
    key, = cluster.keys()
    slot = cluster.slot_of(key.decode())
    target = next(node for node in cluster.nodes if node is not cluster.owner_of(slot))
    source = cluster.begin_move(slot, target)
    assert ask_as(proxy, "mover") == 204
    cluster.move_keys(slot, source, target)
    assert ask_as(proxy, "mover") == 204  # by ASK
    cluster.end_move(slot, source, target)
    assert [ask_as(proxy, "mover") for _ in range(4)] == [429] * 4
    assert cluster.keys() == [key]
    assert calls(target, "evalsha") == 0


def test_a_node_of_a_cluster_without_redis_cell_decides_by_the_script(start_cluster, start):
    cluster = start_cluster(3, 0, "--loadmodule", MODULE, "--enable-module-command", "yes")
    without = cluster.nodes[0]
    without.call("MODULE", "UNLOAD", "redis-cell")
    proxy = start_in_cluster(start, cluster)
    for i in range(20):
        assert [ask_as(proxy, f"user-{i}") for _ in range(5)] == [204] * 3 + [429] * 2
    assert calls(without, "evalsha") > 0
    assert all(calls(node, "evalsha") == 0 for node in cluster.nodes[1:])
    assert all(key.endswith(b":cell") == (node is not without)
               for node in cluster.nodes for key in node.keys() if b"{" in key)
