"""Reloads of a proxy: another policy in its file, and what comes of it."""

import os
import re
import signal
import textwrap

from harness.wait import until

ENDED = re.compile(r"mod=app\.reload msg=(\"the policy is in force\"|\"not reloaded)")


def n_reloads(proxy):
    """Attempts that have ended."""
    return len(ENDED.findall(proxy.stderr()))


def text_of(proxy, policy, listen=None):
    return f"listen: {listen or '127.0.0.1:0'}\n" + textwrap.dedent(policy)


def write(proxy, policy, listen=None):
    """In place of the file, by a rename, as editors do it."""
    path = proxy.folder / "policy.yaml"
    new = proxy.folder / "policy.yaml.new"
    new.write_text(text_of(proxy, policy, listen))
    os.replace(new, path)


def wait_for(proxy, n):
    until(lambda: n_reloads(proxy) >= n, f"reload number {n}\n{proxy.stderr()}", within=30)


def reload(proxy, policy, listen=None):
    """Let the proxy come under `policy`; what it said of it."""
    before, said = n_reloads(proxy), len(proxy.stderr())
    write(proxy, policy, listen)
    proxy.signal(signal.SIGHUP)
    wait_for(proxy, before + 1)
    return proxy.stderr()[said:]
