"""Bans where Redis is a cluster, fails over or may little, and where they are many."""

import json
import pathlib
import re
import socket
import time

import pytest

from harness.admin import JSON, is_problem
from harness.bans import BOB, CLIENT, KEYS, POLICY, USER, Proxy, at, await_statuses, body, hash_of, statuses
from harness.cluster import Cluster
from harness.relay import Relay
from harness.reload import reload
from harness.wait import until

DOCS = pathlib.Path(__file__).parents[2] / "docs"


# --- where Redis is many, or may little ---


def test_bans_and_resets_reach_every_proxy_of_a_cluster(start_proxies, start_cluster):
    cluster = start_cluster(3, 0)
    proxies = start_proxies(f"redis: {json.dumps(cluster.urls)}, deadline: 10s, on_failure: deny")
    await_statuses(proxies, {204})
    until(lambda: proxies[0].admin.ask("POST", CLIENT + "/ban", [JSON],
                                       body(**{"for": "10m"})).status == 200, "the cluster")
    await_statuses(proxies, {429})
    proxies[1].admin.change("DELETE", CLIENT + "/ban")
    await_statuses(proxies, {204})
    for user in ("ann", "bob", "cem", "dan"):  # whose keys lie in several slots
        fields = [("X-User", user)]
        until(lambda fields=fields: statuses(proxies, "/login", fields=fields) == {429}, "the limit")
        proxies[0].admin.change("DELETE", KEYS.format("login", f"header.x-user={user}"))
        assert proxies[0].sluice.ask(path="/login", fields=fields).status == 204


def test_a_key_is_reset_while_its_slot_is_on_the_move(start_proxies, start_cluster):
    cluster = start_cluster(3, 0)
    proxies = start_proxies(f"redis: {json.dumps(cluster.urls)}, deadline: 10s, on_failure: deny", 1)
    await_statuses(proxies, {204})
    fields = [("X-User", "ann")]

    def reset():
        until(lambda: statuses(proxies, "/login", fields=fields) == {429}, "the limit")
        proxies[0].admin.change("DELETE", KEYS.format("login", "header.x-user=ann"))
        assert proxies[0].sluice.ask(path="/login", fields=fields).status == 204

    reset()
    key, = (key for key in cluster.keys() if b":login:" in key)
    slot = cluster.slot_of(key.decode())
    source = cluster.owner_of(slot)
    target = next(node for node in cluster.nodes if node is not source)
    cluster.begin_move(slot, target)
    reset()
    cluster.move_keys(slot, source, target)
    reset()
    cluster.end_move(slot, source, target)
    reset()


@pytest.mark.takes(4)
def test_bans_follow_the_hash_to_another_node(start_proxies, start_cluster):
    cluster = start_cluster(3, 0)
    proxies = start_proxies(f"redis: {json.dumps(cluster.urls[:2])}, deadline: 10s, on_failure: deny")
    await_statuses(proxies, {204})
    until(lambda: proxies[0].admin.ask("POST", CLIENT + "/ban", [JSON],
                                       body(**{"for": "10m"})).status == 200, "the cluster")
    await_statuses(proxies, {429})
    slot = Cluster.slot_of("{sluice:bans}")
    source = cluster.owner_of(slot)
    target = next(node for node in cluster.nodes if node is not source)
    cluster.begin_move(slot, target)
    cluster.move_keys(slot, source, target)
    cluster.end_move(slot, source, target)
    proxies[1].admin.change("DELETE", CLIENT + "/ban")
    await_statuses(proxies, {204})


@pytest.mark.takes(7)
def test_bans_are_heard_of_while_their_slot_is_on_the_move(start_proxies, start_cluster):
    cluster = start_cluster(3, 0)
    store = f"redis: {json.dumps(cluster.urls)}, deadline: 10s, on_failure: deny"
    proxies = start_proxies(store)
    await_statuses(proxies, {204})
    slot = Cluster.slot_of("{sluice:bans}")
    source = cluster.owner_of(slot)
    target = next(node for node in cluster.nodes if node is not source)
    cluster.begin_move(slot, target)  # before there is a hash: the target makes it
    until(lambda: proxies[0].admin.ask("POST", CLIENT + "/ban", [JSON],
                                       body(**{"for": "10m"})).status == 200, "the cluster")
    await_statuses(proxies, {429})
    proxies += start_proxies(store, 1)
    await_statuses(proxies, {429})
    proxies[1].admin.change("DELETE", CLIENT + "/ban")
    await_statuses(proxies, {204})
    cluster.move_keys(slot, source, target)
    cluster.end_move(slot, source, target)
    proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    await_statuses(proxies, {429})


