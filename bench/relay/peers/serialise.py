"""Time and bytes of updates as JSON and by protobuf: `serialise.py UPDATES ROUNDS`, with the peers' interpreter.

Each result is decoded again and compared with what was encoded. Prints a list of rows as JSON.
"""

import json
import statistics
import sys
import time
from importlib.metadata import version

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SEVERITIES = ("NONE", "MINOR", "MAJOR", "INVALID")


def updates_of(count):
    """Updates of as many PVs, whose numbers don't repeat."""
    return [
        {
            "type": "update",
            "pv": f"BENCH:N{number:05d}",
            "value": 1000.5 + number * 1.0009765625,
            "severity": SEVERITIES[number % 4],
            "seconds": 1_790_000_000 + number // 100,
            "nanos": number * 999_983 % 1_000_000_000,
        }
        for number in range(count)
    ]


def messages():
    """Classes of a list of updates, made without a compiler."""
    file = descriptor_pb2.FileDescriptorProto(name="updates.proto", package="bench", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    update = file.message_type.add(name="Update")
    for number, (name, kind) in enumerate((
        ("pv", field.TYPE_UINT32),
        ("value", field.TYPE_DOUBLE),
        ("severity", field.TYPE_UINT32),
        ("seconds", field.TYPE_INT64),
        ("nanos", field.TYPE_UINT32),
    ), 1):
        update.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    listed = file.message_type.add(name="Updates")
    listed.field.add(name="updates", number=1, type=field.TYPE_MESSAGE, type_name=".bench.Update",
                     label=field.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Updates"))


def row(way, updates, rounds, encode, decode, is_same):
    """Medians of the rounds, per update."""
    times = {"encode_ns": [], "decode_ns": []}
    for _ in range(rounds):
        began = time.process_time_ns()
        encoded = encode(updates)
        between = time.process_time_ns()
        decoded = decode(encoded)
        ended = time.process_time_ns()
        times["encode_ns"].append((between - began) / len(updates))
        times["decode_ns"].append((ended - between) / len(updates))
    if not is_same(decoded):
        sys.exit(f"{way}: what was decoded is not what was encoded")
    size = sum(map(len, encoded)) if isinstance(encoded, list) else len(encoded)
    figures = {key: statistics.median(each) for key, each in times.items()}
    return {"way": way, "where": "Python", "n": rounds, "figures": figures | {"bytes_per_update": size / len(updates)}}


def main():
    count, rounds = map(int, sys.argv[1:])
    updates = updates_of(count)
    found = messages()

    def to_protobuf(updates):
        listed = found()
        add = listed.updates.add
        for pv, one in enumerate(updates):
            add(pv=pv, value=one["value"], severity=SEVERITIES.index(one["severity"]), seconds=one["seconds"],
                nanos=one["nanos"])
        return listed.SerializeToString()

    def from_protobuf(encoded):
        return [(one.pv, one.value, one.severity, one.seconds, one.nanos) for one in found.FromString(encoded).updates]

    def is_same_protobuf(decoded):
        return all(
            (one["value"], one["seconds"], one["nanos"]) == (value, seconds, nanos)
            for one, (_, value, _, seconds, nanos) in zip(updates, decoded, strict=True)
        )

    rows = [
        row("JSON of PVWS, json", updates, rounds, lambda all_of: [json.dumps(one) for one in all_of],
            lambda texts: [json.loads(one) for one in texts], lambda decoded: decoded == updates),
        row(f"JSON of PVWS, orjson {version('orjson')}", updates, rounds,
            lambda all_of: [orjson.dumps(one) for one in all_of],
            lambda texts: [orjson.loads(one) for one in texts], lambda decoded: decoded == updates),
        row(f"protobuf {version('protobuf')}, one message", updates, rounds, to_protobuf, from_protobuf,
            is_same_protobuf),
    ]
    print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
