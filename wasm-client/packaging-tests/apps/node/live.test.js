/** A PV in a test of an application: Node reads the module from disk and has `ws` for a WebSocket. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import process from "node:process";
import { after, test } from "node:test";

import { createClient } from "pvwire";
import { WebSocket } from "ws";

const COUNTER = "sim://counter(rate_hz=5)";

const wasm = await readFile(createRequire(import.meta.url).resolve("pvwire/wasm"));
const client = createClient({ url: process.env.RELAY, wasm, webSocket: WebSocket });
after(() => client.dispose());

test("a PV is read once", async () => {
  const [result] = await client.get([COUNTER]);
  assert.equal(result?.ok, true, JSON.stringify(result));
  assert.equal(typeof result.data.value.number, "number");
});

test("a PV changes", { timeout: 20_000 }, async () => {
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
