"""An IOC, and relays that were installed from released files.

Each must give the IOC's PV by both protocols, and its demo must show live values in Chromium.
"""

import json
import os
import re
import shutil
import signal
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "testbed/python"))

from child import DEADLINE_S, Child, says  # noqa: E402
from ports import private_network  # noqa: E402

PYTHON = ROOT / ".local/venv/bin/python"

VALUE = 21.5

# How long a demo may take from its command to live values in a browser.
DEMO_S = 15

# Where pictures of the demos' pages are kept.
PICTURES = ROOT / ".local/demos"


class Ioc:
    """An IOC with one record, on a separate network."""

    def __init__(self, folder):
        self.name = f"INSTALLED{os.getpid()}:temp"
        self.network = private_network()
        database = folder / "one.db"
        record = f'record(ao, "{self.name}") {{ field(VAL, "{VALUE}") field(EGU, "degC") field(PINI, "YES") }}\n'
        database.write_text(record)
        command = [PYTHON, "-u", ROOT / "tools/softioc.py", "--pva", "-d", database]
        self.child = Child("IOC", command, dict(os.environ) | self.network)
        self.child.wait_until(says("iocRun: All initialization complete"))


@contextmanager
def running_ioc(folder):
    ioc = Ioc(folder)
    try:
        yield ioc
    finally:
        ioc.child.kill()


def bare(folder):
    """An environment with nothing of this tree, and no variable that would help the loader."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)}


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE_S) as answer:
        return answer.read()


def read(port, name):
    return json.loads(get(port, f"/pv/{urllib.parse.quote(name, safe='')}"))


def ends_well(relay):
    relay.process.send_signal(signal.SIGTERM)
    if relay.process.wait(DEADLINE_S) != 0:
        raise relay.failed("didn't end well after SIGTERM")


def gives_pv(command, ioc, folder):
    """Starts a relay beside the IOC and reads the PV by both protocols. Returns the number of values read."""
    relay = Child("relay", [*command, "--listen", "127.0.0.1:0"], bare(folder) | ioc.network, cwd=folder)
    try:
        relay.wait_until(says("listening on"))
        port = re.search(r"listening on http://127\.0\.0\.1:(\d+)", relay.output)[1]
        if b'<div id="root">' not in get(port, "/"):
            raise relay.failed("has no app")
        names = [f"ca://{ioc.name}", f"pva://{ioc.name}"]
        for full in names:
            shown = read(port, full)
            if shown["value"]["number"] != VALUE or shown["display"]["units"] != "degC":
                sys.exit(f"{command[-1]}: {full} is {shown}")
        ends_well(relay)
        return len(names)
    finally:
        relay.kill()


def browser():
    """The program of Chromium on this machine."""
    # As in tools/setup.sh.
    names = (
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    )
    found = os.environ.get("PVWIRE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        sys.exit("no Chromium on this machine: run make setup-chromium")
    return found


def shows_demo(name, command, folder, with_ioc):
    """Starts the demo and sees values change in Chromium, outside the relay's root. Returns the number of checks."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    watching = ["node", ROOT / "e2e/see_demo.js", browser(), PICTURES / f"{name}.png"]
    watcher = Child("browser", watching, dict(os.environ))
    try:
        watcher.wait_until(says("ready"))
        started = time.monotonic()
        demo = Child("demo", [*command, "demo"], bare(folder), cwd=folder)
        try:
            demo.wait_until(says("Ctrl-C"))
            page = re.search(r"The page: +(http://127\.0\.0\.1:(\d+)/\S*)", demo.output)
            if page is None or ("pvwire-relay[demo]" in demo.output) == with_ioc:
                raise demo.failed("printed something else than expected")
            watcher.process.stdin.write(f"{page[1]}\n")
            watcher.process.stdin.flush()
            watcher.wait_until(says("live"))
            took = time.monotonic() - started
            if took > DEMO_S:
                raise demo.failed(f"took {took:.1f} s to live values, expected {DEMO_S} s")
            if watcher.process.wait(DEADLINE_S) != 0:
                raise watcher.failed("failed")
            shown = re.search(r"One PV: +curl http://[^/]+(/\S+)", demo.output)[1]
            if not isinstance(json.loads(get(page[2], shown))["value"]["number"], float):
                raise demo.failed(f"has no value at {shown}")
            ends_well(demo)
            print(f"{name}: demo with {'an IOC' if with_ioc else 'simulated PVs'}, live in Chromium after {took:.1f} s")
            return 3
        finally:
            demo.kill()
    finally:
        watcher.kill()
