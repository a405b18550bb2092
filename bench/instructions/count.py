"""Counts the instructions of the functions that run for every update, and compares them with the baseline.

Unlike times, callgrind's counts don't depend on what else runs on the machine.

Fails when a case takes more instructions than the baseline allows. `--write` accepts the new counts.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = TARGET / "debug/pvwire-instructions"
# The counted crates are compiled as in a release, so the counts are those of a release build. All others are
# compiled as in the tests, which have built most of them. --examples gives them the same features as in tests.
BUILD = "cargo build --quiet --locked --workspace --examples --bin pvwire-instructions --config"
COUNTED_CRATES = Path(__file__).with_name("counted.toml")
BASELINE = Path(__file__).with_name("baseline.json")

# More than the variation of the compiler when other code changes and of another processor's memcpy; less than
# one more operation per row.
TOLERANCE = 0.03

# Cases that may cost at most this many instructions a call more than another one: doors without clients. The thread
# asks the sink of formulas once a tick whether it has work, and when. The C library's instructions aren't compared, because
# malloc's depend on what was allocated before.
NO_DEARER = {
    "tick-beside-doors-1000": ("tick-1000", 0),
    "thread-beside-doors-1000": ("thread-1000", 30),
}

# Instructions are counted only inside this function.
COUNTED = "*counted_work*"


def cases():
    """For each case: name, number of calls, rows per call."""
    listed = subprocess.run([PROGRAM], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        name, calls, rows = line.split()
        yield name, int(calls), int(rows)


def count(name, profile):
    """The instructions of all calls together, and those of them outside the C library. callgrind's profile is written
    to the file `profile`."""
    command = ["valgrind", "--tool=callgrind", f"--toggle-collect={COUNTED}"]
    command += [f"--callgrind-out-file={profile}", PROGRAM, name]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{name} failed:\n{ran.stderr}")
    total = re.search(r"^totals: (\d+)", profile.read_text(), re.M)
    if not total or int(total[1]) == 0:
        sys.exit(f"{name}: callgrind counted nothing in {COUNTED}")
    return int(total[1]), outside_libc(profile.read_text())


def outside_libc(profile):
    """The instructions in a profile of callgrind that are not the C library's."""
    objects, own, current, is_call = {}, 0, "", False
    for line in profile.splitlines():
        if named := re.match(r"(c?ob)=\((\d+)\)(?: (.+))?", line):
            which, number, name = named.groups()
            objects.setdefault(number, name)
            current = objects[number] if which == "ob" else current
        elif line.startswith("calls="):
            # The next line has the cost of the called function, which is counted in its own lines.
            is_call = True
        elif re.match(r"[-+*\d]", line):
            own += 0 if is_call or "libc.so" in current else int(line.split()[1])
            is_call = False
    return own


def verdict(now, before):
    """The remark beside the count of a case, and whether the case fails."""
    if before is None:
        return "not in the baseline", True
    change = now / before - 1
    text = f"{change:+.1%}"
    if change > TOLERANCE:
        return f"{text}, more than {TOLERANCE:.0%}", True
    if change < -TOLERANCE:
        return f"{text}, accept it", False
    return text, False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="accept the counts as the baseline")
    parser.add_argument("--build", action="store_true", help="only build the program")
    parser.add_argument("--profiles", type=Path, help="keep callgrind's profiles in this folder")
    arguments = parser.parse_args()
    # Incremental compilation divides crates otherwise, so that other functions are inlined.
    environment = dict(os.environ, CARGO_INCREMENTAL="0")
    subprocess.run([*BUILD.split(), COUNTED_CRATES], cwd=ROOT, env=environment, check=True)
    if arguments.build:
        return 0

    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    counted, outside, failed = {}, {}, []
    print(f"{'case':24}{'a call':>12}{'a row':>9}{'baseline':>12}  change")
    with tempfile.TemporaryDirectory() as folder:
        folder = arguments.profiles or Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, calls, rows in cases():
            total, own = count(name, folder / f"callgrind.{name}")
            call, outside[name] = total / calls, own / calls
            counted[name] = {"perCall": round(call), "perRow": round(call / rows, 1)}
            before = baseline.get(name, {}).get("perCall")
            text, fails = verdict(call, before)
            failed += [name] * fails
            accepted = "-" if before is None else f"{before:,}"
            print(f"{name:24}{call:12,.0f}{call / rows:9.1f}{accepted:>12}  {text}", flush=True)
    for name, (other, most) in NO_DEARER.items():
        more = outside[name] - outside[other]
        print(f"{name}: {more:+,.1f} instructions a call beside {other}, at most {most}")
        failed += [name] * (more > most)
    if arguments.write:
        BASELINE.write_text(json.dumps(counted, indent=2) + "\n")
        print(f"written to {BASELINE.relative_to(ROOT)}")
        return 0
    gone = sorted(baseline.keys() - counted.keys())
    for name in gone:
        print(f"{name}: in the baseline, but no case any more")
    failed += gone
    print(f"{len(counted) + len(gone) - len(failed)} passed, {len(failed)} failed")
    if failed:
        print("When that is meant to be: bench/instructions/count.py --write, and commit the baseline.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
