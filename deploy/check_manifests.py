"""Checks that the manifests of deploy/ are valid for Kubernetes and as restricted as documented.

Renders the chart with common settings, compares the plain manifests with it, and checks all of them
against Kubernetes's schemas (strictly), the Pod Security Standard "restricted" and rules of this project.
Checks that the nginx configurations in deploy/ and docs/ forward the paths that the relay serves.
`--write` writes the plain manifests that come from the chart.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

import helm_python as helm
import kubernetes_validate
import yaml

DEPLOY = Path(__file__).resolve().parent
ROOT = DEPLOY.parent
PLAIN = DEPLOY / "kubernetes/deployment.yaml"
CHART = DEPLOY / "helm/pvwire"
HOW_TO = ROOT / "docs/how-to/kubernetes.md"
VERSIONS = ["1.29", "1.32", "1.35"]
NAMESPACE = "pvwire"

# The order in which Helm installs these kinds.
KINDS = [
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ConfigMap",
    "Service",
    "Deployment",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Ingress",
]

PLAIN_HEAD = """\
# The relay as a Deployment with its other resources, for the namespace pvwire. Generated from the chart:
# deploy/check_manifests.py --write
"""

# Name, settings, and whether the pod may be less than restricted.
SHAPES = [
    ("defaults", [], False),
    ("ingress", ["ingress.enabled=true", "ingress.tlsSecretName=tls", "ingress.className=nginx"], False),
    ("fixed", ["autoscaling.enabled=false", "podDisruptionBudget.enabled=false"], False),
    ("no policy", ["networkPolicy.enabled=false", "image.digest=sha256:" + "0" * 64], False),
    ("puts", ["config.enable_put=true", "config.allow_put={SR:*:SET,pva://BL7:*}"], False),
    ("hosts", ["config.allow_host={screens.example.org}", "clusterDomain=cluster.example"], False),
    ("tls", ["tls.secretName=pvwire-tls"], False),
    ("one port", ["adminPort=0"], False),
    ("one port, tls", ["adminPort=0", "tls.secretName=pvwire-tls"], False),
    ("audit", ["audit.enabled=true", "config.enable_put=true", "config.audit_fail=closed"], False),
    ("audit on a claim", ["audit.enabled=true", "audit.existingClaim=puts", "tls.secretName=tls"], False),
    ("fleet", ["bus.enabled=true", "bus.servers={nats://nats.nats:4222}", "bus.keySecret=pvwire-bus-key"], False),
    ("fleet without a key", ["bus.enabled=true", "bus.servers={nats://nats.nats:4222}"], False),
    ("log-ins", ["config.auth=jwt", "config.jwt_keys=https://sso.example.org/keys", "config.jwt_audience=pvwire"], False),
    ("fleet by tls", ["bus.enabled=true", "bus.servers={tls://a:4222,tls://b:4222}", "bus.credentialsSecret=bus", "bus.caSecret=bus-ca", "bus.keySecret=bus-key", "audit.enabled=true"], False),
    ("fleet with an address for each edge", ["bus.enabled=true", "bus.servers={nats://nats.nats:4222}", "bus.memberUrl=ws://$(POD_IP):8080/ws"], False),
    ("host network", ["epics.hostNetwork=true"], True),
]

# Settings that the chart refuses, and what it says of them.
REFUSED = [
    ("config.listen=0.0.0.0:1", "config.listen can't be set: the chart's probes and Service need 0.0.0.0:8080"),
    ("config.audit_file=/puts.jsonl", "config.audit_file can't be set: audit.enabled gives each pod a file"),
    ("config.history_dir=/history", "config.history_dir can't be set: the file system of a pod is read-only"),
    ("image.digest=sha256:abc", "'/image/digest'"),
    ("replicas=0", "'/replicas'"),
    ("adminPort=8080", "'/adminPort'"),
    ("config.admin_listen=0.0.0.0:1", "config.admin_listen can't be set: the chart's probes and NetworkPolicy need adminPort"),
    ("replica=3", "'replica' not allowed"),
    ("epics.caAddrlist=172.16.1.255", "'caAddrlist' not allowed"),
    ("bus.enabled=true", "bus.servers is empty: list the addresses of NATS"),
    ("bus.servers={nats://me:secret@nats:4222}", "'/bus/servers/0'"),
    ("bus.ingest.replicas=0", "'/bus/ingest/replicas'"),
    ("bus.memberUrl=https://screens.example.org", "'/bus/memberUrl'"),
    ("config.allow_host=screens.example.org", "'/config/allow_host': got string, want array"),
]


def parsed(settings):
    """Values as `--set` reads them."""
    return helm.parse_set_string(",".join(settings)) if settings else {}


def rendered(values):
    """The chart's files by name."""
    with helm.Chart.load(CHART) as chart:
        return chart.render(values, name="pvwire", namespace=NAMESPACE)


