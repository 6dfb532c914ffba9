"""h2load, the generator of load by HTTP/2, run and understood."""

import re
import subprocess
import tempfile

from stage import StageError

RESULT = re.compile(r"requests: (\d+) total, .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout")
STATUSES = re.compile(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx")


def load(port, load, connections, seconds, pin=None):
    """Loads what listens on @port with @load.streams requests at a time on each connection; gives what wrk would."""
    with tempfile.NamedTemporaryFile("r") as log:
        argv = ["h2load", "-t", "1", "-c", str(connections), "-m", str(load.streams), "--duration", str(seconds),
                f"--log-file={log.name}", f"https://127.0.0.1:{port}{load.path}"]
        ended = subprocess.run(argv, capture_output=True, text=True, preexec_fn=pin)
        took = sorted(int(line.split("\t")[2]) for line in log)
    result, statuses = RESULT.search(ended.stdout), STATUSES.search(ended.stdout)
    if ended.returncode != 0 or not result or "Application protocol: h2" not in ended.stdout or not took:
        raise StageError(f"h2load ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
    ok, redirected, *wrong = map(int, statuses.groups())
    return {"requests": ok + redirected + sum(wrong), "duration_us": seconds * 1e6, "bytes": 0,
            "p50_us": took[len(took) // 2], "p99_us": took[len(took) * 99 // 100],
            "not_ok": sum(wrong), "socket_errors": int(result[4]), "timeouts": int(result[5])}
