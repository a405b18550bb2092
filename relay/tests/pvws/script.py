"""Reads PVs as scripts of facilities do: one WebSocket per PV, and the first update of a PV is its value.

`script.py first URL NAME` prints the value, `script.py follow URL NAME` each value, over all connections.
"""

import asyncio
import json
import sys

import websockets


async def values(socket, name):
    await socket.send(json.dumps({"type": "subscribe", "pvs": [name]}))
    async for message in socket:
        update = json.loads(message)
        if update["type"] == "update" and update["pv"] == name:
            yield update.get("text") or str(update.get("value"))


async def first(url, name):
    async with websockets.connect(url) as socket:
        async for value in values(socket, name):
            return value


async def follow(url, name):
    # The library's own way to connect again.
    async for socket in websockets.connect(url):
        try:
            async for value in values(socket, name):
                print(value, flush=True)
        except websockets.ConnectionClosed:
            pass


if __name__ == "__main__":
    how, url, name = sys.argv[1:]
    if how == "first":
        print(asyncio.run(first(url, name)), flush=True)
    else:
        asyncio.run(follow(url, name))
