"""WebSockets by a library of the system (python3-websockets): a server of its own, and clients."""

import asyncio
import contextlib
import signal
import subprocess
import sys

import websockets

# Any test that waits so long has failed.
TIMEOUT_S = 300.0

SERVER = """
import asyncio, ssl, sys, websockets

secure = None
if len(sys.argv) > 1:
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(*sys.argv[1:])

async def echo(websocket):
    # Newer releases of the library say it of the request.
    path = websocket.path if hasattr(websocket, "path") else websocket.request.path
    if path == "/greet":
        await websocket.send("welcome")
    async for message in websocket:
        await websocket.send(message)

async def main():
    async with websockets.serve(echo, "127.0.0.1", 0, ping_interval=None, max_size=None,
                                compression=None, backlog=1024, ssl=secure) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()

asyncio.run(main())
"""


class EchoServer:
    """Sends every message back, over TLS with `pair`, a certificate and its key. A process, so that it can be killed."""

    def __init__(self, pair=()):
        self.process = subprocess.Popen([sys.executable, "-B", "-c", SERVER, *pair],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.port = int(self.process.stdout.readline())
        self.url = f"{'https' if pair else 'http'}://127.0.0.1:{self.port}"

    def kill(self):
        """As if its machine had lost the process: nobody is told anything by it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.kill()
        self.process.stdout.close()


def connect(proxy, path="/", **how):
    """A client of the proxy, to be used in `run`."""
    return websockets.connect(f"ws://127.0.0.1:{proxy.port}{path}", ping_interval=None,
                              max_size=None, compression=None, open_timeout=TIMEOUT_S, close_timeout=TIMEOUT_S,
                              **how)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, TIMEOUT_S))


@contextlib.asynccontextmanager
async def many(proxy, n, path="/"):
    """n connections, open at once."""
    async with contextlib.AsyncExitStack() as stack:
        sockets = []
        for _ in range(0, n, 50):  # no more at once than a backlog holds
            sockets += await asyncio.gather(*[
                stack.enter_async_context(connect(proxy, path)) for _ in range(50)])
        yield sockets
