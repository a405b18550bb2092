"""The state of PVs as pvAccess itself reports it. A separate client, by p4p, to compare the relay with.

`truth_pva.py NAME …` prints one JSON object: each name to its whole structure, or null where no
server has answered in time. A structure is an object of its fields; numbers of up to 32 bits and
floating point are `n:` and the bits of the double in hexadecimal, integers of 64 bits `i:` and
their digits, texts `s:`, flags `b:`; an array of numbers is its element type and its bytes in
hexadecimal. A union is what it holds.
"""

import json
import struct
import sys

import numpy
from p4p import Value
from p4p.client.raw import Disconnected
from p4p.client.thread import Context, TimeoutError

ELEMENTS = {
    "bool": "Boolean", "int8": "Int8", "uint8": "UInt8", "int16": "Int16", "uint16": "UInt16",
    "int32": "Int32", "uint32": "UInt32", "int64": "Int64", "uint64": "UInt64",
    "float32": "Float32", "float64": "Float64",
}  # fmt: skip
CODES = {
    "?": "bool", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32",
    "I": "uint32", "l": "int64", "L": "uint64", "f": "float32", "d": "float64",
}  # fmt: skip


def number(value):
    return "n:" + struct.pack(">d", float(value)).hex()


def scalar(code, value):
    if code == "s":
        return "s:" + value
    if code == "?":
        return "b:" + str(bool(value)).lower()
    return f"i:{int(value)}" if code in "lL" else number(value)


def guessed(value):
    """What a union holds comes without its type."""
    if value is None:
        return None
    if isinstance(value, Value):
        return structure(value)
    if isinstance(value, numpy.ndarray):
        return elements(str(value.dtype), value)
    if isinstance(value, list):
        return ["s:" + text for text in value]
    if isinstance(value, str):
        return "s:" + value
    if isinstance(value, bool):
        return "b:" + str(value).lower()
    return number(value)


def elements(name, value):
    # An empty array that was never set is not a value.
    return [ELEMENTS[name], numpy.asarray([] if value is None else value, dtype=name).tobytes().hex()]


def field(code, value):
    if isinstance(code, tuple):
        kind = code[0]
        if kind == "S":
            return structure(value)
        if kind == "aS":
            return [None if element is None else structure(element) for element in value]
        return guessed(value) if kind == "U" else [guessed(element) for element in value]
    if code == "v":
        return guessed(value)
    if code == "av":
        return [guessed(element) for element in value]
    if code == "as":
        return ["s:" + text for text in value or []]
    if code.startswith("a"):
        return elements(CODES[code[1:]], value)
    return scalar(code, value)


def structure(value):
    return {name: field(code, value[name]) for name, code in value.type().aspy()[2]}


def main():
    with Context("pva", nt=False) as context:
        answers = {}
        for name in sys.argv[1:]:
            try:
                answers[name] = structure(context.get(name, timeout=10))
            except (TimeoutError, Disconnected):
                answers[name] = None
    json.dump(answers, sys.stdout)


main()
