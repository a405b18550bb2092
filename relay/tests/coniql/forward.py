"""Lets Coniql's own tests run against a relay: a plugin for pytest that puts the relay in Coniql's place.

The tests import two functions of Coniql. Here they lead to the server that the environment names:
`create_app` makes an application that forwards HTTP requests and WebSockets, and `create_schema` makes
an object that sends documents over HTTP and subscribes over a WebSocket.
"""

import asyncio
import json
import os
import urllib.request

import aiohttp
from aiohttp import web
from graphql import SourceLocation, get_introspection_query

import coniql.app

SERVER = os.environ["PVWIRE_CONIQL"]
TRANSPORT = "graphql-transport-ws"


async def forward_socket(request):
    offered = request.headers.get("Sec-WebSocket-Protocol", "")
    protocols = [word.strip() for word in offered.split(",") if word.strip()]
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(SERVER + request.path, protocols=protocols) as there:
            here = web.WebSocketResponse(protocols=[there.protocol] if there.protocol else [])
            await here.prepare(request)

            async def copy(source, target):
                async for message in source:
                    await target.send_str(message.data)
                await target.close()

            await asyncio.gather(copy(here, there), copy(there, here))
            return here


async def forward(request):
    if request.headers.get("Upgrade", "").lower() == "websocket":
        return await forward_socket(request)
    body = await request.read()
    headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
    async with aiohttp.ClientSession() as session:
        url = SERVER + request.path
        sent = session.request(
            request.method, url, params=request.query, data=body, headers=headers
        )
        async with sent as answer:
            return web.Response(
                body=await answer.read(),
                status=answer.status,
                content_type=answer.content_type,
            )


def create_app(*_args):
    app = web.Application()
    for path in ["/ws", "/graphql"]:
        app.router.add_route("*", path, forward)
    return app


class Error:
    def __init__(self, error):
        self.message = error["message"]
        self.path = error.get("path")
        self.locations = [SourceLocation(**place) for place in error.get("locations", [])]


class Result:
    def __init__(self, response):
        self.data = response.get("data")
        errors = response.get("errors")
        self.errors = [Error(error) for error in errors] if errors else None


class Subscription:
    """The results of a subscription; a loop over them may be left and continued."""

    def __init__(self, session, socket):
        self.session = session
        self.socket = socket

    @classmethod
    async def begin(cls, query):
        session = aiohttp.ClientSession()
        socket = await session.ws_connect(SERVER + "/ws", protocols=[TRANSPORT])
        await socket.send_json({"type": "connection_init"})
        assert (await socket.receive_json())["type"] == "connection_ack"
        await socket.send_json({"id": "1", "type": "subscribe", "payload": {"query": query}})
        return cls(session, socket)

    def __aiter__(self):
        return self

    async def __anext__(self):
        message = await self.socket.receive_json()
        if message["type"] == "next":
            return Result(message["payload"])
        await self.socket.close()
        await self.session.close()
        raise StopAsyncIteration


class Schema:
    async def execute(self, query):
        async with aiohttp.ClientSession() as session:
            async with session.post(SERVER + "/graphql", json={"query": query}) as answer:
                return Result(await answer.json())

    async def subscribe(self, query):
        return await Subscription.begin(query)

    def introspect(self):
        body = json.dumps({"query": get_introspection_query()}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(SERVER + "/graphql", body, headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)["data"]


def create_schema(_debug):
    return Schema()


coniql.app.create_app = create_app
coniql.app.create_schema = create_schema