@pytest.mark.takes(16)
def test_bans_stay_with_the_owner_of_a_slot_whose_move_is_given_up(start_proxies, start_cluster):
    cluster = start_cluster(3, 0)
    proxies = start_proxies(f"redis: {json.dumps(cluster.urls)}, deadline: 10s, on_failure: deny")
    await_statuses(proxies, {204})
    slot = Cluster.slot_of("{sluice:bans}")
    source = cluster.owner_of(slot)
    target = next(node for node in cluster.nodes if node is not source)
    cluster.begin_move(slot, target)
    reads = target.call("INFO", "commandstats").count(b"cmdstat_asking")
    until(lambda: target.call("INFO", "commandstats").count(b"cmdstat_asking") > reads, "the target is asked")
    source.call("CLUSTER", "SETSLOT", slot, "STABLE")  # the target still takes itself for one to be asked
    proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    await_statuses(proxies, {429})


@pytest.mark.takes(6)
def test_bans_follow_a_failover(start_proxies, start_watched):
    watched = start_watched()
    proxies = start_proxies(f'redis: "{watched.url}", deadline: 10s, on_failure: deny')
    await_statuses(proxies, {204})
    proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    await_statuses(proxies, {429})
    master = watched.master()
    master.kill()
    watched.wait_for_failover_from(master)
    assert statuses(proxies) == {429}

    def is_lifted():
        """A ban that the replica had not heard of is set again before it can be lifted."""
        answer = proxies[1].admin.ask("DELETE", CLIENT + "/ban")
        return answer.status in (200, 404) and statuses(proxies) == {204}

    until(is_lifted, "the new master")


def test_a_user_who_may_decide_alone_is_told_of(start_proxies, start_redis):
    redis = start_redis("--user", "operator", "on", ">op", "~*", "&*", "+@all",
                        "--user", "default", "off")
    redis.call("ACL", "SETUSER", "sluice", "on", ">s3cret", "~sluice:*", "+@all", "-hscan",
               "-subscribe")
    proxy, = start_proxies(at(redis, ", user: sluice, password: s3cret"), 1)
    until(lambda: "bans cannot be read" in proxy.sluice.stderr(), "the log's word")
    assert proxy.statuses() == {204}
    redis.call("ACL", "SETUSER", "sluice", "+hscan", "+subscribe", "&*")
    until(lambda: "bans are read again" in proxy.sluice.stderr(), "the rights")
    proxy.admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    assert proxy.statuses() == {429}


def errors_of_bans(proxy):
    return [line for line in proxy.sluice.stderr().splitlines()
            if "level=error" in line and "mod=store.bans" in line]


def test_a_subscription_that_a_busy_redis_refuses_is_no_error(start_proxies, start_redis):
    redis = start_redis("--busy-reply-threshold", "20")
    proxy, = start_proxies(at(redis), 1)
    until(lambda: redis.call("CLIENT", "LIST", "TYPE", "pubsub"), "the subscription")
    endless = socket.create_connection(("127.0.0.1", redis.port))
    endless.sendall(b"CLIENT KILL TYPE pubsub\r\n"  # it comes back to a Redis that is busy
                    b"EVAL 'while true do end' 0\r\n")
    until(lambda: 'msg="bans cannot be read: those that are known hold" err="BUSY' in
          proxy.sluice.stderr(), "a warning")
    assert errors_of_bans(proxy) == []
    redis.call("SCRIPT", "KILL")
    endless.close()
    until(lambda: "bans are read again" in proxy.sluice.stderr(), "Redis")
    proxy.admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    assert proxy.statuses() == {429}


@pytest.mark.takes(6)
def test_a_subscription_to_a_replica_without_its_master_is_no_error(start_proxies, start_redis):
    redis = start_redis("--replica-serve-stale-data", "no")
    proxy, = start_proxies(at(redis), 1)

    def subscriber():
        return re.findall(rb"^id=(\d+)", redis.call("CLIENT", "LIST", "TYPE", "pubsub"))

    first = until(subscriber, "the subscription")
    redis.call("REPLICAOF", "127.0.0.1", "1")
    until(lambda: subscriber() not in ([], first), "another subscription")  # PING was refused
    redis.call("REPLICAOF", "NO", "ONE")
    await_statuses([proxy], {204})
    assert "no subscription" not in proxy.sluice.log_at_end() and errors_of_bans(proxy) == []


