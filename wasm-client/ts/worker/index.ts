/** pvwire/worker: holds the connection to the relay in a worker, optionally one for all tabs. */

import { HERE } from "../link/close_code.js";

/**
 * Where the connection is held: in the page, in a worker of the page, or in one worker for all
 * tabs.
 */
export type SocketPlace = "main" | "dedicated" | "shared";

type Handler<Event> = ((event: Event) => void) | null;

/** The code of a connection that was cut by a browser. */
const CUT = 1006;

/** A worker reports at once that it is running; after this time without a report it has failed. */
const SILENCE_MS = 4000;

/** The alternative when a place fails. */
const NEXT = { dedicated: "main", shared: "dedicated" } as const;

type WorkerPlace = keyof typeof NEXT;

/** Places that have failed and are not tried again by this page. */
const broken = new Set<SocketPlace>();

/** Reports why the connection isn't held in the requested place. */
function giveUp(place: WorkerPlace, why: string): void {
  if (broken.has(place)) return;
  broken.add(place);
  console.warn(`pvwire: the connection can't be in a ${place} worker (${why})`);
}

/** The place itself or the nearest alternative that works here. */
function usable(place: SocketPlace): SocketPlace {
  if (place === "main") return place;
  const kind = place === "shared" ? "SharedWorker" : "Worker";
  if (!(kind in globalThis)) giveUp(place, `there is no ${kind} here`);
  return broken.has(place) ? usable(NEXT[place]) : place;
}

/** The port to the holder of the connection, and the function that closes it. */
interface Way {
  readonly send: (bytes: ArrayBuffer) => void;
  readonly end: () => void;
}

function shared(onError: Handler<Event>): readonly [MessagePort, end: () => void] {
  const worker = new SharedWorker(new URL("./socket_worker.js", import.meta.url), {
    type: "module",
  });
  worker.onerror = onError;
  const { port } = worker;
  return [
    port,
    () => {
      port.close();
    },
  ];
}

function dedicated(onError: Handler<Event>): readonly [MessagePort, end: () => void] {
  const worker = new Worker(new URL("./socket_worker.js", import.meta.url), { type: "module" });
  worker.onerror = onError;
  const { port1, port2 } = new MessageChannel();
  worker.postMessage(port2, [port2]);
  return [
    port1,
    () => {
      worker.terminate();
    },
  ];
}

/**
 * A `webSocket` option for `createClient` that lets a worker hold the connection. With `shared` all
 * tabs of the browser share one connection and one subscription of each PV, with one user; a relay
 * counts them as one client. If a browser has no such worker, can't load its file, or the worker
 * fails, the nearest alternative is used, and the console says why.
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

/** The parts of a WebSocket that a client uses. */
class WorkerSocket {
  binaryType = "arraybuffer";
  readyState = 0;
  onmessage: Handler<{ readonly data: unknown }> = null;
  onclose: Handler<{ readonly code: number }> = null;
  onerror: Handler<unknown> = null;
  readonly #url: string;
  readonly #protocols: string | string[];
  #way: Way | undefined;

  constructor(place: SocketPlace, url: string, protocols: string | string[]) {
    this.#url = url;
    this.#protocols = protocols;
    this.#open(place);
    addEventListener("pagehide", this.#hidden);
  }

  send(bytes: Uint8Array): void {
    this.#way?.send(bytes.slice().buffer);
  }

  close(): void {
    this.readyState = 3;
    removeEventListener("pagehide", this.#hidden);
    this.#way?.end();
    this.#way = undefined;
  }

  #open(wanted: SocketPlace): void {
    const place = usable(wanted);
    try {
      this.#way = place === "main" ? this.#inPage() : this.#inWorker(place);
    } catch (error) {
      // Some browsers throw if a page may not create a worker.
      if (place !== "main") giveUp(place, String(error));
      // Deferred until the caller has added its listeners.
      queueMicrotask(() => {
        if (place === "main") this.#ended(CUT);
        else if (this.readyState < 3) this.#open(place);
      });
    }
  }

  #inPage(): Way {
    const socket = new WebSocket(this.#url, this.#protocols);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }: MessageEvent<unknown>) => {
      this.#received(data);
    };
    socket.onclose = ({ code }) => {
      this.#ended(code);
    };
    return {
      send: (bytes) => {
        socket.send(bytes);
      },
      end: () => {
        socket.onmessage = null;
        socket.onclose = null;
        socket.close();
      },
    };
  }

  #inWorker(place: WorkerPlace): Way {
    let isOver = false;
    const failed = (why: string): void => {
      if (isOver) return;
      giveUp(place, why);
      if (this.readyState === 0) {
        // Nothing was sent yet: the client need not be told.
        way.end();
        this.#open(place);
      } else {
        this.#ended(CUT);
      }
    };
    const [port, end] = (place === "shared" ? shared : dedicated)((event) => {
      const { message } = event as Partial<ErrorEvent>;
      failed(message === undefined || message === "" ? "its file can't be loaded" : message);
    });
    const silence = setTimeout(() => {
      failed("it doesn't answer");
    }, SILENCE_MS);
    port.onmessage = ({ data }: MessageEvent<unknown>) => {
      clearTimeout(silence);
      if (isOver || data === HERE) return;
      if (typeof data === "number") this.#ended(data);
      else this.#received(data);
    };
    port.postMessage([this.#url, this.#protocols]);
    const way = {
      send: (bytes: ArrayBuffer) => {
        port.postMessage(bytes, [bytes]);
      },
      end: () => {
        isOver = true;
        clearTimeout(silence);
        port.postMessage(null);
        end();
      },
    };
    return way;
  }

  /** The page is closed, or is cached and will resume with another connection. */
  readonly #hidden = (): void => {
    this.#ended(CUT);
  };

  #received(data: unknown): void {
    this.readyState = 1;
    this.onmessage?.({ data });
  }

  #ended(code: number): void {
    if (this.readyState === 3) return;
    this.close();
    this.onclose?.({ code });
  }
}
