/** pvwire/worker: a connection to the relay that a worker holds, one for all tabs if wanted. */

/** Where the connection is: in the page, in a worker of its own, or in one worker for all tabs. */
export type SocketPlace = "main" | "dedicated" | "shared";

type Handler<Event> = ((event: Event) => void) | null;

/** What ends a connection that a browser cut. */
const CUT = 1006;

/** Where a worker's file couldn't be loaded: no attempt is made again. */
const broken = new Set<SocketPlace>();

/** The way to a worker, and what ends it. */
interface Way {
  readonly port: MessagePort;
  readonly end: () => void;
}

function shared(onError: () => void): Way {
  const worker = new SharedWorker(new URL("./socket_worker.js", import.meta.url), {
    type: "module",
  });
  worker.onerror = onError;
  const { port } = worker;
  return {
    port,
    end: () => {
      port.close();
    },
  };
}

function dedicated(onError: () => void): Way {
  const worker = new Worker(new URL("./socket_worker.js", import.meta.url), { type: "module" });
  worker.onerror = onError;
  const { port1, port2 } = new MessageChannel();
  worker.postMessage(port2, [port2]);
  return {
    port: port1,
    end: () => {
      worker.terminate();
    },
  };
}

function usable(place: SocketPlace): SocketPlace {
  if (place === "shared" && (typeof SharedWorker === "undefined" || broken.has(place))) {
    return usable("dedicated");
  }
  const works = typeof Worker !== "undefined" && !broken.has(place);
  return place === "dedicated" && !works ? "main" : place;
}

/**
 * What `createClient` takes as `webSocket`, so that a worker holds the connection. With `shared` all
 * tabs of the browser have one connection and one subscription of each PV, with one user; a relay
 * counts them as one client. Where a browser has no such worker, or can't load its file, the nearest
 * other place is taken. Large values come over the WebSocket then, not by a stream beside it.
 *
 * ```ts
 * const client = createClient({ url: "ws://localhost:8080/ws", webSocket: socketIn("shared") });
 * ```
 */
export function socketIn(place: SocketPlace): typeof WebSocket {
  const Socket = function (url: string, protocols: string | string[]): object {
    return usable(place) === "main"
      ? new WebSocket(url, protocols)
      : new WorkerSocket(place, url, protocols);
  };
  return Socket as unknown as typeof WebSocket;
}

/** As much of a WebSocket as a client uses. */
class WorkerSocket {
  binaryType = "arraybuffer";
  readyState = 0;
  onmessage: Handler<{ readonly data: unknown }> = null;
  onclose: Handler<{ readonly code: number }> = null;
  onerror: Handler<unknown> = null;
  #way: Way | undefined;

  constructor(place: SocketPlace, url: string, protocols: string | string[]) {
    const to = usable(place);
    const onError = (): void => {
      broken.add(to);
      this.#ended(CUT);
    };
    try {
      this.#way = to === "shared" ? shared(onError) : dedicated(onError);
    } catch {
      // Some browsers throw where a page may have no worker; the next attempt goes elsewhere.
      queueMicrotask(onError);
      return;
    }
    const { port } = this.#way;
    port.onmessage = ({ data }: MessageEvent<ArrayBuffer | number>) => {
      if (typeof data === "number") this.#ended(data);
      else {
        this.readyState = 1;
        this.onmessage?.({ data });
      }
    };
    port.postMessage([url, protocols]);
    addEventListener("pagehide", this.#hidden);
  }

  send(bytes: Uint8Array): void {
    const copy = bytes.slice();
    this.#way?.port.postMessage(copy.buffer, [copy.buffer]);
  }

  close(): void {
    this.readyState = 3;
    removeEventListener("pagehide", this.#hidden);
    this.#way?.port.postMessage(null);
    this.#way?.end();
    this.#way = undefined;
  }

  /** The page goes, or is kept as it is and comes back with another connection. */
  readonly #hidden = (): void => {
    this.#ended(CUT);
  };

  #ended(code: number): void {
    if (this.readyState === 3) return;
    this.close();
    this.onclose?.({ code });
  }
}
