/** Formulas are PVs over other PVs. */

import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";

import type { PvClient, PvData, PvOptions } from "../ts/index.js";
import { Page } from "../ts/store/page.js";
import { createFakeRelay, type FakeRelay } from "../ts/testing/index.js";
import { loadedPage } from "./fake_relay.js";
import { pageWasm, wasm } from "./golden.js";

let relay: FakeRelay;
let client: PvClient;

beforeAll(loadedPage);

beforeEach(async () => {
  relay = createFakeRelay({
    ...(wasm && { wasm }),
    pvs: {
      A: 1,
      B: { value: 2, units: "mm" },
      MODE: { value: 1, choices: ["Off", "On"] },
      TEXT: "ready",
      COUNT: { value: Int32Array.of(1, 2, 3) },
      WAVE: { value: Float64Array.of(1, 2, 3) },
      NAMES: { value: ["a", "b"] },
    },
  });
  client = relay.client({ unsubscribeDelayMs: 0, ...(pageWasm && { pageWasm }) });
  await client.ready;
});

afterEach(() => {
  client.dispose();
});

interface Listening {
  shown: () => PvData;
  calls: () => number;
  end: () => void;
}

function listen(name: string, options?: PvOptions): Listening {
  const pv = client.pv(name, undefined, options);
  let calls = 0;
  const end = pv.subscribe(() => {
    calls += 1;
  });
  return { shown: () => pv.getSnapshot() as PvData, calls: () => calls, end };
}

const eventually = (check: () => void): Promise<void> =>
  vi.waitFor(check, { timeout: 20_000, interval: 10 });

const valueOf = async (name: string): Promise<unknown> => {
  const { shown, end } = listen(name);
  await eventually(() => {
    expect(shown().value).not.toBeNull();
  });
  const { value } = shown();
  end();
  return value?.array ?? value?.text ?? value?.number;
};

