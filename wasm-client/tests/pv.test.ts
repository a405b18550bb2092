/** A PV shows what the frames contain. */

import { describe, expect, it, vi } from "vitest";

import type { PvData } from "../ts/index.js";
import { SelectionError } from "../ts/index.js";
import { client, eachWithClient, FakeSocket, GOLDEN_NAMES, runPromises } from "./fake_relay.js";
import { describes } from "./golden.js";

eachWithClient();

/** Subscribes the golden names and answers with their snapshot. */
async function atTheSnapshot(): Promise<FakeSocket> {
  for (const name of GOLDEN_NAMES) client.pv(name).subscribe(() => undefined);
  const socket = FakeSocket.last;
  socket.open();
  await runPromises();
  socket.answer("snapshot", "subscribe");
  vi.advanceTimersByTime(300);
  return socket;
}

const show = (name: string): PvData => client.pv(name).getSnapshot() as PvData;

describe("a description", () => {
  const listen = (name: string, selection?: string): (() => void) =>
    client.pv(name, selection).subscribe(() => undefined);

  it("is requested once per PV and connection when selected", async () => {
    for (const name of GOLDEN_NAMES) listen(name, "{ value { float } display { units } }");
    const socket = FakeSocket.last;
    socket.open();
    await runPromises();
    socket.answer("snapshot", "subscribe");
    await runPromises();
    expect(socket.sent("describe")).toEqual([]);

    listen("TEMP", "{ display { description } }");
    listen("TEMP");
    await runPromises();
    listen("TEMP", "{ id display { description } }");
    await runPromises();
    expect(socket.sent("describe").map((request) => request.ids)).toEqual([[3]]);

    socket.end(1006);
    vi.advanceTimersByTime(20_000);
    const next = FakeSocket.last;
    next.open();
    await runPromises();
    next.answer("snapshot", "subscribe");
    await runPromises();
    expect(next.sent("describe").map((request) => request.ids)).toEqual([[3]]);
  });

  it("is requested by gets that select it or everything", async () => {
    const selections = ["{ display { units } }", "{ display { description } }", undefined];
    for (const selection of selections) {
      void client.get(["TEMP"], selection === undefined ? {} : { selection });
    }
    await runPromises();
    const socket = FakeSocket.last;
    socket.open();
    await runPromises();
    expect(socket.sent("get").map((request) => request.describes)).toEqual([false, true, true]);
  });
});

describe("a handle", () => {
  it("shows its own fields after another one with listeners has gone", async () => {
    const socket = await atTheSnapshot();
    const [name, , , unchanged] = GOLDEN_NAMES;
    const gone = client.pv(unchanged, "{ status { quality } value { float } }");
    const stop = gone.subscribe(() => undefined);
    gone.getSnapshot();
    socket.frame("update");
    vi.advanceTimersByTime(300);
    stop();
    const selected = client.pv(name, "{ id value { string float } time { datetime } }");
    selected.subscribe(() => undefined);
    socket.frame("catch_up");
    vi.advanceTimersByTime(300);
    const { id, time, value } = show(name);
    expect(selected.getSnapshot()).toEqual({
      value: { string: value?.string, float: value?.float },
      time: { datetime: time?.datetime },
      id,
    });
  });
});

