/** `loc://` PVs behave like others, without a relay. */

import { beforeAll, describe, expect, it, vi } from "vitest";

import type { PvData } from "../ts/index.js";
import { client, eachWithClient, FakeSocket, loadedPage, runPromises } from "./fake_relay.js";

beforeAll(loadedPage);

eachWithClient();

function listen(name: string): { shown: () => PvData; calls: () => number } {
  const pv = client.pv(name);
  let calls = 0;
  pv.subscribe(() => {
    calls += 1;
  });
  return { shown: () => pv.getSnapshot() as PvData, calls: () => calls };
}

describe("a local PV", () => {
  it("that was given back while its code was loading stays away", async () => {
    const pv = client.pv("loc://brief(1)");
    pv.subscribe(() => undefined)();
    vi.advanceTimersByTime(5000);
    await runPromises();
    expect(client.inspect("loc://brief(1)")).toBeUndefined();
    const again = listen("loc://brief(2)");
    await runPromises();
    expect(again.shown().value?.number).toBe(2);
  });

  it("is connected and writable without a relay", async () => {
    const first = listen("loc://gain(2.5)");
    // What local PVs need is loaded with the first one.
    await runPromises();
    const gain = first.shown();
    expect(gain.value).toMatchObject({ float: 2.5, string: "2.5" });
    expect(gain.status).toMatchObject({ quality: "VALID", mutable: true, writable: true });
    expect(gain.connection.connected).toBe(true);
    expect(listen("loc://plain").shown().value?.number).toBe(0);
    expect(listen('loc://text("a (b)")').shown().value?.text).toBe("a (b)");
    expect(listen("loc://wave([1, 2.5])").shown().value?.array).toEqual(Float64Array.of(1, 2.5));
    expect(listen('loc://list(["a", ""])').shown().value?.array).toEqual(["a", ""]);
  });

  it("is one for all who use it, however they write it", async () => {
    const [one, two] = [listen("loc://x(1)"), listen("loc://x")];
    await runPromises();
    expect(two.shown().value?.number).toBe(1);
    await expect(client.put("loc://x", 7)).resolves.toEqual({ ok: true, superseded: false });
    vi.advanceTimersByTime(300);
    expect([one.shown().value?.number, two.shown().value?.number]).toEqual([7, 7]);
    expect([one.calls(), two.calls()]).toEqual([1, 1]);
    expect(listen("loc://x(99)").shown().value?.number).toBe(7);
  });

  it("keeps its type", async () => {
    const [number, text] = [listen("loc://n(1)"), listen('loc://t("a")')];
    await client.put("loc://n", "2.5");
    await client.put("loc://t", 3);
    expect(number.shown().value?.number).toBe(2.5);
    expect(text.shown().value?.text).toBe("3");
    const refused = await client.put("loc://n", "many");
    expect(refused).toMatchObject({ ok: false, error: { code: "BAD_VALUE" } });
    expect(number.shown().value?.number).toBe(2.5);
  });

  it("holds a copy of an array that is written", async () => {
    const wave = listen("loc://w([0])");
    const array = [1, 2, 3];
    await client.put("loc://w", array);
    array[0] = 99;
    expect(wave.shown().value?.array).toEqual(Float64Array.of(1, 2, 3));
  });

  it("is never asked of a relay, and is there when that is lost", async () => {
    const x = listen("loc://x(5)");
    listen("TEMP");
    FakeSocket.last.open();
    await runPromises();
    expect(FakeSocket.last.sent("subscribe").map((request) => request.names)).toEqual([["TEMP"]]);
    FakeSocket.last.end(1006);
    vi.advanceTimersByTime(300);
    expect(x.shown().connection.connected).toBe(true);
    await client.put("loc://x", 6);
    vi.advanceTimersByTime(300);
    expect(x.shown().value?.number).toBe(6);
  });

  it("is read once by get, among others", async () => {
    await client.put("loc://x", 4);
    const answer = client.get(["loc://x"]);
    await expect(answer).resolves.toMatchObject([{ ok: true, data: { value: { number: 4 } } }]);
  });

  it("says what is wrong with its name", async () => {
    const wrong = listen("loc://x(abc)");
    await runPromises();
    const { connection } = wrong.shown();
    expect(connection.state).toBe("refused");
    expect(connection.reason).toContain("invalid initial value abc");
  });

  it("has the types and initial values of Phoebus", async () => {
    const shown = async (name: string): Promise<PvData> => {
      const { shown } = listen(name);
      await runPromises();
      return shown();
    };
    expect((await shown("loc://d(0x1F)")).value?.number).toBe(31);
    expect((await shown("loc://w(1, 2)")).value?.array).toEqual(Float64Array.of(1, 2));
    const large = await shown("loc://l<VLong>(9007199254740993)");
    expect(large.value?.exact).toBe("9007199254740993");
    expect((await shown("loc://b<VBoolean>(true)")).value?.string).toBe("true");
    const choice = await shown('loc://e<VEnum>(1, "Off", "On")');
    expect(choice.value).toMatchObject({ number: 1, string: "On" });
    expect(choice.display?.choices).toEqual(["Off", "On"]);
    const table = await shown('loc://t<VTable>("X", "Y")');
    expect(table.value?.structure).toEqual({ labels: ["X", "Y"], value: { X: [], Y: [] } });
    await client.put("loc://e", "Off");
    vi.advanceTimersByTime(300);
    expect((await shown("loc://e")).value?.string).toBe("Off");
    expect(await client.put("loc://e", "Half")).toMatchObject({
      ok: false,
      error: { code: "BAD_VALUE", message: expect.stringContaining("Off, On") as string },
    });
  });

  it("is undefined until it is written when it has no initial value", async () => {
    const { shown } = listen("loc://new");
    await runPromises();
    expect(shown().value?.number).toBe(0);
    expect(shown().status).toMatchObject({ severity: null, quality: "UNDEFINED" });
    await client.put("loc://new", "text");
    vi.advanceTimersByTime(300);
    expect(shown().value?.text).toBe("text");
    expect(shown().status.severity).toBe("NO_ALARM");
  });
});
