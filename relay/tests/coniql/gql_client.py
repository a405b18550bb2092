"""Runs the Python library gql as its users do, for a test.

Arguments: the relay's host and port, and a PV that may be written. The client subscribes the PV over the library's default
WebSocket transport, writes it, waits for the new value and reads it. The output is one line of JSON with what it saw.
"""

import asyncio
import json
import sys

from gql import Client, gql
from gql.transport.httpx import HTTPXAsyncTransport
from gql.transport.websockets import WebsocketsTransport

HOST, PV = sys.argv[1:]
FIELDS = "{ id value { float string(units: true) } status { quality } }"
SUBSCRIPTION = f"subscription ($id: ID!) {{ subscribeChannel(id: $id) {FIELDS} }}"
MUTATION = f"mutation ($ids: [ID!]!, $values: [String!]!) {{ putChannels(ids: $ids, values: $values) {FIELDS} }}"
QUERY = f"query ($id: ID!) {{ getChannel(id: $id) {FIELDS} }}"


def document(text, **variables):
    request = gql(text)
    request.variable_values = variables
    return request


async def main():
    seen = {}
    follower = Client(transport=WebsocketsTransport(url=f"ws://{HOST}/ws"))
    # The library reads the schema by introspection, and checks documents with it.
    writer = Client(transport=WebsocketsTransport(url=f"ws://{HOST}/ws"), fetch_schema_from_transport=True)
    reader = Client(transport=HTTPXAsyncTransport(url=f"http://{HOST}/graphql"), fetch_schema_from_transport=True)
    async with follower as following, writer as writing, reader as reading:
        seen["subprotocol"] = follower.transport.subprotocol
        async for result in following.subscribe(document(SUBSCRIPTION, id=PV)):
            channel = result["subscribeChannel"]
            value = channel["value"]
            if value is None:
                continue
            if "first" not in seen:
                seen["first"] = channel
                written = await writing.execute(document(MUTATION, ids=[PV], values=["7.5"]))
                seen["written"] = written["putChannels"][0]
            elif value["float"] == 7.5:
                seen["next"] = value
                break
        read = await reading.execute(document(QUERY, id=PV))
        seen["read"] = read["getChannel"]
    print(json.dumps(seen))


asyncio.run(asyncio.wait_for(main(), 60))
