"""Each fault that a Redis can have, under traffic and at a random moment: no request fails for it but
where its limit says deny, each is decided as its on_failure says, sharing resumes soon after, and no
reply goes to another request. docs/redis.md has the table."""

import socket
import time

import pytest

from harness.flow import STALLED, Flow, degraded, policy
from harness.wait import until

N_CLIENTS = 6
DEADLINE_S = 0.05


class Fault:
    """How a Redis gets it and loses it, and what the access log calls it."""

    def __init__(self, *names, options=(), provoke, mend):
        self.names = names
        self.options = options
        self.provoke = provoke
        self.mend = mend


def config(*pairs):
    """Sets (name, bad, good)."""
    def to(which):
        return lambda redis: [redis.call("CONFIG", "SET", pair[0], pair[which]) for pair in pairs]
    return {"provoke": to(1), "mend": to(2)}


def run_an_endless_script(redis):
    sock = socket.create_connection(("127.0.0.1", redis.port))
    sock.sendall(b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n")
    redis.endless = sock


def kill_the_script(redis):
    redis.call("SCRIPT", "KILL")
    redis.endless.close()


def fail_to_save(redis):
    redis.call("CONFIG", "SET", "save", "3600 1")
    redis.lose_folder()
    redis.call("BGSAVE")
    until(lambda: b"rdb_last_bgsave_status:err" in redis.call("INFO", "persistence"),
          "a save that fails")


def no_longer_mind(redis):
    redis.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")


def become_a_replica(redis):
    redis.call("REPLICAOF", "127.0.0.1", "1")


def become_a_master(redis):
    redis.call("REPLICAOF", "NO", "ONE")


def start_with_much_to_load(redis):
    """Half a second of it."""
    for i in range(500):
        redis.call("SET", f"much-{i}", "x", "EX", "3600")
    redis.call("SAVE")
    redis.kill()
    redis.start("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")


def wait_until_loaded(redis):
    until(lambda: b"loading:0" in redis.call("INFO", "persistence"), "Redis to have loaded")


def nothing(_):
    pass


FAULTS = {
    "deadline": Fault("deadline", provoke=lambda redis: redis.call("CLIENT", "PAUSE", 2500),
                      mend=lambda redis: redis.call("PING")),  # it waits, too
    "writes that wait": Fault("deadline", "half_open", provoke=lambda redis: redis.call(
        "CLIENT", "PAUSE", 60000, "WRITE"), mend=lambda redis: redis.call("CLIENT", "UNPAUSE")),
    "stopped": Fault("deadline", "half_open", provoke=lambda redis: redis.pause(),
                     mend=lambda redis: redis.resume()),
    "refused": Fault("refused", "reset", provoke=lambda redis: redis.kill(),
                     mend=lambda redis: redis.start()),
    "reset": Fault("reset", provoke=lambda redis: redis.call("CLIENT", "KILL", "TYPE", "normal"),
                   mend=nothing),
    "oom": Fault("oom", **config(("maxmemory", "1", "0"))),
    "noreplicas": Fault("noreplicas", **config(("min-replicas-to-write", "3", "0"))),
    "misconf": Fault("misconf", provoke=fail_to_save, mend=no_longer_mind),
    "readonly": Fault("readonly", provoke=become_a_replica, mend=become_a_master),
    "masterdown": Fault("masterdown", options=("--replica-serve-stale-data", "no"),
                        provoke=become_a_replica, mend=become_a_master),
    "busy": Fault("busy", options=("--busy-reply-threshold", "20"),
                  provoke=run_an_endless_script, mend=kill_the_script),
    "loading": Fault("loading", "reset", "refused", provoke=start_with_much_to_load,
                     mend=wait_until_loaded),
}


@pytest.mark.parametrize("name", FAULTS, ids=lambda name: name.replace(" ", "_"))
def test_a_fault_of_redis_is_no_fault_of_the_api(start, start_redis, seed, name):
    fault = FAULTS[name]
    redis = start_redis(*fault.options)
    proxies = [start(policy(redis.url, N_CLIENTS)) for _ in range(2)]
    with Flow(proxies, N_CLIENTS, seed) as flow:
        flow.go_on(0.5)
        provoked = time.monotonic()
        fault.provoke(redis)
        if name != "reset":
            flow.await_everyone(degraded(fault.names), provoked, within=10)
            flow.go_on(0.5)
        fault.mend(redis)
        flow.await_sharing()
        flow.go_on(0.3)
    assert flow.judge({*fault.names, *STALLED}) > 0 or name == "reset"
    flow.check_counts(redis)
    for proxy in proxies:
        flow.check_decision_times(proxy, DEADLINE_S)


# --- who may do what ---

OPERATOR = ("--user", "operator", "on", ">op", "~*", "+@all")
APP = ("--user", "app", "on", ">pw", "~*", "+@all")


class Rights:
    """What an operator takes away and gives back, of a user, and what the access log calls it."""

    def __init__(self, fault, take, give, user="app"):
        self.fault = fault
        self.take = take
        self.give = give
        self.user = user


RIGHTS = {
    "noperm": Rights("noperm", ["ACL", "SETUSER", "app", "-@scripting"],
                     ["ACL", "SETUSER", "app", "+@scripting"]),
    "wrongpass": Rights("wrongpass", ["ACL", "SETUSER", "app", "resetpass", ">other"],
                        ["ACL", "SETUSER", "app", "resetpass", ">pw"]),
    "nouser": Rights("wrongpass", ["ACL", "DELUSER", "app"],
                     ["ACL", "SETUSER", "app", *APP[2:]]),
    "noauth": Rights("noauth", ["CONFIG", "SET", "requirepass", "secret"],
                     ["CONFIG", "SET", "requirepass", ""], user="default"),
}


@pytest.mark.parametrize("name", RIGHTS)
def test_rights_that_are_taken_away_and_given_back(start, start_redis, seed, name):
    rights = RIGHTS[name]
    redis = start_redis(*OPERATOR, *APP)
    url = redis.url if rights.user == "default" else redis.url.replace("//", "//app:pw@")
    proxy = start(policy(url, N_CLIENTS))
    with Flow([proxy], N_CLIENTS, seed) as flow:
        provoked = time.monotonic()
        redis.call(*rights.take)
        redis.call("CLIENT", "KILL", "TYPE", "normal")
        flow.await_everyone(degraded([rights.fault]), provoked, within=10)
        redis.call(*rights.give)
        flow.await_sharing()
    assert flow.judge({rights.fault, "reset", *STALLED}) > 0
    flow.check_counts(redis)
    errors = [line for line in proxy.stderr().splitlines() if "level=error" in line]
    assert errors and len(errors) < 20, "somebody must act, and is told once per change"
