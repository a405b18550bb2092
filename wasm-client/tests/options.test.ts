/** Options with impossible numbers are refused. */

import { beforeEach, describe, expect, it } from "vitest";

import { PvwireError, SelectionError, type PvClient, type PvOptions } from "../ts/index.js";
import { createFakeRelay, type FakeRelay } from "../ts/testing/index.js";
import { wasm } from "./golden.js";

let relay: FakeRelay;
let client: PvClient;

beforeEach(async () => {
  relay = createFakeRelay({ pvs: { TEMP: 21.5 }, ...(wasm && { wasm }) });
  client = relay.client();
  await client.ready;
  return () => {
    client.dispose();
  };
});

describe("an option's number that can't be meant", () => {
  const WRONG: readonly (readonly [PvOptions, string])[] = [
    [{ rateHz: 0 }, "rateHz is a number above 0 to 2147473648, not 0"],
    [{ rateHz: -2 }, "rateHz is a number above 0 to 2147473648, not -2"],
    [{ rateHz: NaN }, "rateHz is a number above 0 to 2147473648, not NaN"],
    [{ rateHz: Infinity }, "rateHz is a number above 0 to 2147473648, not Infinity"],
    [{ every: -3 }, "every is a whole number from 1 to 2147473648, not -3"],
    [{ every: 0 }, "every is a whole number from 1 to 2147473648, not 0"],
    [{ every: 2.5 }, "every is a whole number from 1 to 2147473648, not 2.5"],
    [{ every: 2 ** 32 }, "every is a whole number from 1 to 2147473648, not 4294967296"],
    [{ deadband: -0.1 }, "deadband is a number from 0 to 1.7976931348623157e+308, not -0.1"],
    [{ deadband: NaN }, "deadband is a number from 0 to 1.7976931348623157e+308, not NaN"],
    [{ stride: 0 }, "stride is a whole number from 1 to 2147473648, not 0"],
    [{ maxLength: -1 }, "maxLength is a whole number from 1 to 2147473648, not -1"],
    [{ points: 1 }, "points is a whole number from 2 to 2147473648, not 1"],
    [{ rateHz: "2" as unknown as number }, "rateHz is a number above 0 to 2147473648, not 2"],
  ];

  it("is refused of a PV, and nothing is asked of the relay", () => {
    for (const [options, message] of WRONG) {
      const make = (): unknown => client.pv("TEMP", "{ id }", options);
      expect(make, message).toThrow(PvwireError);
      expect(make).toThrow(expect.objectContaining({ code: "BAD_OPTION", message }) as Error);
    }
    const ofSingleUpdates = (): unknown => client.pv("TEMP", "{ id }", { average: true });
    expect(ofSingleUpdates).toThrow("average needs rateHz or every");
    expect(relay.subscriptions).toEqual([]);
    for (const options of [
      { rateHz: 1, average: true },
      { rateHz: 1e-9 },
      { deadband: 0 },
      { every: 1 },
      { points: 2 },
    ]) {
      expect(() => client.pv("TEMP", "{ id }", options)).not.toThrow();
    }
  });

  it("is refused of a client, a get, a put and a call", async () => {
    for (const options of [
      { pingIntervalMs: 0 },
      { pingTimeoutMs: -1 },
      { unsubscribeDelayMs: NaN },
      { maxRetryDelayMs: -1 },
      { hiddenIntervalMs: -1 },
    ]) {
      expect(() => relay.client(options)).toThrow(/^\w+Ms is a number /);
    }
    for (const timeoutMs of [0, -1, NaN, Infinity, 2 ** 31]) {
      const refused = {
        code: "BAD_OPTION",
        message: expect.stringMatching(/^timeoutMs is /) as string,
      };
      await expect(client.get(["TEMP"], { timeoutMs })).rejects.toMatchObject(refused);
      await expect(client.put("TEMP", 1, { timeoutMs })).rejects.toMatchObject(refused);
      await expect(client.putMany([["TEMP", 1]], { timeoutMs })).rejects.toMatchObject(refused);
      await expect(client.rpc("TEMP", {}, { timeoutMs })).rejects.toMatchObject(refused);
    }
    expect(relay.puts).toEqual([]);
  });
});

it("reports fields that only GraphQL documents may have", () => {
  const make = (): unknown => client.pv("TEMP", "{ id\n  value { base64Array { base64 } } }");
  expect(make).toThrow(SelectionError);
  expect(make).toThrow(
    expect.objectContaining({ code: "SELECTION", line: 2, column: 11 }) as Error,
  );
  expect(make).toThrow("value.base64Array.base64 is answered by pvwire/graphql only");
  expect(() => client.pv("TEMP", "{ display { role } }")).toThrow(
    expect.objectContaining({ code: "SELECTION", line: 1, column: 13 }) as Error,
  );
});

describe("puts of several PVs", () => {
  it("are sent in order, and each has a separate outcome", async () => {
    relay.set("FLOW", 1);
    relay.set("LOCKED", { value: 1, mutable: false });
    const results = await client.putMany([
      ["TEMP", 30],
      ["LOCKED", 2],
      ["FLOW", 3],
      ["TEMP", 31],
    ]);
    expect(results).toMatchObject([
      { ok: true },
      { ok: false, error: { code: "NO_ACCESS", pv: "LOCKED" } },
      { ok: true },
      { ok: true },
    ]);
    expect(relay.puts.map(({ name, value }) => [name, value])).toEqual([
      ["TEMP", 30],
      ["LOCKED", 2],
      ["FLOW", 3],
      ["TEMP", 31],
    ]);
    expect(await client.putMany([])).toEqual([]);
  });

  it("take integers of 64 bits with and without sign, in lists too", async () => {
    const most = 2n ** 64n - 1n;
    relay.set("BIG", { value: BigUint64Array.of(1n) });
    expect(await client.put("BIG", [most])).toMatchObject({ ok: true });
    expect(relay.puts.at(-1)?.value).toEqual(BigUint64Array.of(most));
    expect(await client.put("BIG", [1n, -1n])).toMatchObject({ ok: true });
    expect(relay.puts.at(-1)?.value).toEqual(BigInt64Array.of(1n, -1n));
    expect(await client.put("BIG", [most, -1n])).toMatchObject({
      ok: false,
      error: { code: "BAD_VALUE", message: "no array of 64-bit integers holds all of them" },
    });
    expect(await client.put("BIG", [most + 1n])).toMatchObject({ ok: false });
  });
});
