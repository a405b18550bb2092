"""Writes the test vectors of the decoder with another implementation of protobuf.

The messages are described here by the numbers that the appliance publishes; PyPI's protobuf encodes and decodes
them. Run it in any environment with protobuf 6 (`pip install protobuf`):

    python archiver/tests/vectors.py

It writes `answers.json`, an object with one line for each answer: an answer of each type, and what protobuf reads from
these and from the recorded answers, which are kept. Floating-point numbers are written as the hexadecimal bytes of
their double, bytes as hexadecimal text.
"""

import datetime
import json
import math
import pathlib
import struct

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ANSWERS = pathlib.Path(__file__).with_name("answers.json")
F = descriptor_pb2.FieldDescriptorProto

# Number, message, type of the value, whether it is a list.
TYPES = [
    (0, "ScalarString", F.TYPE_STRING, False),
    (1, "ScalarShort", F.TYPE_SINT32, False),
    (2, "ScalarFloat", F.TYPE_FLOAT, False),
    (3, "ScalarEnum", F.TYPE_SINT32, False),
    (4, "ScalarByte", F.TYPE_BYTES, False),
    (5, "ScalarInt", F.TYPE_SFIXED32, False),
    (6, "ScalarDouble", F.TYPE_DOUBLE, False),
    (7, "VectorString", F.TYPE_STRING, True),
    (8, "VectorShort", F.TYPE_SINT32, True),
    (9, "VectorFloat", F.TYPE_FLOAT, True),
    (10, "VectorEnum", F.TYPE_SINT32, True),
    (11, "VectorChar", F.TYPE_BYTES, False),
    (12, "VectorInt", F.TYPE_SFIXED32, True),
    (13, "VectorDouble", F.TYPE_DOUBLE, True),
    (14, "V4GenericBytes", F.TYPE_BYTES, False),
]

SHORT, INT = [0, 1, -1, 9, 10, 13, 27, 32767, -32768], [0, 10, -1, 27, 2**31 - 1, -(2**31)]
DOUBLE = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, 1e300, 0.1, 1.1e-307]
FLOAT = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 2.0**-149, 3.4028234663852886e38]
TEXT = ["", "plain", "x,y \"q\"", "a\nb\rc\x1bd", "ä€😀", "ends in blanks \t", "\x0b\x0c"]
BYTES = [bytes([10, 13, 27, 1, 2, 3]), bytes(range(256)), b""]

VALUES = {
    "ScalarString": TEXT,
    "ScalarShort": SHORT,
    "ScalarFloat": FLOAT,
    "ScalarEnum": [0, 1, 2, 15],
    "ScalarByte": [b"\x00", b"\x0a", b"\x1b", b"\x7f", b"\x80", b"\xff"],
    "ScalarInt": INT,
    "ScalarDouble": DOUBLE,
    "VectorString": [TEXT, [], ["one", "", ""]],
    "VectorShort": [SHORT, [], [5]],
    "VectorFloat": [FLOAT, [], [0.5] * 9],
    "VectorEnum": [[0, 1, 2, 15], [], [3]],
    "VectorChar": BYTES,
    "VectorInt": [INT, [], [10, 10]],
    "VectorDouble": [DOUBLE, [], [0.1, 0.2, 0.3, 0.4, 0.5]],
    "V4GenericBytes": BYTES,
}


def messages():
    file = descriptor_pb2.FileDescriptorProto(name="archiver.proto", package="EPICS", syntax="proto2")

    def message(name, fields):
        added = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            made = added.field.add(name=field, number=number, type=kind, label=label)
            if label == F.LABEL_REPEATED and kind not in (F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_MESSAGE):
                made.options.packed = True
            if kind == F.TYPE_MESSAGE:
                made.type_name = ".EPICS.FieldValue"

    required, optional, repeated = F.LABEL_REQUIRED, F.LABEL_OPTIONAL, F.LABEL_REPEATED
    message("FieldValue", [("name", 1, F.TYPE_STRING, required), ("val", 2, F.TYPE_STRING, required)])
    for _, name, kind, is_list in TYPES:
        fields = [
            ("secondsintoyear", 1, F.TYPE_UINT32, required),
            ("nano", 2, F.TYPE_UINT32, required),
            ("val", 3, kind, repeated if is_list else required),
            ("severity", 4, F.TYPE_INT32, optional),
            ("status", 5, F.TYPE_INT32, optional),
            ("repeatcount", 6, F.TYPE_UINT32, optional),
            ("fieldvalues", 7, F.TYPE_MESSAGE, repeated),
            ("fieldactualchange", 8, F.TYPE_BOOL, optional),
        ]
        if name == "V4GenericBytes":
            fields.append(("userTag", 9, F.TYPE_UINT32, optional))
        message(name, fields)
    message(
        "PayloadInfo",
        [
            ("type", 1, F.TYPE_INT32, required),
            ("pvname", 2, F.TYPE_STRING, required),
            ("year", 3, F.TYPE_INT32, required),
            ("elementCount", 4, F.TYPE_INT32, optional),
            ("headers", 15, F.TYPE_MESSAGE, repeated),
        ],
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles(["archiver.proto"], pool)


CLASSES = messages()
FieldValue, PayloadInfo = CLASSES["EPICS.FieldValue"], CLASSES["EPICS.PayloadInfo"]


def escaped(message):
    line = message.SerializeToString()
    for byte, code in ((0x1B, 1), (0x0A, 2), (0x0D, 3)):
        line = line.replace(bytes([byte]), bytes([0x1B, code]))
    return line + b"\n"


def unescaped(line):
    codes = {1: 0x1B, 2: 0x0A, 3: 0x0D}
    out, rest = bytearray(), iter(line)
    for byte in rest:
        out.append(codes[next(rest)] if byte == 0x1B else byte)
    return bytes(out)


def plain(value):
    """A value as JSON without loss."""
    if isinstance(value, float):
        return struct.pack(">d", value).hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (str, int)):
        return value
    return [plain(element) for element in value]


