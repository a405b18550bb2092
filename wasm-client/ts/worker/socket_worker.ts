/** The worker that holds connections to relays: for one page, or for all tabs of the browser. */

import { HERE } from "../link/close_code.js";
import { Hub } from "./hub.js";

/** One hub per relay. */
const hubs = new Map<string, Hub>();

/** The first message of a page: the relay's address and the subprotocols. */
type Opening = readonly [url: string, protocols: string | string[]];

function serve(port: MessagePort): void {
  let take: ((request: ArrayBuffer | undefined) => void) | undefined;
  port.onmessage = ({ data }: MessageEvent<Opening | ArrayBuffer | null>) => {
    if (Array.isArray(data)) {
      port.postMessage(HERE);
      take = join(data as unknown as Opening, port);
    } else {
      take?.((data as ArrayBuffer | null) ?? undefined);
    }
  };
  // In browsers that report it, a page that crashed is removed at once.
  port.addEventListener("close", () => {
    take?.(undefined);
  });
}

function join(opening: Opening, port: MessagePort): (request: ArrayBuffer | undefined) => void {
  const key = JSON.stringify(opening);
  let hub = hubs.get(key);
  if (hub === undefined) {
    const [url, protocols] = opening;
    hub = new Hub(url, () => new WebSocket(url, protocols));
    hubs.set(key, hub);
  }
  return hub.join(port);
}

// A dedicated worker has one page, a shared worker many.
addEventListener("message", ({ data }: MessageEvent<MessagePort>) => {
  serve(data);
});
addEventListener("connect", (event) => {
  const [port] = (event as MessageEvent).ports;
  if (port !== undefined) serve(port);
});
