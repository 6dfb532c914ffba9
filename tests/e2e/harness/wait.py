"""Waiting for what will happen, never for time to pass."""

import select
import threading
import time

POLL_S = 0.005
LONGEST_POLL_S = 0.05


def _rest(waited_s, poll_s=POLL_S):
    """Before the next look. What has not come for long is looked for less often: a look costs, as a rule a request."""
    time.sleep(min(max(poll_s, waited_s / 40), LONGEST_POLL_S))


def until(condition, what, within=30.0, poll_s=POLL_S):
    """The first true value of condition(); a failure that says `what` if none comes in time. Whoever
    takes longer than that to look looks twice: what came meanwhile came in time."""
    started = time.monotonic()
    while True:
        looked_at = time.monotonic()
        value = condition()
        if value:
            return value
        assert looked_at - started < within, f"waited {within} s for {what}"
        _rest(looked_at - started, poll_s)


def is_readable(sock, within_s):
    """Whether bytes or the end come in that time. poll(): select() takes no descriptor above 1023."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def rest_of_window(period_s, at_least_s):
    """Return when a clock-aligned window of period_s has at_least_s left, or has just begun."""
    left = period_s - time.time() % period_s
    if left < at_least_s:
        time.sleep(left + 0.05)


class Stalls:
    """From `with` to its end: `total_s` is how long, in all, this machine let somebody wait who wanted to
    run. What has to be done in a time has that more of it."""

    LOOK_S = 0.005
    NOTED_S = 0.05  # less is the scheduler's, not a stall

    def __init__(self):
        self.total_s = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self._is_over.is_set():
            started = time.monotonic()
            self._is_over.wait(self.LOOK_S)
            late_s = time.monotonic() - started - self.LOOK_S
            if late_s > self.NOTED_S:
                self.total_s += late_s

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()


def soon(condition, what, within):
    """The first true value of condition(), that comes in a time that matters: beside it, this machine may have
    let somebody wait for as long as it did."""
    with Stalls() as stalls:
        started = time.monotonic()

        def is_late():
            return time.monotonic() - started > within + stalls.total_s

        while True:
            was_late = is_late()
            value = condition()
            if value:
                return value
            if was_late:
                time.sleep(2 * stalls.NOTED_S)  # a stall is known of when it is over
                assert not is_late(), f"waited {within} s, and {stalls.total_s:.1f} s of stalls, for {what}"
            _rest(time.monotonic() - started)


def holds_unless_it_stalls(trial, allowed_s):
    """trial() is true, at the latest when this machine lets nobody wait for longer than allowed_s in all."""
    def has_held():
        with Stalls() as stalls:
            holds = trial()
        assert holds or stalls.total_s > allowed_s
        return holds

    until(has_held, "a machine that does not stall", within=60)
