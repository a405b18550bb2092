"""The past of PVs: what it costs to keep, to get, to record, to replay, and to pass on from an archiver."""

import json
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from ports import free_port
from processes import LEAST_SHARE, OTHER_CORES, PYTHON, ROOT, TARGET, Disturbed, Relay, say, wait_for_line
from usage import cpu_ns

ABOUT = {
    "history-ring": "1 client × {pvs} PVs × {rate_hz} Hz, of which {kept} are kept for an hour, in turn with the same"
    " without any history, {seconds} s a round, n = {rounds} rounds, relay on one core, IOC and client on the others.",
    "history-bytes": "{pvs} PVs × {rate_hz} Hz, each kept for an hour, without clients; memory after {seconds} s,"
    " n = {rounds} rounds. As many samples as 10 Hz give in {minutes} minutes.",
    "history-resume": "{clients} clients × {pvs} PVs × {rate_hz} Hz, and one more that is cut off for {cut_s} s and then"
    " asks for what it has missed; the others' latencies in {seconds} s from its return on and in windows as long before,"
    " n = {rounds} rounds, relay on one core, IOC and clients on the others.",
    "history-kills": "A program that writes past updates to a folder is killed by SIGKILL {kills} times at a random moment;"
    " each time the folder is read again, n = {rounds} rounds.",
    "replay-size": "{pvs} PVs × {rate_hz} Hz of an IOC, written by `pvwire-relay record` for {seconds} s,"
    " n = {rounds} rounds.",
    "replay-seek": "A recording of {hours} h with a chunk a second, all {pvs} PVs × 10 Hz in the minute before each time"
    " that is sought, 10 of them otherwise, written by the recorder's writer; a client with all PVs writes"
    " `replay://position`. The file is not in the system's cache. n = {rounds} rounds, relay on one core.",
    "archiver": "One answer of an archiver of {days} days with a sample a second, in chunks of 500 samples, by plain HTTP,"
    " n = {rounds} rounds, relay on one core, archiver and client on the others.",
}

CHECKED = {
    "history-bytes": "Checked: each update that was due is kept, and none was removed.",
    "history-kills": "Checked after each kill: every sample that was written is read, in order and with its value, no file"
    " is damaged and no gap is told.",
    "replay-size": "Checked: the relay received each update that was due and left none out for the recorder.",
    "replay-seek": "Checked after each seek: time stamp and value of every PV.",
    "archiver": "Checked: the bytes are those that the archiver gives without the relay.",
}

# The threads of the ring.
THREAD = "history"

# An hour of samples for each PV that is kept, and nothing of others.
HOUR, OTHERS = "=1h", "--history=*=0"

MEMORY = "--history-memory=512MB"

# How long anything may take.
PATIENCE_S = 60

# The test that is repeated.
KILLS_TEST = "writer_killed_at_any_moment_leaves_all_that_was_written"


def runs(scenario):
    """Clients of each part of a round, for how long it takes."""
    return {"history-ring": [1, 1], "history-resume": [scenario.get("clients", 1)]}.get(scenario["kind"], [0])


def words(scenario):
    """For how long 10 Hz would give as many samples."""
    return {"minutes": round(scenario["seconds"] * scenario.get("rate_hz", 0) / 10 / 60)}


def keeping(scenario, names):
    """Flags of a relay that keeps the first PVs."""
    digits = len(str(scenario["kept"] - 1))
    return [f"--history={names[0][:-digits]}*{HOUR}", OTHERS, MEMORY]


def ring(children, scenario, iocs, folder):
    """One round: without history, and with it."""
    names = iocs.names.read_text().split()
    with Relay(children, scenario | {"flags": ["--no-history"]}, iocs) as relay:
        without = relay.load(scenario, 1, iocs)
    with Relay(children, scenario | {"flags": keeping(scenario, names)}, iocs) as relay:
        beside = relay.load(scenario, 1, iocs)
        counters = relay.counters()
    share = scenario["kept"] / scenario["pvs"]
    check_kept(counters, scenario["kept"], beside["counts"]["updates"] * share)
    us = [run["relayCpuNs"] / run["counts"]["updates"] / 1000 for run in (without, beside)]
    kept = beside["counts"]["updates"] * share
    figures = {
        "us_per_kept_update": (us[1] - us[0]) / share,
        "history_us_per_kept_update": beside["relayCpuNsByThread"].get(THREAD, 0) / kept / 1000,
        "ratio_cpu": us[1] / us[0],
        "relay_us_per_update": us[1],
        "relay_us_per_update_without": us[0],
        "kept_per_s": kept / beside["seconds"],
        "latency_p99_ms": beside["latency"]["p99Ms"],
        "latency_p99_without_ms": without["latency"]["p99Ms"],
    }
    say(
        f"   {figures['us_per_kept_update']:.3g} µs for each kept update, of it {figures['history_us_per_kept_update']:.3g}"
        f" by the thread of the past; {us[1]:.3g} µs an update in all"
    )
    return figures, {"relay": beside, "without": without}


