"""Waiting for what will happen, never for time to pass."""

import time

POLL_S = 0.005


def until(condition, what, within=10.0):
    """The first true value of condition(); a failure that says `what` if none comes in time. Whoever
    takes longer than that to look looks twice: what came meanwhile came in time."""
    deadline = time.monotonic() + within
    while True:
        looked_at = time.monotonic()
        value = condition()
        if value:
            return value
        assert looked_at < deadline, f"waited {within} s for {what}"
        time.sleep(POLL_S)


def rest_of_window(period_s, at_least_s):
    """Return when a clock-aligned window of period_s has at_least_s left, or has just begun."""
    left = period_s - time.time() % period_s
    if left < at_least_s:
        time.sleep(left + 0.05)
