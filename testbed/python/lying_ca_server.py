"""A Channel Access server that sends invalid messages, for tests and for docs/reports/libca-payload.md.

    lying_ca_server.py PORT=NAME...           serves a PV on each of these ports of 127.0.0.1
    lying_ca_server.py client PORT NAME       monitors one of them with libca alone

The part of a name after the last colon selects the invalid message of its PV, one of `LIES`. The server sends
it after one valid value, 7. A PV "silent" is found, and then the server says nothing; "refuses" is found and then
refused, and "odd" gets a type that doesn't exist; "mute" is connected and has no value; "repents" lies once and then
sends 8. Those of `TYPES` aren't doubles, and do what `Circuit.subscribed` says. The server of "unreachable" answers searches and refuses connections, that of "closes" ends them at once. The
program ends when its standard input ends.
"""

import asyncio
import struct
import sys

VERSION, EVENT_ADD, SEARCH, ERROR, READ_NOTIFY = 0, 1, 6, 11, 15
CREATE_CHAN, WRITE_NOTIFY, ACCESS_RIGHTS, ECHO, CREATE_CH_FAIL = 18, 19, 22, 23, 26
MINOR = 13
DBF_DOUBLE, DBR_TIME_DOUBLE, DBR_CTRL_DOUBLE = 6, 20, 34
DBF_ENUM, DBF_CHAR = 3, 4
DBR_TIME_STRING, DBR_TIME_ENUM, DBR_TIME_CHAR, DBR_CTRL_ENUM = 14, 17, 18, 31
NORMAL, GET_FAILED, CHANNEL_DESTROYED = 1, 19 << 3, 55 << 3
SERVER_ID = 77

# Type and number of elements of the PVs that aren't doubles.
TYPES = {
    "label_of_another": (DBF_ENUM, 1),
    "label_withdrawn": (DBF_ENUM, 1),
    "label_unsent": (DBF_ENUM, 1),
    "text": (DBF_CHAR, 100),
}


def message(command, payload=b"", type=0, count=0, one=0, two=0, size=None, extended=False):
    """`size` is the payload size in the header, if it is not the actual size."""
    size = len(payload) if size is None else size
    if extended or size >= 0xFFFF or count > 0xFFFF:
        head = struct.pack(">HHHHIIII", command, 0xFFFF, type, 0, one, two, size, count)
    else:
        head = struct.pack(">HHHHII", command, size, type, count, one, two)
    return head + payload


def value(type, number):
    """The payload of one double, for each type that clients request."""
    if type == DBR_TIME_DOUBLE:
        return struct.pack(">HHIIId", 0, 0, 1_000_000_000, 0, 0, number)
    if type == DBR_CTRL_DOUBLE:
        return struct.pack(">HHhh8s8dd", 0, 0, 1, 0, b"mm", *[0.0] * 8, number)
    if type == DBF_DOUBLE:
        return struct.pack(">d", number)
    if type == DBR_TIME_ENUM:
        return struct.pack(">HHIIHH", 0, 0, 1_000_000_000, 0, 0, number)
    if type == DBR_CTRL_ENUM:
        labels = b"".join(f"choice {index}".encode().ljust(26, b"\0") for index in range(16))
        return struct.pack(">HHH416sH", 0, 0, 16, labels, number)
    if type == DBR_TIME_CHAR:
        return struct.pack(">HHIIHBB", 0, 0, 1_000_000_000, 0, 0, 0, number)
    # A string, for clients that only check whether the server answers.
    return str(number).encode().ljust(40, b"\0")


def update(type, id, number=7.0, **lie):
    return message(
        EVENT_ADD, **{"payload": value(type, number), "type": type, "count": 1, "one": NORMAL, "two": id, **lie}
    )


def label(id, text):
    return update(DBR_TIME_STRING, id, payload=struct.pack(">HHII44s", 0, 0, 1_000_000_000, 0, text))


def unsent(type, id):
    """The server can't send the value."""
    return update(type, id, 0, payload=bytes(16), one=GET_FAILED)


def error(request, text=b"why\0\0\0\0\0"):
    return message(ERROR, request + text, one=0, two=NORMAL)


