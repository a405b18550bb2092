"""A pvAccess server of pvAccessCPP (by pvapy).

    pva_cpp_server.py PREFIX

It listens where EPICS's variables say. Each line of standard input, `NAME JSON`, updates the value of a PV of
the prefix. The program prints "running" to standard error and ends when its standard input ends.
"""

import json
import sys

import pvaccess

TIME = {"secondsPastEpoch": pvaccess.LONG, "nanoseconds": pvaccess.INT, "userTag": pvaccess.INT}
ALARM = {"severity": pvaccess.INT, "status": pvaccess.INT, "message": pvaccess.STRING}


def scalar(type, value, **more):
    pv = pvaccess.PvObject({"value": type, "alarm": ALARM, "timeStamp": TIME}, {"value": value}, "epics:nt/NTScalar:1.0")
    pv["timeStamp"] = {"secondsPastEpoch": 1_700_000_000, "nanoseconds": 5, "userTag": 0}
    return pv


def records():
    choices = {"index": pvaccess.INT, "choices": [pvaccess.STRING]}
    mode = pvaccess.PvObject(
        {"value": choices, "alarm": ALARM, "timeStamp": TIME},
        {"value": {"index": 1, "choices": ["Off", "On", "Fault"]}},
        "epics:nt/NTEnum:1.0",
    )
    array = pvaccess.PvObject(
        {"value": [pvaccess.DOUBLE], "alarm": ALARM, "timeStamp": TIME}, {"value": [1.0, 2.0, 3.0]}, "epics:nt/NTScalarArray:1.0"
    )
    empty = pvaccess.PvObject({"value": [pvaccess.DOUBLE]}, {"value": []}, "epics:nt/NTScalarArray:1.0")
    return {
        "number": scalar(pvaccess.DOUBLE, 1.5),
        "long": scalar(pvaccess.LONG, 9_007_199_254_740_993),
        "text": scalar(pvaccess.STRING, "abc"),
        "mode": mode,
        "array": array,
        "empty": empty,
    }


def main(prefix):
    server = pvaccess.PvaServer()
    pvs = records()
    for name, pv in pvs.items():
        server.addRecord(prefix + name, pv)
    print("running", file=sys.stderr, flush=True)
    for line in sys.stdin:
        name, value = line.split(None, 1)
        pv = pvs[name]
        value = json.loads(value)
        pv["value"] = {"index": value} if name == "mode" else value
        server.update(prefix + name, pv)


if __name__ == "__main__":
    main(sys.argv[1])
