"""An IOC of caproto, which answers many requests differently from EPICS base.

    caproto_ioc.py PREFIX [SECONDS]

With SECONDS it sends metadata so much later than values. It listens where EPICS's variables say. Each line of standard input, `NAME JSON`, writes a value to a PV of the
prefix. `reads` counts how often clients have read `slow`. The program prints "running" to standard error and
ends when its standard input ends.
"""

import asyncio
import json
import os
import sys

from caproto import AlarmSeverity, AlarmStatus, ChannelType
from caproto.asyncio.server import start_server
from caproto.server import PVGroup, pvproperty


class Records(PVGroup):
    number = pvproperty(value=1.5, units="mA", precision=2, record="ai")
    still = pvproperty(value=7, dtype=int)
    text = pvproperty(value="abc", dtype=str, report_as_string=True, max_length=40)
    char_text = pvproperty(value="a text of many characters", dtype=str, max_length=256)
    string = pvproperty(value="abc", dtype=ChannelType.STRING)
    no_labels = pvproperty(value=0, dtype=ChannelType.ENUM)
    choice = pvproperty(value="Open", dtype=bool, enum_strings=["Closed", "Open"])
    mode = pvproperty(value=0, enum_strings=["Off", "On", "Fault"], dtype=ChannelType.ENUM)
    empty = pvproperty(value=[], dtype=float, max_length=10)
    array = pvproperty(value=[1.0, 2.0, 3.0], dtype=float, max_length=10)
    one = pvproperty(value=[4.0], dtype=float, max_length=1)
    integers = pvproperty(value=[1, 2, 3], dtype=int, max_length=10)
    limited = pvproperty(
        value=5.0,
        lower_ctrl_limit=0.0,
        upper_ctrl_limit=10.0,
        lower_alarm_limit=1.0,
        upper_alarm_limit=9.0,
        lower_warning_limit=2.0,
        upper_warning_limit=8.0,
    )
    reads = pvproperty(value=0, dtype=int)
    slow = pvproperty(value=3.0)
    refused = pvproperty(value=6.0)
    written_and_refused = pvproperty(value=6.0)

    @slow.getter
    async def slow(self, instance):
        await self.reads.write(self.reads.value + 1)
        return instance.value

    @refused.putter
    async def refused(self, instance, value):
        raise ValueError("this PV takes no value")

    @written_and_refused.putter
    async def written_and_refused(self, instance, value):
        await instance.write(value, verify_value=False)
        raise ValueError("the value is written all the same")


async def follow(records, prefix):
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, value = line.split(None, 1)
        value = json.loads(value)
        pv = records.pvdb[prefix + name]
        if isinstance(value, dict):
            await pv.alarm.write(
                status=AlarmStatus(value["status"]), severity=AlarmSeverity(value["severity"])
            )
        else:
            await pv.write(value, verify_value=False)


def delay_metadata(pv, seconds):
    subscribe, read = pv.subscribe, pv.read

    async def subscribe_late(queue, spec, sub):
        async def later():
            await asyncio.sleep(seconds)
            await subscribe(queue, spec, sub)

        if spec.data_type_name.startswith("CTRL"):
            tasks.add(asyncio.create_task(later()))
        else:
            await subscribe(queue, spec, sub)

    async def read_late(data_type):
        if data_type.name.startswith("CTRL"):
            await asyncio.sleep(seconds)
        return await read(data_type)

    tasks = set()
    pv.subscribe, pv.read = subscribe_late, read_late


async def main(prefix, seconds=None):
    records = Records(prefix=prefix)
    if seconds is not None:
        for pv in records.pvdb.values():
            delay_metadata(pv, float(seconds))
    serving = asyncio.create_task(start_server(records.pvdb, interfaces=["127.0.0.1"], log_pv_names=False))
    await asyncio.sleep(0)

    async def announce():
        import socket

        port = int(os.environ["EPICS_CA_SERVER_PORT"])
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                await asyncio.sleep(0.02)
        print("running", file=sys.stderr, flush=True)

    await announce()
    await follow(records, prefix)
    serving.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