def render(values):
    files = {name: text for name, text in rendered(values).items() if name.endswith(".yaml")}
    parts = [part.strip() for text in files.values() for part in text.split("\n---\n")]
    documents = [part for part in parts if part]
    documents.sort(key=lambda text: KINDS.index(yaml.safe_load(text)["kind"]))
    return "".join(f"---\n{text}\n" for text in documents)


def notes(values):
    return next(text for name, text in rendered(values).items() if name.endswith("NOTES.txt"))


def refusal(setting):
    """What the chart says of a setting that it refuses."""
    try:
        rendered(parsed([setting]))
    except helm.HelmError as error:
        return str(error)
    return "it is taken"


def plain():
    """The chart's defaults without what only helm needs."""
    lines = render({}).splitlines(keepends=True)
    helms = re.compile(r"\s+(helm\.sh/chart|app\.kubernetes\.io/managed-by|checksum/config):")
    lines = [line for line in lines if not helms.match(line)]
    text = "".join(lines)
    return PLAIN_HEAD + re.sub(r"\n\s+annotations:\n(?=\s+spec:)", "\n", text)


def values_of_the_how_to():
    """The values file that docs/how-to/kubernetes.md shows."""
    block = re.search(r"```yaml\n# values\.yaml\n(.*?)```", HOW_TO.read_text(), re.S)
    return yaml.safe_load(block[1])


def served():
    """The paths that the relay serves: its own answer to any other, and those of its encodings."""
    source = ROOT / "relay/src"
    served = re.search(r'"nothing here; try ([^"]*)"', (source / "http/server.rs").read_text())
    encodings = re.findall(r'const \w*PATH: &str = "(/[^"]+)";', (source / "fanout/flat.rs").read_text())
    assert served and encodings, "the relay's source no longer names its paths as this check expects"
    return {*served[1].split(), *encodings}


def check_node(text):
    """The Dockerfile's Node is one that Vite runs in."""
    major = re.search(r"^ARG NODE=node:(\d+)", text, re.M)
    package = json.loads((ROOT / "node_modules/vite/package.json").read_text())
    wanted = [int(each) for each in re.findall(r"(\d+)\.\d+\.\d+", package["engines"]["node"])]
    if not major or not (int(major[1]) in wanted or int(major[1]) > max(wanted)):
        return [f"Node {major and major[1]} isn't one of {package['engines']['node']}"]
    return ["takes Debian's nodejs"] if re.search(r"^\s+nodejs\b", text, re.M) else []


def check_bases(text):
    """A Dockerfile's base images are named by digest, so that every build has the same ones."""
    bases = re.findall(r"^(?:ARG \w+=|FROM )([\w./-]+:\S+)", text, re.M)
    moving = [base for base in bases if not re.search(r"@sha256:[0-9a-f]{64}$", base)]
    return [f"{base} is not named by digest" for base in moving] if bases else ["names no base image"]


