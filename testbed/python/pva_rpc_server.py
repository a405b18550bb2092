"""A pvAccess server of pvAccessCPP (by pvapy) with one procedure, whose PV can't be monitored.

    pva_rpc_server.py PREFIX

It listens where EPICS's variables say. The PV is `service`. The program prints "running" to standard error and ends when
its standard input ends.
"""

import sys

import pvaccess


def main(prefix):
    server = pvaccess.RpcServer()
    server.registerService(prefix + "service", lambda _: pvaccess.PvObject({"value": pvaccess.INT}, {"value": 1}))
    server.startListener()
    print("running", file=sys.stderr, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