describe("a snapshot", () => {
  it("asks for all names in one request", async () => {
    const socket = await atTheSnapshot();
    expect(socket.protocol).toBe("pvwire.v1");
    expect(socket.sent("subscribe").map((request) => request.names)).toEqual([[...GOLDEN_NAMES]]);
  });

  it("shows a number with all its parts", async () => {
    await atTheSnapshot();
    expect(show("TEMP")).toEqual({
      id: "ca://TEMP",
      value: {
        float: 21.5,
        string: "21.50",
        number: 21.5,
        text: null,
        array: null,
        exact: null,
        bigint: null,
        structure: null,
        structures: null,
      },
      time: {
        datetime: "2025-07-20T08:26:40.123456Z",
        seconds: 1753000000 + 0.123456789,
        nanoseconds: 123456789,
        userTag: 0,
      },
      status: {
        quality: "VALID",
        severity: "NO_ALARM",
        alarmStatus: "NO_ALARM",
        message: "",
        mutable: true,
        // The golden relay greets jane: what it may write itself says nothing of her.
        writable: null,
      },
      display: {
        type: "Float64",
        elementCount: 1,
        description: "Magnet 1 temperature",
        typeId: "",
        form: null,
        units: "°C",
        precision: 2,
        choices: null,
        controlRange: { min: 10, max: 90 },
        displayRange: { min: 0, max: 100 },
        alarmRange: { min: null, max: 80 },
        warningRange: { min: null, max: 60 },
      },
      connection: {
        state: "connected",
        connected: true,
        since: "2025-07-20T08:26:40.123Z",
        lastHeard: null,
        unresponsive: false,
        readable: true,
        reason: null,
      },
      skipped: 0,
      skips: { behind: 0, paced: 0, filter: 0, relay: 0, source: 0, bus: 0 },
    });
  });

  it("shows an enum's label and keeps its index", async () => {
    await atTheSnapshot();
    const mode = show("MODE");
    expect(mode.value).toMatchObject({ float: 2, number: 2, string: "State 2", text: null });
    expect(mode.status).toMatchObject({ quality: "WARNING", severity: "MINOR", mutable: true });
    expect(mode.status.alarmStatus).toBe("STATE");
    expect(mode.display?.choices).toHaveLength(16);
    expect(mode.display?.precision).toBeNull();
    expect(mode.display?.displayRange).toBeNull();
  });

  it("shows an enum's label also where units are asked for", async () => {
    await atTheSnapshot();
    const selection = "{ value { string(units: true) plain: string } }";
    expect(client.pv("MODE", selection).getSnapshot()).toEqual({
      value: { string: "State 2", plain: "State 2" },
    });
    expect(client.pv("TEMP", selection).getSnapshot()).toEqual({
      value: { string: "21.50 °C", plain: "21.50" },
    });
  });

  it("shows text, a PV that is connecting, and a refused one", async () => {
    await atTheSnapshot();
    const text = show("TEXT");
    expect(text.value).toMatchObject({ float: null, string: "Träger läuft", text: "Träger läuft" });
    expect(text.status).toMatchObject({ quality: "INVALID", alarmStatus: "UDF", message: "UDF" });
    const late = show("LATE");
    expect(late).toMatchObject({ value: null, time: null, display: null });
    expect(late.connection).toMatchObject({ state: "connecting", connected: false });
    expect(late.status).toMatchObject({ quality: "UNDEFINED", severity: null, mutable: false });
    expect(show("").connection).toMatchObject({
      state: "refused",
      reason: "a PV name can't be empty",
    });
  });
});

describe("a 64-bit integer", () => {
  it("is exact, with its nearest double as number", async () => {
    for (const name of ["A", "B", "C"]) client.pv(name).subscribe(() => undefined);
    const socket = FakeSocket.last;
    socket.open();
    await runPromises();
    socket.answer("integers", "subscribe");
    vi.advanceTimersByTime(300);
    expect(show("A").value).toMatchObject({
      bigint: 9007199254740993n,
      exact: "9007199254740993",
      string: "9007199254740993",
      float: 9007199254740992,
    });
    expect(show("B").value?.bigint).toBe(-(2n ** 63n));
    expect(show("C").value?.exact).toBe("18446744073709551615");
    expect(show("A").time?.userTag).toBe(-7);
    expect(show("B").time?.userTag).toBe(0);
    expect(show("A").status).toMatchObject({ quality: "ALARM", message: "HIHI, beam dumped" });
    expect(show("A").display).toMatchObject({ typeId: "epics:nt/NTScalar:1.0", form: "Hex" });
  });
});

