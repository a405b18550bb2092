"""A Portable Channel Access Server (PCAS, by pcaspy), the server inside every Channel Access gateway.

    pcas_server.py PREFIX

It listens where EPICS's variables say. Each line of standard input, `NAME JSON`, posts a value of a PV of the
prefix. `reads` counts how often clients have read `slow`. The program prints "running" to standard error and
ends when its standard input ends.
"""

import json
import os
import sys
import threading

from pcaspy import Driver, SimpleServer

RECORDS = {
    "number": {"prec": 2, "unit": "mA", "value": 1.5, "hihi": 9, "high": 8, "low": 2, "lolo": 1, "hilim": 10},
    "still": {"type": "int", "value": 7},
    "text": {"type": "string", "value": "abc"},
    "char_text": {"type": "char", "count": 256, "value": "a text of many characters"},
    "choice": {"type": "enum", "enums": ["Closed", "Open"], "states": [0, 2], "value": 1},
    "empty": {"count": 10, "value": []},
    "array": {"count": 10, "value": [1.0, 2.0, 3.0]},
    "one": {"count": 1, "value": 4.0},
    "integers": {"type": "int", "count": 10, "value": [1, 2, 3]},
    "strings": {"type": "string", "count": 3, "value": ["a", "bc", ""]},
    "reads": {"type": "int", "value": 0},
    "slow": {"value": 3.0},
    "refused": {"value": 6.0},
    "waits": {"value": 0.0, "asyn": True},
}


class Values(Driver):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def read(self, reason):
        if reason == "slow":
            with self.lock:
                self.setParam("reads", self.getParam("reads") + 1)
                self.updatePVs()
        return self.getParam(reason)

    def write(self, reason, value):
        if reason == "refused":
            return False
        with self.lock:
            self.setParam(reason, value)
            self.updatePVs()
            if reason == "waits":
                self.callbackPV(reason)
        return True

    def post(self, name, value):
        with self.lock:
            if isinstance(value, dict):
                self.setParamStatus(name, value["status"], value["severity"])
            else:
                self.setParam(name, value)
            self.updatePVs()


def follow(values):
    for line in sys.stdin:
        name, value = line.split(None, 1)
        values.post(name, json.loads(value))
    os._exit(0)


def main(prefix):
    server = SimpleServer()
    server.createPV(prefix, RECORDS)
    values = Values()
    threading.Thread(target=follow, args=(values,), daemon=True).start()
    print("running", file=sys.stderr, flush=True)
    while True:
        server.process(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