# By name: the message for a subscription, given its type and id.
LIES = {
    "good": lambda type, id: update(type, id, 8.0),
    "count": lambda type, id: update(type, id, count=60_000),
    "extended": lambda type, id: update(type, id, count=100_000_000),
    "small": lambda type, id: update(type, id, payload=bytes(8)),
    "type": lambda type, id: message(EVENT_ADD, value(type, 7.0), 99, 1, NORMAL, id),
    "plain": lambda _type, id: update(DBF_DOUBLE, id, 9.0),
    "zero": lambda type, id: update(type, id, count=0, payload=value(type, 0)[:16]),
    "misaligned": lambda type, id: update(type, id, payload=bytes(20)),
    "command": lambda _type, _id: message(99),
    "destroyed": lambda type, id: update(type, id, one=CHANNEL_DESTROYED) * 3,
    "written": lambda _type, id: message(WRITE_NOTIFY, one=NORMAL, two=id),
    "created": lambda _type, _id: message(CREATE_CHAN, type=DBF_DOUBLE, count=1, one=1, two=SERVER_ID) * 2,
    "jump": lambda _type, _id: error(message(0xFFF0)),
    "endless": lambda _type, _id: error(message(VERSION), b"x" * 16_368),
    "refused": lambda _type, id: error(message(READ_NOTIFY, two=id)),
    "others": lambda type, _id: b"".join(update(type, id, 666.0) for id in range(2_000)),
    "rights": lambda _type, _id: b"".join(message(ACCESS_RIGHTS, one=cid, two=0) for cid in range(2_000)),
    # The header announces this size, and no payload follows.
    "huge": lambda type, id: update(type, id, size=0xFFFF_FFF8, count=0x1FFF_FFFE),
}


class Circuit(asyncio.Protocol):
    def __init__(self, name):
        self.closes = name.endswith(":closes")
        self.received = b""
        self.lies = {}
        self.has_lied = False
        self.channel = self.watch = None
        self.labels = [b"choice 3", b"seventeen"]
        self.turn = asyncio.Lock()

    def connection_made(self, transport):
        self.transport = transport
        if self.closes:
            transport.close()
            return
        transport.write(message(VERSION, count=MINOR))

    def data_received(self, data):
        self.received += data
        while len(self.received) >= 16:
            command, size, type, count, one, two = struct.unpack(">HHHHII", self.received[:16])
            start = 16
            if size == 0xFFFF:
                if len(self.received) < 24:
                    return
                size, count = struct.unpack(">II", self.received[16:24])
                start = 24
            if len(self.received) < start + size:
                return
            payload = self.received[start : start + size]
            self.received = self.received[start + size :]
            self.answer(command, payload, type, one, two)

    def answer(self, command, payload, type, one, two):
        write = self.transport.write
        if command == CREATE_CHAN:
            lie = payload.rstrip(b"\0").decode().rsplit(":", 1)[1]
            if lie == "silent":
                return
            if lie == "refuses":
                write(message(CREATE_CH_FAIL, one=one))
                return
            if lie == "odd":
                write(message(CREATE_CHAN, type=99, count=1, one=one, two=one + 1_000))
                return
            self.lies[one + 1_000] = lie
            self.channel = one if self.channel is None else self.channel
            native, elements = TYPES.get(lie, (DBF_DOUBLE, 1))
            write(message(ACCESS_RIGHTS, one=one, two=3))
            write(message(CREATE_CHAN, type=native, count=elements, one=one, two=one + 1_000))
        elif command == EVENT_ADD:
            lie = self.lies[one]
            if lie == "mute":
                return
            if lie in TYPES:
                self.subscribed(lie, type, two)
                return
            if lie == "halves":
                asyncio.get_running_loop().create_task(self.in_pieces(update(type, two) * (3 if type == DBR_TIME_DOUBLE else 1)))
                return
            write(update(type, two))
            if type == DBR_TIME_DOUBLE and lie == "repents":
                asyncio.get_running_loop().create_task(self.repent(type, two))
            if type == DBR_TIME_DOUBLE and lie in LIES:
                write(LIES[lie](type, two))
        elif command == READ_NOTIFY:
            lie = self.lies[one]
            answer = {"payload": value(type, 9.0), "type": type, "count": 1, "one": NORMAL, "two": two}
            if lie == "get":
                answer["count"] = 60_000
            if lie == "read":
                # The first answer frees what the client looks up for the second.
                write(message(EVENT_ADD, **answer) * 2)
            write(message(READ_NOTIFY, **answer))
        elif command == WRITE_NOTIFY:
            write(message(WRITE_NOTIFY, type=type, count=1, one=NORMAL, two=two))
        elif command == ECHO:
            write(message(ECHO))

    def subscribed(self, lie, type, id):
        """Sends index 17 or the character "a"; then, when the label or the metadata are requested, what the name says."""
        write = self.transport.write
        if type in (DBR_TIME_ENUM, DBR_CTRL_ENUM, DBR_TIME_CHAR):
            self.watch = self.watch or id
            write(update(type, id, ord("a") if type == DBR_TIME_CHAR else 17))
        elif lie == "text":
            # A value that can't be sent, and then one that can.
            write(update(type, id) + unsent(DBR_TIME_CHAR, self.watch) + update(DBR_TIME_CHAR, self.watch, ord("b")))
        elif lie == "label_of_another":
            # The first label is read while the PV has another value for a moment.
            if len(self.labels) == 2:
                write(update(DBR_TIME_ENUM, self.watch, 3) + update(DBR_TIME_ENUM, self.watch, 17))
            write(label(id, self.labels.pop(0)))
        else:
            is_withdrawn = lie == "label_withdrawn"
            withdrawn = message(ACCESS_RIGHTS, one=self.channel, two=0)
            write((withdrawn if is_withdrawn else unsent(DBR_TIME_ENUM, self.watch)) + label(id, b"seventeen"))

    async def repent(self, type, id):
        if not self.has_lied:
            self.has_lied = True
            self.transport.write(update(type, id, payload=bytes(8)))
            await asyncio.sleep(2)
        while not self.transport.is_closing():
            self.transport.write(update(type, id, 8.0))
            await asyncio.sleep(0.1)

    async def in_pieces(self, data):
        async with self.turn:
            for at in range(0, len(data), 5):
                self.transport.write(data[at : at + 5])
                await asyncio.sleep(0.001)


