"""A softIOC for the demo and the tests: epicscorelibs' own, with access security, and pvAccess on request.

`softioc.py [--access FILE] [--pva] [-m MACROS] -d DATABASE …`; its console is Python's, where `ioc("dbl")`
runs a command of the IOC's shell. It ends when its input ends.
"""

import os
import sys

import pvxslibs.path
from epicscorelibs import ioc


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--access"]:
        ioc.dbCore.asSetFilename(arguments[1].encode())
        arguments = arguments[2:]
    with_pva = arguments[:1] == ["--pva"]
    sys.argv[1:] = arguments[1:] if with_pva else arguments
    if with_pva:
        os.environ["PVXS_QSRV_ENABLE"] = "YES"
        dbd = (("pvxsIoc.dbd", pvxslibs.path.dbd_path),)
        ioc.main(extra_dbd_load=dbd, extra_dso_load=("pvxslibs.lib.pvxsIoc",))
    else:
        ioc.main(extra_dbd_load=(), extra_dso_load=())


if __name__ == "__main__":
    main()
