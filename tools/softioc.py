"""A softIOC for the demo and the tests: epicscorelibs' own, Channel Access only, with access security.

`softioc.py [--access FILE] [-m MACROS] -d DATABASE …`; its console is Python's, where `ioc("dbl")`
runs a command of the IOC's shell. It ends when its input ends.
"""

import sys

from epicscorelibs import ioc


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--access"]:
        ioc.dbCore.asSetFilename(arguments[1].encode())
        arguments = arguments[2:]
    sys.argv[1:] = arguments
    # Without PVA, which the relay doesn't speak and which would want ports of its own.
    ioc.main(extra_dbd_load=(), extra_dso_load=())


if __name__ == "__main__":
    main()
