"""CPU time of an update that p4p receives by pvAccess.

Measures itself, a client with one monitor a PV, on one core; prints one line of JSON.
"""

import sys
import time
from importlib.metadata import version

from intake import Intake
from program import arguments, become_peer

# A monitor whose first event comes before p4p has noted the monitor loses it, and gets no other.
OPEN_AGAIN_S = 5

# What an update of ours says.
REQUEST = "field(value,alarm,timeStamp)"


def main():
    given = arguments(__doc__)
    become_peer(given.server_core)
    from p4p.client.thread import Context

    intake = Intake(given)
    with Context("pva") as context:

        def open_monitor(place):
            return context.monitor(intake.names[place], intake.receiver(place), request=REQUEST)

        monitors = [open_monitor(place) for place in range(len(intake.names))]
        opened = time.monotonic()
        while silent := intake.without_value():
            if time.monotonic() - opened > OPEN_AGAIN_S:
                for place in silent:
                    monitors[place].close()
                    monitors[place] = open_monitor(place)
                opened = time.monotonic()
            time.sleep(0.05)
        intake.measure()
        for monitor in monitors:
            monitor.close()
    intake.print_report("p4p", version("p4p"))


if __name__ == "__main__":
    sys.exit(main())
