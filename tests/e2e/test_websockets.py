"""WebSockets, spoken by a library that knows nothing of the proxy."""

import asyncio
import os

import pytest
import websockets

from harness import message, websocket
from harness.tunnel import ASK, policy, slots_taken, wait_for_slots_taken
from harness.upstream import answer

# ASan keeps freed memory aside; what is gathered would still be far above this.
GROWTH_BYTES_MAX = 24 << 20


@pytest.fixture(name="echo")
def echo_server():
    server = websocket.EchoServer()
    yield server
    server.stop()


def test_10000_messages_are_echoed_through_the_proxy(start, echo):
    proxy = start(policy(echo))
    sizes = [0, 1, 125, 126, 4000, 65535, 65536, 100000]
    messages = [os.urandom(sizes[i % 1000]) if i % 1000 < len(sizes) else f"message {i}"
                for i in range(10000)]

    async def send(socket):
        for text in messages:
            await socket.send(text)

    async def talk():
        async with websocket.connect(proxy) as socket:
            sending = asyncio.create_task(send(socket))
            for text in messages:
                assert await socket.recv() == text
            await sending

    websocket.run(talk())
    line = proxy.log_lines(1)[0]
    assert line["status"] == "101" and "fault" not in line


def test_a_message_that_the_server_sends_first_arrives(start, echo):
    proxy = start(policy(echo))

    async def talk():
        async with websocket.connect(proxy, "/greet") as socket:
            assert await socket.recv() == "welcome"

    websocket.run(talk())


def test_a_websocket_holds_its_slot_until_it_is_closed(start, echo):
    proxy = start(policy(echo))

    async def talk():
        async with websocket.connect(proxy) as socket:
            await socket.send("x")
            assert await socket.recv() == "x"
            assert await asyncio.to_thread(slots_taken, proxy) == 1

    websocket.run(talk())
    wait_for_slots_taken(proxy, 0)


def test_a_server_that_is_killed_in_mid_tunnel_ends_it(start, echo):
    proxy = start(policy(echo))

    async def talk():
        async with websocket.connect(proxy) as socket:
            await socket.send("x" * 100000)
            await socket.recv()
            echo.kill()
            with pytest.raises(websockets.ConnectionClosedError):
                await socket.recv()

    websocket.run(talk())
    wait_for_slots_taken(proxy, 0)
    assert proxy.ask(path="/gone", fields=ASK).status == 502


def test_a_client_that_is_killed_in_mid_tunnel_ends_it(start, echo):
    proxy = start(policy(echo))
    for leave in ("close", "reset"):
        client = proxy.send(message.request("GET", "/", {**ASK, "Sec-WebSocket-Key":
                                                         "AAAAAAAAAAAAAAAAAAAAAA=="}))
        assert client.read().status == 101
        assert slots_taken(proxy) == 1
        getattr(client, leave)()
        wait_for_slots_taken(proxy, 0)


def test_1000_tunnels_at_once_do_not_grow_with_what_passes_through_them(start, echo):
    proxy = start(policy(echo))

    async def rounds(sockets, n):
        for _ in range(n):
            text = "x" * 2000
            await asyncio.gather(*[socket.send(text) for socket in sockets])
            assert set(await asyncio.gather(*[socket.recv() for socket in sockets])) == {text}

    async def talk():
        async with websocket.many(proxy, 1000) as sockets:
            await rounds(sockets, 1)
            before = proxy.memory_bytes()
            await rounds(sockets, 4)
            assert proxy.memory_bytes() - before < GROWTH_BYTES_MAX

    websocket.run(talk())
    wait_for_slots_taken(proxy, 0)


def test_a_login_that_is_refused_is_no_tunnel(start, start_upstream):
    proxy = start(policy(start_upstream(answer=answer("401 Unauthorized"))))

    async def talk():
        async with websocket.connect(proxy):
            pass

    with pytest.raises(websockets.InvalidHandshake):
        websocket.run(talk())
    assert proxy.ask().status == 401