def check_proxy(text):
    """A configuration of nginx passes nothing on that the relay doesn't serve."""
    found, paths = Findings(), set()
    for match, path, block in re.findall(r"location\s+(=\s+)?(\S+)\s*\{([^}]*)\}", text):
        to = re.search(r"proxy_pass\s+http://[^/;\s]+:8080(/[^;\s]*)?;", block)
        if to:
            path = to[1] or path
            paths.add(path)
            found.unless(match and path in served(), f"passes {path} on, which the relay doesn't serve")
    found.unless("/ws" not in paths or "/ws/large" in paths, "passes /ws on and not /ws/large")
    for path, block in re.findall(r"location\s+=\s+(\S+)\s*\{([^}]*proxy_pass[^;]*:8080[^}]*)\}", text):
        # Without it all clients have the limits of one address, or none.
        found.unless("X-Forwarded-For $remote_addr;" in block, f"doesn't say whose request {path} is")
    return found


def keys():
    """The relay's configuration keys."""
    return {"config", "log", "rule"} | set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs/reference/config.md").read_text(), re.M))


def check_fleet(documents):
    """In a fleet each relay reaches NATS, only those with monitors reach IOCs, and only edges have clients."""
    found = Findings()
    roles = {}
    for each in documents:
        if "template" in each.get("spec", {}):
            container = each["spec"]["template"]["spec"]["containers"][0]
            values = {variable["name"]: variable.get("value") for variable in container["env"]}
            roles[values["PVWIRE_ROLE"]] = (each["kind"], each["spec"]["template"]["metadata"]["labels"], values)
    kinds = {role: kind for role, (kind, _, _) in roles.items()}
    found.unless(kinds == {"edge": "Deployment", "ingest": "StatefulSet"}, f"the relays are {kinds}")
    policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    for role, (_, labels, values) in roles.items():
        own = [policy for policy in policies if policy["podSelector"]["matchLabels"].items() <= labels.items()]
        found.unless(len(own) == 1, f"{len(own)} policies apply to {role}")
        egress = [rule for policy in own for rule in policy["egress"]]
        ports = [port["port"] for rule in egress for port in rule.get("ports", [])]
        found.unless(4222 in ports, f"the policy keeps {role} from NATS")
        found.unless(53 in ports, f"the policy keeps {role} from the DNS")
        to_iocs = any("ports" not in rule for rule in egress)
        found.unless(to_iocs == (role == "ingest"), f"{role} reaches IOCs: {to_iocs}")
        served = [port["port"] for policy in own for rule in policy["ingress"] for port in rule["ports"]]
        found.unless(("http" in served) == (role == "edge"), f"clients reach {role}: {served}")
        found.unless("admin" in served, f"Prometheus can't reach {role}")
        found.unless(("EPICS_CA_ADDR_LIST" in values) == (role == "ingest"), f"{role} has addresses of IOCs")
    signing = {values.get("PVWIRE_BUS_KEY") for _, _, values in roles.values()}
    found.unless(len(signing) == 1, f"the relays have different keys: {signing}")
    targets = [each["spec"]["scaleTargetRef"]["kind"] for each in documents if each["kind"] == "HorizontalPodAutoscaler"]
    found.unless(targets == ["Deployment"], f"the HPA scales {targets}")
    services = [each["spec"]["selector"] for each in documents if each["kind"] == "Service"]
    for selector in services:
        found.unless(selector.items() <= roles["edge"][1].items(), "the Service doesn't lead to the edges")
        found.unless(not selector.items() <= roles["ingest"][1].items(), "the Service leads clients to ingest relays")
    return found