describe("a formula", () => {
  it("follows the PVs in it", async () => {
    const { shown } = listen("=`A` + `B` * 2");
    await eventually(() => {
      expect(shown().value).toMatchObject({ number: 5, string: "5" });
    });
    expect(shown().id).toBe("=`A` + `B` * 2");
    expect(shown().connection).toMatchObject({ state: "connected", readable: true });
    expect(shown().status).toMatchObject({ severity: "NO_ALARM", writable: false });
    expect(shown().display).toMatchObject({ type: "Float64", units: "", precision: null });
    relay.set("B", 10);
    await eventually(() => {
      expect(shown().value?.number).toBe(21);
    });
  });

  it("reads values of every type and gives every type", async () => {
    expect(await valueOf("eq://A + B")).toBe(3);
    expect(await valueOf('=TEXT + "!"')).toBe("ready!");
    expect(await valueOf('=`MODE` == "On" ? 7 : 8')).toBe(7);
    expect(await valueOf("=WAVE * WAVE")).toEqual(Float64Array.of(1, 4, 9));
    expect(await valueOf("=arrayTotal(COUNT)")).toBe(6);
    expect(await valueOf("=subArray(NAMES, 1, 2)")).toEqual(["b"]);
    expect(await valueOf("=bitLeftShift(1, 60)")).toBe(2 ** 60);
    const mode = listen("=MODE");
    await eventually(() => {
      expect(mode.shown().value?.string).toBe("On");
    });
    expect(mode.shown().display).toMatchObject({ type: "Enum", choices: ["Off", "On"] });
  });

  it("has the highest severity and the latest time of its PVs", async () => {
    const { shown } = listen("=A + B");
    relay.set("A", { value: 9, severity: "MAJOR" });
    await eventually(() => {
      expect(shown().status.severity).toBe("MAJOR");
    });
    expect(shown().value?.number).toBe(11);
    relay.set("B", { value: 3, severity: "INVALID" });
    await eventually(() => {
      expect(shown().status.severity).toBe("INVALID");
    });
    expect(shown().time?.seconds).toBe((client.pv("B").getSnapshot() as PvData).time?.seconds);
    const alarm = listen('=majorAlarm(B > 2, "too high")');
    await eventually(() => {
      expect(alarm.shown().status).toMatchObject({ severity: "MAJOR", message: "too high" });
    });
  });

  it("has severity, status and message of its worst PV", async () => {
    const names = [
      "=A + B",
      "=`=A + B` * 2",
      "=`=A * 2` + B",
      "=`loc://gain(2)` * A + B",
      "=COUNT ? A : B",
    ];
    const formulas = names.map((name) => listen(name));
    const alarm = (severity: string | null, alarmStatus: string | null, message: string) =>
      eventually(() => {
        for (const { shown } of formulas) {
          const { status } = shown();
          expect(status).toMatchObject({ severity, alarmStatus, message });
        }
      });
    await alarm("NO_ALARM", "NO_ALARM", "");
    relay.set("A", { value: 9, severity: "MINOR", alarmStatus: 4 });
    await alarm("MINOR", "HIGH", "HIGH");
    relay.set("B", { value: 9, severity: "MAJOR", alarmStatus: 105, message: "the pump is worn" });
    relay.set("COUNT", { severity: "MAJOR", alarmStatus: 105, message: "the pump is worn" });
    await alarm("MAJOR", "CONF", "the pump is worn");
    // A PV whose server sends no alarm doesn't hide that of another.
    relay.set("A", { value: 1, severity: null });
    await alarm("MAJOR", "CONF", "the pump is worn");
    relay.set("B", { value: 1, severity: "INVALID", alarmStatus: 17, message: "" });
    relay.set("COUNT", { severity: "INVALID", alarmStatus: 17, message: "" });
    await alarm("INVALID", "UDF", "UDF");
    relay.set("B", { value: 1, severity: null });
    relay.set("COUNT", { severity: null });
    await alarm(null, null, "");
    const failed = listen("=elementAt(WAVE, 9)");
    await eventually(() => {
      expect(failed.shown().status).toMatchObject({ severity: "INVALID", alarmStatus: "CALC" });
    });
  });

  it("is disconnected since a PV of it is, with its last value", async () => {
    const { shown } = listen("=A + B");
    await eventually(() => {
      expect(shown().value?.number).toBe(3);
    });
    relay.set("B", { state: "disconnected" });
    await eventually(() => {
      expect(shown().connection.state).toBe("disconnected");
    });
    const since = (client.pv("B").getSnapshot() as PvData).connection.since;
    expect(shown().connection.since).toBe(since);
    expect(shown().value?.number).toBe(3);
    relay.set("B", 5);
    await eventually(() => {
      expect(shown().value?.number).toBe(6);
    });
    expect(shown().connection.state).toBe("connected");
    relay.lose();
    await eventually(() => {
      expect(shown().connection.state).toBe("relayLost");
    });
    relay.restore();
    await eventually(() => {
      expect(shown().connection.state).toBe("connected");
    });
  });

  it("has no value while a PV of it has none, though it is connected", async () => {
    const { shown } = listen("=A + B");
    const nested = listen("=`=A + B` * 2");
    await eventually(() => {
      expect(nested.shown().value?.number).toBe(6);
    });
    relay.set("B", { readable: false });
    for (const { shown: now } of [nested, { shown }]) {
      await eventually(() => {
        expect(now()).toMatchObject({ value: null, time: null, connection: { connected: true } });
      });
      expect(now().status.severity).toBeNull();
    }
    relay.set("B", { value: 5, readable: true });
    await eventually(() => {
      expect(nested.shown().value?.number).toBe(12);
    });
  });

  it("follows a PV of it that is silent or refused", async () => {
    const { shown } = listen("=A + B");
    const nested = listen("=`=A + B` * 2");
    await eventually(() => {
      expect(nested.shown().value?.number).toBe(6);
    });
    relay.set("A", { value: 4, unresponsive: true });
    await eventually(() => {
      expect(shown().connection).toMatchObject({ state: "connected", unresponsive: true });
    });
    expect(shown().value?.number).toBe(6);
    expect(shown().connection.lastHeard).toBe(
      (client.pv("A").getSnapshot() as PvData).connection.lastHeard,
    );
    await eventually(() => {
      expect(nested.shown().connection.unresponsive).toBe(true);
    });
    relay.set("A", { unresponsive: false });
    await eventually(() => {
      expect(nested.shown().connection.unresponsive).toBe(false);
    });

    const refused = listen("=`A` + `loc://x<VNothing>`");
    await eventually(() => {
      expect(refused.shown().connection.state).toBe("refused");
    });
    expect(refused.shown().connection.reason).toMatch(/^loc:\/\/x<VNothing>: ./);
    const calls = refused.calls();
    relay.set("A", 5);
    await eventually(() => {
      expect(shown().value?.number).toBe(7);
    });
    expect(refused.calls()).toBe(calls);
  });

  it("says where its text is wrong", async () => {
    const { shown } = listen("=A + foo(1)");
    await eventually(() => {
      expect(shown().connection).toMatchObject({
        state: "refused",
        reason: "character 5: unknown function foo",
      });
    });
    expect(relay.subscriptions).toEqual([]);
    relay.refuse("BAD", "no such name");
    const bad = listen("=A + BAD");
    await eventually(() => {
      expect(bad.shown().connection).toMatchObject({
        state: "refused",
        reason: "BAD: no such name",
      });
    });
  });

  it("shares the subscriptions of its PVs and releases them", async () => {
    const plain = listen("A");
    const [first, second] = [listen("=A + B"), listen("=A - `B`")];
    await eventually(() => {
      expect([first.shown().value?.number, second.shown().value?.number]).toEqual([3, -1]);
    });
    expect([...relay.subscriptions].sort()).toEqual(["A", "B"]);
    first.end();
    plain.end();
    await eventually(() => {
      expect(client.inspect("=A + B")).toBeUndefined();
    });
    expect([...relay.subscriptions].sort()).toEqual(["A", "B"]);
    second.end();
    await eventually(() => {
      expect(relay.subscriptions).toEqual([]);
    });
  });

  it("is evaluated once per flush, and only for listeners", async () => {
    const { calls, end, shown } = listen("=A + B");
    await eventually(() => {
      expect(shown().value?.number).toBe(3);
    });
    const evaluate = vi.spyOn(Page.prototype, "evaluate");
    const before = calls();
    relay.set("A", 10);
    relay.set("B", 20);
    relay.set("A", 30);
    await eventually(() => {
      expect(shown().value?.number).toBe(50);
    });
    expect(evaluate).toHaveBeenCalledTimes(1);
    expect(calls()).toBe(before + 1);
    end();
    const plain = listen("A");
    relay.set("A", 31);
    await eventually(() => {
      expect(plain.shown().value?.number).toBe(31);
    });
    expect(evaluate).toHaveBeenCalledTimes(1);
    evaluate.mockRestore();
  });

  it("is not evaluated again when another one is mounted", async () => {
    const first = listen("=A + rnd(1000)");
    const second = listen("=rnd(1000)");
    await eventually(() => {
      expect(first.shown().value?.number).toBeDefined();
      expect(second.shown().value?.number).toBeDefined();
    });
    const before = [first.shown().value?.number, second.shown().value?.number];
    const evaluate = vi.spyOn(Page.prototype, "evaluate");
    for (const [name, value] of [
      ["=A * 4", 4],
      ["=B * 4", 8],
      ["=5", 5],
    ] as const) {
      const { end, shown } = listen(name);
      await eventually(() => {
        expect(shown().value?.number).toBe(value);
      });
      end();
      await eventually(() => {
        expect(client.inspect(name)).toBeUndefined();
      });
    }
    expect(evaluate).toHaveBeenCalledTimes(3);
    expect([first.shown().value?.number, second.shown().value?.number]).toEqual(before);
    evaluate.mockRestore();
    // An input that comes after others have gone is read.
    relay.set("B", 6);
    const last = listen("=B + 1");
    await eventually(() => {
      expect(last.shown().value?.number).toBe(7);
    });
  });

  it("reads only characters as a long string", async () => {
    relay.set("LONG.NAME$", { value: Uint8Array.of(0xb0, 0x43, 0, 1), type: "UInt8" });
    relay.set("A.VAL$", { value: Float64Array.of(104, 0.5) });
    expect(await valueOf("=`LONG.NAME$`")).toBe("°C");
    expect(await valueOf("=`A.VAL$`")).toEqual(Float64Array.of(104, 0.5));
  });

  it("takes local PVs and formulas", async () => {
    const { shown } = listen("=`loc://gain(2)` * `eq://A + 'loc://offset(1)'`");
    await eventually(() => {
      expect(shown().value?.number).toBe(4);
    });
    await client.put("loc://gain", 5);
    await eventually(() => {
      expect(shown().value?.number).toBe(10);
    });
    await client.put("loc://offset", 0);
    relay.set("A", 3);
    await eventually(() => {
      expect(shown().value?.number).toBe(15);
    });
  });

  it("passes its options on to its PVs", async () => {
    const { shown } = listen("=A + `loc://x(1)`", { rateHz: 2 });
    await eventually(() => {
      expect(shown().value?.number).toBe(2);
    });
    expect(client.inspect("A", { rateHz: 2 })).toBeDefined();
    expect(client.inspect("A")).toBeUndefined();
  });

  it("can't be written", async () => {
    const refused = { ok: false, error: { code: "NO_ACCESS" } };
    await expect(client.put("=A", 1)).resolves.toMatchObject(refused);
    await expect(client.putMany([["eq://A", 1]])).resolves.toMatchObject([refused]);
    expect(relay.puts).toEqual([]);
  });

  it("fails at once in a get while the relay is away, unless it needs no relay", async () => {
    const names = ["=A + 1", "=`=A` * 2", "=`loc://z(4)` + `=1 + 1`"];
    await expect(client.get(names)).resolves.toMatchObject([{ ok: true }, { ok: true }, {}]);
    // Without a time-out of its own, the test's is much longer than it may take.
    const timeoutMs = 600_000;
    const waiting = client.get(["=A + NOWHERE"], { timeoutMs });
    relay.lose();
    const code = "RELAY_LOST";
    await expect(waiting).resolves.toMatchObject([{ ok: false, error: { code } }]);
    await expect(client.get(names, { timeoutMs })).resolves.toMatchObject([
      { name: "=A + 1", ok: false, error: { code } },
      { ok: false, error: { code } },
      { ok: true, data: { value: { number: 6 } } },
    ]);
    client.dispose();
    await expect(client.get(["=A + 2"], { timeoutMs })).resolves.toMatchObject([
      { ok: false, error: { code: "CLOSED" } },
    ]);
  });

  it("is read once by get, among others", async () => {
    await expect(client.get(["B", "=A + 1", "loc://y(4)"])).resolves.toMatchObject([
      { ok: true, data: { value: { number: 2 } } },
      { name: "=A + 1", ok: true, data: { value: { number: 2 } } },
      { ok: true, data: { value: { number: 4 } } },
    ]);
    await expect(client.get(["=1 +"])).resolves.toMatchObject([
      { ok: false, error: { code: "REFUSED" } },
    ]);
    const never = client.get(["=A + NOWHERE"], { timeoutMs: 50 });
    await expect(never).resolves.toMatchObject([{ ok: false, error: { code: "TIMED_OUT" } }]);
    await eventually(() => {
      expect(relay.subscriptions).toEqual([]);
    });
  });
});
