"""An independent reader of frames, written from PROTOCOL.md and the .fbs files alone.

`stranger.py FOLDER [GOLDEN [released]]` decodes the golden frames with the Python code that flatc wrote into
FOLDER, decodes the columns as PROTOCOL.md describes them, and compares the result with what the golden
file says beside the frames. With the code of a released schema it checks that a client of that release reads
the frames of this version, and with the golden file of a release that this version reads those. With
`released` only the keys that both descriptions have are compared, since newer ones have more.

A field that was added after a release is described only if the generated class has it.
"""

import json
import math
import struct
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from pvwire import (  # noqa: E402
    ConnectionState,
    Frame,
    FrameKind,
    Got,
    Hello,
    NameProblem,
    Outcome,
    Pong,
    PutDone,
    ReplyBody,
    RequestError,
    RequestProblem,
    RpcDone,
    SkipCause,
    Subscribed,
    Unsubscribed,
    ValueType,
)

GOLDEN = Path(__file__).parent / "golden.json"
ELEMENT_BYTES = {1: 8, 2: 4, 3: 1, 4: 1, 5: 2, 6: 2, 7: 4, 8: 4, 9: 8, 10: 8, 11: 2, 13: 1}


def name_of(enum, number):
    """A number that this version of the schema does not know is "Unknown"."""
    names = (name for name, value in vars(enum).items() if value == number)
    return next(names, "Unknown")


def vector(table, what):
    return [getattr(table, what)(i) for i in range(getattr(table, what + "Length")())]


def text(raw):
    return (raw or b"").decode()


def number(value):
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def column(raw, base):
    """Zigzag LEB128 differences, 64 bits, wrapping."""
    values, shift, word = [], 0, 0
    for byte in raw:
        word |= (byte & 0x7F) << shift
        shift += 7
        if byte & 0x80 == 0:
            word &= 2**64 - 1
            base += (word >> 1) ^ -(word & 1)
            base = (base + 2**63) % 2**64 - 2**63
            values.append(base)
            shift, word = 0, 0
    return values


def unpacked(block):
    """The content of an LZ4 block."""
    out, at = bytearray(), 0

    def length(start):
        nonlocal at
        total, byte = start, 255 if start == 15 else 0
        while byte == 255:
            byte = block[at]
            at += 1
            total += byte
        return total

    while True:
        token = block[at]
        at += 1
        literals = length(token >> 4)
        out += bytes(block[at : at + literals])
        at += literals
        if at == len(block):
            return bytes(out)
        back = block[at] | block[at + 1] << 8
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-back])


def limits(table):
    return [number(table.Low()), number(table.High())] if table else ["NaN", "NaN"]


def metadata(meta):
    return {
        "id": meta.Id(),
        "type": name_of(ValueType.ValueType, meta.Type()),
        "elementCount": meta.ElementCount(),
        "units": text(meta.Units()),
        "precision": None if meta.Precision() < 0 else meta.Precision(),
        "choices": [text(choice) for choice in vector(meta, "Choices")],
        "display": limits(meta.Display()),
        "control": limits(meta.Control()),
        "warning": limits(meta.Warning()),
        "alarm": limits(meta.Alarm()),
        "description": text(meta.Description()),
        "epoch": meta.Epoch(),
        "typeId": text(meta.TypeId()),
        "form": text(meta.Form()),
        "missingField": text(meta.MissingField()),
    }


def connection(connection):
    return {
        "id": connection.Id(),
        "state": name_of(ConnectionState.ConnectionState, connection.State()),
        "sinceNs": str(connection.SinceNs()),
        "heardNs": str(connection.HeardNs()),
        "read": connection.Read(),
        "write": connection.Write(),
        "puts": connection.Puts(),
        "writeUnknown": connection.WriteUnknown(),
    }


def numbers(columns):
    if columns is None:
        return []
    id_bytes, time_bytes = vector(columns, "Ids"), vector(columns, "Times")
    values = vector(columns, "Values")
    if columns.PackedLength():
        plain, count = unpacked(vector(columns, "Packed")), columns.Count()
        id_bytes, plain = plain[: columns.IdsBytes()], plain[columns.IdsBytes() :]
        time_bytes, plain = plain[: columns.TimesBytes()], plain[columns.TimesBytes() :]
        values = [struct.unpack("<d", plain[row::count])[0] for row in range(count)]
    ids = column(id_bytes, 0)
    times = column(time_bytes, columns.BaseTimeNs())
    assert len(ids) == len(times) == len(values) == columns.Count()
    rows = zip(ids, times, values, strict=True)
    return [{"id": i, "timeNs": str(t), "value": number(v)} for i, t, v in rows]