def check_compose(text):
    """The fleet of the compose file sets keys that the relay knows, and restricts its containers."""
    found = Findings()
    roles = []
    for name, service in yaml.safe_load(text)["services"].items():
        environment = service.get("environment", {})
        known = {key for key in environment if key.startswith("PVWIRE_") and key[7:].lower() in keys()}
        unknown = {key for key in environment if key.startswith("PVWIRE_")} - known
        found.unless(not unknown, f"{name} sets {unknown}, which the relay doesn't know")
        found.unless(service.get("read_only") and service.get("cap_drop") == ["ALL"], f"{name} isn't restricted")
        found.unless(all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), f"{name} is open to all")
        image = service["image"]
        is_own = image.startswith("pvwire-relay:")
        found.unless(is_own or "@sha256:" in image, f"{name} runs {image}, which is not named by digest")
        roles.append(environment.get("PVWIRE_ROLE"))
        if environment.get("PVWIRE_ROLE"):
            key = f"/run/secrets/{(service.get('secrets') or ['none'])[0]}"
            found.unless(environment.get("PVWIRE_BUS_KEY") == key, f"{name} does not sign")
    urls = [service.get("environment", {}).get("PVWIRE_MEMBER_URL") for service in yaml.safe_load(text)["services"].values()]
    ports = [port for service in yaml.safe_load(text)["services"].values() for port in service.get("ports", [])]
    urls_of_ports = [f"ws://{port.removesuffix(':8080')}/ws" for port in ports]
    found.unless([url for url in urls if url] == urls_of_ports, f"clients get {urls}, and the edges listen on {ports}")
    found.unless(roles.count("ingest") == 2 and roles.count("edge") == 2, f"the roles are {roles}")
    return found


def anonymous():
    """`allow_anonymous` is set only where no user logs in."""
    found = Findings()
    for settings, expected in [([], True), (["config.auth=jwt"], False), (["config.auth=trusted-header"], False)]:
        is_set = "PVWIRE_ALLOW_ANONYMOUS" in render(parsed(settings))
        found.unless(is_set == expected, f"{settings}: {is_set}")
    return found


class Findings(list):
    def unless(self, holds, what):
        if not holds:
            self.append(what)


def pods(documents):
    return [each["spec"]["template"] for each in documents if "template" in each.get("spec", {})]


def variables(documents):
    containers = [container for pod in pods(documents) for container in pod["spec"]["containers"]]
    return [variable for container in containers for variable in container.get("env", [])]


def check_pod(pod, less_restricted, found):
    spec = pod["spec"]
    of_all = spec.get("securityContext", {})
    found.unless(spec.get("automountServiceAccountToken") is False, "the pod gets a service account's token")
    found.unless(less_restricted or not spec.get("hostNetwork"), "the pod is in the host's network")
    for host in ("hostPID", "hostIPC"):
        found.unless(not spec.get(host), f"the pod has {host}")
    for volume in spec.get("volumes", []):
        kind = next(key for key in volume if key != "name")
        found.unless(kind in ("configMap", "emptyDir", "persistentVolumeClaim", "secret"), f"volume {volume['name']} is a {kind}")
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
            settings = container.get(probe, {})
            scheme = settings.get("httpGet", {}).get("scheme", "HTTP")
            is_plain = settings.get("httpGet", {}).get("port") == "admin"
            say(
                not settings or scheme == ("HTTPS" if speaks_tls and not is_plain else "HTTP"),
                f"{probe} asks by {scheme}",
            )
            port = (settings.get("httpGet") or settings.get("tcpSocket") or {}).get("port")
            say(port is None or port in ports, f"{probe} asks port {port}")
        if "relay" in name:
            values = {each["name"]: each.get("value", "") for each in container.get("env", [])}
            unknown = {
                key for key in values if key.startswith("PVWIRE_") and key[7:].lower() not in keys()
            }
            say(not unknown, f"sets {unknown}, which the relay doesn't know")
            audit = values.get("PVWIRE_AUDIT_FILE")
            written = {
                each["mountPath"] for each in container.get("volumeMounts", []) if not each.get("readOnly")
            }
            say(not audit or audit.rpartition("/")[0] in written, f"can't write its audit file {audit}")
            say(not audit or "$(POD_NAME)" in audit, f"shares its audit file {audit} with other pods")
            say(not audit or "fsGroup" in of_all, "may be kept from the volume of its audit file")
            say(container in spec["containers"], "gets SIGTERM only when all others have ended")
            grace = spec.get("terminationGracePeriodSeconds", 30)
            say(grace >= 15, "is killed before it has sent its close frames")


