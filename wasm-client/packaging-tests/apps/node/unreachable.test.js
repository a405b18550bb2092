/** A relay that can't be reached: the program goes on, and says why. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";

import { createClient } from "pvwire";
import { WebSocket } from "ws";

/** A port of this machine where connections do what `answer` says. */
async function listening(answer) {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, url: `ws://127.0.0.1:${server.address().port}/ws` };
}

/** Waits for a state of the connection. */
const reached = (client, isIt) =>
  new Promise((resolve) => {
    const look = () => {
      const snapshot = client.connection.getSnapshot();
      if (!isIt(snapshot)) return;
      end();
      resolve(snapshot);
    };
    const end = client.connection.subscribe(look);
    look();
  });

test("nothing listens: the client is lost and tries again", { timeout: 60_000 }, async () => {
  const { server, url } = await listening();
  server.close();
  const client = createClient({ url, webSocket: WebSocket });
  const lost = await reached(client, ({ attempt, state }) => state === "lost" && attempt >= 2);
  assert.equal(lost.reason, "the relay can't be reached");
  const result = await client.put("TEMP", 1);
  assert.equal(result.error?.code, "RELAY_LOST");
  client.dispose();
});

test("a client that ends while it connects ends quietly", { timeout: 60_000 }, async () => {
  const { server, url } = await listening(() => undefined);
  const client = createClient({ url, webSocket: WebSocket });
  client.connection.subscribe(() => undefined);
  const [socket] = await once(server, "connection");
  client.dispose();
  await once(socket, "close");
  assert.equal(client.connection.getSnapshot().state, "closed");
  server.close();
});

test("what listens is no relay", { timeout: 60_000 }, async () => {
  const { server, url } = await listening((socket) => socket.end("HTTP/1.1 404 Not Found\r\n\r\n"));
  const client = createClient({ url, webSocket: WebSocket });
  const lost = await reached(client, ({ state }) => state === "lost");
  assert.equal(lost.reason, "the relay can't be reached");
  client.dispose();
  server.close();
});
