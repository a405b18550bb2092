"""Child processes: starts a program, waits for it, ends it, and keeps the last lines of its output."""

import socket
import subprocess
import threading
import time
from collections import deque

# Longer than any step takes on a busy machine; only a failure reaches it.
DEADLINE_S = 60
LINES = 50


class Failed(Exception):
    """A program ended or was not ready in time. The message has the last lines of its output."""


class Child:
    """A process and the last lines of its output. It can be started again."""

    def __init__(self, name, command, environment, cwd=None, stdin=subprocess.PIPE):
        self.name = name
        self.command = [str(word) for word in command]
        self.environment = environment
        self.cwd = cwd
        self.stdin = stdin
        self.start()

    def start(self):
        # In a separate session, so that Ctrl-C reaches only this program, which then ends the children.
        self.process = subprocess.Popen(
            self.command,
            cwd=self.cwd,
            env=self.environment,
            stdin=self.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.lines = drain(self.process.stdout)

    @property
    def pid(self):
        return self.process.pid

    @property
    def output(self):
        return "".join(self.lines.copy())

    def is_running(self):
        return self.process.poll() is None

    def wait_until(self, is_ready):
        """Waits until `is_ready(self)`; `Failed` if it ends before or takes too long."""
        deadline = time.monotonic() + DEADLINE_S
        while not is_ready(self):
            if not self.is_running():
                raise self.failed(f"ended with status {self.process.returncode}")
            if time.monotonic() > deadline:
                raise self.failed(f"was not ready within {DEADLINE_S} s")
            time.sleep(0.02)

    def failed(self, what):
        return Failed(f"{self.name} {what}. It printed:\n{self.output}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end_until(self, deadline):
        """Waits until a process that was asked to end has ended, and kills it at `deadline`."""
        try:
            self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()


def drain(stream):
    """Reads a program's output until its end, so that its pipe never fills, and keeps the last lines."""
    lines = deque(maxlen=LINES)

    def read():
        with stream:
            lines.extend(stream)

    threading.Thread(target=read, daemon=True).start()
    return lines


def says(text):
    """For `wait_until`: a line of the child contains `text`."""
    return lambda child: text in child.output


def listens(port):
    """Whether a program accepts connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