def allowed_hosts(documents):
    """Host names that the relay answers to."""
    for each in documents:
        for file in each.get("data", {}).values() if each["kind"] == "ConfigMap" else ():
            if file.startswith("allow_host"):
                return set(tomllib.loads(file)["allow_host"])
    for variable in variables(documents):
        if variable["name"] == "PVWIRE_ALLOW_HOST":
            return set(variable["value"].replace("$(POD_NAMESPACE)", NAMESPACE).split())
    return set()


def check_way_to_iocs(documents, found):
    """The NetworkPolicy lets the relay reach the Services that its environment names."""
    named = re.findall(r"\S+?\.([\w-]+)\.svc\b", " ".join(
        variable.get("value", "")
        for variable in variables(documents)
        if variable["name"].endswith(("_NAME_SERVERS", "_ADDR_LIST"))
    ))
    policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    rules = [rule for policy in policies if "Egress" in policy["policyTypes"] for rule in policy["egress"]]
    if rules:
        # In a fleet only the relays with monitors need it.
        peers = [peer for rule in rules if "ports" not in rule for peer in rule["to"]]
        labels = [peer.get("namespaceSelector", {}).get("matchLabels", {}) for peer in peers]
        reached = {each.get("kubernetes.io/metadata.name") for each in labels}
        for namespace in set(named):
            found.unless(namespace in reached, f"the NetworkPolicy keeps the relay from {namespace}")


def check_bonds(documents, found, domain):
    """Whatever names something else names what is there."""
    hosts = allowed_hosts(documents)
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
                found.unless(spec["rules"][0]["host"] in hosts, f"the relay refuses {spec['rules'][0]['host']}")
        if kind == "Service":
            name = each["metadata"]["name"]
            inside = [name, f"{name}.{NAMESPACE}", f"{name}.{NAMESPACE}.svc"]
            for host in [*inside, f"{name}.{NAMESPACE}.svc.{domain}"]:
                found.unless(host in hosts, f"the relay refuses {host}, a name of its Service")
        if kind == "ConfigMap" and "default.conf" in each["data"]:
            found.extend(f"default.conf {what}" for what in check_proxy(each["data"]["default.conf"]))
            # Otherwise the relay takes all clients for one that is the web server.
            trusted = {variable["name"]: variable.get("value") for variable in variables(documents)}
            found.unless(trusted.get("PVWIRE_TRUSTED_PROXY") == "127.0.0.1", "the relay trusts no web server beside it")
        if kind == "ConfigMap" and "pvwire.toml" in each["data"]:
            unknown = set(tomllib.loads(each["data"]["pvwire.toml"])) - keys()
            found.unless(not unknown, f"pvwire.toml has {unknown}, which the relay doesn't know")
    for pod in pods(documents):
        for volume in pod["spec"].get("volumes", []):
            if "configMap" in volume:
                name = volume["configMap"]["name"]
                found.unless(("ConfigMap", name) in names, f"ConfigMap {name} isn't there")


def check(text, less_restricted, domain="cluster.local"):
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
    if pods(documents):
        check_bonds(documents, found, domain)
    check_way_to_iocs(documents, found)
    return found


