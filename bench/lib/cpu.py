"""CPU time and memory of processes, as the kernel accounts for them."""

import os


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def tree(pid):
    """@pid and all its descendants."""
    pids = [pid]
    for pid in pids:
        pids.extend(_children(pid))
    return pids


def cpu_ns(pid):
    """User and system time of all threads of @pid and of its descendants, in nanoseconds.

    The first number of schedstat is what the scheduler itself adds up: no clock ticks, no sampling.
    """
    total = 0
    for process in tree(pid):
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
    return total


def rss_bytes(pid):
    """Resident memory now, exact: the counters in status are batched per core."""
    return _kib(f"/proc/{pid}/smaps_rollup", "Rss:") * 1024


def reset_peak_rss(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def peak_rss_bytes(pid):
    """The most resident memory since reset_peak_rss()."""
    return _kib(f"/proc/{pid}/status", "VmHWM:") * 1024


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def _kib(path, name):
    with open(path) as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1])
    raise KeyError(f"{path} has no {name}")
