"""Starts the demo: an IOC, the relay and the page. Starts a softIOC, the relay and the demo page, and prints the URL.

Everything listens on loopback only. An IOC or relay that is killed, by hand or by the page's own
buttons, is started again after five seconds, so that a visitor sees what the page says meanwhile.
Ctrl-C ends all of it.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "testbed/python"))

import demo_fleet  # noqa: E402
from child import Child, Failed, says  # noqa: E402
from ports import private_network  # noqa: E402
from ports import free_port  # noqa: E402

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RELAY = Path(os.environ.get("PVWIRE_RELAY", TARGET / "release/pvwire-relay"))
PYTHON = ROOT / ".local/venv/bin/python"
PREFIX = "DEMO"

RESTART_AFTER_S = 5


def say(text):
    print(text, flush=True)


class Part(Child):
    """A process of the demo, which the page can pause."""

    paused = False

    def start(self):
        self.paused = False
        super().start()

    def pause(self):
        """As a machine that hangs: its connections stay and nothing comes of them."""
        if self.is_running():
            self.process.send_signal(signal.SIGSTOP)
            self.paused = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    @property
    def state(self):
        if not self.is_running():
            return "gone"
        return "paused" if self.paused else "running"

    def end(self):
        if self.is_running():
            self.process.terminate()
            # What is paused ends when it goes on.
            self.resume()


def answers(url):
    def ask(_):
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    return ask


def start_ioc(environment):
    thousand = ROOT / ".local/thousand.db"
    records = [PYTHON, ROOT / "tools/thousand_db.py"]
    thousand.write_bytes(subprocess.run(records, check=True, capture_output=True).stdout)
    databases = ["-d", ROOT / "web-demo/ioc/demo.db", "-d", thousand]
    command = [PYTHON, "-u", ROOT / "tools/softioc.py", "--access", ROOT / "web-demo/ioc/demo.acf"]
    ioc = Part("IOC", [*command, "-m", f"P={PREFIX}", *databases], environment, ROOT)
    ioc.wait_until(says("IOC Running"))
    return ioc


def start_relay(environment, port, name="relay", more=()):
    # There is no other relay to move to: Ctrl-C should be quick.
    quick = ["--drain-delay-ms", "0", "--drain-spread-ms", "200"]
    # Not to all that the page shows: one of its set points is there to be refused by the relay.
    puts = ["--enable-put", "--allow-put", f"{PREFIX}:*:SET", "--allow-put", f"{PREFIX}:OP:MESSAGE"]
    # The page shows simulated PVs too.
    command = [RELAY, "--listen", f"127.0.0.1:{port}", "--enable-sim", *quick, *puts, *more]
    relay = Part(name, command, environment, ROOT)
    relay.wait_until(answers(f"http://127.0.0.1:{port}/ready"))
    return relay


class Control(ThreadingHTTPServer):
    """What the page's buttons call: it kills and pauses what the demo runs, and nothing else."""

    daemon_threads = True

    def __init__(self, ioc, relays, fleet):
        super().__init__(("127.0.0.1", 0), ControlRequest)
        self.children = {"ioc": ioc, **relays}
        self.actions = {("ioc", "kill"), ("ioc", "pause"), ("ioc", "resume"), *((name, "kill") for name in relays)}
        self.fleet = fleet
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def handle_error(self, request, client_address):
        """A browser may close its connection at any moment."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ControlRequest(BaseHTTPRequestHandler):
    """`GET /demo/processes` says how they are; `POST /demo/ioc/kill` does it, if the page asks."""

    def do_GET(self):
        if self.is_for_us() and self.path == "/demo/processes":
            self.tell()
        else:
            self.send_error(404)

    def do_POST(self):
        # No other site can send this header from a visitor's browser without a preflight, which is refused.
        if not self.is_for_us() or self.headers.get("X-Pvwire-Demo") != "yes":
            self.send_error(403)
            return
        action = tuple(self.path.removeprefix("/demo/").split("/"))
        if action not in self.server.actions:
            self.send_error(404)
            return
        name, what = action
        getattr(self.server.children[name], what)()
        self.tell()

    def is_for_us(self):
        """Another name that leads here may be a foreign page's."""
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        return host in ("127.0.0.1", "localhost")

    def tell(self):
        states = {name: child.state for name, child in self.server.children.items()}
        fleet = {"fleet": self.server.fleet.status()} if self.server.fleet else {}
        body = json.dumps({**states, **fleet, "restartAfterSeconds": RESTART_AFTER_S}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start_page(port, relay_port, control_port, folder):
    environment = dict(
        os.environ,
        PVWIRE_RELAY_PORT=str(relay_port),
        PVWIRE_DEMO_CONTROL_PORT=str(control_port),
        VITE_PV_PREFIX=PREFIX,
    )
    vite = ROOT / "node_modules/vite/bin/vite.js"
    build = subprocess.run(
        ["node", vite, "build", "--outDir", folder, "--emptyOutDir", "--logLevel", "error"],
        cwd=ROOT / "web-demo",
        env=environment,
    )
    if build.returncode != 0:
        sys.exit("the page could not be built")
    command = ["node", vite, "preview", "--outDir", folder, "--port", port, "--strictPort", "--logLevel", "error"]
    page = Part("page", command, environment, ROOT / "web-demo")
    page.wait_until(answers(f"http://127.0.0.1:{port}/"))
    return page


def keep_running(parts, page):
    """Starts the IOC or a relay again when it was killed; ends when the page does."""
    while page.is_running():
        for child in parts:
            if not child.is_running():
                say(f"the {child.name} is gone; it starts again in {RESTART_AFTER_S} s")
                time.sleep(RESTART_AFTER_S)
                child.start()
                say(f"the {child.name} is back; kill it with: kill -9 {child.pid}")
        time.sleep(0.2)
    raise page.failed("ended")


def tell(port, relay_ports, parts):
    """Prints where the page and the relays are, and how to break them."""
    status = "".join(
        f"\n  {of_relay(number, relay_ports)} status:  http://127.0.0.1:{each}/"
        for number, each in enumerate(relay_ports, 1)
    )
    kill = "".join(f"\n    {f'the {part.name}:':<13}kill -9 {part.pid}" for part in parts)
    say(
        f"""
  The page:            http://127.0.0.1:{port}/{status}

  See what it says when something dies, by the buttons of the page or by hand; all start again after
  {RESTART_AFTER_S} s:{kill}

  Ctrl-C ends everything.
"""
    )


def of_relay(number, relay_ports):
    return "The relay's" if len(relay_ports) == 1 else f"Relay {number}'s  "


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="port of the page (default: a free one)")
    parser.add_argument("--relay-port", type=int, default=0, help="port of the relay (default: a free one)")
    parser.add_argument("--fleet", type=int, choices=range(2, 10), help="number of relays, which share PVs over NATS")
    arguments = parser.parse_args()
    port, relay_port = arguments.port or free_port(), arguments.relay_port or free_port()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A terminal that is closed: the relay takes that signal for another one.
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    children = []
    # Another demo or the tests may serve a page at the same time, which this build must not replace.
    folder = tempfile.TemporaryDirectory(prefix="pvwire-demo-")
    try:
        environment = {**os.environ, **private_network()}
        say("starting the IOC …")
        children.append(start_ioc(environment))
        ioc = children[0]
        relays, ports, fleet = {}, [relay_port], None
        if arguments.fleet:
            say("starting NATS and the relays …")
            nats, bus = demo_fleet.start_nats(Part, environment)
            children.append(nats)
            ports += [free_port() for _ in range(arguments.fleet - 1)]
            for number, each in enumerate(ports, 1):
                name = f"relay {number}"
                relays[f"relay{number}"] = start_relay(environment, each, name, demo_fleet.flags(bus, each, port))
                children.append(relays[f"relay{number}"])
            fleet = demo_fleet.Fleet(relays, ports, ioc, Path(folder.name))
        else:
            say("starting the relay …")
            relays["relay"] = start_relay(environment, relay_port)
            children.append(relays["relay"])
        say("building and serving the page …")
        control = Control(ioc, relays, fleet)
        children.append(start_page(port, relay_port, control.port, folder.name))
        tell(port, ports, [ioc, *relays.values()])
        keep_running([ioc, *relays.values()], children[-1])
    except KeyboardInterrupt:
        say("\nending …")
    except Failed as error:
        sys.exit(str(error))
    finally:
        # The page first: what it shows has no more meaning when the others go.
        for child in reversed(children):
            child.end()
        deadline = time.monotonic() + 10
        for child in children:
            child.end_until(deadline)
        folder.cleanup()
    return 0


if __name__ == "__main__":
    sys.exit(main())
