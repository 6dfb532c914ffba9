"""Each fault that a node of a cluster can have, under traffic and at a random moment: requests whose
limits lie on that node, alone or among several, do as their on_failure says, others notice nothing,
sharing resumes soon after, and what was admitted was charged. docs/redis.md has the table."""

import collections
import itertools
import random
import re
import socket
import threading
import time

import pytest

from harness import message
from harness.cluster import Cluster
from harness.flow import STALL_S, STALLED, UNITS, Flow, charged, degraded, kind_of, shared
from harness.wait import until

DEADLINE_S = 0.2  # of four round trips, with limits on three nodes, on a machine that is busy
RESUMES_WITHIN_S = 1.0  # after the cluster's own time
LIMITS = ("limit", "more", "most")  # of a client: one for each segment of its path
HIT = range(6)  # clients: three with one slot, on the node that fails, and three with some on each
SPARED = range(6, 9)  # those with one slot on another node
N_CLIENTS = 9
NO_ANSWER = ("deadline", "half_open", "reset")

OPERATOR = ("--user", "operator", "on", ">op", "~*", "+@all")
APP = ("--user", "app", "on", ">pw", "~*", "+@all")


@pytest.fixture(name="cluster", scope="module")
def cluster_of_six(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster") / "nodes", 3, 3,
                      "--cluster-require-full-coverage", "no",
                      "--cluster-node-timeout", "3000",  # longer than a stall, and than the faults that are mended
                      *OPERATOR, *APP)
    yield cluster.start()
    cluster.stop()


# --- who asks for what ---


def names_on(cluster, node, segment):
    """Names without end that, as that segment of a path, have their limit on the node."""
    ranges = cluster.slots_of(node)
    for i in itertools.count():
        tag = f"{{segment.{segment}:{len(str(i))}={i}}}"
        if any(first <= cluster.slot_of(tag) <= last for first, last in ranges):
            yield str(i)


def paths_on(cluster, hit, other, third):
    alone = names_on(cluster, hit, 1)
    spread = zip(*(names_on(cluster, node, i + 1) for i, node in enumerate((hit, other, third))))
    spared = names_on(cluster, other, 1)
    return [f"/{next(alone)}" for _ in range(3)] + \
        ["/" + "/".join(next(spread)) for _ in range(3)] + [f"/{next(spared)}" for _ in range(3)]


def policy(cluster, paths, store):
    """As harness.flow has it, but with a limit for each segment."""
    limits, routes = [], []
    for i, path in enumerate(paths):
        names = [f"{name}-{i}" for name, _ in zip(LIMITS, path[1:].split("/"))]
        limits += [f"  {name}: {{key: path.{j + 1}, algorithm: fixed_window, align: first, "
                   f"rate: {(i + 1) * UNITS}/day, on_failure: {kind_of(i)}}}"
                   for j, name in enumerate(names)]
        routes.append(f"  - {{match: {{path: {path}}}, limits: [{', '.join(names)}], "
                      f"respond: {{status: 204}}}}")
    return "\n".join(["workers: 2", "trusted_proxies: [127.0.0.1]", f"store: {{redis: '{cluster.url}', {store}}}",
                      "limits:", *limits, "routes:", *routes])


