"""Checks that the pods of deploy/kubernetes stop in time and send a close frame to every client.

`check_pods.py RELAY` runs the containers of a manifest as processes, each in a separate process namespace
unless the pod shares one, with the manifest's environment and nginx configuration on private ports. Then
it stops them as the kubelet does: preStop and SIGTERM for all containers at once, native
sidecars after the others, SIGKILL when the grace period is over.
"""

import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "testbed/python"))

from child import Child, Failed, listens, says  # noqa: E402
from ports import free_port  # noqa: E402

MANIFESTS = ROOT / "deploy/kubernetes"
PYTHON = ROOT / ".local/venv/bin/python"
HOST = "screens.example.org"
CLIENTS = 6
ENDS_WITHIN_S = 10
# A busy machine may delay one attempt; a slow program delays all.
ATTEMPTS = 3
STARTS_WITHIN_S = 60
SERVICE_RESTART = 1012


class Container(Child):
    """A process that stands for a container."""

    def __init__(self, name, spec, command, environment, isolated, stop_signal, console=None):
        self.spec, self.stop_signal = spec, stop_signal
        if isolated:
            as_user = [] if os.getuid() == 0 else ["--map-root-user"]
            command = ["unshare", *as_user, "--pid", "--fork", "--kill-child", *command]
        super().__init__(name, command, environment, stdin=console or subprocess.DEVNULL)
        self.inside = self.pid
        if isolated:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
            self.wait_until(lambda _: children.read_text().split())
            self.inside = int(children.read_text().split()[0])

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.inside, number)

    def stop(self):
        """As the kubelet: first the preStop hook, then the image's stop signal."""
        hook = self.spec.get("lifecycle", {}).get("preStop", {})
        time.sleep(hook.get("sleep", {}).get("seconds", 0))
        self.signal(self.stop_signal)


class Client:
    """A WebSocket client that reads until it is times to go, or is cut off."""

    def __init__(self, port):
        self.code = None
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=STARTS_WITHIN_S)
        self.connection.sendall(
            (
                f"GET /ws HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "Sec-WebSocket-Protocol: pvwire.v1\r\n\r\n"
            ).encode()
        )
        self.stream = self.connection.makefile("rb")
        status = self.stream.readline().decode().strip()
        if " 101 " not in status:
            raise RuntimeError(f"a client was refused: {status}")
        while self.stream.readline().strip():
            pass
        self.message()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def message(self):
        """Opcode and payload of the next message."""
        first, length = self.stream.read(2)
        if length >= 126:
            length = int.from_bytes(self.stream.read(2 if length == 126 else 8), "big")
        return first & 0xF, self.stream.read(length)

    def read(self):
        with contextlib.suppress(OSError, ValueError):
            while self.code is None:
                opcode, payload = self.message()
                if opcode == 8:
                    self.code = struct.unpack(">H", payload[:2])[0]
        self.connection.close()


def environment_of(spec, ports):
    """A container's variables, with the namespace filled in and this test's ports."""
    own = {}
    for each in spec.get("env", []):
        if "valueFrom" in each:
            own[each["name"]] = "controls"
        else:
            reference = lambda found: own.get(found[1], found[0])  # noqa: E731
            own[each["name"]] = re.sub(r"\$\((\w+)\)", reference, each["value"])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PVWIRE_")}
    return {**kept, **ports["epics"], **own, "PVWIRE_LISTEN": f"127.0.0.1:{ports['relay']}"}


def epics_ports():
    names = ["EPICS_CA_SERVER_PORT", "EPICS_CA_REPEATER_PORT", "EPICS_PVA_SERVER_PORT"]
    return {
        **{name: str(free_port()) for name in names},
        "EPICS_PVA_BROADCAST_PORT": str(free_port()),
        "EPICS_CAS_BEACON_ADDR_LIST": "127.0.0.1",
        "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
    }


def relay_container(program, spec, ports, isolated):
    environment = environment_of(spec, ports)
    # The namesakes of this machine are none of the test's.
    for name in ("EPICS_CA_NAME_SERVERS", "EPICS_PVA_NAME_SERVERS"):
        environment.pop(name, None)
    container = Container("relay", spec, [program], environment, isolated, signal.SIGTERM)
    return container, lambda _: listens(ports["relay"])