describe("a structure", () => {
  it("shows every kind of field, arrays as views on the message", async () => {
    const [first] = GOLDEN_NAMES;
    for (const name of GOLDEN_NAMES) client.pv(name).subscribe(() => undefined);
    const socket = FakeSocket.last;
    socket.open();
    await runPromises();
    socket.answer("snapshot", "subscribe", [30, 31, 32, 33, 0xffffffff]);
    for (const before of ["update", "catch_up", "structure"] as const) socket.frame(before);
    vi.advanceTimersByTime(300);
    const structure = show(first).value?.structure;
    expect(structure).toEqual({
      bool: true,
      byte: -128,
      uint: 4294967295,
      double: 0.1,
      long: -(2n ** 63n),
      ulong: 2n ** 64n - 1n,
      text: "Träger",
      labels: ["a", "b"],
      array: Int16Array.of(1, -2, 3),
      points: [{ x: 0.5 }, null],
      union: { selected: "choice", value: 7n },
      unset: null,
      any: "x",
      anys: [null],
      unions: [],
    });
    expect(structure?.array).toBe(show(first).value?.structure?.array);
    expect(show(first).value?.float).toBeNull();

    socket.frame("structure_part");
    vi.advanceTimersByTime(300);
    const changed = show(first).value?.structure;
    expect(changed).toEqual({ ...structure, double: 0.5 });
    expect(changed?.array).toBe(structure?.array);
  });
});

describe("an update", () => {
  it("shows the last row, its alarm and how many were left out", async () => {
    const socket = await atTheSnapshot();
    socket.frame("update");
    vi.advanceTimersByTime(300);
    const [, , last] = describes("update").numbers;
    expect(show("TEMP").value?.float).toBe(last?.value);
    expect(show("TEMP").status).toMatchObject({ quality: "ALARM", message: "HIHI" });
    expect(show("TEMP").skipped).toBe(2);
    expect(show("TEXT").value?.string).toBe("");
    expect(client.inspect("TEMP")).toEqual({ sequence: 104, updatesReceived: 3, skipped: 2 });
    socket.frame("catch_up");
    expect(client.inspect("TEMP")).toEqual({ sequence: 150, updatesReceived: 4, skipped: 47 });
    vi.advanceTimersByTime(300);
    expect(show("TEMP").skips).toEqual({
      behind: 45,
      paced: 0,
      filter: 0,
      relay: 2,
      source: 0,
      bus: 0,
    });
  });

  it("says why values before it were left out", async () => {
    const socket = await atTheSnapshot();
    socket.frame("update");
    vi.advanceTimersByTime(300);
    const before = show("TEXT").skips;
    socket.frame("paced");
    vi.advanceTimersByTime(300);
    expect(show("TEMP").skips).toMatchObject({ paced: 45, behind: 0 });
    expect(show("TEXT").skips, "nothing of this PV").toBe(before);
    socket.frame("skips");
    vi.advanceTimersByTime(300);
    expect(show("TEXT")).toMatchObject({ skipped: 320, skips: { source: 20, filter: 300 } });
    expect(show("TEMP").skipped).toBe(2 + 45 + 321);
  });

  it("tells apart what is no number", async () => {
    const socket = await atTheSnapshot();
    socket.frame("update");
    socket.frame("not_numbers");
    vi.advanceTimersByTime(300);
    const shown = ["TEMP", "MODE", "LATE"].map((name) => show(name).value);
    expect(shown.map((value) => value?.float)).toEqual([null, null, null]);
    expect(shown.map((value) => value?.number)).toEqual([NaN, Infinity, -Infinity]);
    expect(shown.map((value) => value?.string)).toEqual(["nan", "inf", "-inf"]);
  });

  it("shows large numbers and unlabelled indices with all digits", async () => {
    const socket = await atTheSnapshot();
    socket.frame("update");
    socket.frame("special_numbers");
    vi.advanceTimersByTime(300);
    expect(show("TEMP").value).toMatchObject({ float: 4294967295, string: "4294967295.00" });
    expect(show("MODE").value?.string).toBe("9007199254740992");
  });

  it("keeps what didn't change as it was", async () => {
    const socket = await atTheSnapshot();
    const before = show("TEMP");
    expect(show("TEMP")).toBe(before);
    socket.frame("update");
    expect(show("TEMP"), "no listener was called yet").toBe(before);
    vi.advanceTimersByTime(300);
    const after = show("TEMP");
    expect(after).not.toBe(before);
    expect(after.display).toBe(before.display);
    expect(after.connection).toBe(before.connection);
    expect(after.value).not.toBe(before.value);
  });

  it("brings new units and what they change in the text", async () => {
    const socket = await atTheSnapshot();
    const units = client.pv("TEMP", "{ value { s: string(units: true) } display { u: units } }");
    units.subscribe(() => undefined);
    expect(units.getSnapshot()).toEqual({ value: { s: "21.50 °C" }, display: { u: "°C" } });
    for (const name of ["update", "special_numbers", "disconnected", "metadata_change"] as const) {
      socket.frame(name);
    }
    vi.advanceTimersByTime(300);
    expect(units.getSnapshot()).toEqual({ value: { s: "4294967295 K" }, display: { u: "K" } });
    expect(show("TEMP").status).toMatchObject({ mutable: true, writable: false });
  });

  it("of a PV that is gone keeps the value and says that it is old", async () => {
    const socket = await atTheSnapshot();
    for (const name of ["update", "special_numbers", "disconnected"] as const) socket.frame(name);
    vi.advanceTimersByTime(300);
    const gone = show("TEMP");
    expect(gone.value?.float).toBe(4294967295);
    expect(gone.connection).toMatchObject({ state: "disconnected", connected: false });
    expect(gone.connection.since).toBe("2025-07-20T08:26:40.123Z");
    expect(gone.status).toMatchObject({ quality: "UNDEFINED", severity: "MAJOR", mutable: false });
    expect(show("LATE").connection.state).toBe("notFound");
  });
});

