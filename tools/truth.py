"""The state of PVs as EPICS itself reports it. A separate Channel Access client, to compare all others with.

It shares no code with the relay: libca by ctypes, a new client context each time it runs, a get of
each PV's time and control structures, decoded here by the layout of EPICS base's db_access.h. Of a
PV that may not be read there are type, element count and rights alone.

`truth.py get [--wait SECONDS] [--describe] [NAME …]` prints one JSON object, name to what is known of
the PV, or null where no IOC has answered in time; without names it reads them from its input, one a
line. With `--describe` the description of the record is part of it, from its field DESC.
`truth.py put NAME VALUE [NAME VALUE …]` writes each VALUE as text and waits for the IOC's answer:
one JSON object, name to null or what libca says went wrong.

Values and limits are numbers as text, so that they are exact, infinities and
NaN too. Text that is no UTF-8 is read as Latin-1.
"""

import argparse
import ctypes
import json
import struct
import sys
import time
from ctypes import POINTER, c_char_p, c_double, c_int, c_long, c_short, c_uint, c_ulong, c_void_p

from epicscorelibs import path

NORMAL = 1
CONNECTED = 2
# Numbers of the element types: string, short, float, enum, char, long, double.
STRING, SHORT, FLOAT, ENUM, CHAR, LONG, DOUBLE = range(7)
NAMES = ["String", "Int16", "Float32", "Enum", "UInt8", "Int32", "Float64"]
TIME, CONTROL = 14, 28
# Where the value begins in each type's time structure, and how one element is laid out.
VALUE_AT = [12, 14, 12, 14, 15, 12, 16]
ELEMENT = ["40s", "h", "f", "H", "B", "i", "d"]
EPOCH_S = 631_152_000


class Event(ctypes.Structure):
    """What libca hands to the callback of a get or a put."""

    _fields_ = [
        ("user", c_void_p),
        ("channel", c_void_p),
        ("type", c_long),
        ("count", c_long),
        ("data", c_void_p),
        ("status", c_int),
    ]


CALLBACK = ctypes.CFUNCTYPE(None, Event)

ca = ctypes.CDLL(path.get_lib("ca"), ctypes.RTLD_GLOBAL)
ca.ca_create_channel.argtypes = [c_char_p, c_void_p, c_void_p, c_uint, POINTER(c_void_p)]
ca.ca_array_get_callback.argtypes = [c_long, c_ulong, c_void_p, CALLBACK, c_void_p]
ca.ca_array_put_callback.argtypes = [c_long, c_ulong, c_void_p, c_void_p, CALLBACK, c_void_p]
ca.ca_pend_event.argtypes = [c_double]
ca.ca_message.argtypes = [c_long]
ca.ca_message.restype = c_char_p
ca.ca_field_type.argtypes = [c_void_p]
ca.ca_field_type.restype = c_short
ca.ca_element_count.argtypes = [c_void_p]
ca.ca_element_count.restype = c_ulong
for ask in (ca.ca_state, ca.ca_read_access, ca.ca_write_access):
    ask.argtypes = [c_void_p]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    get = kinds.add_parser("get")
    get.add_argument("--wait", type=float, default=3.0, metavar="SECONDS")
    get.add_argument("--describe", action="store_true")
    get.add_argument("names", nargs="*")
    put = kinds.add_parser("put")
    put.add_argument("--wait", type=float, default=3.0, metavar="SECONDS")
    put.add_argument("pairs", nargs="+")
    arguments = parser.parse_args()
    check(ca.ca_context_create(c_int(0)))
    if arguments.kind == "get":
        answer = read(arguments.names or sys.stdin.read().split("\n"), arguments.wait)
        if arguments.describe:
            describe(answer, arguments.wait)
    else:
        answer = write(list(zip(arguments.pairs[::2], arguments.pairs[1::2])), arguments.wait)
    json.dump(answer, sys.stdout, allow_nan=False)
    sys.stdout.flush()
    ca.ca_context_destroy()


def check(status):
    if status != NORMAL:
        raise RuntimeError(ca.ca_message(status).decode())


def pend(done, wait):
    """Lets libca work until `done` or until the time is over."""
    deadline = time.monotonic() + wait
    while not done() and time.monotonic() < deadline:
        ca.ca_pend_event(0.01)
    return done()


def connect(names, wait):
    """The channels that connect in time."""
    channels = {}
    for name in names:
        if name:
            channel = c_void_p()
            check(ca.ca_create_channel(name.encode(), None, None, 0, ctypes.byref(channel)))
            channels[name] = channel
    pend(lambda: all(ca.ca_state(channel) == CONNECTED for channel in channels.values()), wait)
    return {
        name: channel if ca.ca_state(channel) == CONNECTED else None
        for name, channel in channels.items()
    }


def read(names, wait):
    """All that is known of each name; a long string is whole, though a string has 39 bytes."""
    answers = ask(names, wait)
    cut = [name for name, of in answers.items() if of and may_be_cut(of) and not has_filter(name)]
    long = {name: (name if "." in name else f"{name}.VAL") + "$" for name in cut}
    for name, of in ask(long.values(), 1.0).items() if long else ():
        if of and of["element_count"] > 40:
            whole = text(bytes(int(each) & 0xFF for each in of["value"]))
            for cut_name in (each for each, full in long.items() if full == name):
                answers[cut_name]["value"] = whole
    return answers


def has_filter(name):
    # A record's name may contain these characters; a field's name can't.
    return bool(set(name.partition(".")[2]) & set("${["))


