"""Follows the PVs of the fidelity checks as a user of one system does, and writes each change as a line of JSON.

`watch.py SYSTEM PREFIX [PORT]`, with the peers' interpreter. A line has `pv`, and the state as the system's client has
it: `connected` (null where the system doesn't say), `value` as text, `severity`, `labels`. Each line of the input is a
put, `{"put": NAME, "value": …}`, which is answered by a line with its `outcome`. `watch.mjs` does the same for pvwire.
"""

import asyncio
import json
import math
import sys
import threading
import time

KEYS = ("X", "MODE", "BIG", "NAN", "TEXT", "ALARM")
SEVERITIES = ("NO_ALARM", "MINOR", "MAJOR", "INVALID", "UNDEFINED")
PUT_TIMEOUT_S = 8

OPEN_AGAIN_S = 3

_lock = threading.Lock()


def emit(**line):
    with _lock:
        print(json.dumps(line), flush=True)


def text(value):
    """A value as text with all its digits; an array of characters as the list of its numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bytes):
        value = list(value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value if isinstance(value, str) or value is None else json.dumps(value)


def severity(number):
    return None if number is None else SEVERITIES[min(int(number), 4)]


def serve_puts(put):
    """Answers the puts of the input with `put(name, value)`, which returns an outcome or raises."""
    for line in sys.stdin:
        wanted = json.loads(line)
        threading.Thread(target=answer, args=(put, wanted), daemon=True).start()


def answer(put, wanted):
    try:
        outcome = put(wanted["put"], wanted["value"])
    except Exception as error:
        outcome = f"failed: {type(error).__name__} {error}"
    emit(put=wanted["put"], outcome=outcome)


def by_loop(send_put):
    """A coroutine of this loop as a function for other threads."""
    loop = asyncio.get_running_loop()
    return lambda name, value: asyncio.run_coroutine_threadsafe(send_put(name, value), loop).result()


def aioca(prefix, _):
    import aioca as ca

    def receiver(key):
        def receive(value):
            if not value.ok:
                emit(pv=key, connected=False, value=None, severity=None, labels=None)
                return
            emit(pv=key, connected=True, value=text(value + 0 if key in ("X", "MODE", "ALARM") else value),
                 severity=severity(value.severity), labels=getattr(value, "enums", None))

        return receive

    async def follow():
        for key in KEYS:
            ca.camonitor(f"{prefix}:{key}", receiver(key), format=ca.FORMAT_CTRL, notify_disconnect=True)

        async def send_put(name, value):
            try:
                await ca.caput(name, value, wait=True, timeout=PUT_TIMEOUT_S)
            except ca.CANothing as nothing:
                # It is false, so that another thread wouldn't see this exception.
                return f"failed: {nothing}"
            return "done"

        await asyncio.to_thread(serve_puts, by_loop(send_put))

    asyncio.run(follow())


def p4p(prefix, _):
    from p4p.client.thread import Context

    context = Context("pva")

    shown_keys = set()

    def receiver(key):
        def receive(value):
            shown_keys.add(key)
            if isinstance(value, Exception):
                emit(pv=key, connected=False, value=None, severity=None, labels=None)
                return
            labels = value.raw.value.choices if key == "MODE" else None
            shown = int(value) if key == "MODE" else value
            if key in ("X", "NAN", "ALARM"):
                shown = float(value)
            emit(pv=key, connected=True, value=text(int(shown) if key == "BIG" else shown),
                 severity=severity(value.severity), labels=labels)

        return receive

    def open_monitor(key):
        return context.monitor(f"{prefix}:{key}", receiver(key), notify_disconnect=True)

    monitors = {key: open_monitor(key) for key in KEYS}
    time.sleep(OPEN_AGAIN_S)
    # A monitor whose first event comes before p4p has noted the monitor loses it.
    for key in set(KEYS) - shown_keys:
        monitors[key].close()
        monitors[key] = open_monitor(key)

    def put(name, value):
        context.put(name, value, wait=True, timeout=PUT_TIMEOUT_S)
        return "done"

    serve_puts(put)
    return monitors


def caproto(prefix, _):
    from caproto.threading.client import Context

    context, kept = Context(), []

    def changed(pv, state):
        if state == "disconnected":
            emit(pv=pv.name.rsplit(":", 1)[1], connected=False, value=None, severity=None, labels=None)

    def receiver(key):
        def receive(_, response):
            metadata, data = response.metadata, response.data
            shown = data if key == "TEXT" else data[0]
            labels = [label.decode() for label in getattr(metadata, "enum_strings", ())] or None
            emit(pv=key, connected=True, value=text(shown), severity=severity(metadata.severity), labels=labels)

        return receive

    for pv in context.get_pvs(*(f"{prefix}:{key}" for key in KEYS), connection_state_callback=changed):
        pv.wait_for_connection(timeout=30)
        kept.append(receiver(pv.name.rsplit(":", 1)[1]))
        pv.subscribe(data_type="control").add_callback(kept[-1])

    def put(name, value):
        (pv,) = context.get_pvs(name)
        pv.wait_for_connection(timeout=PUT_TIMEOUT_S)
        response = pv.write([value], wait=True, timeout=PUT_TIMEOUT_S)
        return "done" if response.status.success else f"failed: {response.status.description}"

    serve_puts(put)


def pyepics(prefix, _):
    import epics

    def receiver(key):
        def receive(value=None, severity=None, enum_strs=None, **_):
            labels = [each.decode() if isinstance(each, bytes) else each for each in enum_strs or ()] or None
            emit(pv=key, connected=True, value=text(value), severity=SEVERITIES[severity or 0], labels=labels)

        return receive

    pvs = {}

    def changed(pvname=None, conn=None, **_):
        key = pvname.rsplit(":", 1)[1]
        if not conn and key in pvs:
            # What a program reads of the PV then.
            emit(pv=key, connected=False, value=None, severity=severity(pvs[key]._args.get("severity")), labels=None)

    for key in KEYS:
        pvs[key] = epics.PV(f"{prefix}:{key}", form="ctrl", auto_monitor=True, callback=receiver(key),
                            connection_callback=changed)

    def put(name, value):
        epics.ca.use_initial_context()
        status = epics.caput(name, value, wait=True, timeout=PUT_TIMEOUT_S)
        return "done" if status == 1 else f"failed: status {status}"

    serve_puts(put)


def coniql(prefix, port):
    """Coniql, or pvwire's door for its clients."""
    from websockets.asyncio.client import connect

    fields = "value { float string } status { quality } display { choices }"
    qualities = {"VALID": "NO_ALARM", "WARNING": "MINOR", "ALARM": "MAJOR"}
    scheme = {"BIG": "pva://"} if sys.argv[1] == "pvwire-coniql" else {}

    async def follow():
        async with connect(f"ws://127.0.0.1:{port}/ws", subprotocols=["graphql-transport-ws"]) as socket:
            await socket.send('{"type":"connection_init"}')
            await socket.recv()
            for key in KEYS:
                query = f"subscription($id: ID!) {{ subscribeChannel(id: $id) {{ {fields} }} }}"
                variables = {"id": f"{scheme.get(key, 'ca://')}{prefix}:{key}"}
                await socket.send(json.dumps({"type": "subscribe", "id": key,
                                              "payload": {"query": query, "variables": variables}}))
            loop = asyncio.get_running_loop()
            waiting = {}

            async def send_put(name, value):
                query = "mutation($i: [ID!]!, $v: [String!]!) { putChannels(ids: $i, values: $v) { id } }"
                waiting[name] = loop.create_future()
                payload = {"query": query, "variables": {"i": [f"ca://{name}"], "v": [str(value)]}}
                await socket.send(json.dumps({"type": "subscribe", "id": f"put {name}", "payload": payload}))
                return await asyncio.wait_for(waiting[name], PUT_TIMEOUT_S + 4)

            threading.Thread(target=serve_puts, args=(by_loop(send_put),), daemon=True).start()
            states = {key: {} for key in KEYS}
            async for line in socket:
                message = json.loads(line)
                number, payload = message.get("id", ""), message.get("payload")
                if message["type"] == "ping":
                    await socket.send('{"type":"pong"}')
                elif number.startswith("put ") and message["type"] in ("next", "error"):
                    errors = payload if message["type"] == "error" else payload.get("errors")
                    future = waiting[number.removeprefix("put ")]
                    if not future.done():
                        future.set_result(f"failed: {errors[0]['message']}" if errors else "done")
                elif message["type"] == "next" and number in states and (payload.get("data") or {}).get("subscribeChannel"):
                    state = states[number]
                    # Parts that didn't change are null.
                    for part, value in payload["data"]["subscribeChannel"].items():
                        if value is not None:
                            state[part] = value
                    value = state.get("value") or {}
                    quality = (state.get("status") or {}).get("quality")
                    shown = value.get("string")
                    if number == "X":
                        shown = text(value.get("float"))
                    emit(pv=number, connected=None, value=shown, severity=qualities.get(quality, quality),
                         labels=(state.get("display") or {}).get("choices"))

    asyncio.run(follow())


