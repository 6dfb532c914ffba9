"""What stands around the proxies where they move no bodies: a plain upstream and a Redis."""

import pathlib

from stage import free_port, render

PEERS = pathlib.Path(__file__).parent.parent / "peers"


def start_upstream(stage, cores=None):
    port = free_port()
    config = stage.write("upstream.conf", render(PEERS / "plain.conf", dir=stage.dir, port=port))
    return stage.start("upstream", ["nginx", "-e", stage.dir / "upstream.err", "-c", config], port,
                       cores=cores)


def start_redis(stage, cores=None):
    port = free_port()
    config = stage.write("redis.conf", render(PEERS / "redis.conf", dir=stage.dir, port=port))
    return stage.start("redis", ["redis-server", config], port, cores=cores)