def blob(blob, message):
    size = ELEMENT_BYTES.get(blob.Type(), 0) * blob.Count()
    raw, offset = b"", 0
    if size:
        raw = b"".join(struct.pack("<Q", word) for word in vector(blob, "Data"))[:size]
        offset = message.index(raw)
        while offset % 8:
            offset = message.index(raw, offset + 1)
    return {
        "id": blob.Id(),
        "timeNs": str(blob.TimeNs()),
        "type": name_of(ValueType.ValueType, blob.Type()),
        "array": blob.Array(),
        "count": blob.Count(),
        "dataOffset": offset,
        "data": list(raw),
        "text": [text(entry) for entry in vector(blob, "Text")],
        "structure": tree(blob.Structure()),
        "partial": blob.Partial(),
    }


SCALARS = {
    "Float64": "<d", "Float32": "<f", "Int8": "<b", "UInt8": "<B", "Int16": "<h", "UInt16": "<H",
    "Int32": "<i", "UInt32": "<I", "Int64": "<q", "UInt64": "<Q", "Enum": "<H", "Boolean": "<B",
}  # fmt: skip


def tree(node):
    """One field of a structure with its content."""
    if node is None:
        return None
    kind = name_of(ValueType.ValueType, node.Type())
    fields = [tree(field) for field in vector(node, "Fields")]
    texts = [text(entry) for entry in vector(node, "Text")]
    name = kind + ("[]" if node.Array() else "")
    if kind == "Unknown":
        value = None
    elif kind in ("Structure", "Union", "Any"):
        value = [name, fields]
    elif kind == "String":
        value = [name, texts if node.Array() else texts[0]]
    else:
        size = ELEMENT_BYTES[node.Type()] * node.Count()
        raw = b"".join(struct.pack("<Q", word) for word in vector(node, "Data"))[:size]
        if node.Array():
            value = [name, node.Count(), list(raw)]
        else:
            (scalar,) = struct.unpack(SCALARS[kind], raw)
            value = [name, str(scalar) if kind in ("Int64", "UInt64") else number(float(scalar))]
    return {"name": text(node.Name()), "typeId": text(node.TypeId()), "value": value}


def errors(table):
    return [
        {
            "index": error.Index(),
            "problem": name_of(NameProblem.NameProblem, error.Problem()),
            "message": text(error.Message()),
        }
        for error in vector(table, "Errors")
    ]


def reply(frame):
    kind = name_of(ReplyBody.ReplyBody, frame.ReplyType())
    if kind == "NONE":
        return None
    if kind == "Unknown":
        return kind
    raw = frame.Reply()

    def as_table(cls):
        table = cls()
        table.Init(raw.Bytes, raw.Pos)
        return table

    if kind == "Hello":
        hello = as_table(Hello.Hello)
        content = {
            "Hello": {
                "relayVersion": text(hello.RelayVersion()),
                "relayInstance": str(hello.RelayInstance()),
                "maxRequestBytes": hello.MaxRequestBytes(),
                "maxSubscriptions": hello.MaxSubscriptions(),
                "ackIntervalMs": hello.AckIntervalMs(),
                "notFoundAfterMs": hello.NotFoundAfterMs(),
                "authenticate": hello.Authenticate(),
                "user": text(hello.User()),
                "expiresInMs": hello.ExpiresInMs(),
            }
        }
        # Those of a fleet alone have it, and released descriptions don't.
        if hasattr(hello, "Relays") and hello.RelaysLength() > 0:
            content["Hello"]["relays"] = [text(url) for url in vector(hello, "Relays")]
            content["Hello"]["crowded"] = hello.Crowded()
        return content
    if kind in ("Subscribed", "Got"):
        table = as_table(Subscribed.Subscribed if kind == "Subscribed" else Got.Got)
        return {kind: {"ids": vector(table, "Ids"), "errors": errors(table)}}
    if kind == "Unsubscribed":
        return {kind: {"ids": vector(as_table(Unsubscribed.Unsubscribed), "Ids")}}
    if kind == "Pong":
        pong = as_table(Pong.Pong)
        times = (pong.ClientTimeNs(), pong.RelayTimeNs())
        return {kind: {"clientTimeNs": str(times[0]), "relayTimeNs": str(times[1])}}
    if kind == "Relays":
        from pvwire import Relays  # A client of the first release knows no such reply.

        return {kind: {"relays": [text(url) for url in vector(as_table(Relays.Relays), "Relays")]}}
    if kind == "AnswerPage":
        from pvwire import AnswerPage  # Likewise.

        page = as_table(AnswerPage.AnswerPage)
        content = {"outcome": name_of(Outcome.Outcome, page.Outcome()), "message": text(page.Message())}
        return {kind: content | {"page": page.Page(), "last": page.Last()}}
    if kind in ("PutDone", "RpcDone"):
        done = as_table(PutDone.PutDone if kind == "PutDone" else RpcDone.RpcDone)
        outcome = name_of(Outcome.Outcome, done.Outcome())
        return {kind: {"outcome": outcome, "message": text(done.Message())}}
    error = as_table(RequestError.RequestError)
    problem = name_of(RequestProblem.RequestProblem, error.Problem())
    return {"Error": {"problem": problem, "message": text(error.Message())}}


