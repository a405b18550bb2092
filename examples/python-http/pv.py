"""Reads, writes or follows a PV over HTTP: `pv.py RELAY get|put|follow NAME [VALUE]`."""

import json
import sys
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

SELECTION = "{ value { string(units: true) } status { severity } connection { state reason unresponsive } }"


def text_of(pv):
    """A value is current only while its PV is connected and its server answers."""
    connection = pv["connection"]
    text = pv["value"]["string"] if pv["value"] else "–"
    if connection["state"] != "connected":
        return f"{text} ({connection['state']} {connection['reason'] or ''})"
    return f"{text} {'(no response)' if connection['unresponsive'] else pv['status']['severity']}"


def main(relay, action, name, value=None):
    url = f"{relay}/pv/{quote(name, safe='')}"
    select = "?" + urlencode({"select": SELECTION})
    if action == "get":
        with urlopen(url + select) as answer:
            print(text_of(json.load(answer)))
    elif action == "put":
        body = json.dumps({"value": value}).encode()
        with urlopen(Request(url, body, {"Content-Type": "application/json"}, method="PUT")) as answer:
            print(json.load(answer).get("message", "written"))
    else:
        with urlopen(f"{url}/stream{select}") as events:
            event = "message"
            for line in events:
                field, _, content = line.decode().rstrip("\r\n").partition(": ")
                if field == "event":
                    event = content
                elif field == "data" and event == "message":
                    print(text_of(json.loads(content)), flush=True)
                elif field == "":
                    event = "message"


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except HTTPError as error:
        sys.exit(f"{error.code}: {json.load(error)['error']}")
