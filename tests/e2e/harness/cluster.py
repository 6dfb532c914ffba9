"""A cluster of one's own: masters with a replica each, on ports of the loopback address."""

from harness import redis_tls
from harness.ports import free_port
from harness.redis import Redis
from harness.wait import until

N_SLOTS = 16384
NODE_TIMEOUT_MS = 1000
NEVER_MS = 30_000  # nobody could take over from a node that was given up while it stalled
SETTLED_WITHIN_S = 30.0


class Cluster:
    """The nodes are Redis, the masters first; replica i belongs to master i at the start."""

    def __init__(self, folder, n_masters=3, n_replicas=3, *options, tls=()):
        folder.mkdir()
        tls = tls or redis_tls.files()
        self.n_masters = n_masters
        timeout_ms = NODE_TIMEOUT_MS if n_replicas > 0 else NEVER_MS
        self.nodes = [self._make_node(folder / f"node-{i}", timeout_ms,
                                      [*options, *self._tls(tls)])
                      for i in range(n_masters + n_replicas)]
        self.masters = self.nodes[:n_masters]
        self.replicas = self.nodes[n_masters:]
        scheme = "rediss" if tls else "redis"
        addresses = [f"127.0.0.1:{node.announced_port}" for node in self.nodes]
        self.url = f"{scheme}://{','.join(addresses)}"
        self.urls = [f"{scheme}://{address}" for address in addresses]  # of each node

    @staticmethod
    def _tls(options):
        if not options:
            return []
        return ["--tls-cluster", "yes", "--tls-replication", "yes", "--tls-port", str(free_port()), *options]

    @staticmethod
    def _make_node(folder, timeout_ms, options):
        return Redis(folder, "--cluster-enabled", "yes", "--cluster-port", str(free_port()),
                     "--cluster-node-timeout", str(timeout_ms),
                     "--cluster-allow-replica-migration", "no",
                     "--cluster-replica-validity-factor", "0",
                     "--repl-diskless-sync-delay", "0", *options)

    def start(self):
        for node in self.nodes:
            node.start()
        first = self.nodes[0]
        bus_port = first.options[first.options.index("--cluster-port") + 1]
        for i, node in enumerate(self.nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            if i < self.n_masters:
                node.call("CLUSTER", "ADDSLOTSRANGE", N_SLOTS * i // self.n_masters,
                          N_SLOTS * (i + 1) // self.n_masters - 1)
            if i > 0:
                node.call("CLUSTER", "MEET", "127.0.0.1", first.announced_port, bus_port)
        until(lambda: all(self.info(node)["cluster_known_nodes"] == str(len(self.nodes))
                          for node in self.nodes), "the nodes to meet", SETTLED_WITHIN_S)
        for master, replica in zip(self.masters, self.replicas):
            replica.call("CLUSTER", "REPLICATE", self.id_of(master))
        self.wait_until_well()
        return self

    # --- what it says ---

    @staticmethod
    def info(node):
        lines = node.call("CLUSTER", "INFO").decode().split()
        return dict(line.split(":", 1) for line in lines)

    @staticmethod
    def id_of(node):
        return node.call("CLUSTER", "MYID").decode()

    @staticmethod
    def slot_of(key):
        """By the cluster specification: CRC16 (XMODEM) of the tag."""
        tag = key[key.index("{") + 1:key.index("}")].encode()
        crc = 0
        for byte in tag:
            crc ^= byte << 8
            for _ in range(8):
                crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
        return crc % N_SLOTS

    def running(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def owner_of(self, slot, asked=None):
        """Who owns it, as a running node says; None: nobody, or one that is not running."""
        for first, last, (_, port, *_), *_ in (asked or self.running()[0]).call("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next((node for node in self.running() if node.port == port), None)
        return None

    def slots_of(self, node):
        """The ranges that it owns, first and last, as it says itself."""
        return [(first, last) for first, last, (_, port, *_), *_ in node.call("CLUSTER", "SLOTS")
                if port == node.port]

    def is_well(self):
        """All running nodes see all slots served, and each replica follows its master."""
        def follows(node):
            words = node.call("INFO", "replication").decode()
            return "role:master" in words or "master_link_status:up" in words

        return all(self.info(node)["cluster_state"] == "ok" and
                   self.info(node)["cluster_slots_ok"] == str(N_SLOTS) and follows(node)
                   for node in self.running())

    def wait_until_well(self):
        until(self.is_well, "the cluster to be well", SETTLED_WITHIN_S)

    def current_masters(self):
        return [node for node in self.running()
                if b"role:master" in node.call("INFO", "replication")]

    def replica_of(self, master):
        wanted = b"master_port:%d\r" % master.announced_port
        return next(node for node in self.running()
                    if wanted in node.call("INFO", "replication"))

    def wait_for_replica_of(self, master):
        """Until its replica has all that it has now."""
        def offset(node, name):
            words = node.call("INFO", "replication").decode().split()
            return int(next(word for word in words if word.startswith(name)).partition(":")[2])

        replica = self.replica_of(master)
        wanted = offset(master, "master_repl_offset:")
        until(lambda: offset(replica, "slave_repl_offset:") >= wanted, "the replica")

    def keys(self, pattern="*{*}*"):
        """Those that count somebody: with a tag."""
        return [key for node in self.current_masters() for key in node.call("KEYS", pattern)]

    def get(self, key):
        return self.owner_of(self.slot_of(key.decode())).call("GET", key)

    def flush(self):
        for node in self.current_masters():
            node.call("FLUSHALL")

    # --- what is done to it ---

    def begin_move(self, slot, target):
        source = self.owner_of(slot)
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    @staticmethod
    def move_keys(slot, source, target):
        keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, 100)
        for key in keys:
            source.call("MIGRATE", "127.0.0.1", target.announced_port, key, 0, 5000)

    def end_move(self, slot, source, target):
        """The target first, as the specification says; the others hear of it."""
        for node in (target, source):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def stop(self):
        for node in self.nodes:
            node.stop()