class Stage:
    """A cluster, of which the node `hit` will fail, two proxies, and clients that ask them."""

    def __init__(self, start, cluster, seed, store=f"deadline: {DEADLINE_S * 1000:.0f}ms"):
        rng = random.Random(seed)
        self.cluster = cluster
        self.hit, self.other, third = rng.sample(cluster.current_masters(), 3)
        self.paths = paths_on(cluster, self.hit, self.other, third)
        self.slot = cluster.slots_of(self.hit)[0][0]
        cluster.flush()
        text = policy(cluster, self.paths, store)
        self.proxies = [start(text) for _ in range(2)]
        self.flow = Flow(self.proxies, N_CLIENTS, seed, self.paths)

    def owner(self):
        """Of the slots that were the node's, as another one sees it."""
        return self.cluster.owner_of(self.slot, self.other)

    def by_redis(self, client, since=0.0, until_then=float("inf")):
        return sum(answer.client == client and since <= answer.asked_at <= until_then and
                   shared(self.flow.lines[answer.id]) for answer in self.flow.answers)

    def check_charges(self, lost_between=None):
        """What was admitted is charged, but for what replication may lose, and nothing else; a request
        to which somebody gave no answer may have cost once."""
        silent = collections.Counter(
            answer.client for answer in self.flow.answers
            if self.flow.lines[answer.id].get("failure") in NO_ANSWER)

        def agrees(client, limit, admitted, lost):
            taken = charged(self.cluster, client, limit)
            return admitted - lost <= taken <= admitted + silent[client]

        for client, path in enumerate(self.paths):
            admitted = self.by_redis(client)
            lost = self.by_redis(client, *lost_between) if lost_between else 0
            for limit, _ in zip(LIMITS, path[1:].split("/")):
                until(lambda: agrees(client, limit, admitted, lost), f"the charges of {limit}-{client}", 5)

    def faults_seen(self):
        return {self.flow.lines[answer.id].get("failure") for answer in self.flow.answers}

    def check_spared(self):
        """Who has no limit on the node was never without Redis, but where the machine stalled, or one
        of the processes: that is seen by nobody, and costs each client a few requests."""
        missed = [self.flow.lines[answer.id] for answer in self.flow.answers
                  if answer.client in SPARED and not shared(self.flow.lines[answer.id])]
        is_short = len(missed) <= 3 * len(SPARED) and {line["failure"] for line in missed} <= set(STALLED)
        assert is_short or self.flow.stall_s > DEADLINE_S / 2, missed[:3]


# --- faults ---


class Fault:
    """How the node gets it, and what the access log calls it; how it is mended, and what is done when
    all share again. Or who takes over."""

    def __init__(self, *names, provoke, mend=lambda stage: None, afterwards=lambda stage: None,
                 is_seen=True, loses=False, store=""):
        self.names = names
        self.provoke = provoke
        self.mend = mend
        self.afterwards = afterwards
        self.is_seen = is_seen
        self.loses = loses
        self.store = store


def call(*words):
    return lambda stage: stage.hit.call(*words)


def config(*pairs):
    """Sets (name, bad, good)."""
    def to(which):
        return lambda stage: [stage.hit.call("CONFIG", "SET", pair[0], pair[which])
                              for pair in pairs]
    return {"provoke": to(1), "mend": to(2)}


