"""What else the machine did meanwhile: its processor time, minus that of this program and of all that it started."""

import os
import resource

MUCH = 0.05  # of the machine's processor time: figures tell of that
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def _machine():
    with open("/proc/stat", encoding="ascii") as file:
        numbers = file.readline().split()[1:1 + len(FIELDS)]
    return {name: int(number) / TICKS_A_SECOND for name, number in zip(FIELDS, numbers)}


def own_s():
    """Of this process and of all that it has started and seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _working(machine):
    """The names of what is work, as the kernel accounts for it. Where it takes the time of interrupts, it leaves it out
    of that of the process they meet, and whose packets they carried is not known. Where it does not, `irq` is 0."""
    work = ("user", "nice", "system")
    return work if machine["irq"] else (*work, "softirq")


class Watch:
    """From now on. What this program starts must have ended when it is asked."""

    def __init__(self):
        self.machine, self.own_s = _machine(), own_s()

    def told(self):
        """Parts of the machine's processor time, 0 to 1: what others took, and what the host of this machine did."""
        now = _machine()
        spent = {name: now[name] - self.machine[name] for name in FIELDS}
        total = sum(spent.values())
        if total <= 0:
            return {"others": 0.0, "stolen": 0.0}
        others = sum(spent[name] for name in _working(now)) - (own_s() - self.own_s)
        return {"others": max(0.0, others / total), "stolen": spent["steal"] / total}
