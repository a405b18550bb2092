"""CPU time of an update that pyepics receives by Channel Access.

Measures itself, a client with one monitor a PV, on one core; prints one line of JSON.
"""

import sys
from importlib.metadata import version

from intake import Intake
from program import arguments, become_peer, leave


def main():
    given = arguments(__doc__)
    become_peer(given.server_core)
    import epics

    intake = Intake(given, lambda kept: kept)
    pvs = []
    for place, name in enumerate(intake.names):
        keep = intake.receiver(place)

        def receive(value=None, timestamp=None, keep=keep, **_):
            keep((value, timestamp))

        pvs.append(epics.PV(name, form="time", auto_monitor=epics.dbr.DBE_VALUE, callback=receive))
    intake.measure()
    intake.print_report("pyepics", version("pyepics"))
    leave()


if __name__ == "__main__":
    sys.exit(main())
