"""Reads a stream of events with httpx-sse as its users do, for a test.

Arguments: the address of the stream and the number of events to read. Each line of the output is the data of an event as
JSON. Every event has data: scripts call `json()` without a check of it.
"""

import json
import sys

import httpx
from httpx_sse import connect_sse

URL, COUNT = sys.argv[1], int(sys.argv[2])

with httpx.Client(timeout=60) as client, connect_sse(client, "GET", URL) as source:
    for number, event in enumerate(source.iter_sse(), 1):
        print(json.dumps({"event": event.event, "data": event.json(), "retry": event.retry}), flush=True)
        if number == COUNT:
            break
