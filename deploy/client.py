"""A client that shares no code with the relay; prints the value of a PV.

`client.py FOLDER HOST:PORT PV` implements WebSocket itself and reads flatbuffers with the Python code that
flatc wrote into FOLDER.
"""

import os
import socket
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "schema/tests"))

import flatbuffers  # noqa: E402
import stranger  # noqa: E402
from pvwire import Get, Request, RequestBody  # noqa: E402


def get_request(name):
    builder = flatbuffers.Builder()
    text = builder.CreateString(name)
    Get.StartNamesVector(builder, 1)
    builder.PrependUOffsetTRelative(text)
    names = builder.EndVector()
    Get.Start(builder)
    Get.AddNames(builder, names)
    Get.AddTimeoutMs(builder, 15_000)
    body = Get.End(builder)
    Request.Start(builder)
    Request.AddId(builder, 1)
    Request.AddBodyType(builder, RequestBody.RequestBody.Get)
    Request.AddBody(builder, body)
    builder.Finish(Request.End(builder), b"PVWR")
    return bytes(builder.Output())


def masked(payload):
    assert len(payload) < 126
    mask = os.urandom(4)
    return bytes([0x82, 0x80 | len(payload)]) + mask + bytes(
        byte ^ mask[at % 4] for at, byte in enumerate(payload)
    )


def messages(stream):
    while True:
        first, length = stream.read(2)
        if length >= 126:
            size = 2 if length == 126 else 8
            length = int.from_bytes(stream.read(size))
        payload = stream.read(length)
        if first & 0xF == 8:
            sys.exit(f"closed: {struct.unpack('>H', payload[:2])[0]} {payload[2:].decode()}")
        if first & 0xF == 2:
            yield payload


def main():
    _, _, address, name = sys.argv
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(
        (
            f"GET /ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Protocol: pvwire.v1\r\n\r\n"
        ).encode()
    )
    stream = connection.makefile("rb")
    status = stream.readline().decode().strip()
    if " 101 " not in status:
        sys.exit(f"the relay says {status}")
    while stream.readline().strip():
        pass
    connection.sendall(masked(get_request(name)))
    for message in messages(stream):
        frame = stranger.described(message)
        if frame["replyTo"] == 1:
            problems = frame["reply"]["Got"]["errors"]
            values = [row["value"] for row in frame["numbers"]]
            if problems or not values:
                sys.exit(f"{name} has no value: {frame['reply']} {frame['connections']}")
            print(values[0])
            return


if __name__ == "__main__":
    main()