class Search(asyncio.DatagramProtocol):
    def __init__(self, port, name):
        self.port, self.name = port, name

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        while len(data) >= 16:
            command, size, _, _, _, id = struct.unpack(">HHHHII", data[:16])
            name, data = data[16 : 16 + size].rstrip(b"\0").decode(), data[16 + size :]
            if command == SEARCH and name == self.name:
                found = struct.pack(">HHHHIIHHI", SEARCH, 8, self.port, 0, 0xFFFF_FFFF, id, MINOR, 0, 0)
                self.transport.sendto(found, address)


async def serve(served):
    loop = asyncio.get_running_loop()
    for port, name in served:
        if not name.endswith(":unreachable"):
            await loop.create_server(lambda n=name: Circuit(n), "127.0.0.1", port)
        await loop.create_datagram_endpoint(lambda p=port, n=name: Search(p, n), ("127.0.0.1", port))
    print("listening", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def monitor(port, name):
    import ctypes
    import os

    import epicscorelibs.path

    os.environ |= {"EPICS_CA_ADDR_LIST": "127.0.0.1", "EPICS_CA_AUTO_ADDR_LIST": "NO", "EPICS_CA_SERVER_PORT": port}
    libca = ctypes.CDLL(epicscorelibs.path.get_lib("ca"))
    libca.ca_pend_event.argtypes = libca.ca_pend_io.argtypes = [ctypes.c_double]
    channel, subscription = ctypes.c_void_p(), ctypes.c_void_p()
    called = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)(lambda *_: print("an event", flush=True))
    libca.ca_context_create(1)
    libca.ca_create_channel(name.encode(), None, None, 0, ctypes.byref(channel))
    assert libca.ca_pend_io(5) == NORMAL, "not found"
    libca.ca_create_subscription(
        ctypes.c_long(DBR_TIME_DOUBLE), ctypes.c_ulong(1), channel, ctypes.c_long(1), called, None,
        ctypes.byref(subscription),
    )
    libca.ca_pend_event(2)
    print("still there")


if __name__ == "__main__":
    if sys.argv[1] == "client":
        monitor(*sys.argv[2:])
    else:
        pairs = (argument.split("=", 1) for argument in sys.argv[1:])
        asyncio.run(serve([(int(port), name) for port, name in pairs]))
