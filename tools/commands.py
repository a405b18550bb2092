"""Runs the shell commands of the documents, as a reader would, beside an IOC: `commands.py RELAY`.

Every command of every document is run here, or `ELSEWHERE` names the file that runs it, or it is one of the few that
`UNTESTED` names. A line that starts a server goes on until the document's block ends. A command must print what the
document shows after it, up to the first "…" and apart from numbers.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "testbed/python"))

from child import DEADLINE_S, Child, listens, says  # noqa: E402
from ports import private_network  # noqa: E402
from ports import free_port  # noqa: E402
from shell_blocks import blocks  # noqa: E402

PYTHON = ROOT / ".local/venv/bin/python"

PACKAGING = "wasm-client/packaging-tests"

# Commands that other tests run: a pattern, the test's file, and the document whose text the test runs. Without such a
# document the test has to contain what the pattern has in parentheses. The first pattern that matches "DOCUMENT: COMMAND"
# counts.
ELSEWHERE = (
    (r".*: make demo$", "e2e/tests/break_things.spec.ts", None),
    (r".*: (make test)$", ".ci/run", None),
    (r"README\.md: (make package$|cd \.\. && npm |cd my-app && npm )", f"{PACKAGING}/packaging.spec.ts", "README.md"),
    # The package is not in a registry, from which these would get it.
    (r"(?!examples/README|docs/tutorials).*: (npm install) (?:\S+/)?pvwire\S*$", f"{PACKAGING}/fixtures.ts", None),
    (r".*: npm install (?:\S+/)?pvwire\S*( ws)$", f"{PACKAGING}/apps/node/package.json", None),
    (r".*: (rollup --config && cp node_modules/pvwire/pkg/\*\.wasm)", f"{PACKAGING}/apps/bundlers/package.json", None),
    (r"examples/README\.md: mkdir pvwire && cp ", "e2e/fixtures/elements_page.ts", "examples/README.md"),
    (r"docs/how-to/plain-page\.md: mkdir pvwire && cp ", f"{PACKAGING}/packaging.spec.ts", "docs/how-to/plain-page.md"),
    (r"examples/README\.md: npm (install|run)", f"{PACKAGING}/tutorial.spec.ts", "examples/README.md"),
    (
        r"docs/tutorials/first-screen\.md: (mkdir -p my-page|tar xzf|cp |cd my-app$|npm )",
        f"{PACKAGING}/tutorial.spec.ts",
        "docs/tutorials/first-screen.md",
    ),
    (r".*: node (follow\.mjs) ", "wasm-client/tests/examples.node.test.ts", None),
    (r".*: python3 (pv\.py) \S+ (get|put|follow) ", "wasm-client/tests/examples.node.test.ts", None),
    (r".*: npx (pvwire-display) (check) ", "wasm-client/tests/display_check.node.test.ts", None),
    (r".*: cargo run -p (read-pvs) ", "relay/tests/embedding.rs", None),
    (r".*: pvwire-relay (--channelfinder) ", "relay/tests/channelfinder.rs", None),
    (r".*: pvwire-relay( record | export )incident", "relay/tests/replay.rs", None),
    (r".*: pvwire-relay (--replay) \S+(?: (--replay-speed) 10 (--replay-loop))?", "relay/tests/replay.rs", None),
    (r".*: curl .*/pv/(replay):%2F%2F(position)$", "relay/tests/replay.rs", None),
    (r".*: curl -fG \S*/names .*'(q=)current' .*'(limit=)", "relay/tests/channelfinder.rs", None),
    (r".*: target/release/(pvwire-bench peer) (--dialect pvws --server)", "bench/relay/peers/run_pvws.py", None),
    *(
        (rf"{document}: (python3 -m venv|\S*/pip install |\w+/bin/pvwire-relay demo)", "tools/wheel_check.py", document)
        for document in ("README.md", "docs/how-to/install.md", "docs/tutorials/first-screen.md", "relay/README.md")
    ),
    *(
        (rf"{document}: (tar xzf pvwire-relay|pvwire-relay-\S+/bin/pvwire-relay demo|sudo dpkg -i)",
         "tools/release_check.py", document)
        for document in ("README.md", "docs/how-to/install.md")
    ),
    (
        r"deploy/package/README\.md: (sudo (cp|mkdir)|bin/pvwire-relay demo)",
        "tools/release_check.py",
        "deploy/package/README.md",
    ),
)

# Commands that need what the machine of a test has not: a container engine, a cluster, systemd as its first process, an
# editor, or ten minutes for a release build.
UNTESTED = r"docker build|kubectl apply|helm install|sudo systemctl|sudoedit|make relay$"

# Flags of the relay that runs beside the commands of a document.
BESIDE = {
    "docs/how-to/curl.md": ["--enable-put", "--allow-put=*", "--history=SR:*=1h"],
    "docs/how-to/metrics.md": ["--admin-listen=127.0.0.1:9090"],
    "docs/tutorials/first-screen.md": [],
    "docs/how-to/reverse-proxy.md": ["--tls-cert=tls.crt", "--tls-key=tls.key", "--allow-host=screens.example.org"],
}

# Statuses with which other commands than those that succeed end: a client that a server crashes.
CRASHED = {"docs/reports/libca-payload.md": (139, -11)}

# What a document calls otherwise than this machine.
LYING = f"{PYTHON} -u {ROOT}/testbed/python/lying_ca_server.py"
REPLACED = (
    # A server that is started here has an input that doesn't end.
    (r"(sleep infinity \| )?python3 lying_ca_server\.py", LYING),
    (r"192\.168\.1\.255|172\.16\.1\.255|(?<=_LIST=)…", "127.0.0.1"),
    (r"(pvwire/)?bin/pvwire-relay|target/release/pvwire-relay", "pvwire-relay"),
    (r"YOUR:PV|DEMO:RING:CURRENT", "SR:CURRENT"),
    (r"https://screens\.example\.org", "https://screens.example.org:8080"),
    (r"curl -si", "curl --cacert tls.crt --resolve screens.example.org:8080:127.0.0.1 -si"),
    (r"CAM1:IMAGE", "CAM1:CAMERA"),
    (r"SR:MOTOR\.STOP", "SR:MOTOR.PROC"),
    (r"/etc/grafana", "$GRAFANA"),
    (r"/etc/pvwire/", ""),
    (r"/epics/", "epics-"),
    (r"^cd examples/", f"cd {ROOT}/examples/"),
)

RECORDS = """
record(ai, "SR:CURRENT") { field(VAL, "301.25") field(PREC, "2") field(EGU, "mA") field(PINI, "YES") }
record(ao, "SR:SETPOINT") { field(PINI, "YES") }
record(calc, "SR:MOTOR") { }
alias("SR:CURRENT", "BR:CURRENT")
"""

FILES = {
    "pvwire.toml": "",
    "site.pvlist": "# What browsers may see.\nEVALUATION ORDER ALLOW, DENY\nSR:.* ALLOW\nSR:.*:SET ALLOW Set\n",
    "site.acf": """UAG(ops) { anna }

