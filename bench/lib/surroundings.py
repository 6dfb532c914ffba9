"""The upstream that all rows of bench/run share, with its bodies and uploads."""

from proxies import NGINX_MODULES, PEERS
from rows import KIB, MIB
from stage import free_port, render

BODIES = {"64k": 64 * KIB, "10m": 10 * MIB}


def start_upstream(stage, cores=None):
    port = free_port()
    (stage.dir / "bodies").mkdir()
    for name, size in BODIES.items():
        stage.write(f"bodies/{name}", "x" * size)
    config = stage.write("upstream.conf", render(PEERS / "upstream.conf", dir=stage.dir, port=port,
                                                 modules=NGINX_MODULES))
    return stage.start("upstream", ["nginx", "-e", stage.dir / "upstream.err", "-c", config], port,
                       cores=cores)