def check_kept(counters, pvs, least):
    """That the past has what it should."""
    lost = counters["pvwire_history_ticks_lost_total"] + counters["pvwire_history_samples_evicted_total"]
    taken = counters["pvwire_history_samples_taken_total"]
    if counters["pvwire_history_pvs"] != pvs or lost or taken < least:
        sys.exit(f"{taken:.0f} updates of {counters['pvwire_history_pvs']:.0f} PVs are kept, {lost:.0f} are lost")


def ring_bytes(children, scenario, iocs, folder):
    """One round: memory of samples, and the CPU time of the thread that takes them."""
    names = iocs.names.read_text().split()
    config = folder / "history.toml"
    config.write_text(f"history = {json.dumps([name + HOUR for name in names])}\n")
    with Relay(children, scenario | {"flags": ["--config", config, MEMORY]}, iocs) as relay:
        until(lambda: relay.counters()["pvwire_history_pvs"] == len(names), "a past of each PV")
        time.sleep(scenario["warm_up_s"])
        began, first, cpu = time.monotonic(), relay.counters(), thread_ns(relay.process.pid)
        time.sleep(scenario["seconds"])
        seconds, last, used = time.monotonic() - began, relay.counters(), thread_ns(relay.process.pid) - cpu
    taken = last["pvwire_history_samples_taken_total"] - first["pvwire_history_samples_taken_total"]
    due = len(names) * scenario["rate_hz"] * seconds
    if taken < 0.95 * due:
        raise Disturbed(f"{taken:.0f} of {due:.0f} updates came")
    check_kept(last, len(names), taken)
    samples = last["pvwire_history_samples"]
    figures = {
        "bytes_per_sample": last["pvwire_history_bytes"] / samples,
        "history_us_per_kept_update": used / taken / 1000,
        "samples_per_pv": samples / len(names),
        "history_mb": last["pvwire_history_bytes"] / 1e6,
    }
    say(
        f"   {figures['bytes_per_sample']:.3g} bytes a sample with {figures['samples_per_pv']:.0f} of each PV,"
        f" {figures['history_us_per_kept_update']:.3g} µs"
    )
    return figures, {"counters": last}


def until(done, what):
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > deadline:
            sys.exit(f"waited for {what} without success")
        time.sleep(0.1)


