"""Would Kubernetes take what deploy/ says, and is it as restricted as it claims to be?

Renders the chart in the shapes that people use, compares the plain manifests with it, and checks all
of them: by Kubernetes's own schemas, strictly, by the Pod Security Standard "restricted" and by rules
of ours. `--write` writes the plain manifests that come from the chart.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import yaml

DEPLOY = Path(__file__).resolve().parent
ROOT = DEPLOY.parent
PLAIN = DEPLOY / "kubernetes/deployment.yaml"
CHART = DEPLOY / "helm/pvwire"
VERSIONS = ["1.29", "1.32", "1.35"]

PLAIN_HEAD = """\
# The relay as a Deployment of its own, with what belongs to it. Made from the chart beside it:
# deploy/check_manifests.py --write
"""

# Name, settings, and whether the pod may be less than restricted.
SHAPES = [
    ("defaults", [], False),
    ("ingress", ["ingress.enabled=true", "ingress.tlsSecretName=tls", "ingress.className=nginx"], False),
    ("fixed", ["autoscaling.enabled=false", "podDisruptionBudget.enabled=false"], False),
    ("no policy", ["networkPolicy.enabled=false", "image.digest=sha256:" + "0" * 64], False),
    ("puts", ["config.enable_put=true", "config.allow_put={SR:*:SET,pva://BL7:*}"], False),
    ("tls", ["tls.secretName=pvwire-tls"], False),
    ("host network", ["epics.hostNetwork=true"], True),
]


def helm():
    ours = ROOT / ".local/bin/helm"
    found = str(ours) if ours.exists() else shutil.which("helm")
    return found or sys.exit("helm is missing: run tools/setup.sh helm")


def render(settings):
    command = [helm(), "template", "pvwire", CHART, "--kube-version", "1.32.0", "--namespace", "pvwire"]
    for setting in settings:
        command += ["--set", setting]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def refused(settings):
    command = [helm(), "template", "pvwire", CHART, "--kube-version", "1.32.0"]
    for setting in settings:
        command += ["--set", setting]
    return subprocess.run(command, capture_output=True).returncode != 0


def plain():
    """The chart's defaults without what only helm needs."""
    lines = render([]).splitlines(keepends=True)
    helms = re.compile(r"# Source:|\s+(helm\.sh/chart|app\.kubernetes\.io/managed-by|checksum/config):")
    lines = [line for line in lines if not helms.match(line)]
    text = "".join(lines)
    return PLAIN_HEAD + re.sub(r"\n\s+annotations:\n(?=\s+spec:)", "\n", text)


def keys():
    """The relay's configuration keys."""
    return {"config", "log", "rule"} | set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs/reference/config.md").read_text(), re.M))


class Findings(list):
    def unless(self, holds, what):
        if not holds:
            self.append(what)


def pods(documents):
    return [each["spec"]["template"] for each in documents if "template" in each.get("spec", {})]


def check_pod(pod, less_restricted, found):
    spec = pod["spec"]
    of_all = spec.get("securityContext", {})
    found.unless(spec.get("automountServiceAccountToken") is False, "the pod gets a service account's token")
    found.unless(less_restricted or not spec.get("hostNetwork"), "the pod is in the host's network")
    for host in ("hostPID", "hostIPC"):
        found.unless(not spec.get(host), f"the pod has {host}")
    for volume in spec.get("volumes", []):
        kind = next(key for key in volume if key != "name")
        found.unless(kind in ("configMap", "emptyDir", "secret"), f"volume {volume['name']} is a {kind}")
    declared = {volume["name"] for volume in spec.get("volumes", [])}
    for container in spec.get("initContainers", []) + spec["containers"]:
        name, own = container["name"], container.get("securityContext", {})
        say = lambda holds, what: found.unless(holds, f"{name}: {what}")  # noqa: E731
        effective = {**of_all, **own}
        say(effective.get("runAsNonRoot") is True, "may run as root")
        say(effective.get("runAsUser", 0) != 0, "has no user, or root")
        say(effective.get("seccompProfile", {}).get("type") == "RuntimeDefault", "has no seccomp profile")
        say(own.get("allowPrivilegeEscalation") is False, "may gain privileges")
        say(own.get("capabilities") == {"drop": ["ALL"]}, "keeps capabilities")
        say(own.get("readOnlyRootFilesystem") is True, "may write to its root file system")
        say(not own.get("privileged"), "is privileged")
        say(not any("hostPort" in port for port in container.get("ports", [])), "takes a port of the host")
        resources = container.get("resources", {})
        say({"cpu", "memory"} <= set(resources.get("requests", {})), "requests no CPU or memory")
        say("memory" in resources.get("limits", {}), "has no limit of memory")
        say("cpu" not in resources.get("limits", {}), "is throttled by a limit of CPU")
        say("readinessProbe" in container and "livenessProbe" in container, "isn't probed")
        tag = container["image"].rpartition("/")[2]
        say("@" in tag or (":" in tag and not tag.endswith(":latest")), f"image {tag} is no certain one")
        for mount in container.get("volumeMounts", []):
            say(mount["name"] in declared, f"mounts {mount['name']}, which isn't there")
        ports = {port["name"] for port in container.get("ports", [])}
        speaks_tls = any(each["name"] == "PVWIRE_TLS_CERT" for each in container.get("env", []))
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container.get(probe, {})
            scheme = asked.get("httpGet", {}).get("scheme", "HTTP")
            say(not asked or scheme == ("HTTPS" if speaks_tls else "HTTP"), f"{probe} asks by {scheme}")
            port = (asked.get("httpGet") or asked.get("tcpSocket") or {}).get("port")
            say(port is None or port in ports, f"{probe} asks port {port}")
        if "relay" in name:
            values = {each["name"]: each.get("value", "") for each in container.get("env", [])}
            unknown = {
                key for key in values if key.startswith("PVWIRE_") and key[7:].lower() not in keys()
            }
            say(not unknown, f"sets {unknown}, which the relay doesn't know")
            if spec.get("initContainers"):
                say(container.get("restartPolicy") == "Always", "is no native sidecar")
            grace = spec.get("terminationGracePeriodSeconds", 30)
            say(grace >= 15, "is killed before its farewells are said")


