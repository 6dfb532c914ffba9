"""Cases through one running proxy, one after another."""

from desync import judge
from desync.case import Requests, from_file, from_seed, reduced
from desync.lane import Lane
from harness import log
from harness.program import Sluice
from harness.wait import until


class Session:
    """A proxy in `folder`. `start`: what makes it from a folder and a policy."""

    def __init__(self, folder, start=Sluice):
        self.lane = Lane()
        self.proxy = start(folder, judge.policy(self.lane.url))
        self.statuses = []  # of the cases whose statuses are known, in order
        self.n_cases = 0

    def findings_of(self, case):
        self.n_cases += 1
        try:
            found = case.run(self.lane, self.proxy.address)
        except TimeoutError as timeout:
            return [str(timeout)]
        if isinstance(case, Requests):
            found, statuses = found
            self.statuses += statuses
        return found

    def first_finding(self, seeds, starts=(), goes_on=lambda: True):
        """(case, findings) of the first of the seeds' cases in which something is found, or None."""
        for seed in seeds:
            if not goes_on():
                return None
            case = from_seed(seed, starts)
            findings = self.findings_of(case)
            if findings:
                return case, findings
        return None

    def reduced(self, case):
        return reduced(case, self.findings_of)

    def check_log(self):
        """Each answer that a client was given stands in the log, in order, and no other does. For a
        session of Requests alone."""
        def logged():
            lines = self.proxy.stdout().split(b"\n")[:-1]
            statuses = [int(log.parse(line, "logfmt")["status"]) for line in lines]
            return [status for status in statuses if status != 0]

        until(lambda: len(logged()) >= len(self.statuses), "the access log")
        assert logged() == self.statuses

    def close(self):
        self.proxy.stop()
        self.lane.close()


def known_cases(folder):
    """Those that are kept, each with its file."""
    return {path: from_file(path) for path in sorted(folder.glob("*.json"))}