def thread_ns(pid):
    """CPU time of the thread of the past."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    [task] = [task for task in tasks if (task / "comm").read_text().strip() == THREAD]
    return int((task / "schedstat").read_text().split()[0])


def resume(children, scenario, iocs, folder):
    """One round: a client is cut off and comes back."""
    with Relay(children, scenario, iocs) as relay:
        words = ["--cut-s", scenario["cut_s"]]
        run = relay.measure("resume", scenario, scenario["clients"], iocs, words)
    due = scenario["pvs"] * scenario["rate_hz"] * scenario["cut_s"]
    if run["missed"] < LEAST_SHARE * due:
        raise Disturbed(f"the IOC made {run['missed']} updates where {due} were due")
    before = statistics.median(run["p99BeforeMs"])
    figures = {
        "missed": run["missed"],
        "checked_s": run["checkedMs"] / 1000,
        "received_s": run["receivedMs"] / 1000,
        "bytes_per_missed": run["missedBytes"] / run["missed"],
        "ratio_p99": run["latency"]["p99Ms"] / before,
        "latency_p99_ms": run["latency"]["p99Ms"],
        "latency_p99_before_ms": before,
        "latency_max_ms": run["latency"]["maxMs"],
        "relay_cores": run["relayCpuNs"] / run["windowSeconds"] / 1e9,
    }
    say(
        f"   {run['missed']} updates after {figures['received_s']:.2f} s, checked after {figures['checked_s']:.2f} s;"
        f" 99 % of the others' after {figures['ratio_p99']:.2f} times the time"
    )
    return figures, {"relay": run | {"seconds": run["windowSeconds"]}}


def kills(children, scenario, iocs, folder):
    """One round: the test with many kills."""
    words = f"cargo test --quiet --locked -p pvwire-relay --lib -- --nocapture {KILLS_TEST}".split()
    began = time.monotonic()
    child = children.start(
        words,
        OTHER_CORES,
        cwd=ROOT,
        env=iocs.environment | {"PVWIRE_HISTORY_KILLS": str(scenario["kills"])},
        stdout=subprocess.PIPE,
    )
    output = children.wait(child)
    found = re.search(r"(\d+) kills, (\d+) samples read", output)
    if child.returncode != 0 or not found:
        sys.exit(f"past updates were lost or damaged:\n{output[-4000:]}")
    figures = {
        "kills": int(found[1]),
        "failed": 0,
        "samples_checked": int(found[2]),
        "took_s": time.monotonic() - began,
    }
    say(f"   {found[1]} kills, {found[2]} samples read again, in {figures['took_s']:.0f} s")
    return figures, {}


def size(children, scenario, iocs, folder):
    """One round: how the file of a recorder grows."""
    names = iocs.names.read_text().split()
    file = folder / "recording"
    file.unlink(missing_ok=True)
    with Relay(children, scenario, iocs) as relay:
        words = ["record", file, "--url", f"ws://{relay.address}/ws", "--pv", *names]
        recorder = children.start([TARGET / "pvwire-relay", *words], OTHER_CORES, stdout=subprocess.PIPE)
        until(lambda: file.exists() and file.stat().st_size > 0, "the recording")
        time.sleep(scenario["warm_up_s"])
        skipped, cpu = relay.skipped(), cpu_ns(recorder.pid)
        updates, before, began = received(relay), file.stat().st_size, time.monotonic()
        time.sleep(scenario["seconds"])
        updates, grown = received(relay) - updates, file.stat().st_size - before
        seconds, used = time.monotonic() - began, cpu_ns(recorder.pid) - cpu
        skipped = relay.skipped() - skipped
        children.end(recorder)
        if recorder.returncode != 0:
            sys.exit(f"the recorder ended with {recorder.returncode}")
    due = len(names) * scenario["rate_hz"] * seconds
    if skipped or updates < LEAST_SHARE * due:
        raise Disturbed(f"{updates:.0f} of {due:.0f} updates came, {skipped:.0f} were left out")
    figures = {
        "gb_per_hour": grown / seconds * 3600 / 1e9,
        "bytes_per_update": grown / updates,
        "recorder_us_per_update": used / updates / 1000,
        "updates_per_s": updates / seconds,
    }
    say(f"   {figures['gb_per_hour']:.3g} GB an hour, {figures['bytes_per_update']:.3g} bytes an update")
    return figures, {}


def received(relay):
    return relay.counters()["pvwire_updates_received_total"]


def seek(children, scenario, iocs, folder):
    """One round: a day is opened, and times of it are sought."""
    file = folder / "day"
    hours, to = scenario["hours"], [word for second in scenario["to"] for word in ("--busy", second)]
    if not file.exists():
        words = ["--file", file, "--pvs", scenario["pvs"], "--seconds", hours * 3600]
        made = part(children, "recording", [*words, *to])
        say(f"   the recording: {made['bytes'] / 1e6:.0f} MB in {made['chunks']} chunks, written in {made['seconds']:.0f} s")
    flags = ["--replay", file, "--enable-put", "--allow-put=replay://*"]
    began = time.monotonic()
    with Relay(children, scenario | {"flags": flags}, iocs) as relay:
        opened = time.monotonic() - began
        words = ["--relay", relay.address, "--file", file, "--pvs", scenario["pvs"]]
        found = part(children, "seek", [*words, *(word for second in scenario["to"] for word in ("--to", second))])
    figures = {
        "seek_p50_ms": found["took"]["p50Ms"],
        "seek_max_ms": found["took"]["maxMs"],
        "seeks": found["seeks"],
        "opened_s": opened,
        "recording_mb": file.stat().st_size / 1e6,
    }
    say(f"   {figures['seek_p50_ms']:.0f} ms, at most {figures['seek_max_ms']:.0f}; opened in {opened:.2f} s")
    return figures, {"seek": found}


def part(children, name, words):
    """What a part of the load client says."""
    child = children.start([TARGET / "pvwire-bench", name, *words], OTHER_CORES, stdout=subprocess.PIPE)
    output = children.wait(child)
    if child.returncode != 0:
        sys.exit(f"the load client's {name} failed")
    return json.loads(output)


def archiver(children, scenario, iocs, folder):
    """One round: an answer of an archiver with and without the relay."""
    port, begin, days = free_port(), "2024-02-01T00:00:00Z", scenario["days"]
    server = children.start(
        [PYTHON, ROOT / "testbed/python/archiver.py", port, 1], OTHER_CORES, stderr=subprocess.PIPE
    )
    wait_for_line(server.stderr, "running", "the archiver")
    retrieval = f"http://127.0.0.1:{port}/retrieval"
    query = f"pv=BENCH:A&from={begin}&to=2024-02-{1 + days:02}T00:00:00Z"
    direct = get(f"{retrieval}/data/getData.raw?{query}")
    with Relay(children, scenario | {"flags": [f"--archiver=BENCH:*={retrieval}"]}, iocs) as relay:
        url = f"http://{relay.address}/archiver/data?{query}"
        # The archiver computes the answer when it is asked for the first time.
        get(url)
        began, before = time.monotonic(), cpu_ns(relay.process.pid)
        passed = get(url)
        used, seconds = cpu_ns(relay.process.pid) - before, time.monotonic() - began
    children.end(server)
    if passed != direct:
        sys.exit(f"{len(passed)} bytes came through the relay, the archiver gave {len(direct)}")
    megabytes = len(passed) / 1e6
    figures = {
        "ms_per_mb": used / 1e6 / megabytes,
        "answer_mb": megabytes,
        "mb_per_s": megabytes / seconds,
    }
    say(f"   {figures['ms_per_mb']:.3g} ms of the relay's CPU for a MB, {figures['mb_per_s']:.3g} MB/s")
    return figures, {}


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return answer.read()


MEASURES = {
    "history-ring": ring,
    "history-bytes": ring_bytes,
    "history-resume": resume,
    "history-kills": kills,
    "replay-size": size,
    "replay-seek": seek,
    "archiver": archiver,
}

LABELS = {
    "history-ring": {
        "us_per_kept_update": ("Relay: CPU for each update that is kept, more than without history", "µs"),
        "history_us_per_kept_update": ("Of it the thread that keeps it", "µs"),
        "ratio_cpu": ("Ratio of the relay's CPU with and without history", ""),
        "relay_us_per_update": ("Relay, all threads: CPU per update", "µs"),
        "relay_us_per_update_without": ("The same without history", "µs"),
        "kept_per_s": ("Updates kept", "/s"),
        "latency_p99_ms": ("IOC time stamp to client, 99 %", "ms"),
        "latency_p99_without_ms": ("The same without history", "ms"),
    },
    "history-bytes": {
        "bytes_per_sample": ("Memory of a sample, with all that its PV needs", "B"),
        "history_us_per_kept_update": ("CPU of the thread that keeps it", "µs"),
        "samples_per_pv": ("Samples of each PV", ""),
        "history_mb": ("Memory of all", "MB"),
    },
    "history-resume": {
        "missed": ("Updates missed and got afterwards, each checked", ""),
        "checked_s": ("New connection until each is checked", "s"),
        "received_s": ("New connection until all have come", "s"),
        "bytes_per_missed": ("Bytes on the wire for each", "B"),
        "ratio_p99": ("Ratio of the others' 99 % latency after and before its return", ""),
        "latency_p99_ms": ("The others: IOC time stamp to client, 99 %, after its return", "ms"),
        "latency_p99_before_ms": ("The same before, median of the windows", "ms"),
        "latency_max_ms": ("The others: IOC time stamp to client, longest, after its return", "ms"),
        "relay_cores": ("Relay: cores used after its return", ""),
    },
    "history-kills": {
        "kills": ("Kills", ""),
        "failed": ("Kills after which a written sample was missing or wrong, or a file damaged", ""),
        "samples_checked": ("Samples read again and checked", ""),
        "took_s": ("Duration, with the build", "s"),
    },
    "replay-size": {
        "gb_per_hour": ("Size of an hour", "GB"),
        "bytes_per_update": ("Size of an update", "B"),
        "recorder_us_per_update": ("Recorder: CPU per update", "µs"),
        "updates_per_s": ("Updates recorded", "/s"),
    },
    "replay-seek": {
        "seek_p50_ms": ("Seek until a client has the state of each PV, median", "ms"),
        "seek_max_ms": ("The same, longest", "ms"),
        "seeks": ("Seeks of a round", ""),
        "opened_s": ("Start of the relay until it listens, the recording not cached", "s"),
        "recording_mb": ("Size of the recording", "MB"),
    },
    "archiver": {
        "ms_per_mb": ("Relay: CPU for a MB that it passes on", "ms"),
        "answer_mb": ("Answer", "MB"),
        "mb_per_s": ("Answer passed on", "MB/s"),
    },
}
