"""A pvAccess server whose PVs take two values at once, in any form.

Usage: form_server.py PREFIX. Serves until it is killed. A put of "PV FIRST SECOND" to `pair` posts two
of the values in FORMS, by index, to a PV, one directly after the other. Each has its own time stamp and
alarm: whole seconds counted up by one from 1,700,000,000, and the index modulo 4 as severity.
"""

import sys
import threading

import numpy
from p4p import Type, Value
from p4p.nt import NTScalar
from p4p.server import Server, StaticProvider
from p4p.server.raw import SharedPV

ALARM = ("alarm", ("S", "alarm_t", [("severity", "i"), ("status", "i"), ("message", "s")]))
STAMP = (
    "timeStamp",
    ("S", "time_t", [("secondsPastEpoch", "l"), ("nanoseconds", "i"), ("userTag", "i")]),
)
ANY = Type([("value", "v"), ALARM, STAMP], id="any:1.0")
POINT = Type([("x", "d"), ("y", "d")], id="point_t")

FORMS = [
    1.5,
    10,
    2**53 + 1,
    "text",
    numpy.array([1.0, 2.5]),
    numpy.arange(4000, dtype="d"),
    ["a", "b"],
    Value(POINT, {"x": 8, "y": 9}),
    -(2**53) - 3,
]


class Pair:
    """Takes the puts that post pairs."""

    def __init__(self, served):
        self.served = served
        self.seconds = 1_700_000_000

    def put(self, pv, op):
        name, *forms = op.value().value.split()
        for form in forms:
            self.post(self.served[name], int(form))
        op.done()

    def post(self, served, form):
        self.seconds += 1
        alarm = {"severity": form % 4, "status": 1, "message": f"form {form}"}
        stamp = {"secondsPastEpoch": self.seconds}
        now = {"value": FORMS[form], "alarm": alarm, "timeStamp": stamp}
        served.post(Value(served.current().type(), now))


def main():
    served = {
        "any": SharedPV(initial=Value(ANY, {"value": 0.5})),
        "long": SharedPV(initial=Value(NTScalar.buildType("l"), {"value": 0})),
    }
    text = Value(NTScalar.buildType("s"), {"value": ""})
    served["pair"] = SharedPV(Pair(dict(served)), initial=text)
    provider = StaticProvider("forms")
    for name, pv in served.items():
        provider.add(sys.argv[1] + name, pv)
    with Server(providers=[provider]):
        print("running", file=sys.stderr, flush=True)
        threading.Event().wait()


main()
