/** A PV in a program: the client reads the module from disk by itself; `ws` is the WebSocket. */

import assert from "node:assert/strict";
import process from "node:process";
import { after, test } from "node:test";

import { createClient } from "pvwire";
import { WebSocket } from "ws";

const COUNTER = "sim://counter(rate_hz=5)";

const client = createClient({ url: process.env.RELAY, webSocket: WebSocket });
after(() => client.dispose());

test("a PV is read once", async () => {
  const [result] = await client.get([COUNTER], { timeoutMs: 60_000 });
  assert.equal(result?.ok, true, JSON.stringify(result));
  assert.equal(typeof result.data.value.number, "number");
});

test("a PV changes", { timeout: 60_000 }, async () => {
  const pv = client.pv(COUNTER, "{ value { number } }");
  const seen = new Set();
  await new Promise((resolve) => {
    const unsubscribe = pv.subscribe(() => {
      const number = pv.getSnapshot()?.value?.number;
      if (number !== undefined) seen.add(number);
      if (seen.size < 3) return;
      unsubscribe();
      resolve();
    });
  });
  assert.equal(seen.size, 3);
});

test("a formula and a large array", { timeout: 60_000 }, async () => {
  const large = "sim://waveform(size=100000,rate_hz=4)";
  const [double, wave] = await client.get([`=\`${COUNTER}\` * 2`, large], { timeoutMs: 60_000 });
  assert.equal(double.data?.value.number % 2, 0, JSON.stringify(double));
  assert.equal(wave.data?.value.array.length, 100_000);
});
