"""Checks what each system shows when an IOC hangs, dies and comes back, what values it brings, and how puts end.

All systems follow the same IOC at the same time, each with a client as its users have it (peers/watch.py and watch.mjs).
A cell of the result has what was seen, and whether that is right; `None` where there is no right or wrong.
"""

import json
import os
import random
import signal
import string
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import systems
from processes import IOC, PYTHON, ROOT, TARGET, Children, gateway_settings, say, wait_for_line
from systems import Failed

from child import drain, listens
from ports import free_port, private_network

PEERS = ROOT / "bench/relay/peers"
PEERS_PYTHON = systems.PEERS_PYTHON

# How long each step waits for the last of the systems.
READY_S, HANG_S, RESUME_S, DEATH_S, RETURN_S, PUT_S = 30, 60, 40, 15, 60, 12
EXPECTED_S = 200

# Delay of the record whose put completes late.
SLOW_S = 1

BIG = 2**53 + 1
TEXT = "a text of more than forty characters, which is an array of characters"

LOST = ("INVALID", "UNDEFINED")

# Name, what its users have, package, and the program of its client.
WATCHED = [
    ("pvwire", "its own client", "", ["node", PEERS / "watch.mjs"]),
    ("pvwire", "clients of PVWS", "", "pvwire-pvws"),
    ("pvwire", "clients of Coniql", "", "pvwire-coniql"),
    ("Coniql", "GraphQL", "coniql", "coniql"),
    ("PVWS", "JSON", "", "pvws"),
    ("p4p gateway", "client of p4p", "p4p", "gateway"),
    ("aioca", "client of Channel Access", "aioca", "aioca"),
    ("p4p", "client of pvAccess", "p4p", "p4p"),
    ("caproto", "client of Channel Access", "caproto", "caproto"),
    ("pyepics", "client of Channel Access", "pyepics", "pyepics"),
]


def database(prefix, number, label):
    """The records; number and label differ from one start of the IOC to the next."""
    return f"""
    record(calc, "{prefix}:X") {{ field(CALC, "{number}") field(PINI, "YES") field(EGU, "mA") }}
    record(mbbo, "{prefix}:MODE") {{
        field(ZRST, "Off") field(ONST, "{label}") field(VAL, "1") field(PINI, "YES")
    }}
    record(int64in, "{prefix}:BIG") {{ field(VAL, "{BIG}") field(PINI, "YES") }}
    record(calc, "{prefix}:NAN") {{ field(CALC, "0/0") field(PINI, "YES") }}
    record(waveform, "{prefix}:TEXT") {{
        field(FTVL, "CHAR") field(NELM, "200") field(INP, {{const: "{TEXT}"}}) info(Q:form, "String")
    }}
    record(calc, "{prefix}:ALARM") {{
        field(CALC, "9") field(HIHI, "8") field(HHSV, "MAJOR") field(PINI, "YES")
    }}
    record(ao, "{prefix}:FREE") {{ }}
    record(ao, "{prefix}:LOCKED") {{ field(DISP, "1") }}
    record(calcout, "{prefix}:SLOW") {{ field(CALC, "A") field(ODLY, "{SLOW_S}") field(OOPT, "Every Time") }}
    """