def main():
    if sys.argv[1:] == ["--write"]:
        PLAIN.write_text(plain())
        return 0
    report = helm.lint(CHART, strict=True, kube_version="v1.32.0")
    wrong = [each["error"] for each in report["messages"] if each["severity"] > 1]
    results = [("helm lint", report["errors"] + wrong)]
    for name, settings, less_restricted in SHAPES:
        values = parsed(settings)
        domain = values.get("clusterDomain", "cluster.local")
        results.append((f"chart, {name}", check(render(values), less_restricted, domain)))
        if values.get("bus", {}).get("enabled"):
            documents = [each for each in yaml.safe_load_all(render(values)) if each]
            results.append((f"relays of the chart, {name}", check_fleet(documents)))
    how_to = values_of_the_how_to()
    results.append(("chart, values of the how-to", check(render(how_to), False)))
    for setting, reason in REFUSED:
        answer = refusal(setting)
        results.append((f"chart refuses {setting}", [] if reason in answer else [answer]))
    hosts = allowed_hosts(yaml.safe_load_all(render(how_to)))
    hosts_in_notes = set(re.findall(r"wss?://([^:/\s]+)", notes(how_to)))
    results.append(("the relay answers to the hosts in the notes", sorted(hosts_in_notes - hosts) if hosts_in_notes else ["no host"]))
    label = "pod-security.kubernetes.io/enforce=privileged"
    fleet = ["bus.enabled=true", "bus.servers={nats://nats.nats:4222}"]
    tells = "bus.keySecret is empty" in notes(parsed(fleet)) and "bus.keySecret" not in notes(parsed([*fleet, "bus.keySecret=a"]))
    results.append(("notes tell that the bus is not signed", [] if tells else ["they don't"]))
    ingress = ["ingress.enabled=true"]
    tells = "config.trusted_proxy is empty" in notes(parsed(ingress)) and "trusted_proxy" not in notes(parsed([*ingress, "config.trusted_proxy={10.0.0.0/8}"]))
    results.append(("notes tell that an ingress's clients share the limits of one address", [] if tells else ["they don't"]))
    results.append(("only a chart without log-ins lets everyone in", anonymous()))
    results.append(("notes tell what hostNetwork needs", [] if label in notes(parsed(["epics.hostNetwork=true"])) else [label]))
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        results.append((path.name, check(path.read_text(), False)))
    stale = [] if PLAIN.read_text() == plain() else ["run deploy/check_manifests.py --write"]
    results.append(("plain manifests are the chart's", stale))
    results.append(("demo.conf", check_proxy((DEPLOY / "demo.conf").read_text())))
    results.append(("compose.yaml", check_compose((DEPLOY / "compose.yaml").read_text())))
    results.append(("Dockerfile", check_node((DEPLOY / "Dockerfile").read_text())))
    for path in (DEPLOY / "Dockerfile", ROOT / ".devcontainer/Dockerfile"):
        results.append((f"base images of {path.relative_to(ROOT)}", check_bases(path.read_text())))
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"```nginx\n(.*?)```", path.read_text(), re.S):
            results.append((f"nginx in {path.name}", check_proxy(block)))
    # That the checks find what they are for.
    for name, caught in [
        ("a pod in the host's network", check(render(parsed(["epics.hostNetwork=true"])), False)),
        ("a path that the relay doesn't serve", check_proxy("location = /large { proxy_pass http://127.0.0.1:8080; }")),
        ("a policy that keeps the relay from its IOCs", check(render({"epics": how_to["epics"]}), False)),
        ("an audit file on a read-only file system",
         check(render(parsed(["audit.enabled=true"])).replace("mountPath: /var/log/pvwire", "mountPath: /var/log"), False)),
        ("a base image without a digest", check_bases("FROM rust:1.95-bookworm AS build\n")),
        ("a host that the relay refuses", check(render({}).replace('"pvwire.pvwire", ', ""), False)),
    ]:
        results.append((f"{name} is found", [] if caught else ["not found"]))
    for name, found in results:
        for what in found:
            print(f"{name}: {what}")
    failed = sum(bool(found) for _, found in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
