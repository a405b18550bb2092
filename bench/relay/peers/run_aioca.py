"""CPU time of an update that aioca receives by Channel Access.

Measures itself, a client with one monitor a PV, on one core; prints one line of JSON.
"""

import asyncio
import sys
from importlib.metadata import version

from intake import Intake
from program import arguments, become_peer


async def measure(given):
    import aioca

    intake = Intake(given)
    for place, name in enumerate(intake.names):
        aioca.camonitor(
            name, intake.receiver(place), format=aioca.FORMAT_TIME, all_updates=True
        )
    while intake.without_value():
        await asyncio.sleep(0.05)
    await asyncio.sleep(given.warm_up_s)
    intake.begin()
    await asyncio.sleep(given.seconds)
    intake.end()
    return intake


def main():
    given = arguments(__doc__)
    become_peer(given.server_core)
    intake = asyncio.run(measure(given))
    intake.print_report("aioca", version("aioca"))


if __name__ == "__main__":
    sys.exit(main())
