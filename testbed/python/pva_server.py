"""A pvAccess server with the structures, procedures and slow or refused puts that the tests need.

Usage: pva_server.py PREFIX. Serves until it is killed. A put to `step` changes values,
a put to `retype` changes a type. A line with the name of a shape serves `shaped` again with this shape.
"""

import sys
import threading

import numpy
from p4p import Type, Value
from p4p.nt import NTEnum, NTMultiChannel, NTNDArray, NTScalar, NTTable
from p4p.server import Server, StaticProvider
from p4p.server.raw import SharedPV

ALARM = ("alarm", ("S", "alarm_t", [("severity", "i"), ("status", "i"), ("message", "s")]))
STAMP = (
    "timeStamp",
    ("S", "time_t", [("secondsPastEpoch", "l"), ("nanoseconds", "i"), ("userTag", "i")]),
)
POINT = Type([("x", "d"), ("y", "d")], id="point_t")

TABLE = NTTable.buildType([("position", "ad"), ("name", "as")])
UNION = Type([("value", ("U", "either_t", [("number", "d"), ("text", "s")])), ALARM], id="one_of:1.0")
VARIANT = Type([("value", "v"), ("list", "av")], id="any:1.0")
POINTS = Type([("value", ("aS", "point_t", [("x", "d"), ("y", "d")])), STAMP], id="points:1.0")
SCALARS = Type(
    [
        ("flag", "?"),
        ("byte", "b"),
        ("ubyte", "B"),
        ("uint", "I"),
        ("long", "l"),
        ("ulong", "L"),
        ("float", "f"),
        ("flags", "a?"),
        ("floats", "af"),
        ("names", "as"),
        ("none", "ad"),
    ],
    id="scalars:1.0",
)
CHANNELS = NTMultiChannel.buildType("av")
NAME_VALUE = Type(
    [("name", "as"), ("value", "ad"), ("descriptor", "s"), ALARM, STAMP],
    id="epics:nt/NTNameValue:1.0",
)
# Fields of every kind. One of them has a separate alarm and time stamp.
SITE = Type(
    [
        ("gap", ("S", None, [("value", "d"), ("offset", "f"), ALARM, STAMP,
                             ("display", ("S", None, [("units", "s"), ("precision", "i")]))])),
        ("current", ("S", "epics:nt/NTScalar:1.0", [("value", "i"), ALARM])),
        ("mode", ("S", "enum_t", [("index", "i"), ("choices", "as")])),
        ("either", ("U", "either_t", [("number", "d"), ("text", "s")])),
        ("points", ("aS", "point_t", [("x", "d"), ("y", "d")])),
        ("flag", "?"),
        ("long", "l"),
        ("label", "s"),
        ("levels", "ad"),
        ALARM,
        STAMP,
    ],
    id="site:1.0",
)
SITE_NOW = {
    "gap": {
        "value": 2.5,
        "offset": 0.1,
        "alarm": {"severity": 2, "status": 1, "message": "HIHI"},
        "timeStamp": {"secondsPastEpoch": 1_700_000_001, "nanoseconds": 5, "userTag": 9},
        "display": {"units": "mm", "precision": 3},
    },
    "current": {"value": 300, "alarm": {"severity": 1, "status": 2, "message": "worn"}},
    "mode": {"index": 1, "choices": ["off", "on"]},
    "either": ("number", 2.5),
    "points": [{"x": 1, "y": 2}, {"x": 3, "y": 4}],
    "flag": True,
    "long": 9_007_199_254_740_993,
    "label": "ready",
    "levels": [0.5, 1.5],
    "timeStamp": {"secondsPastEpoch": 1_700_000_000, "nanoseconds": 7, "userTag": 3},
}
BARE = Type([("value", "d")], id="epics:nt/NTScalar:1.0")
TEXT = NTScalar.buildType("ab", display=True, form=True)
UNSET = NTScalar.buildType("d", display=True, form=True)
ODD_ALARM = Type(
    [("value", "d"), ALARM, ("part", ("S", None, [("value", "d"), ALARM]))],
    id="epics:nt/NTScalar:1.0",
)

