"""Reads a relay's metrics as their users do: in both text formats, by prometheus_client's parsers and promtool.

Called with the address of a relay and, if there is one, the path of promtool. Fails with the reason when a parser
refuses the text, the formats differ, or a histogram has no quantiles.
"""

import math
import subprocess
import sys
import urllib.request

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

# What Prometheus 2 sends, and what a program that knows the older format alone sends.
OPEN_METRICS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
TEXT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"


def answer(address, accept):
    request = urllib.request.Request(f"http://{address}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.headers["Content-Type"], response.read().decode()


def quantile(family, q):
    """As Prometheus's histogram_quantile: NaN unless the last bucket is +Inf."""
    buckets = [
        (float(sample.labels["le"]), sample.value) for sample in family.samples if sample.name.endswith("_bucket")
    ]
    buckets.sort()
    if not buckets or buckets[-1][0] != math.inf or buckets[-1][1] == 0:
        return math.nan
    rank = q * buckets[-1][1]
    at = next(index for index, (_, count) in enumerate(buckets) if count >= rank)
    if at == len(buckets) - 1:
        return buckets[-2][0]
    low, before = buckets[at - 1] if at else (0.0, 0.0)
    end, count = buckets[at]
    return low + (end - low) * (rank - before) / (count - before)


def check_histogram(family):
    counts = {sample.name.rsplit("_", 1)[1]: sample.value for sample in family.samples}
    last = [sample.value for sample in family.samples if sample.labels.get("le") == "+Inf"]
    assert last == [counts["count"]], f"{family.name}: the bucket +Inf has {last}, the count is {counts['count']}"
    for q in (0.5, 0.9, 0.99):
        value = quantile(family, q)
        assert value >= 0, f"{family.name}: the quantile {q} is {value}"


def described(families):
    """Type and help by the name of the samples."""
    return {
        family.name.removesuffix("_total"): (family.type, family.documentation, len(family.samples))
        for family in families
    }


def main(address, promtool=None):
    kind, open_metrics = answer(address, OPEN_METRICS)
    assert kind.startswith("application/openmetrics-text"), kind
    kind, text = answer(address, TEXT)
    assert kind.startswith("text/plain; version=0.0.4"), kind

    families = list(openmetrics_parser.text_string_to_metric_families(open_metrics))
    plain = list(parser.text_string_to_metric_families(text))
    assert described(families) == described(plain), "the formats differ"
    for family in families:
        assert family.documentation, f"{family.name} has no help"
        assert family.type in ("counter", "gauge", "histogram"), f"{family.name} is {family.type}"
        for unit in ("seconds", "bytes"):
            if family.name.endswith(f"_{unit}"):
                assert family.unit == unit, f"{family.name} has the unit {family.unit!r}"
        for other in ("micro", "milli", "nano"):
            assert f"{other}seconds" not in family.name, f"{family.name} isn't in seconds"
    for family in [*families, *plain]:
        if family.type == "histogram":
            check_histogram(family)
    if promtool:
        found = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr
    print(f"{len(families)} metrics")


if __name__ == "__main__":
    main(*sys.argv[1:])