def result(frame):
    kind = name_of(ReplyBody.ReplyBody, frame.ReplyType())
    if kind not in ("PutDone", "RpcDone"):
        return None
    raw, done = frame.Reply(), PutDone.PutDone() if kind == "PutDone" else RpcDone.RpcDone()
    done.Init(raw.Bytes, raw.Pos)
    return tree(done.Readback() if kind == "PutDone" else done.Result())


def content(frame, message):
    """The content of a page, and where it starts in the message."""
    kind = name_of(ReplyBody.ReplyBody, frame.ReplyType())
    if kind != "AnswerPage":
        return kind if kind == "Unknown" else None
    from pvwire import AnswerPage  # A client of the first release knows no such reply.

    raw, page = frame.Reply(), AnswerPage.AnswerPage()
    page.Init(raw.Bytes, raw.Pos)
    words = b"".join(struct.pack("<Q", word) for word in vector(page, "Data"))
    assert len(words) == (page.Bytes() + 7) // 8 * 8
    offset = message.index(words) if words else 0
    return {"offset": offset, "content": list(words[: page.Bytes()])}


def described(message):
    assert message[4:8] == b"PVWF"
    frame = Frame.Frame.GetRootAs(message)
    rows = frame.SequencesLength()
    return {
        "kind": name_of(FrameKind.FrameKind, frame.Kind()),
        "tick": frame.Tick(),
        "prevTick": frame.PrevTick(),
        "metadata": [metadata(meta) for meta in vector(frame, "Metadata")],
        "connections": [connection(state) for state in vector(frame, "Connections")],
        "numbers": numbers(frame.Numbers()),
        "blobs": [blob(entry, message) for entry in vector(frame, "Blobs")],
        "alarms": [
            {"row": alarm.Row(), "severity": alarm.Severity(), "status": alarm.Status()}
            for alarm in vector(frame, "Alarms")
        ],
        "details": [
            {"row": detail.Row(), "userTag": detail.UserTag(), "message": text(detail.Message())}
            for detail in vector(frame, "Details")
        ],
        "skips": [
            {
                "row": skip.Row(),
                "count": skip.Count(),
                "cause": name_of(SkipCause.SkipCause, skip.Cause()),
            }
            for skip in vector(frame, "Skips")
        ],
        "skipCause": name_of(SkipCause.SkipCause, frame.SkipCause()),
        "sequences": vector(frame, "Sequences") if rows else None,
        "replyTo": frame.ReplyTo(),
        "reply": reply(frame),
        "result": result(frame),
        "page": content(frame, message),
    }


def agrees(one, other):
    """Whether two descriptions agree in all keys that both have. "Unknown" agrees with any name."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(agrees(one[key], other[key]) for key in one.keys() & other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(agrees, one, other))
    return one == other or "Unknown" in (one, other)


def main():
    same = agrees if len(sys.argv) > 3 else lambda one, other: one == other
    golden = Path(sys.argv[2]) if len(sys.argv) > 2 else GOLDEN
    passed = failed = 0
    messages = json.loads(golden.read_text())
    for name in sorted(name for name, message in messages.items() if "decoded" in message):
        expected = messages[name]["decoded"]
        found = described(bytes.fromhex("".join(messages[name]["bytes"])))
        differing = [key for key in expected if not same(expected[key], found[key])]
        failed += bool(differing)
        passed += not differing
        for key in differing:
            print(f"{name}: {key} is {found[key]}, expected {expected[key]}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