WITH_UNITS = NTScalar.buildType("d", display=True)

# Shapes that `shaped` has one after the other: each lacks something that another one has.
DISPLAY = ("display", ("S", None, [("units", "s"), ("precision", "i"), ("limitLow", "d")]))
SCALAR = "epics:nt/NTScalar:1.0"
ARRAY = "epics:nt/NTScalarArray:1.0"
ENUM = ("value", ("S", "enum_t", [("index", "i"), ("choices", "as")]))
SHAPES = {
    "full": (Type([("value", "d"), ALARM, STAMP, DISPLAY], id=SCALAR), 1.25),
    "timeless": (Type([("value", "d"), ALARM, DISPLAY], id=SCALAR), 2.25),
    "calm": (Type([("value", "d"), STAMP, DISPLAY], id=SCALAR), 3.25),
    "plain": (Type([("value", "d"), ALARM, STAMP], id=SCALAR), 4.25),
    "bare": (Type([("value", "d")], id=SCALAR), 5.25),
    "integer": (Type([("value", "i"), ALARM, STAMP], id=SCALAR), 6),
    "text": (Type([("value", "s"), ALARM, STAMP], id=SCALAR), "seven"),
    "enum": (
        Type([ENUM, ALARM, STAMP], id="epics:nt/NTEnum:1.0"),
        {"index": 1, "choices": ["off", "on"]},
    ),
    "array": (Type([("value", "ad"), ALARM, STAMP, DISPLAY], id=ARRAY), [8.0, 9.0]),
    "texts": (Type([("value", "as"), ALARM, STAMP], id=ARRAY), ["a", "b"]),
    "large": (Type([("value", "ad"), ALARM, STAMP, DISPLAY], id=ARRAY), [10.0] * 5000),
    "large_bare": (Type([("value", "ad")], id=ARRAY), [11.0] * 5000),
}
PARTS = {
    "alarm": {"severity": 1, "status": 1, "message": "worn"},
    "timeStamp": {"secondsPastEpoch": 1_700_000_000, "nanoseconds": 7, "userTag": 3},
    "display": {"units": "mm", "precision": 3, "limitLow": -5.0},
}


def shape(name):
    if name == "image":
        return NTNDArray().wrap(IMAGE[:30, :20])
    kind, value = SHAPES[name]
    parts = {part: content for part, content in PARTS.items() if part in kind.keys()}
    return Value(kind, {"value": value} | parts)


IMAGE = numpy.arange(1000 * 1500, dtype="u2").reshape(1000, 1500)


class Growing:
    """Posts an image twenty times a second while a client watches: noise, one row higher each time."""

    def onFirstConnect(self, pv):
        self.ended = threading.Event()
        threading.Thread(target=self.post, args=(pv, self.ended), daemon=True).start()

    def onLastDisconnect(self, pv):
        self.ended.set()

    def post(self, pv, ended):
        noise = numpy.random.default_rng(1).integers(0, 256, (4000, 200), dtype="u1")
        height = 300
        while not ended.wait(0.05) and height < len(noise):
            height += 1
            pv.post(noise[:height])


class Put:
    """Passes each put to a function, which may answer it."""

    def __init__(self, function):
        self.function = function

    def put(self, pv, op):
        self.function(pv, op)


def accept(pv, op):
    pv.post(op.value())
    op.done()


def accept_late(pv, op):
    threading.Timer(1.0, accept, (pv, op)).start()


def refuse(pv, op):
    op.done(error="the interlock is open")


def accept_and_refuse(pv, op):
    pv.post(op.value())
    op.done(error="no answer from the device")


def forbid(pv, op):
    op.done(error="Permission denied")


class Call:
    """The procedure, which counts its calls."""

    def __init__(self, count):
        self.count = count

    def rpc(self, pv, op):
        query = op.value().query
        self.count.post(self.count.current() + 1)
        if query.get("hang"):
            self.unanswered = op
            return
        try:
            op.done(self.answer(query))
        except Exception as error:
            op.done(error=f"{type(error).__name__}: {error}")

    def answer(self, query):
        if query.get("fail"):
            raise ValueError("asked to fail")
        total = query.a + query.b + sum(query.get("more", []))
        words = [query.get("word", "none"), *query.get("words", [])]
        answer = Type([("sum", "d"), ("words", "as"), ("sure", "?")], id="answer:1.0")
        return Value(answer, {"sum": total, "words": words, "sure": query.get("sure", False)})