def web_container(documents, spec, ports, isolated, folder):
    maps = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
    server = next(data["default.conf"] for data in maps if "default.conf" in data)
    server = server.replace("8081", f"127.0.0.1:{ports['web']}").replace("8080", str(ports["relay"]))
    server = server.replace("/usr/share/nginx/html", str(folder))
    places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    places = "".join(f"  {place}_temp_path {folder}/{place};\n" for place in places)
    (folder / "nginx.conf").write_text(
        f"daemon off;\nworker_processes 2;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\n  access_log off;\n{places}{server}}}\n"
    )
    program = shutil.which("nginx") or ROOT / ".local/nginx/usr/sbin/nginx"
    command = [program, "-e", "stderr", "-c", folder / "nginx.conf", "-p", folder]
    # The image of nginx has SIGQUIT as its stop signal: it waits for what it serves.
    container = Container("web", spec, command, dict(os.environ), isolated, signal.SIGQUIT)
    return container, lambda _: listens(ports["web"])


def ioc_container(spec, ports, isolated, folder, console):
    (folder / "one.db").write_text('record(ao, "POD:temp") { field(VAL, "21.5") }\n')
    command = [PYTHON, "-u", ROOT / "tools/softioc.py", "-d", folder / "one.db"]
    environment = environment_of(spec, ports)
    container = Container("ioc", spec, command, environment, isolated, signal.SIGTERM, console)
    return container, says("IOC Running")


def end_all(containers, sidecars, grace):
    """Ends them as the kubelet does and says after how many seconds each was gone."""
    began = time.monotonic()
    took = {}

    def end(container):
        threading.Thread(target=container.stop, daemon=True).start()
        try:
            container.process.wait(max(0.1, began + grace - time.monotonic()))
        except subprocess.TimeoutExpired:
            container.signal(signal.SIGKILL)
            container.process.wait()
        took[container.name] = time.monotonic() - began

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(end, containers))
    for container in reversed(sidecars):
        end(container)
    return took


def check(path, program):
    """What is wrong with how the pod of a manifest ends."""
    for _ in range(ATTEMPTS):
        whole, wrong = end_pod(path, program)
        if wrong or whole <= ENDS_WITHIN_S:
            return wrong
    return [f"takes {whole:.1f} s to end, expected at most {ENDS_WITHIN_S} in one of {ATTEMPTS} attempts"]


def end_pod(path, program):
    """Runs the pod of a manifest and ends it. Returns the seconds that it took to end, and what was wrong."""
    documents = [each for each in yaml.safe_load_all(path.read_text()) if each]
    pod = next(each["spec"]["template"]["spec"] for each in documents if "template" in each.get("spec", {}))
    isolated = not pod.get("shareProcessNamespace", False)
    ports = {"relay": free_port(), "web": free_port(), "epics": epics_ports()}
    sidecars, ordinary = [], []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        (Path(folder) / "index.html").write_text("screens\n")
        read_end, write_end = os.pipe()
        stack.callback(os.close, write_end)
        stack.callback(os.close, read_end)
        for spec in pod.get("initContainers", []) + pod["containers"]:
            if spec["name"] == "relay":
                container, is_ready = relay_container(program, spec, ports, isolated)
            elif spec["name"] == "web":
                container, is_ready = web_container(documents, spec, ports, isolated, Path(folder))
            else:
                container, is_ready = ioc_container(spec, ports, isolated, Path(folder), read_end)
            stack.callback(container.process.kill)
            (sidecars if spec in pod.get("initContainers", []) else ordinary).append(container)
            try:
                container.wait_until(is_ready)
            except Failed as error:
                return 0.0, [str(error)]
        has_web = any(container.name == "web" for container in ordinary)
        clients = [Client(ports["web" if has_web else "relay"]) for _ in range(CLIENTS)]
        took = end_all(ordinary, sidecars, pod["terminationGracePeriodSeconds"])
        for client in clients:
            client.thread.join(STARTS_WITHIN_S)
    codes = [client.code for client in clients]
    whole = max(took.values())
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items())
    print(f"{path.name}: ended after {whole:.1f} s ({times}); close codes {codes}")
    lost = sum(code != SERVICE_RESTART for code in codes)
    return whole, [f"{lost} of {CLIENTS} clients got no close frame"] if lost else []


def main():
    program = Path(sys.argv[1]).resolve()
    paths = [Path(path) for path in sys.argv[2:]] or sorted(MANIFESTS.glob("sidecar-*.yaml"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda path: check(path, program), paths))
    for path, found in zip(paths, results):
        for what in found:
            print(f"{path.name}: {what}")
    failed = sum(bool(found) for found in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
