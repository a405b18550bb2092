"""The HTTP face of an Archiver Appliance, with its faults.

Usage: archiver.py PORT STEP [END]. Serves at this port of 127.0.0.1 until it is killed. A PV has one sample every STEP
seconds since 2020 and until END, in seconds past 1970, or until now: the number of the sample modulo 1000. `/requests`
lists the requests so far. `/names?MANNER` chooses how it lists its names from now on: `whole`, `cut`, `page` (a web page)
or `starting` (503). The end of a PV's name chooses its kind (`:text`, `:enum`) or a fault:

- `:unknown` is not archived, `:starting` gets 503, `:failing` gets 500, `:moved` is at another node of the cluster;
- `:silent` gets no answer, `:slow` gets the beginning of one, `:cut` gets half of one;
- `:broken` gets something that isn't HTTP, `:damaged` gets lines that are no samples, `:huge` gets samples without end.
"""

import functools
import itertools
import math
import re
import struct
import sys
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ROUTE = "/retrieval/data/getData.raw"
NAMES_ROUTE = "/retrieval/bpl/searchForPVsRegex"
NAMES = "A:x\nA:text\nA:secret\npva://A:y\nB:z\nno name\n"
OTHER_NODE = "/node2/retrieval/data/getData.raw"
BEGIN = 1_577_836_800
STRING, ENUM, DOUBLE, DOUBLES = 0, 3, 6, 13
FAULTS = {":unknown": 404, ":starting": 503, ":failing": 500}

STEP = float(sys.argv[2])
END = float(sys.argv[3]) if len(sys.argv) > 3 else math.inf

requests = []
names_manner = "whole"


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def escaped(message):
    for byte, code in ((b"\x1b", b"\x01"), (b"\n", b"\x02"), (b"\r", b"\x03")):
        message = message.replace(byte, b"\x1b" + code)
    return message + b"\n"


def text(field, value):
    value = value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


def header(kind, name, year):
    unit = text(1, "EGU") + text(2, "mA")
    unit = varint(15 << 3 | 2) + varint(len(unit)) + unit
    return escaped(b"\x08" + varint(kind) + text(2, name) + b"\x18" + varint(year) + unit)


def year_of(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).year


def year_start(year):
    return int(datetime(year, 1, 1, tzinfo=timezone.utc).timestamp())


def value_of(kind, value):
    if kind == STRING:
        return text(3, f"text {int(value)}")
    if kind == ENUM:
        return b"\x18" + varint(2 * int(value % 2))
    if kind == DOUBLE:
        return b"\x19" + struct.pack("<d", value)
    return b"\x1a" + varint(8 * len(value)) + struct.pack(f"<{len(value)}d", *value)


def sample(kind, year, at, value, severity):
    seconds = int(at)
    message = b"\x08" + varint(seconds - year_start(year))
    message += b"\x10" + varint(round((at - seconds) * 1e9)) + value_of(kind, value)
    if severity:
        message += b"\x20" + varint(severity) + b"\x28\x03"
    return escaped(message)


def samples(start, end):
    """Numbers of the samples from the last one at or before the start."""
    first = max(math.ceil(BEGIN / STEP), math.floor(start / STEP))
    return range(first, math.floor(min(end, END, time.time()) / STEP) + 1)


def severity(number):
    return 2 if number % 50 == 0 else 0


def lines(kind, name, rows):
    """An answer, whose first header comes twice."""
    before = None
    for at, value, alarm in rows:
        year = year_of(at)
        if year != before:
            head = header(kind, name, year)
            yield head + b"\n" + head if before is None else b"\n" + head
            before = year
        yield sample(kind, year, at, value, alarm)


def binned(numbers, seconds):
    """Mean, deviation, smallest, largest and count of each bin, at its middle."""
    for number, inside in itertools.groupby(numbers, lambda n: int(n * STEP) // seconds):
        inside = list(inside)
        values = [n % 1000 for n in inside]
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        alarm = max(severity(n) for n in inside)
        middle = number * seconds + seconds / 2
        yield middle, [mean, deviation, min(values), max(values), len(values)], alarm


def answer(requested, start, end):
    operator = re.fullmatch(r"optimized_(\d+)\((.*)\)", requested)
    name = operator[2] if operator else requested
    kind = STRING if name.endswith(":text") else ENUM if name.endswith(":enum") else DOUBLE
    numbers = samples(start, end)
    if operator and kind == STRING:
        raise ValueError("statistics of texts")
    if operator and len(numbers) > int(operator[1]):
        seconds = max(1, int((end - start) / int(operator[1])))
        return lines(DOUBLES, name, binned(numbers, seconds))
    return lines(kind, name, ((n * STEP, float(n % 1000), severity(n)) for n in numbers))


@functools.lru_cache(maxsize=4)
def whole_answer(requested, start, end):
    """An answer that won't change: when it is asked for again, it comes as fast as the network allows."""
    return list(answer(requested, start, end))


class Appliance(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def refuse(self, status, body=b"<html><body>an error page</body></html>"):
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, content):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            requests.append(f"left {self.path}")

    def list_names(self, expression):
        if names_manner == "starting":
            return self.refuse(503)
        if names_manner == "page":
            return self.refuse(200)
        content = "".join(line for line in NAMES.splitlines(True) if re.fullmatch(expression, line.strip())).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(content) + (names_manner == "cut")))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        global names_manner
        self.close_connection = True
        if self.path == "/requests":
            return self.refuse(200, "\n".join(requests).encode())
        address = urlsplit(self.path)
        if address.path == "/names":
            names_manner = address.query
            return self.refuse(200)
        requests.append(self.path)
        if address.path == NAMES_ROUTE:
            return self.list_names(parse_qs(address.query)["regex"][0])
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        requested = query.get("pv", "")
        name = requested.rstrip(")")
        try:
            start, end = (datetime.fromisoformat(query[key]).timestamp() for key in ("from", "to"))
        except (KeyError, ValueError):
            return self.refuse(500)
        fault = name[name.rfind(":") :]
        if fault == ":moved" and address.path == ROUTE:
            self.send_response(302)
            self.send_header("Location", f"http://{self.headers['Host']}{OTHER_NODE}?{address.query}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if address.path not in (ROUTE, OTHER_NODE):
            return self.refuse(404)
        if fault in FAULTS:
            return self.refuse(FAULTS[fault])
        if fault in (":silent", ":broken"):
            if fault == ":broken":
                return self.wfile.write(b"no HTTP\n\n")
            return threading.Event().wait()
        # Years of samples take seconds to make.
        try:
            content = (whole_answer if end < time.time() else answer)(requested, start, end)
        except ValueError:
            return self.refuse(500)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if fault == ":huge":
            content = itertools.cycle(list(content))
        if fault == ":damaged":
            content = [b"no sample\n", *content, b"\x08\x96\n", b"\xff" * 40 + b"\n"]
        content = iter(content)
        for part in iter(lambda: b"".join(itertools.islice(content, 500)), b""):
            if fault in (":slow", ":cut"):
                self.chunk(part[: len(part) // 2])
                return threading.Event().wait() if fault == ":slow" else None
            self.chunk(part)
        self.wfile.write(b"0\r\n\r\n")


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Appliance)
server.daemon_threads = True
print("running", file=sys.stderr, flush=True)
server.serve_forever()