def run_an_endless_script(stage):
    stage.hit.call("CONFIG", "SET", "busy-reply-threshold", "20")
    stage.endless = socket.create_connection(("127.0.0.1", stage.hit.port))
    stage.endless.sendall(b"*3\r\n$4\r\nAUTH\r\n$8\r\noperator\r\n$2\r\nop\r\n"
                          b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n")


def kill_the_script(stage):
    stage.hit.call("SCRIPT", "KILL")
    stage.endless.close()


def fail_to_save(stage):
    """A folder stands where the file is to be."""
    (stage.hit.folder / "dump.rdb").mkdir()
    stage.hit.call("CONFIG", "SET", "save", "3600 1")
    stage.hit.call("BGSAVE")
    until(lambda: b"rdb_last_bgsave_status:err" in stage.hit.call("INFO", "persistence"),
          "a save that fails")


def save_again(stage):
    stage.hit.call("CONFIG", "SET", "save", "")
    (stage.hit.folder / "dump.rdb").rmdir()


def change_password(stage, rule):
    stage.hit.call("ACL", "SETUSER", "app", "resetpass", rule)
    stage.hit.call("CLIENT", "KILL", "TYPE", "normal")


def want_password(stage, password):
    stage.hit.call("CONFIG", "SET", "requirepass", password)
    stage.hit.call("CLIENT", "KILL", "TYPE", "normal")


def start_with_much_to_load(stage):
    """A tenth of a second a key. A node that comes back takes no keys for two seconds, and says so
    before it says that it is loading."""
    stage.hit.call("SAVE")
    stage.hit.kill()
    stage.hit.start("--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024")


def wait_until_it_is_well(stage):
    stage.cluster.wait_until_well()


def fail_over(stage):
    replica = stage.cluster.replica_of(stage.hit)
    replica.call("CLUSTER", "FAILOVER")
    until(lambda: stage.owner() is replica, "the planned failover")


def wait_for_the_replica(stage):
    until(lambda: stage.owner() not in (stage.hit, None), "the replica to take over", 30)


FAULTS = {
    "paused": Fault("deadline", provoke=call("CLIENT", "PAUSE", 700), mend=call("PING")),
    "writes that wait": Fault("deadline", "half_open",
                              provoke=call("CLIENT", "PAUSE", 60000, "WRITE"),
                              mend=call("CLIENT", "UNPAUSE")),
    "stopped": Fault("deadline", "half_open", provoke=lambda stage: stage.hit.pause(),
                     mend=lambda stage: stage.hit.resume()),
    "reset": Fault("reset", provoke=call("CLIENT", "KILL", "TYPE", "normal"), is_seen=False),
    "oom": Fault("oom", **config(("maxmemory", "1", "0"))),
    "noreplicas": Fault("noreplicas", **config(("min-replicas-to-write", "3", "0"))),
    "misconf": Fault("misconf", provoke=fail_to_save, mend=save_again),
    "busy": Fault("busy", "deadline", provoke=run_an_endless_script, mend=kill_the_script),
    "noperm": Fault("noperm", store=", user: app, password: pw",
                    provoke=call("ACL", "SETUSER", "app", "-@scripting"),
                    mend=call("ACL", "SETUSER", "app", "+@scripting")),
    "wrongpass": Fault("wrongpass", "reset", store=", user: app, password: pw",
                       provoke=lambda stage: change_password(stage, ">other"),
                       mend=call("ACL", "SETUSER", "app", "resetpass", ">pw")),
    "noauth": Fault("noauth", "reset", provoke=lambda stage: want_password(stage, "secret"),
                    mend=call("CONFIG", "SET", "requirepass", "")),
    "planned failover": Fault("deadline", "reset", "moved", "clusterdown", "readonly",
                              provoke=fail_over, is_seen=False),
    "stopped until its replica takes over": Fault(
        "deadline", "half_open", "refused", "clusterdown", provoke=lambda stage: stage.hit.pause(),
        mend=wait_for_the_replica, afterwards=lambda stage: stage.hit.resume(), loses=True),
    "killed": Fault("refused", "reset", "clusterdown", provoke=lambda stage: stage.hit.kill(),
                    mend=wait_for_the_replica, afterwards=lambda stage: stage.hit.start(),
                    loses=True),
    "restarted": Fault("clusterdown", "loading", "refused", "reset", "deadline", "half_open",
                       provoke=start_with_much_to_load, mend=wait_until_it_is_well, loses=True),
}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.takes(8 if fault.loses else 2.5)) for name, fault in FAULTS.items()])
def test_a_fault_of_one_node_is_missed_on_its_own_slots_alone(start, cluster, seed, name):
    fault = FAULTS[name]
    stage = Stage(start, cluster, seed, f"deadline: {DEADLINE_S * 1000:.0f}ms{fault.store}")
    with stage.flow as flow:
        flow.go_on(0.5)
        replicated = time.monotonic()
        if fault.loses:
            cluster.wait_for_replica_of(stage.hit)
        provoked = time.monotonic()
        fault.provoke(stage)
        if fault.is_seen:
            flow.await_everyone(degraded(fault.names), provoked, within=10, among=HIT)
            flow.await_fault(fault.names[0])  # others, of links that are lost, may come before it
            flow.await_everyone(shared, provoked, within=10, among=SPARED)
            flow.go_on(0.5)
        fault.mend(stage)
        flow.await_sharing(within=(RESUMES_WITHIN_S if fault.loses else 2) + STALL_S)
        fault.afterwards(stage)
        flow.go_on(0.5)
        mended = time.monotonic()
        cluster.wait_until_well()
        flow.await_sharing()
    flow.judge({*fault.names, *STALLED})
    assert fault.names[0] in stage.faults_seen() or not fault.is_seen
    stage.check_spared()
    stage.check_charges((replicated, mended) if fault.loses else None)
    flow.check_counts(cluster)
    for proxy in stage.proxies:
        flow.check_decision_times(proxy, DEADLINE_S)


