/** The worker that holds the connections to relays: of one page, or of all tabs of the browser. */

import { HERE } from "./here.js";
import { Hub } from "./hub.js";

/** One for each relay. */
const hubs = new Map<string, Hub>();

/** What a page says first: the relay's address and the subprotocols. */
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
  // Where browsers tell it, a page that crashed goes at once.
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

// The only page, or one of many.
addEventListener("message", ({ data }: MessageEvent<MessagePort>) => {
  serve(data);
});
addEventListener("connect", (event) => {
  const [port] = (event as MessageEvent).ports;
  if (port !== undefined) serve(port);
});
