"""Clients that connect, ask once and go, as fast as they can, and what became of each connection."""

import collections
import multiprocessing
import socket
import threading
import time

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
TIMEOUT_S = 20.0
REFUSED_PAUSE_S = 0.0005  # nobody listens: do not take the processor from those that somebody answers
LOST_TOLD_MAX = 5


def _connect(address, source):
    """A connection, or None: nobody listens there."""
    is_unix = isinstance(address, str)
    sock = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
    try:
        sock.settimeout(TIMEOUT_S)
        if not is_unix:
            sock.bind((source, 0))
        sock.connect(address)
        return sock
    except OSError:
        sock.close()
        return None


def _ask(sock):
    """None, or what was lost: whoever could connect is answered."""
    try:
        with sock:
            sock.sendall(REQUEST)
            got = sock.recv(4096)
            return None if got.startswith(b"HTTP/1.1 200 ") else repr(got[:40])
    except OSError as error:
        return repr(error)


def _call(address, source, ends, found):
    while not ends.is_set():
        sock = _connect(address, source)
        if sock is None:
            found["refused"] += 1
            time.sleep(REFUSED_PAUSE_S)
            continue
        lost = _ask(sock)
        found["lost" if lost else "answered"] += 1
        if lost and len(found["told"]) < LOST_TOLD_MAX:
            found["told"] += [lost]


def _run(address, source, n_threads, ends, tell):
    found = [collections.defaultdict(int, told=[]) for _ in range(n_threads)]
    threads = [threading.Thread(target=_call, args=(address, source, ends, one)) for one in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell.send({what: sum((one[what] for one in found), [] if what == "told" else 0)
               for what in ("answered", "refused", "lost", "told")})


class Callers:
    """Some processes of them, each with an address of its own, so that there are ports enough."""

    def __init__(self, address, n_processes=2, n_threads=8):
        context = multiprocessing.get_context("fork")
        self.ends = context.Event()
        self.running = []
        for i in range(n_processes):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(address, f"127.0.1.{i + 1}", n_threads, self.ends, theirs),
                                      daemon=True)
            process.start()
            self.running.append((process, mine))

    def end(self):
        """How many connections were answered, refused and lost, and what was lost (`told`)."""
        self.ends.set()
        found = collections.defaultdict(int, told=[])
        for process, pipe in self.running:
            for what, n in pipe.recv().items():
                found[what] += n
            process.join()
        return found