@pytest.mark.takes(4)
def test_scripts_that_are_flushed_on_all_nodes_are_seen_by_nobody(start, cluster, seed):
    stage = Stage(start, cluster, seed, "deadline: 10s")
    with stage.flow as flow:
        for _ in range(20):
            for node in cluster.current_masters():
                node.call("SCRIPT", "FLUSH")
            flow.go_on(0.1)
    assert flow.judge(set()) == 0
    stage.check_charges()
    flow.check_counts(cluster)


# --- a proxy that dies between two slots ---

N_ASKING = 12
LEASE_S = 1.0


class Asking:
    """A client that asks without pause until the proxy is gone."""

    def __init__(self, proxy, path):
        self.n_admitted = 0
        self.n_others = 0
        self._thread = threading.Thread(target=self._run, args=(proxy, path))
        self._thread.start()

    def _run(self, proxy, path):
        try:
            with proxy.connect() as client:
                while True:
                    is_admitted = client.ask(path=path).status == 204
                    self.n_admitted += is_admitted
                    self.n_others += not is_admitted
        except (OSError, message.Cut):
            pass

    def join(self):
        self._thread.join()


def first_and_second(cluster):
    """A path whose first segment's limits lie on one node, and the second's on another, in a later
    slot: it is charged second."""
    nodes = sorted(cluster.current_masters(), key=lambda node: cluster.slots_of(node)[0][0])
    return nodes[1], f"/{next(names_on(cluster, nodes[0], 1))}/{next(names_on(cluster, nodes[1], 2))}"


def test_a_proxy_that_dies_between_two_slots_has_lost_one_cost_a_request_at_most(start, cluster):
    second, path = first_and_second(cluster)
    text = f"""
        workers: 2
        log: off
        store: {{redis: "{cluster.url}", deadline: 20s, on_failure: deny}}
        limits:
          limit-0: {{key: path.1, algorithm: fixed_window, align: first, rate: 1000000/day}}
          more-0: {{key: path.2, algorithm: fixed_window, align: first, rate: 1000000/day}}
          slots: {{key: path.1, algorithm: concurrency, rate: 64, lease: {LEASE_S:.0f}s}}
        routes: [{{limits: [limit-0, more-0, slots], respond: {{status: 204}}}}]
    """

    def die_in_between():
        """Whether some request was between its slots."""
        cluster.flush()
        proxy = start(text)
        clients = [Asking(proxy, path) for _ in range(N_ASKING)]
        until(lambda: all(client.n_admitted > 5 for client in clients), "traffic", 20)
        second.call("CLIENT", "PAUSE", 60000, "WRITE")
        before = None
        while before != (before := sum(client.n_admitted for client in clients)):
            time.sleep(0.1)  # as long as somebody still gets an answer
        proxy.kill()
        for client in clients:
            client.join()
        second.call("CLIENT", "UNPAUSE")
        admitted = sum(client.n_admitted for client in clients)
        of_first, of_second = charged(cluster, 0), charged(cluster, 0, "more")
        assert admitted <= of_second <= of_first <= admitted + N_ASKING
        assert not any(client.n_others for client in clients)
        for node in cluster.current_masters():
            assert all(node.call("PTTL", key) != -1 for key in node.keys())
        return of_first > of_second

    until(die_in_between, "a request between its slots", 60)
    living = start(text)

    def slots_left():
        told = re.search(r'"slots";r=(\d+)', living.ask(path=path).get("RateLimit") or "")
        return told and int(told.group(1))

    until(lambda: slots_left() == 63, "slots that come back with their lease")
