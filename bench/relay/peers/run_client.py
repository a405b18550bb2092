"""CPU time of an update that a Python client receives: `run_client.py aioca|caproto|p4p|pyepics …`.

Measures itself, a client with one monitor a PV, on one core; prints one line of JSON.
"""

import asyncio
import sys
import time
from importlib.metadata import version

from intake import Intake
from program import arguments, become_peer, leave

# A monitor whose first event comes before p4p has noted the monitor loses it, and gets no other.
OPEN_AGAIN_S = 5

# What an update of ours says.
P4P_REQUEST = "field(value,alarm,timeStamp)"


def aioca(given):
    """Channel Access."""
    import aioca

    async def measure(intake):
        for place, name in enumerate(intake.names):
            aioca.camonitor(name, intake.receiver(place), format=aioca.FORMAT_TIME, all_updates=True)
        while intake.without_value():
            await asyncio.sleep(0.05)
        await asyncio.sleep(given.warm_up_s)
        intake.begin()
        await asyncio.sleep(given.seconds)
        intake.end()

    intake = Intake(given)
    asyncio.run(measure(intake))
    return intake


def caproto(given):
    """Channel Access. Several monitors of one PV share its subscription, which is how caproto does it."""
    from caproto.threading.client import Context

    def read(response):
        data = response.data
        return data if len(data) > 1 else data[0], response.metadata.timestamp

    intake = Intake(given, read)
    callbacks = []
    for place, pv in enumerate(Context().get_pvs(*intake.names)):
        pv.wait_for_connection(timeout=30)
        keep = intake.receiver(place)
        # A subscription has only weak references.
        callbacks.append(lambda _, response, keep=keep: keep(response))
        pv.subscribe(data_type="time").add_callback(callbacks[-1])
    intake.measure()
    return intake


def p4p(given):
    """The client for pvAccess."""
    from p4p.client.thread import Context

    intake = Intake(given)
    with Context("pva") as context:

        def open_monitor(place):
            return context.monitor(intake.names[place], intake.receiver(place), request=P4P_REQUEST)

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
    return intake


def pyepics(given):
    """Channel Access."""
    import epics

    intake = Intake(given, lambda kept: kept)
    pvs = []
    for place, name in enumerate(intake.names):
        keep = intake.receiver(place)

        def receive(value=None, timestamp=None, keep=keep, **_):
            keep((value, timestamp))

        pvs.append(epics.PV(name, form="time", auto_monitor=epics.dbr.DBE_VALUE, callback=receive))
    intake.measure()
    return intake


CLIENTS = {client.__name__: client for client in (aioca, caproto, p4p, pyepics)}


def main():
    given = arguments(__doc__, lambda parser: parser.add_argument("client", choices=CLIENTS))
    become_peer(given.server_core)
    CLIENTS[given.client](given).print_report(given.client, version(given.client))
    leave()


if __name__ == "__main__":
    sys.exit(main())