ASG(DEFAULT) {
    RULE(1, READ)
}

# Set points.
ASG(Set) {
    RULE(1, READ)
    RULE(1, WRITE) { UAG(ops) }
}
""",
}

# curl's status when it ended a stream of events.
CURL_TIMED_OUT = 28

CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout tls.key -out tls.crt"
    " -subj /CN=screens.example.org -addext subjectAltName=DNS:screens.example.org"
)


def runner_elsewhere(document, command):
    """The test that runs a command, which must read the document or contain the command's words."""
    line = f"{document}: {command}"
    for pattern, file, read in ELSEWHERE:
        if found := re.match(pattern, line):
            break
    else:
        return None
    if not (ROOT / file).exists():
        sys.exit(f"{line}: there is no {file}, which ELSEWHERE names")
    text = re.sub(r"""[\s"',\[\]]+""", " ", (ROOT / file).read_text())
    for words in [read] if read else needed(command, found):
        if words not in text:
            sys.exit(f"{line}: {file}, which ELSEWHERE names, doesn't run it: it has no {words!r}")
    return file


def needed(command, found):
    """The words that a test contains if it runs a command; of a target of the Makefile its script."""
    target = re.match(r"make (\S+)$", command)
    recipe = target and re.search(rf"^{target[1]}:.*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.M)
    words = [each for each in found.groups() if each] or re.findall(r"tools/\w+\.py", recipe[1] if recipe else "")
    if not words:
        sys.exit(f"{command}: ELSEWHERE has no words that show that a test runs it")
    return words


def is_server(command):
    """Whether it runs until it is ended."""
    words = [word for word in shlex.split(command) if "=" not in word or word.startswith("-")]
    first, *rest = words
    if words[:3] == ["python3", "-m", "http.server"] or (LYING in command and "client" not in words):
        return True
    return first == "nats-server" or (first == "pvwire-relay" and all(word.startswith("-") for word in rest[:1]))


class Reader:
    """A folder with the programs of the documents on its path, an IOC, and ports in place of the documents'."""

    def __init__(self, relay, folder, stack):
        self.folder, self.stack = folder, stack
        self.failed, self.untested = [], []
        self.ports = {port: str(free_port()) for port in ("8080", "8081", "8443", "8000", "9090", "23991", "4222")}
        programs = folder / "bin"
        programs.mkdir()
        (programs / "pvwire-relay").symlink_to(relay)
        nats = ROOT / ".local/nats/usr/sbin/nats-server"
        if nats.exists():
            listen = f"-a 127.0.0.1 -p {self.ports['4222']}"
            (programs / "nats-server").write_text(f'#!/bin/sh\nexec {nats} {listen} "$@"\n')
            (programs / "nats-server").chmod(0o755)
        network = private_network()
        self.environment = dict(os.environ) | network
        self.environment["PATH"] = f"{programs}:{os.environ['PATH']}"
        self.environment["GRAFANA"] = str(folder / "grafana")
        # What Grafana's package has.
        for of in ("datasources", "dashboards"):
            (folder / "grafana/provisioning" / of).mkdir(parents=True)
        self.environment["PVWIRE_LISTEN"] = f"127.0.0.1:{self.ports['8080']}"
        (folder / "ioc.db").write_text(RECORDS)
        records = ["--pva", "-d", folder / "ioc.db"]
        ioc = self.start("IOC", [PYTHON, "-u", ROOT / "tools/softioc.py", *records], folder)
        ioc.wait_until(says("iocRun: All initialization complete"))
        port = str(free_port())
        words = [PYTHON, "-u", ROOT / "e2e/fixtures/structures.py", "CAM1"]
        camera = self.start("camera", words, folder, EPICS_PVA_SERVER_PORT=port)
        # A client of pvAccess asks a name server that refused it again only after 10 s.
        camera.wait_until(says("serving"))
        self.environment["EPICS_PVA_NAME_SERVERS"] += f" 127.0.0.1:{port}"

    def start(self, name, words, cwd, stack=None, **variables):
        child = Child(name, words, self.environment | variables, cwd=cwd)
        (stack or self.stack).callback(child.kill)
        return child

    def here(self, command):
        """The command with what this machine has in place of a reader's."""
        for pattern, replacement in REPLACED:
            command = re.sub(pattern, lambda _, text=replacement: text, command)
        for port, own in self.ports.items():
            command = re.sub(rf"\b{port}\b", own, command)
        return command

    def serve(self, command, cwd, stack):
        """Starts a server and waits until it listens."""
        assignments = re.match(r"(?:[A-Z_]+=\S+ +)*", command)[0]
        words = ["bash", "-c", f"{assignments}exec {command.removeprefix(assignments).rstrip(' &')}"]
        child = self.start(command, words, cwd, stack)
        if "nats-server" in command:
            child.wait_until(lambda _: listens(int(self.ports["4222"])))
        elif LYING in command:
            child.wait_until(says("listening"))
        elif "http.server" in command:
            child.wait_until(lambda _: listens(int(self.ports["8000"])))
        else:
            child.wait_until(says("listening on"))

    def run_document(self, document, text, cwd):
        """Runs the commands of a document; returns their number, and that of commands that others run."""
        prepare(document, text, cwd)
        if document == "docs/how-to/audit.md":
            self.audit(cwd)
        ran, named = 0, 0
        with ExitStack() as stack:
            if (flags := BESIDE.get(document)) is not None:
                self.serve(self.here(" ".join(["pvwire-relay", *map(shlex.quote, flags)])), cwd, stack)
            for block in blocks(text):
                block = [each for each in block if not self.is_untested(document, each)]
                here = [each for each in block if runner_elsewhere(document, each.text) is None]
                named += len(block) - len(here)
                ran += self.run_block(document, here, cwd)
        return ran, named

    def is_untested(self, document, each):
        if not re.match(UNTESTED, each.text):
            return False
        self.untested.append(f"{document}: {each.text}")
        return True

    def run_block(self, document, block, cwd):
        """Runs the commands of a block; returns their number."""
        exports = ""
        with ExitStack() as stack:
            for each in block:
                command = self.here(each.text)
                if is_server(command):
                    self.serve(f"{command}", cwd, stack)
                elif command.startswith(("export ", "cd ")) and "&&" not in command:
                    # Only the shell that runs the next commands has them.
                    exports += f"{command}\n"
                else:
                    self.run(document, each, exports + command, cwd)
        return len(block)

    def run(self, document, each, script, cwd):
        # A stream of events has no end.
        script = script.replace("curl -N ", "curl -N --max-time 2 ")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=cwd, env=self.environment, text=True,
                              capture_output=True, timeout=DEADLINE_S, check=False)
        printed = done.stdout + done.stderr
        ends = CRASHED.get(document, (0, CURL_TIMED_OUT))
        if not (shows(printed, each.output) if each.output else done.returncode in ends):
            what = f"{document}: {each.text}: status {done.returncode}"
            self.failed.append(f"{what}\n{printed}\nexpected\n{each.output}")

    def audit(self, cwd):
        """Two files of an audit: one that was rotated, and the present one."""
        with ExitStack() as stack:
            self.serve("pvwire-relay --enable-put --allow-put=* --audit-file=puts.jsonl", cwd, stack)
            put = self.here("curl -sf -X PUT http://127.0.0.1:8080/pv/SR:SETPOINT -d '{\"value\": 20}'")
            rotate = "mv puts.jsonl puts.jsonl-20260901; until [ -e puts.jsonl ]; do sleep 0.1; done"
            script = f"{put}; {rotate}; {put}"
            subprocess.run(["bash", "-euc", script], cwd=cwd, check=True, capture_output=True, timeout=DEADLINE_S)