def decoded(answer):
    """What protobuf reads from an answer."""
    rows, metadata, info, is_header = [], {}, None, True
    for line in answer.split(b"\n")[:-1]:
        if not line:
            is_header = True
        elif is_header:
            is_header = False
            info = PayloadInfo.FromString(unescaped(line))
            start = int(datetime.datetime(info.year, 1, 1, tzinfo=datetime.timezone.utc).timestamp())
            metadata.update({field.name: field.val for field in info.headers})
        else:
            name = TYPES[info.type][1]
            sample = CLASSES[f"EPICS.{name}"].FromString(unescaped(line))
            row = {
                "time_ns": str((start + sample.secondsintoyear) * 10**9 + sample.nano),
                "value": plain(sample.val),
                "severity": sample.severity,
                "status": sample.status,
            }
            if name == "ScalarByte":
                row["value"] = sample.val[0]
            if sample.fieldvalues:
                row["fields"] = [[field.name, field.val] for field in sample.fieldvalues]
                row["is_change"] = sample.fieldactualchange
            if getattr(sample, "userTag", 0):
                row["user_tag"] = sample.userTag
            rows.append(row)
    return {"pv": info.pvname, "payload": info.type, "metadata": metadata, "rows": rows}


def vector(number, name):
    """An answer as the appliance makes it: the header twice, a year that ends, and metadata of two forms."""
    values = VALUES[name]
    count = max((len(value) for value in values), default=1) if name.startswith("Vector") else 1

    def header(year, headers):
        info = PayloadInfo(type=number, pvname=f"V:{name}", year=year, elementCount=count)
        info.headers.extend(FieldValue(name=name, val=val) for name, val in headers)
        return escaped(info)

    first = [("EGU", "mm\n"), ("PREC", "3")]
    out = header(2024, first) + b"\n" + header(2024, first)
    # 2024 has 366 days; the last sample is in its last nanosecond.
    moments = [(366 * 86400 - 1, 999_999_999 - 10 * at) for at in range(len(values))][::-1]
    for at, (value, (second, nano)) in enumerate(zip(values, moments)):
        sample = CLASSES[f"EPICS.{name}"](secondsintoyear=second, nano=nano)
        if isinstance(value, list):
            sample.val.extend(value)
        else:
            sample.val = value
        if at % 2:
            sample.severity, sample.status = at % 4, 9 + at % 5
        out += escaped(sample)
    out += b"\n" + header(2025, [("PREC", "3.0"), ("ENUM_1", "one"), ("ENUM_0", "zero"), ("LOLO", "NaN")])
    for at, value in enumerate(values):
        sample = CLASSES[f"EPICS.{name}"](secondsintoyear=at, nano=at, repeatcount=at)
        if isinstance(value, list):
            sample.val.extend(value)
        else:
            sample.val = value
        if at == 0:
            sample.fieldvalues.add(name="cnxlostepsecs", val="1735689590")
            sample.fieldvalues.add(name="cnxregainedepsecs", val="1735689599")
        if at == 1:
            sample.fieldvalues.add(name="HIHI", val="60.0")
            sample.fieldvalues.add(name="DESC", val="a\nb")
            sample.fieldactualchange = True
        if name == "V4GenericBytes":
            sample.userTag = at
        out += escaped(sample)
    return out


def main():
    made = {name: {"answer": vector(number, name).hex()} for number, name, _, _ in TYPES}
    answers = json.loads(ANSWERS.read_text()) | made
    for answer in answers.values():
        answer.update(decoded(bytes.fromhex(answer["answer"])))
    lines = [f"{json.dumps(name)}:{json.dumps(each, separators=(',', ':'))}" for name, each in answers.items()]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
