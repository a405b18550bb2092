/** Follows PVs and prints each change as one line: `node follow.mjs RELAY NAME…`. */

/* global console */

import process from "node:process";

import { createClient } from "pvwire";
import { WebSocket } from "ws";

const [url, ...names] = process.argv.slice(2);
if (url === undefined || names.length === 0) {
  console.error("usage: node follow.mjs RELAY NAME…");
  process.exit(64);
}

// Node 22 and later have a WebSocket.
const client = createClient({ url, webSocket: WebSocket });

const SELECTION = `{
  value { string(units: true) }
  status { severity }
  connection { state since reason unresponsive }
}`;

for (const name of names) {
  const pv = client.pv(name, SELECTION);
  pv.subscribe(() => {
    console.log(`${name} ${textOf(pv.getSnapshot())}`);
  });
}

/** A value is current only while its PV is connected and its server answers. */
function textOf(data) {
  if (data === undefined) return "…";
  const { connection, status, value } = data;
  const text = value?.string ?? "–";
  if (connection.state !== "connected") {
    return `${text} (${connection.state} since ${connection.since} ${connection.reason ?? ""})`;
  }
  return `${text} ${connection.unresponsive ? "(no response)" : status.severity}`;
}

process.once("SIGINT", () => {
  client.dispose();
});