class Ioc:
    """An IOC that can hang, die and come back at its ports with other values."""

    def __init__(self, children, environment, folder, prefix):
        self.children, self.environment, self.folder, self.prefix = children, environment, folder, prefix
        self.start("1", "Standby")

    def start(self, number, label):
        file = self.folder / "fidelity.db"
        file.write_text(database(self.prefix, number, label))
        self.process = self.children.start(
            [PYTHON, "-u", *IOC["pva"], "-d", file],
            os.sched_getaffinity(0),
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        wait_for_line(self.process.stdout, "All initialization complete", "an IOC")
        drain(self.process.stdout)

    def hang(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.children.running.remove(self.process)


class Watcher:
    """A client of one system: what it shows of each PV now, and since when."""

    def __init__(self, children, name, way, command, environment):
        self.name, self.way = name, way
        self.states, self.outcomes = {}, {}
        self.changed = threading.Condition()
        self.process = children.start(
            command,
            os.sched_getaffinity(0),
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.errors = drain(self.process.stderr)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            with self.changed:
                if "put" in message:
                    self.outcomes[message["put"]] = message["outcome"], time.monotonic()
                elif "pv" in message:
                    self.states[message["pv"]] = message
                self.changed.notify_all()

    def put(self, name, value):
        self.outcomes.pop(name, None)
        try:
            self.process.stdin.write(json.dumps({"put": name, "value": value}) + "\n")
            self.process.stdin.flush()
        except OSError:
            self.outcomes[name] = "failed: the client ended", time.monotonic()

    def wait(self, is_true, deadline):
        """Seconds until `is_true(self)`; `None` at the deadline."""
        began = time.monotonic()
        with self.changed:
            while not is_true(self):
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self.changed.wait(left)
        return time.monotonic() - began

    def value(self, key):
        return self.states.get(key, {}).get("value")

    def severity(self, key):
        return self.states.get(key, {}).get("severity")


def is_lost(state):
    """Whether what is shown of a PV says that it isn't current."""
    return state.get("connected") is False or bool(state.get("stale")) or state.get("severity") in LOST


def shows(watcher, number):
    """Whether a client shows this value of X, as current."""
    state = watcher.states.get("X", {})
    try:
        return not is_lost(state) and float(state.get("value")) == number
    except (TypeError, ValueError):
        return False


def cell(right, text):
    return {"right": right, "text": text}


def seconds_cell(seconds, limit_s):
    """A time in which something must be shown."""
    if seconds is None:
        return cell(False, f"not within {limit_s} s")
    return cell(True, f"{seconds:.1f} s")


def severity_cell(state):
    """What is read as the severity of a PV that isn't connected."""
    severity = state.get("severity") or "none"
    quality = f" (quality: {state['quality']})" if "quality" in state else ""
    return cell(severity != "NO_ALARM", severity + quality)


def return_cell(watcher, seconds):
    """When the new value was shown as current; what is shown in its place if it never was."""
    if seconds is not None:
        return seconds_cell(seconds, RETURN_S)
    state = watcher.states["X"]
    return cell(False, f"not within {RETURN_S} s: {state.get('value')} is shown as {state.get('severity') or 'lost'}")


def value_cells(watcher):
    """How values arrive that are easily damaged."""
    big, text, nan = watcher.value("BIG"), watcher.value("TEXT"), watcher.value("NAN")
    codes = json.dumps(list(TEXT.encode()))
    is_bytes = isinstance(text, str) and text.rstrip("]").startswith(codes.rstrip("]"))
    return {
        "A 64-bit integer, 2⁵³ + 1": cell(big == str(BIG), {str(BIG): "exact"}.get(big, shown(big))),
        "NaN": cell((nan or "").lower() == "nan", shown(nan)),
        "An array of characters": cell(
            text == TEXT or is_bytes, "text" if text == TEXT else "its bytes" if is_bytes else shown(text)
        ),
        "A MAJOR alarm": cell(watcher.severity("ALARM") == "MAJOR", shown(watcher.severity("ALARM"))),
    }


def shown(value):
    if value is None:
        return "nothing"
    return value if len(value) <= 24 else value[:24] + "…"


def put_cells(watcher, prefix, began):
    """How puts end that the IOC refuses, and that take a second."""
    refused, _ = watcher.outcomes.get(f"{prefix}:LOCKED", ("no answer", 0))
    slow, at = watcher.outcomes.get(f"{prefix}:SLOW.A", ("no answer", began))
    took_s = at - began
    completes = slow == "done" and took_s >= SLOW_S * 0.9
    return {
        "A put that the IOC refuses (DISP)": refusal_cell(refused),
        f"A put whose record takes {SLOW_S} s": cell(
            completes, f"done after {took_s:.1f} s" if slow == "done" else brief(slow)
        ),
    }


def refusal_cell(outcome):
    """A put of which nothing was written must fail."""
    right = outcome.startswith("failed")
    return cell(right, "failed" if right else brief(outcome))


def brief(outcome):
    return outcome.split("\n")[0] if len(outcome) <= 40 else outcome[:40] + "…"


class Check:
    """All systems on one IOC, and the cells that were found."""

    def __init__(self, children, folder, versions):
        self.children, self.folder, self.versions = children, folder, versions
        self.prefix = "FID" + "".join(random.choices(string.ascii_uppercase, k=6))
        self.environment = os.environ | private_network() | {"EPICS_CA_MAX_ARRAY_BYTES": "100000"}
        self.ioc = Ioc(children, self.environment, folder, self.prefix)
        self.watchers, self.failed = [], []
        for name, way, package, command in WATCHED:
            try:
                if package and package not in versions:
                    raise Failed(f"not run: {package} could not be installed into .local/peers")
                self.watchers.append(self.watcher(name, way, command))
            except (Failed, SystemExit, OSError) as error:
                if systems.is_end(error):
                    raise
                self.failed.append({"system": name, "way": way, "failed": systems.first_line(error)})
        self.cells = {(each.name, each.way): {} for each in self.watchers}

    def watcher(self, name, way, command):
        environment, port = self.environment, []
        if name == "pvwire":
            port = [self.relay()]
        elif command == "coniql":
            port = [self.server([PEERS_PYTHON, "-u", PEERS / "serve_coniql.py"], "Coniql")]
        elif command == "pvws":
            port = [self.pvws()]
        elif command == "gateway":
            environment = environment | {"EPICS_PVA_NAME_SERVERS": f"127.0.0.1:{self.gateway()}"}
        words = command if isinstance(command, list) else [PEERS_PYTHON, "-u", PEERS / "watch.py", command]
        return Watcher(self.children, name, way, [*words, self.prefix, *port], environment)

    def relay(self):
        """One relay for all of pvwire's clients."""
        if not hasattr(self, "relay_port"):
            flags = ["--listen", "127.0.0.1:0", "--pvws", "--coniql", "--enable-put", "--allow-put=*"]
            process = self.start([TARGET / "pvwire-relay", *flags], self.environment)
            found = wait_for_line(process.stdout, r"listening on http://\S+:(\d+)", "the relay")
            self.relay_port = found[1]
            drain(process.stdout)
        return self.relay_port

    def start(self, command, environment):
        return self.children.start(
            command, os.sched_getaffinity(0), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def server(self, command, name, environment=None, patience_s=30):
        """The port of a server that gets it as its last argument, once it listens."""
        port = free_port()
        process = self.start([*command, port], environment or self.environment)
        return self.listening(process, port, name, patience_s)

    def listening(self, process, port, name, patience_s):
        output = drain(process.stdout)
        deadline = time.monotonic() + patience_s
        while not listens(port):
            if time.monotonic() > deadline or process.poll() is not None:
                raise Failed(f"failed: {name} doesn't listen: {''.join(list(output)[-1:]).strip()}")
            time.sleep(0.1)
        return port

    def pvws(self):
        if "BENCH_PVWS" not in os.environ:
            raise Failed(systems.WAR)
        port = free_port()
        environment = self.environment | {"PVWS_PORT": str(port), "PV_WRITE_SUPPORT": "true"}
        process = self.start(["sh", "-c", os.environ["BENCH_PVWS"]], environment)
        return self.listening(process, port, "PVWS", 60)

    def gateway(self):
        port = free_port()
        conf = self.folder / "gateway.json"
        conf.write_text(json.dumps(gateway_settings(port, self.environment["EPICS_PVA_NAME_SERVERS"])))
        process = self.start([PEERS_PYTHON, "-m", "p4p.gw", conf], self.environment)
        return self.listening(process, port, "the gateway", 30)

    def times(self, is_true, limit_s):
        """Seconds until it is true of each client, all of them waited for at the same time."""
        deadline, found = time.monotonic() + limit_s, {}

        def wait(watcher):
            found[watcher] = watcher.wait(is_true, deadline)

        threads = [threading.Thread(target=wait, args=(watcher,)) for watcher in self.watchers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def add(self, watcher, cells):
        self.cells[watcher.name, watcher.way] |= cells

    def first_values(self):
        """Takes away the systems that show nothing."""
        wanted = ("X", "MODE", "BIG", "NAN", "TEXT", "ALARM")
        say("   first values")
        found = self.times(lambda watcher: shows(watcher, 1), READY_S)
        self.times(lambda watcher: all(key in watcher.states for key in wanted), 5)
        for watcher, seconds in found.items():
            if seconds is None:
                reason = f"failed: no value within {READY_S} s: {''.join(list(watcher.errors)[-1:]).strip()[:120]}"
                self.failed.append({"system": watcher.name, "way": watcher.way, "failed": reason})
                self.watchers.remove(watcher)
                del self.cells[watcher.name, watcher.way]
                continue
            self.add(watcher, value_cells(watcher))

    def puts(self):
        """Each system in turn, because they share the records."""
        say("   puts")
        for watcher in self.watchers:
            began = time.monotonic()
            names = [f"{self.prefix}:LOCKED", f"{self.prefix}:SLOW.A"]
            for name in names:
                watcher.put(name, 3)
            watcher.wait(lambda each: all(name in each.outcomes for name in names), began + PUT_S)
            # An answer that isn't tied to the put comes by another way.
            self.add(watcher, put_cells(watcher, self.prefix, began))

    def hang(self):
        say("   the IOC hangs")
        self.ioc.hang()
        found = self.times(lambda watcher: is_lost(watcher.states["X"]), HANG_S)
        self.ioc.resume()
        self.times(lambda watcher: shows(watcher, 1), RESUME_S)
        for watcher, seconds in found.items():
            self.add(watcher, {"IOC hangs: shown after": seconds_cell(seconds, HANG_S)})

    def death(self):
        say("   the IOC is killed")
        self.ioc.kill()
        found = self.times(lambda watcher: is_lost(watcher.states["X"]), DEATH_S)
        for watcher, seconds in found.items():
            self.add(watcher, {
                "IOC killed: shown after": seconds_cell(seconds, DEATH_S),
                "Severity of the disconnected PV": severity_cell(watcher.states["X"]),
            })
            watcher.put(f"{self.prefix}:FREE", 3)
        name = f"{self.prefix}:FREE"
        self.times(lambda watcher: name in watcher.outcomes, PUT_S)
        for watcher in self.watchers:
            outcome, _ = watcher.outcomes.get(name, ("no answer", 0))
            self.add(watcher, {"A put while the IOC is dead": refusal_cell(outcome)})

    def comes_back(self):
        say("   the IOC starts with other values")
        self.ioc.start("2", "Run")
        found = self.times(lambda watcher: shows(watcher, 2), RETURN_S)
        labels = self.times(lambda watcher: "Run" in (watcher.states["MODE"].get("labels") or ()), 5)
        for watcher, seconds in found.items():
            now = watcher.states["MODE"].get("labels")
            self.add(watcher, {
                "IOC restarted: new value after": return_cell(watcher, seconds),
                "A label that changed meanwhile": cell(
                    labels[watcher] is not None, "new" if labels[watcher] is not None else shown(str(now and now[1]))
                ),
            })


def measure(versions):
    """Rows of all systems, each with the cells of its checks."""
    with tempfile.TemporaryDirectory() as folder, Children() as children:
        check = Check(children, Path(folder), versions)
        try:
            for step in (check.first_values, check.puts, check.hang, check.death, check.comes_back):
                step()
        finally:
            # What is stopped doesn't end.
            if check.ioc.process.poll() is None:
                check.ioc.resume()
        rows = [
            {"system": name, "way": way, "cells": cells, "version": version_of(name, versions)}
            for (name, way), cells in check.cells.items()
        ]
    return rows + check.failed


def version_of(name, versions):
    return versions.get({"p4p gateway": "p4p"}.get(name, name.lower()))
