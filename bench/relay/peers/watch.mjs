/**
 * Follows the PVs of the fidelity checks by pvwire's own client, and writes each change as a line of JSON, as watch.py
 * does for other systems: `node watch.mjs PREFIX PORT`.
 */

/* global console */

import process from "node:process";
import { createInterface } from "node:readline";

import { createClient } from "pvwire";
import { WebSocket } from "ws";

const [prefix, port] = process.argv.slice(2);
const client = createClient({ url: `ws://127.0.0.1:${port}/ws`, webSocket: WebSocket });

const SELECTION = `{
  value { string text exact float }
  status { quality severity }
  display { choices }
  connection { connected unresponsive }
}`;

const emit = (line) => {
  console.log(JSON.stringify(line));
};

for (const key of ["X", "MODE", "BIG", "NAN", "TEXT", "ALARM"]) {
  const pv = client.pv(`${key === "BIG" ? "pva://" : ""}${prefix}:${key}`, SELECTION);
  pv.subscribe(() => {
    const data = pv.getSnapshot();
    if (data === undefined) return;
    const { connection, display, status, value } = data;
    const numbers = {
      X: value?.float?.toString(),
      BIG: value?.exact,
      NAN: value?.float?.toString(),
      TEXT: value?.text,
    };
    emit({
      pv: key,
      connected: connection.connected,
      stale: connection.unresponsive ?? false,
      value: numbers[key] ?? value?.string ?? null,
      severity: status?.severity ?? null,
      quality: status?.quality ?? null,
      labels: display?.choices ?? null,
    });
  });
}

const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  const { put, value } = JSON.parse(line);
  void client.put(put, value, { wait: true, timeoutMs: 8000 }).then((result) => {
    emit({ put, outcome: result.ok ? "done" : `failed: ${result.error.message}` });
  });
});
input.on("close", () => {
  client.dispose();
});
