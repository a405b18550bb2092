"""CPU time of an update that caproto receives by Channel Access.

Measures itself, a client with one subscription a PV, on one core; prints one line of JSON. Several monitors of one PV
share its subscription, which is how caproto does it.
"""

import sys
from importlib.metadata import version

from intake import Intake
from program import arguments, become_peer, leave


def read(response):
    data = response.data
    return data if len(data) > 1 else data[0], response.metadata.timestamp


def main():
    given = arguments(__doc__)
    become_peer(given.server_core)
    from caproto.threading.client import Context

    intake = Intake(given, read)
    callbacks = []
    for place, pv in enumerate(Context().get_pvs(*intake.names)):
        pv.wait_for_connection(timeout=30)
        keep = intake.receiver(place)
        # A subscription has only weak references.
        callbacks.append(lambda _, response, keep=keep: keep(response))
        pv.subscribe(data_type="time").add_callback(callbacks[-1])
    intake.measure()
    intake.print_report("caproto", version("caproto"))
    leave()


if __name__ == "__main__":
    sys.exit(main())