# Type code, the value of a scalar, the elements of an array.
EVERY_TYPE = {
    "bool": ("?", True, [True, False]),
    "int8": ("b", -128, [-128, 127]),
    "uint8": ("B", 255, [0, 255]),
    "int16": ("h", -32768, [-32768, 32767]),
    "uint16": ("H", 65535, [0, 65535]),
    "int32": ("i", -(2**31), [-(2**31), 2**31 - 1]),
    "uint32": ("I", 2**32 - 1, [0, 2**32 - 1]),
    "int64": ("l", -(2**63), [-(2**63), 2**53 + 1, 2**63 - 1]),
    "uint64": ("L", 2**64 - 1, [0, 2**53 + 1, 2**64 - 1]),
    "float32": ("f", 0.1, [0.1, float("nan"), float("inf")]),
    "float64": ("d", 0.1, [0.1, -0.0, float("-inf")]),
    "string": ("s", "[x] µ", ["", "two words"]),
}


def every_type():
    served = {}
    for name, (code, scalar, elements) in EVERY_TYPE.items():
        stamped = {"alarm.severity": 2, "timeStamp.secondsPastEpoch": 1_700_000_000}
        for kind, code_of, value in [
            ("scalar", code, scalar),
            ("array", "a" + code, elements),
            ("none", "a" + code, []),
        ]:
            initial = Value(NTScalar.buildType(code_of), {"value": value})
            for field, content in stamped.items():
                initial[field] = content
            served[f"{name}:{kind}"] = SharedPV(initial=initial)
    return served


