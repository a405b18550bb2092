"""The fleet of `make demo FLEET=3`: a NATS server, relays on it, and what they and the IOC say of themselves."""

import json
import os
import re
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

from child import says
from ports import free_port

ROOT = Path(__file__).resolve().parent.parent
NATS = ROOT / ".local/nats/usr/sbin/nats-server"

LOOK_EVERY_S = 0.5
# The IOC writes some lines for each of its channels.
ASK_IOC_EVERY_S = 3
ANSWER_WITHIN_S = 10


def start_nats(part, environment):
    port = free_port()
    program = os.environ.get("PVWIRE_NATS_SERVER", NATS if NATS.exists() else "nats-server")
    nats = part("NATS", [program, "--addr", "127.0.0.1", "--port", port], environment)
    nats.wait_until(says("Server is ready"))
    return nats, f"nats://127.0.0.1:{port}"


def flags(bus, port, page_port):
    """The flags of a relay of the fleet. The page is of another origin than all relays but one."""
    origins = [f"http://{host}:{page_port}" for host in ("127.0.0.1", "localhost")]
    allowed = [word for origin in origins for word in ("--allow-origin", origin)]
    return ["--bus", bus, "--member-url", f"ws://127.0.0.1:{port}/ws", *allowed]


class Fleet:
    """Polls the relays and the IOC all the time, so that the page gets its answer at once."""

    def __init__(self, relays, ports, ioc, folder):
        self.relays = relays
        self.ports = ports
        self.ioc = ioc
        self.folder = folder
        self.of_relays = {}
        self.of_ioc = None
        for look in (self.look_at_relays, self.ask_ioc):
            threading.Thread(target=look, daemon=True).start()

    def status(self):
        """For the page: each relay with its state, and how the IOC serves its PVs."""
        relays = [
            {"name": name, "state": relay.state, **(self.of_relays.get(name, {}) if relay.is_running() else {})}
            for name, relay in self.relays.items()
        ]
        return {"relays": relays, "ioc": self.of_ioc}

    def look_at_relays(self):
        while True:
            for name, port in zip(self.relays, self.ports, strict=True):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=1) as answer:
                        status = json.load(answer)
                except (OSError, ValueError):
                    self.of_relays.pop(name, None)
                    continue
                own = [relay for relay in status["fleet"] if relay["thisRelay"]]
                self.of_relays[name] = {
                    "instance": status["instance"],
                    "pvs": own[0]["pvs"] if own else 0,
                    "clients": status["clients"],
                }
            time.sleep(LOOK_EVERY_S)

    def ask_ioc(self):
        while True:
            try:
                self.of_ioc = channels(self.ioc, self.folder)
            except OSError:
                # It was killed and is started again.
                self.of_ioc = None
            time.sleep(ASK_IOC_EVERY_S)


def channels(ioc, folder):
    """How many PVs the IOC serves by Channel Access, and the most channels of one of them; `casr` lists them."""
    if ioc.state != "running":
        return None
    answer, done = folder / "casr", folder / "casr.done"
    done.unlink(missing_ok=True)
    ioc.process.stdin.write(f"ioc('casr 4 > {answer}'); open('{done}', 'w').close()\n")
    ioc.process.stdin.flush()
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while not done.exists():
        if time.monotonic() > deadline or not ioc.is_running():
            return None
        time.sleep(0.05)
    # The relays read some fields of records through separate channels.
    names = re.findall(r"Channel: '([^'.]+)'", answer.read_text())
    return {"pvs": len(set(names)), "most": max(Counter(names).values(), default=0)}
