/** The package's other entries, as an application's tests use them. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import process from "node:process";
import { after, test } from "node:test";

import { createClient } from "pvwire";
import { createCsWebLibConnection } from "pvwire/adapters/cs-web-lib";
import { createGraphqlClient, schemaSdl } from "pvwire/graphql";
import { createFakeRelay } from "pvwire/testing";
import { socketIn } from "pvwire/worker";
import { WebSocket } from "ws";

const COUNTER = "sim://counter(rate_hz=5)";

const wasm = await readFile(createRequire(import.meta.url).resolve("pvwire/wasm"));
const client = createClient({ url: process.env.RELAY, webSocket: WebSocket });
after(() => client.dispose());

test("pvwire/graphql answers a document", async () => {
  const query = `{ getChannel(id: "${COUNTER}", timeout: 60) { id value { float } } }`;
  const { data, errors } = await createGraphqlClient(client).execute({ query });
  assert.equal(errors, undefined);
  assert.equal(data.getChannel.id, COUNTER);
  assert.equal(typeof data.getChannel.value.float, "number");
  assert.match(schemaSdl, /type Subscription/);
});

test("pvwire/adapters/cs-web-lib tells of a PV", { timeout: 60_000 }, async () => {
  const connection = createCsWebLibConnection(client);
  const value = await new Promise((resolve) => {
    connection.connect(
      () => undefined,
      (_, value) => value.getDoubleValue() !== undefined && resolve(value),
      () => undefined,
    );
    connection.subscribe(COUNTER);
  });
  assert.equal(typeof value.getDoubleValue(), "number");
  connection.unsubscribe(COUNTER);
});

test("pvwire/testing stands in for a relay", { timeout: 60_000 }, async () => {
  const relay = createFakeRelay({ wasm, pvs: { TEMP: 21.5 } });
  const fake = relay.client();
  const [result] = await fake.get(["TEMP"]);
  assert.equal(result.data.value.number, 21.5);
  fake.dispose();
});

test("pvwire/worker can be imported where there are no workers", () => {
  assert.equal(typeof socketIn("shared"), "function");
});