def pvs():
    structures = {
        **{
            name: SharedPV(
                initial=Value(NTScalar.buildType("d"), {"value": 1.0, "timeStamp": {"secondsPastEpoch": seconds}})
            )
            for name, seconds in {"never": 631_152_000, "far": 253_402_300_799, "old": -20_000_000_000}.items()
        },
        "repeated": SharedPV(initial=Value(WITH_UNITS, {"display": {"units": "mm"}})),
        "table": SharedPV(
            initial=Value(
                TABLE,
                {
                    "labels": ["Position", "Name"],
                    "value": {"position": [0.5, 1.5], "name": ["a", "b"]},
                    "timeStamp": {"secondsPastEpoch": 1_700_000_000, "nanoseconds": 7, "userTag": 3},
                },
            )
        ),
        "image": SharedPV(nt=NTNDArray(), initial=IMAGE),
        "small_image": SharedPV(nt=NTNDArray(), initial=IMAGE[:300, :200].astype("u1")),
        "growing": SharedPV(Growing(), nt=NTNDArray(), initial=IMAGE[:300, :200].astype("u1")),
        "channels": SharedPV(
            initial=Value(
                CHANNELS,
                {
                    "value": [1.5, "two", numpy.asarray([1, 2], dtype="i4")],
                    "channelName": ["a", "b", "c"],
                    "isConnected": [True, False, True],
                },
            )
        ),
        "name_value": SharedPV(
            initial=Value(
                NAME_VALUE,
                {
                    "name": ["gain", "offset"],
                    "value": [1.5, -2],
                    "descriptor": "settings",
                    "alarm": {"severity": 1, "status": 1, "message": "worn"},
                },
            )
        ),
        "union": SharedPV(initial=Value(UNION, {"value": ("number", 2.5)})),
        "variant": SharedPV(initial=Value(VARIANT, {"value": 5, "list": [1, "x"]})),
        "points": SharedPV(initial=Value(POINTS, {"value": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]})),
        "site": SharedPV(Put(accept), initial=Value(SITE, SITE_NOW)),
        # Reports each put as done without changing the value.
        "deaf": SharedPV(Put(lambda pv, op: op.done()), initial=Value(SITE, SITE_NOW)),
        # Numbers that no alarm has: of the PV, and of a field of its own.
        **{
            name: SharedPV(initial=Value(ODD_ALARM, {"value": 1.0, "alarm": alarm, "part": {"value": 2.0, "alarm": alarm}}))
            for name, alarm in {
                "alarm_negative": {"severity": -1, "status": -5, "message": "odd"},
                "alarm_large": {"severity": 7, "status": 99, "message": "odd"},
            }.items()
        },
        "text": SharedPV(
            initial=Value(TEXT, {"value": [97], "display": {"form": {"index": 1, "choices": ["Default", "String"]}}})
        ),
        "bare": SharedPV(initial=Value(BARE, {"value": 0.1})),
        "no_precision": SharedPV(initial=Value(UNSET, {"value": 0.1, "display": {"units": "mm"}})),
        "precision_0": SharedPV(initial=Value(UNSET, {"value": 0.1, "display": {"precision": 0}})),
        "scalars": SharedPV(
            initial=Value(
                SCALARS,
                {
                    "flag": True,
                    "byte": -5,
                    "ubyte": 250,
                    "uint": 4_000_000_000,
                    "long": -9_007_199_254_740_993,
                    "ulong": 18_446_744_073_709_551_615,
                    "float": 0.5,
                    "flags": [True, False],
                    "floats": [0.5, -2],
                    "names": ["", "µ"],
                },
            )
        ),
    }

    def step(pv, op):
        """Marks the units of `repeated` as changed each time; only a put of 2 or more changes them."""
        structures["repeated"].post(
            Value(
                WITH_UNITS,
                {"value": op.value(), "display": {"units": "mm" if op.value() < 2 else "cm"}},
            )
        )
        structures["table"].post(
            Value(TABLE, {"value": {"position": [9.0]}, "alarm": {"severity": 2, "message": "worn"}})
        )
        structures["union"].post(Value(UNION, {"value": ("text", "now")}))
        structures["variant"].post(Value(VARIANT, {"value": Value(POINT, {"x": 8, "y": 9})}))
        structures["points"].post(Value(POINTS, {"value": []}))
        structures["site"].post(Value(SITE, {"either": ("text", "now")}))
        accept(pv, op)

    retyped = SharedPV(initial=Value(Type([("value", "d")], id="retyped:1.0"), {"value": 1}))

    def retype(pv, op):
        """Serves the structure again with one more field, in the same process."""
        wider = Type([("value", "d"), ("more", "d")], id="retyped:1.0")
        retyped.close()
        retyped.open(Value(wider, {"value": 2, "more": 3}))
        op.done()

    number = NTScalar("d")
    calls = SharedPV(nt=NTScalar("i"), initial=0)
    return structures | every_type() | {
        "step": SharedPV(Put(step), nt=NTScalar("i"), initial=0),
        "retype": SharedPV(Put(retype), nt=NTScalar("i"), initial=0),
        "retyped": retyped,
        "shaped": SharedPV(initial=shape("full")),
        "bool": SharedPV(Put(accept), nt=NTScalar("?"), initial=False),
        "float": SharedPV(Put(accept), nt=NTScalar("f"), initial=0),
        "ulong": SharedPV(Put(accept), nt=NTScalar("L"), initial=0),
        "enum": SharedPV(
            Put(accept), nt=NTEnum(), initial={"index": 0, "choices": ["off", "on"]}
        ),
        "slow": SharedPV(Put(accept_late), nt=number, initial=0),
        "refused": SharedPV(Put(refuse), nt=number, initial=0),
        "written_and_refused": SharedPV(Put(accept_and_refuse), nt=number, initial=0),
        "forbidden": SharedPV(Put(forbid), nt=number, initial=0),
        "call": SharedPV(Call(calls), nt=number, initial=0),
        "calls": calls,
    }


def main():
    provider = StaticProvider("structures")
    served = pvs()
    for name, pv in served.items():
        provider.add(sys.argv[1] + name, pv)
    with Server(providers=[provider]):
        print("running", file=sys.stderr, flush=True)
        for line in sys.stdin:
            shaped = served["shaped"]
            shaped.close()
            shaped.open(shape(line.strip()))
        threading.Event().wait()


main()