def pvws(prefix, port):
    """PVWS, or pvwire's door for its clients."""
    from base64 import b64decode

    from websockets.asyncio.client import connect

    names = {f"{'pva://' if key == 'BIG' else ''}{prefix}:{key}": key for key in KEYS}

    async def follow():
        async with connect(f"ws://127.0.0.1:{port}/pvws/pv", max_size=None) as socket:
            await socket.send(json.dumps({"type": "subscribe", "pvs": list(names)}))
            loop = asyncio.get_running_loop()

            errors = asyncio.Queue()

            async def send_put(name, value):
                for sent in ({"type": "subscribe", "pvs": [name]}, {"type": "write", "pv": name, "value": value}):
                    await socket.send(json.dumps(sent))
                # A write has no answer but an error that names the PV.
                deadline = loop.time() + PUT_TIMEOUT_S - 2
                while True:
                    try:
                        error = await asyncio.wait_for(errors.get(), deadline - loop.time())
                    except TimeoutError:
                        return "no answer"
                    if name in error:
                        return f"failed: {error}"
                    errors.put_nowait(error)
                    await asyncio.sleep(0.05)

            threading.Thread(target=serve_puts, args=(by_loop(send_put),), daemon=True).start()
            states = {key: {} for key in KEYS}
            async for line in socket:
                message = json.loads(line)
                if message.get("type") == "error":
                    errors.put_nowait(str(message.get("message")))
                key = names.get(message.get("pv"))
                if key is None or message["type"] != "update":
                    continue
                states[key] |= message
                state = states[key]
                shown = state.get("text") if key in ("MODE", "TEXT") else state.get("value")
                if shown is None and "b64byt" in state:
                    shown = list(b64decode(state["b64byt"]))
                emit(pv=key, connected=None, value=text(shown), severity=state.get("severity"), labels=state.get("labels"))

    asyncio.run(follow())


FOLLOW = {
    "aioca": aioca,
    "p4p": p4p,
    "gateway": p4p,
    "caproto": caproto,
    "pyepics": pyepics,
    "coniql": coniql,
    "pvwire-coniql": coniql,
    "pvws": pvws,
    "pvwire-pvws": pvws,
}


def main():
    system, prefix, *port = sys.argv[1:]
    FOLLOW[system](prefix, *port or [None])


if __name__ == "__main__":
    main()