def test_a_user_who_may_not_subscribe_is_told_of(start_proxies, start_redis):
    redis = start_redis("--user", "operator", "on", ">op", "~*", "&*", "+@all",
                        "--user", "default", "off")
    redis.call("ACL", "SETUSER", "sluice", "on", ">s3cret", "~sluice:*", "&sluice:*", "+@all",
               "-subscribe")
    proxy, = start_proxies(at(redis, ", user: sluice, password: s3cret"), 1)
    until(lambda: errors_of_bans(proxy), "the log's word")
    line, = errors_of_bans(proxy)
    assert "no subscription: changes of bans are asked for every second" in line
    assert "NOPERM" in line and 'hint="may the user subscribe?"' in line


def test_the_user_of_the_manual_may_ban_exempt_and_reset(start_proxies, start_redis):
    manual = (DOCS / "redis.md").read_text()
    line = re.search(r"^ACL SETUSER .*$", manual, re.MULTILINE).group().replace("PASSWORD", "s3cret")
    redis = start_redis("--user", "operator", "on", ">op", "~*", "&*", "+@all",
                        "--user", "default", "off")
    redis.call(*line.split())
    proxies = start_proxies(at(redis, ", user: sluice, password: s3cret"))
    await_statuses(proxies, {204})
    proxies[0].admin.change("POST", CLIENT + "/ban", body(**{"for": "10m"}))
    await_statuses(proxies, {429})
    proxies[1].admin.change("POST", CLIENT + "/exempt", body(**{"for": "10m"}))
    await_statuses(proxies, {204})
    proxies[0].admin.change("DELETE", CLIENT + "/exempt")
    until(lambda: statuses(proxies, "/login", fields=USER) == {429}, "the limit")
    proxies[0].admin.change("DELETE", BOB)
    until(lambda: proxies[1].sluice.ask(path="/login", fields=USER).status == 204, "the reset")
    assert redis.call("ACL", "LOG") == [], "nothing was tried that it may not do"


# --- what cannot be read ---

TABLES_OF_PLANS = """
    workers: 1
    store: {{redis: {redis}, deadline: 10s, on_failure: local}}
    limits: {{per-client: {{key: client.ip, rate: 9/s, plans: {{gold: 99/s}}, plan: tenant}}}}
    routes: [{{limits: [per-client], respond: {{status: 204}}}}]
"""
SECONDS = 3


def questions(start, relay, redis, reply):
    """How often a proxy asks for bans and for tenants in some seconds, and how often it connects, while all
    scripts are answered so; then they are read."""
    relay.reply = reply
    proxy = start(TABLES_OF_PLANS.format(redis=redis))
    tables = ("bans", "tenants")
    until(lambda: all(f"{table} cannot be read" in proxy.stderr() for table in tables), "the log's word")
    n_replied, n_accepted = relay.n_replied, relay.n_accepted
    time.sleep(SECONDS)
    found = relay.n_replied - n_replied, relay.n_accepted - n_accepted
    relay.reply = None
    until(lambda: all(f"{table} are read again" in proxy.stderr() for table in tables), "the tables")
    relay.stop()
    return found


@pytest.mark.parametrize("reply", [
    b"-NOPERM this user has no permissions to run the 'hscan' command\r\n",
    b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
    b"-CLUSTERDOWN The cluster is down\r\n",
    b"-BUSY Redis is busy running a script.\r\n",
    b"-ERR unknown command 'EVAL'\r\n",
    b"+OK\r\n",
    b"*3\r\n$1\r\n0\r\n$1\r\n0\r\n*0\r\n",  # no time, no cursor
], ids=lambda reply: reply[1:6].decode().strip())
def test_tables_that_cannot_be_read_are_asked_for_once_a_second(start, start_redis, reply):
    relay = Relay(start_redis())
    n_asked, n_connected = questions(start, relay, json.dumps(relay.url), reply)
    assert n_asked <= 2 * (SECONDS + 2) and n_connected <= 2  # a link of another thread may come late


@pytest.mark.takes(6)
@pytest.mark.parametrize("reply", [
    "-CLUSTERDOWN The cluster is down\r\n",
    "-MOVED 3999 127.0.0.1:{port}\r\n",  # to itself, as two nodes that name each other
    "-ASK 3999 127.0.0.1:{port}\r\n",
    "-MOVED nowhere\r\n",
], ids=lambda reply: reply[1:11])
def test_tables_that_no_node_has_are_asked_for_once_a_second(start, start_cluster, reply):
    cluster = start_cluster(1, 0)
    relay = Relay(cluster.nodes[0])
    n_asked, n_connected = questions(start, relay, json.dumps([relay.url]),
                                     reply.format(port=relay.port).encode())
    assert n_asked <= 2 * (SECONDS + 2) and n_connected <= 2 * (SECONDS + 2)