describe("arrays", () => {
  it("are views on the message, whatever their type", async () => {
    for (const name of GOLDEN_NAMES) client.pv(name).subscribe(() => undefined);
    const socket = FakeSocket.last;
    socket.open();
    await runPromises();
    socket.answer("snapshot", "subscribe", [20, 21, 22, 23, 24]);
    for (const name of [
      "update",
      "special_numbers",
      "disconnected",
      "metadata_change",
      "arrays",
    ] as const) {
      socket.frame(name);
    }
    vi.advanceTimersByTime(300);
    const [doubles, shorts, bytes, empty, texts] = GOLDEN_NAMES.map((name) => show(name).value);
    expect(doubles?.array).toEqual(Float64Array.of(1.5, -2.5, NaN));
    expect(doubles).toMatchObject({ float: null, number: null, string: "[1.5, -2.5, nan]" });
    expect(shorts?.array).toEqual(Int16Array.of(1, -2, 3, 4, 5));
    expect(bytes?.array).toEqual(Uint8Array.of(255));
    expect(empty?.array).toEqual(new Float32Array(0));
    expect(texts).toMatchObject({ array: ["one", "", "drei"], string: '["one", "", "drei"]' });

    const { buffer } = doubles?.array as Float64Array;
    expect((shorts?.array as Int16Array).buffer, "one message, no copy").toBe(buffer);
    expect(show("TEMP").value?.array, "the same view again").toBe(doubles?.array);
  });
});