def describe(answers, wait):
    """Adds the description of each PV that may be read. As a long string it isn't cut at 39 bytes."""
    fields = {name: name.split(".")[0] + ".DESC$" for name, of in answers.items() if of and of["read"]}
    found = ask(fields.values(), wait) if fields else {}
    for name, field in fields.items():
        of = found[field]
        if of and "value" in of:
            answers[name]["description"] = text(bytes(int(each) & 0xFF for each in of["value"]))
        else:
            # The PV has changed since it was read: this differs from what any client shows.
            answers[name]["description"] = f"no answer for {field}"


def may_be_cut(of):
    # What may not be read has no value.
    is_string = of["type"] == "String" and "value" in of and not of["array"]
    return is_string and len(of["value"].encode()) >= 39


def ask(names, wait):
    channels = connect(names, wait)
    answers = {}
    callbacks = []

    def fetch(name, channel, what, parse):
        kind = native = ca.ca_field_type(channel)
        if what == CONTROL and native not in (STRING, ENUM):
            # An integer can't say that there is no limit.
            kind = DOUBLE

        def answer(event):
            if event.status == NORMAL:
                size = SIZES[what](kind, event.count)
                data = ctypes.string_at(event.data, size)
                answers.setdefault(name, {}).update(parse(native, event.count, data))
            else:
                answers.setdefault(name, {}).update(error=ca.ca_message(event.status).decode())

        callbacks.append(CALLBACK(answer))
        # Zero elements: as many as there are, which may be none.
        count = 0 if what == TIME and ca.ca_element_count(channel) != 1 else 1
        check(ca.ca_array_get_callback(kind + what, count, channel, callbacks[-1], None))

    there = {name: channel for name, channel in channels.items() if channel is not None}
    for name, channel in there.items():
        count = ca.ca_element_count(channel)
        answers[name] = {
            "type": NAMES[ca.ca_field_type(channel)],
            "element_count": count,
            "read": bool(ca.ca_read_access(channel)),
            "write": bool(ca.ca_write_access(channel)),
        }
        if not answers[name]["read"]:
            continue
        # What is an array stays one, whatever it holds now.
        fetch(name, channel, TIME, lambda *data, array=count != 1: value_of(*data, array))
        fetch(name, channel, CONTROL, metadata_of)

    def complete():
        readable = [of for of in answers.values() if of["read"]]
        return all("error" in of or ("value" in of and "units" in of) for of in readable)

    if not pend(complete, wait):
        raise RuntimeError(f"no answer in {wait} s: {answers}")
    return {name: answers.get(name) for name in channels}


SIZES = {
    TIME: lambda kind, count: VALUE_AT[kind] + struct.calcsize(ELEMENT[kind]) * count,
    CONTROL: lambda kind, _count: {STRING: 4, ENUM: 6 + 16 * 26, DOUBLE: 16 + 64}[kind],
}


def value_of(kind, count, data, array):
    """Value, alarm and time stamp of a time structure."""
    status, severity, seconds, nanoseconds = struct.unpack_from("=hhII", data)
    # Each by itself: "40s" with a number before it would be one long string.
    size = struct.calcsize(ELEMENT[kind])
    places = range(VALUE_AT[kind], VALUE_AT[kind] + count * size, size)
    elements = [struct.unpack_from("=" + ELEMENT[kind], data, place)[0] for place in places]
    elements = [text(each) if kind == STRING else repr(each) for each in elements]
    return {
        "value": elements if array else elements[0],
        "array": array,
        "status": status,
        "severity": severity,
        "time_ns": (EPOCH_S + seconds) * 1_000_000_000 + nanoseconds,
    }


def metadata_of(native, _count, data):
    """Units, precision, limits and labels of a control structure, which of numbers has doubles."""
    known = {"units": "", "precision": None, "choices": []}
    limits = ["nan"] * 8
    if native == ENUM:
        used = struct.unpack_from("=h", data, 4)[0]
        known["choices"] = [text(data[6 + 26 * at : 32 + 26 * at]) for at in range(used)]
    elif native != STRING:
        if native in (FLOAT, DOUBLE):
            known["precision"] = struct.unpack_from("=h", data, 4)[0]
        known["units"] = text(data[8:16])
        limits = [repr(each) for each in struct.unpack_from("=8d", data, 16)]
    display_high, display_low, alarm_high, warning_high, warning_low, alarm_low = limits[:6]
    control_high, control_low = limits[6:]
    return known | {
        "display": [display_low, display_high],
        "control": [control_low, control_high],
        "warning": [warning_low, warning_high],
        "alarm": [alarm_low, alarm_high],
    }


def text(data):
    data = data.split(b"\0", 1)[0]
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def write(pairs, wait):
    channels = connect([name for name, _ in pairs], wait)
    answers = {}
    callbacks = []
    for name, value in pairs:
        if channels[name] is None:
            answers[name] = "not connected"
            continue

        def answer(event, name=name):
            normal = event.status == NORMAL
            answers[name] = None if normal else ca.ca_message(event.status).decode()

        callbacks.append(CALLBACK(answer))
        data = ctypes.create_string_buffer(value.encode()[:39], 40)
        status = ca.ca_array_put_callback(STRING, 1, channels[name], data, callbacks[-1], None)
        if status != NORMAL:
            answers[name] = ca.ca_message(status).decode()
    pend(lambda: all(name in answers for name, _ in pairs), wait)
    return {name: answers.get(name, "no answer in time") for name, _ in pairs}


if __name__ == "__main__":
    main()