# --- many ---


def test_there_are_no_more_than_the_policy_says(start_proxies, start_redis):
    proxies = start_proxies(at(start_redis()) + "}\n    max: {bans: 2")
    await_statuses(proxies, {204})
    for i in range(2):
        proxies[0].admin.change("POST", KEYS.format("login", f"header.x-user={i}") + "/ban",
                                body(**{"for": "10m"}))
    is_problem(proxies[0].admin.ask("POST", CLIENT + "/ban", [JSON], body(**{"for": "10m"})), 409)
    until(lambda: len(proxies[1].bans()) == 2, "the other")
    assert proxies[0].admin.read("/v1/bans")["max"] == 2


def test_ten_thousand_are_known_everywhere(start_proxies, start_redis):
    redis = start_redis()
    proxies = start_proxies(at(redis))
    await_statuses(proxies, {204})
    now = int(time.time() * 1000)
    words = ["HSET", "sluice:bans"]
    for i in range(10_000):
        identity = f"{{client.ip:{len(f'10.0.{i // 256}.{i % 256}')}=10.0.{i // 256}.{i % 256}}}"
        words += [f"per-client:{hash_of(identity)}", f"ban {now + 600_000} {now} - {identity} test"]
    redis.call(*words)
    redis.call("PEXPIRE", "sluice:bans", 600_000)
    redis.call("PUBLISH", "sluice:changes", "ban " + "x" * 200)  # too long for a field: all is read
    until(lambda: all(proxy.admin.read("/v1/bans")["n"] == 10_000 for proxy in proxies), "all",
          within=30)
    assert statuses(proxies) == {204}
    redis.call("DEL", "sluice:bans")
    redis.call("PUBLISH", "sluice:changes", "ban " + "x" * 200)
    until(lambda: all(proxy.admin.read("/v1/bans")["n"] == 0 for proxy in proxies), "none",
          within=30)


# --- reloads while Redis is away ---

WITH_PLANS = POLICY.replace("login: {{", "login: {{plans: {{gold: 9/hour}}, plan: tenant, ")
BANNED = "per-client:" + hash_of("{client.ip:9=127.0.0.1}")


@pytest.fixture(name="without_redis")
def fixture_without_redis(start, tmp_path, start_redis):
    """without_redis(policy): a proxy that has read a ban, and its Redis, which is away and has lost that."""
    def make(policy):
        redis = start_redis()  # keeps nothing
        now = int(time.time() * 1000)
        redis.call("HSET", "sluice:bans", "id", "former", BANNED,
                   f"ban {now + 600_000} {now} - {{client.ip:9=127.0.0.1}} test")
        redis.call("PEXPIRE", "sluice:bans", 600_000)
        proxy = Proxy(start, tmp_path, 0, at(redis), policy)
        await_statuses([proxy], {429})
        redis.kill()
        until(lambda: "link lost" in proxy.sluice.stderr(), "no Redis")
        return proxy, redis

    return make


def reload_to(proxy, policy, store):
    text = policy.format(folder=proxy.folder, store=store).replace("rate: 1000/hour", "rate: 1001/hour")
    assert "the policy is in force" in reload(proxy.sluice, text)
    assert proxy.statuses() == {429}


@pytest.mark.parametrize("before, after, more", [
    (POLICY, POLICY, ""), (WITH_PLANS, WITH_PLANS, ""), (POLICY, WITH_PLANS, ""), (WITH_PLANS, POLICY, ""),
    (POLICY, POLICY, ", coalesce: false"),
], ids=["no plans", "plans", "plans come", "plans go", "store"])
def test_a_reload_while_redis_is_away_loses_no_ban(without_redis, before, after, more):
    proxy, redis = without_redis(before)
    reload_to(proxy, after, at(redis, more))
    reload_to(proxy, after, at(redis, more))
    redis.start()
    until(lambda: redis.call("HEXISTS", "sluice:bans", BANNED) or proxy.statuses() != {429}, "the ban in Redis")
    assert proxy.statuses() == {429}
    proxy.sluice.await_said("that were lost are set again")


def test_a_reload_to_another_prefix_takes_no_ban_there(without_redis):
    proxy, redis = without_redis(POLICY)
    reload_to(proxy, POLICY, at(redis, ", prefix: other"))
    redis.start()
    await_statuses([proxy], {204})
    assert not redis.call("HEXISTS", "other:bans", BANNED)