def shows(printed, expected):
    """Whether the printed text begins as the document shows it, whatever its numbers are."""
    beginning = re.escape(re.sub(r"[0-9a-f]*….*", "", expected, flags=re.S).strip().rstrip(","))
    return re.match(re.sub(r"\d+", r"\\d+", beginning), printed.strip()) is not None


def prepare(document, text, cwd):
    """Writes the files that a document shows, and those that its commands read."""
    for name, content in FILES.items():
        (cwd / name).write_text(content)
    for folder in ("epics-screens", "epics-ops"):
        (cwd / folder).mkdir()
    for language, body in re.findall(r"^```(toml)\n(.*?)^```", text, re.M | re.S)[:1]:
        for name in ("pvwire", "site"):
            (cwd / f"{name}.{language}").write_text(body)
    if document == "docs/how-to/reverse-proxy.md":
        subprocess.run(shlex.split(CERTIFICATE), cwd=cwd, check=True, capture_output=True)


def main():
    relay = Path(sys.argv[1]).resolve()
    files = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    listed = subprocess.run(files, cwd=ROOT, check=True, capture_output=True, text=True)
    ran, named = 0, 0
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        reader = Reader(relay, Path(temporary), stack)
        for document in sorted(listed.stdout.splitlines()):
            file = ROOT / document
            if not file.exists():
                continue
            text = file.read_text()
            cwd = Path(temporary) / document.replace("/", "-")
            cwd.mkdir()
            here, elsewhere = reader.run_document(document, text, cwd)
            ran, named = ran + here, named + elsewhere
    print(f"{ran + named} commands of documents, of which other tests run {named}")
    print("\n".join(["these need more than this machine:", *reader.untested]))
    print("\n".join(reader.failed))
    print(f"{ran - len(reader.failed)} passed, {len(reader.failed)} failed")
    return 1 if reader.failed else 0


if __name__ == "__main__":
    sys.exit(main())