describe("listeners", () => {
  it("are called once per frame, and only for selected parts", async () => {
    const socket = await atTheSnapshot();
    const listener = { value: vi.fn(), units: vi.fn(), both: vi.fn(), gone: vi.fn() };
    client.pv("TEMP", "{ value { float } }").subscribe(listener.value);
    client.pv("TEMP", "{ display { units } }").subscribe(listener.units);
    client.pv("TEMP", "{ value { float } }").subscribe(listener.both);
    client.pv("MODE", "{ value { float } }").subscribe(listener.both);
    client.pv("TEMP", "{ value { float } }").subscribe(listener.gone)();
    socket.frame("update");
    socket.frame("catch_up");
    expect(listener.value).not.toHaveBeenCalled();
    vi.advanceTimersByTime(300);
    expect(listener.value).toHaveBeenCalledTimes(1);
    expect(listener.both).toHaveBeenCalledTimes(1);
    expect(listener.units).not.toHaveBeenCalled();
    expect(listener.gone).not.toHaveBeenCalled();
  });

  it("that throw don't stop the others", async () => {
    const socket = await atTheSnapshot();
    const report = vi.fn();
    vi.stubGlobal("reportError", report);
    const listener = vi.fn();
    client.pv("TEMP").subscribe(() => {
      throw new Error("mine");
    });
    client.pv("TEMP").subscribe(listener);
    socket.frame("update");
    vi.advanceTimersByTime(300);
    expect(report).toHaveBeenCalledTimes(1);
    expect(listener).toHaveBeenCalledTimes(1);
    vi.unstubAllGlobals();
  });
});

describe("a selection", () => {
  it("gives the same PV for the same words", () => {
    expect(client.pv("X", "{ id }")).toBe(client.pv("X", "{ id }"));
    expect(client.pv("X", "{ id }")).not.toBe(client.pv("X"));
  });

  it("shows aliases, type names and what is missing", async () => {
    await atTheSnapshot();
    const selection = `{
      __typename # what it is
      now: value { n: number, __typename }
      range: display { control: controlRange { min } displayRange { max } }
    }`;
    expect(client.pv("TEMP", selection).getSnapshot()).toEqual({
      __typename: "Channel",
      now: { n: 21.5, __typename: "ChannelValue" },
      range: { control: { min: 10 }, displayRange: { max: 100 } },
    });
    expect(client.pv("MODE", selection).getSnapshot()).toMatchObject({
      range: { control: null, displayRange: null },
    });
    expect(client.pv("LATE", selection).getSnapshot()).toEqual({
      __typename: "Channel",
      now: null,
      range: null,
    });
  });

  it("that is wrong says where and what was meant", () => {
    let thrown: unknown;
    try {
      client.pv("X", "{ value {\n  flot } }");
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(SelectionError);
    expect(thrown).toMatchObject({
      code: "SELECTION",
      line: 2,
      column: 3,
      message:
        'line 2, column 3: Cannot query field "flot" on type "ChannelValue". Did you mean "float"?',
    });
  });
});

describe("get", () => {
  it("answers each name by itself", async () => {
    const answer = client.get(["A", "B"], { timeoutMs: 1000 });
    await runPromises();
    const socket = FakeSocket.last;
    socket.open();
    expect(socket.sent("get").map((request) => request.names)).toEqual([["A", "B"]]);
    socket.answer("got", "get");
    const [a, b] = await answer;
    expect(a).toMatchObject({
      name: "A",
      ok: true,
      data: { id: "ca://A", value: { float: 21.5 } },
    });
    expect(b).toMatchObject({ name: "B", ok: false, error: { code: "TIMED_OUT", pv: "B" } });
  });

  it("is sent again on the next connection until it times out", async () => {
    const answer = client.get(["A"], { timeoutMs: 1000 });
    await runPromises();
    FakeSocket.last.open();
    FakeSocket.last.end(1006);
    vi.advanceTimersByTime(500);
    FakeSocket.last.open();
    expect(FakeSocket.all).toHaveLength(2);
    expect(FakeSocket.last.sent("get")).toHaveLength(1);
    vi.advanceTimersByTime(6000);
    expect(await answer).toMatchObject([{ ok: false, error: { code: "TIMED_OUT" } }]);
  });
});
