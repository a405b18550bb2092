/** A server that sends what Coniql would send. One JSON message for each update of each channel. */

import { WebSocketServer, type WebSocket } from "ws";

import { cell, changes, coniqlMessage, RATE_HZ, type Channel } from "./pvs";

/** A client that is so far behind isn't sent the next scan. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024;

interface Request {
  readonly type: string;
  readonly id: string;
  readonly payload?: { readonly query: string; readonly variables: { readonly id: string } };
}

interface Operation {
  readonly pv: number;
  readonly typenames: boolean;
  last: Channel | undefined;
}

/** Serves `subscribeChannel` of the PVs `0` to `999` as graphql-transport-ws; gives what ends it. */
export async function serveConiql(port: number): Promise<() => Promise<void>> {
  const server = new WebSocketServer({
    port,
    host: "127.0.0.1",
    handleProtocols: () => "graphql-transport-ws",
  });
  await new Promise((resolve, reject) => {
    server.once("listening", resolve).once("error", reject);
  });
  server.on("connection", serveClient);
  return async () => {
    for (const client of server.clients) client.terminate();
    await new Promise((resolve) => {
      server.close(resolve);
    });
  };
}

function serveClient(socket: WebSocket): void {
  const operations = new Map<string, Operation>();
  const scan = (): void => {
    if (socket.bufferedAmount > MOST_WAITING_BYTES) return;
    const now = Date.now();
    for (const [id, operation] of operations) {
      const shown = cell(operation.pv, now);
      const update = changes(shown, operation.last);
      operation.last = shown;
      socket.send(coniqlMessage(id, update, operation.typenames));
    }
  };
  const timer = setInterval(scan, 1000 / RATE_HZ);
  socket.on("close", () => {
    clearInterval(timer);
  });
  socket.on("message", (data: Buffer) => {
    const { id, payload, type } = JSON.parse(data.toString()) as Request;
    if (type === "connection_init") socket.send('{"type":"connection_ack"}');
    if (type === "ping") socket.send('{"type":"pong"}');
    if (type === "complete") operations.delete(id);
    if (type !== "subscribe" || payload === undefined) return;
    const typenames = payload.query.includes("__typename");
    operations.set(id, { pv: Number(payload.variables.id), typenames, last: undefined });
  });
}
