"""python3-websockets as a peer of sluice.

  websocket.py server            echoes; prints its port, ends with its standard input
  websocket.py client URL COUNT  sends so many messages of each kind, prints what came back
"""
import asyncio
import json
import sys

import websockets


async def echo(socket, *_):
    try:
        async for message in socket:
            await socket.send(message)
    except websockets.ConnectionClosed:
        pass  # with another code than 1000


async def serve():
    async with websockets.serve(echo, "127.0.0.1", 0, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def ask(url, count):
    async with websockets.connect(url, max_size=None) as socket:
        sent = []
        for i in range(count):
            sent += [f"blåbær {i} " * (1 + i * 37 % 500), bytes([i % 256]) * (i * 997 % 70000)]

        async def send():
            for message in sent:
                # Some of them in fragments, as websockets does with what it is given piece by piece.
                await socket.send([message[:7], message[7:]] if len(message) % 3 == 0 else message)
        sending = asyncio.ensure_future(send())
        came = [await socket.recv() for _ in sent]
        await sending
        pong = await socket.ping(b"alive")
        await asyncio.wait_for(pong, 30)
        await socket.close(4000, "done")
    agreed = socket.extensions if hasattr(socket, "extensions") else socket.protocol.extensions  # since its version 14
    print(json.dumps({"same": came == sent, "messages": len(came), "code": socket.close_code,
                      "extensions": ", ".join(e.name for e in agreed)}))


if sys.argv[1] == "server":
    asyncio.run(serve())
else:
    asyncio.run(ask(sys.argv[2], int(sys.argv[3])))
