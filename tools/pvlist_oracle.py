"""Answers as the gateway of p4p: which names does a list of PVs serve?

Reads lines of JSON `{"text": …, "names": […]}` and writes one line for each: a list with null, or
`[group, level]`, for each name; or `{"refused": …}` when the gateway doesn't read the list.
"""

import json
import logging
import sys
import warnings

from p4p.asLib.pvlist import PVList


class Offline(PVList):
    """Hosts are not looked up: a list that names some is refused."""

    @staticmethod
    def _gethostbyname(host):
        raise ValueError(f"host {host}")


def answer(question):
    try:
        pvlist = Offline(question["text"])
    except Exception as error:  # Whatever the gateway raises ends it.
        return {"refused": str(error)}
    found = (pvlist.compute(name.encode(), "127.0.0.1") for name in question["names"])
    return [None if name is None else [group, level] for name, group, level in found]


def main():
    logging.disable()
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