def check_bonds(documents, found):
    """Whatever names something else names what is there."""
    labelled = [pod["metadata"]["labels"] for pod in pods(documents)]
    names = {(each["kind"], each["metadata"]["name"]) for each in documents}
    ports = {
        port["name"]
        for pod in pods(documents)
        for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]
        for port in container.get("ports", [])
    }
    for each in documents:
        kind, spec = each["kind"], each.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector") or {}
        selector = selector.get("matchLabels", selector)
        if selector:
            fits = any(selector.items() <= labels.items() for labels in labelled)
            found.unless(fits, f"{kind} selects no pod")
        if kind == "Service":
            for port in spec["ports"]:
                found.unless(port["targetPort"] in ports, f"Service leads to port {port['targetPort']}")
        if kind == "HorizontalPodAutoscaler":
            target = spec["scaleTargetRef"]
            found.unless((target["kind"], target["name"]) in names, "HPA scales nothing")
        if kind == "Deployment" and ("HorizontalPodAutoscaler", each["metadata"]["name"]) in names:
            found.unless("replicas" not in spec, "Deployment and HPA both say how many")
        if kind == "Ingress":
            for path in spec["rules"][0]["http"]["paths"]:
                to = path["backend"]["service"]["name"]
                found.unless(("Service", to) in names, f"Ingress leads to {to}")
                found.unless(path["path"] == "/ws", f"Ingress shows {path['path']} to everybody")
        if kind == "ConfigMap" and "pvwire.toml" in each["data"]:
            unknown = set(tomllib.loads(each["data"]["pvwire.toml"])) - keys()
            found.unless(not unknown, f"pvwire.toml has {unknown}, which the relay doesn't know")
    for pod in pods(documents):
        for volume in pod["spec"].get("volumes", []):
            if "configMap" in volume:
                name = volume["configMap"]["name"]
                found.unless(("ConfigMap", name) in names, f"ConfigMap {name} isn't there")


def check(text, less_restricted):
    documents = [each for each in yaml.safe_load_all(text) if each]
    found = Findings()
    found.unless(documents, "nothing in it")
    for version in VERSIONS:
        for each in documents:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                found.append(f"Kubernetes {version}: {each['kind']}: {error.message}")
    for pod in pods(documents):
        check_pod(pod, less_restricted, found)
    check_bonds(documents, found)
    return found


def main():
    if sys.argv[1:] == ["--write"]:
        PLAIN.write_text(plain())
        return 0
    lint = subprocess.run([helm(), "lint", "--strict", CHART], capture_output=True, text=True)
    results = [("helm lint", [lint.stdout + lint.stderr] if lint.returncode else [])]
    for name, settings, less_restricted in SHAPES:
        results.append((f"chart, {name}", check(render(settings), less_restricted)))
    for setting in ("config.listen=0.0.0.0:1", "image.digest=sha256:abc", "replicas=0"):
        results.append((f"chart refuses {setting}", [] if refused([setting]) else ["it is taken"]))
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        results.append((path.name, check(path.read_text(), False)))
    stale = [] if PLAIN.read_text() == plain() else ["run deploy/check_manifests.py --write"]
    results.append(("plain manifests are the chart's", stale))
    # That the checks find what they are for.
    caught = check(render(["epics.hostNetwork=true"]), False)
    results.append(("a pod in the host's network is found", [] if caught else ["not found"]))
    for name, found in results:
        for what in found:
            print(f"{name}: {what}")
    failed = sum(bool(found) for _, found in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
