/**
 * The connection of one client: socket, heartbeat, log-in, large values, and the update interval of
 * a hidden page.
 */

import type { Clock } from "../clock.js";
import type { Wasm } from "../store/core.js";
import { Cell } from "../store/readable.js";
import type { ClientOptions, ConnectionSnapshot } from "../types.js";
import { Heartbeat } from "./heartbeat.js";
import type { LargeStream } from "./large_stream.js";
import type { LargeRecord } from "./records.js";
import { Relays } from "./relays.js";
import { LZ4_SUBPROTOCOLS, NOT_CONNECTED, RelaySocket, SUBPROTOCOL } from "./socket.js";

/** From this message size on, a stream in addition to the WebSocket pays off. */
const LARGE_BYTES = 1 << 16;

/** Longest pause between two attempts to connect while the page is visible, and otherwise. */
const SEEN_RETRY_MS = 5000;
const UNSEEN_RETRY_MS = 15_000;

/** When the network returns, many pages reconnect at once: they are spread over this time. */
const ONLINE_SPREAD_MS = 250;

export interface LinkOptions {
  options: ClientOptions;
  clock: Clock;
  /** Between 0 and 1. */
  random: () => number;
  /** The module, which encodes requests; `undefined` until it is loaded. */
  wasm: () => Wasm | undefined;
  /** The connection's state has its first listener. */
  onListened: () => void;
  /** A message arrived. The bytes after the first `head` are the elements of an array. */
  onMessage: (data: ArrayBuffer, head: number) => void;
  /** The connection is lost or closed. `heardMs` is the time of the last message, or NaN. */
  onLost: (nowMs: number, heardMs: number) => void;
  /** The relay doesn't answer since `heardMs`, or answers again (NaN). */
  onSilent: (heardMs: number) => void;
}

export class Link {
  readonly connection: Cell<ConnectionSnapshot>;
  /** What this client has received since it began, over all its connections. */
  readonly totals = {
    updatesTotal: 0,
    framesTotal: 0,
    bytesTotal: 0,
    skippedTotal: 0,
    gapsTotal: 0,
  };
  opensTotal = 0;
  readonly heartbeat: Heartbeat;
  #options: LinkOptions;
  #socket: RelaySocket;
  #large: LargeStream | undefined;
  #leavePage: (() => void) | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
    const { clock, onListened, onSilent, random } = options;
    const { compression, maxRetryDelayMs, webSocket } = options.options;
    const { pingIntervalMs = 5000, pingTimeoutMs = 10_000 } = options.options;
    this.connection = new Cell(NOT_CONNECTED, onListened);
    this.#socket = new RelaySocket({
      relays: new Relays(options.options, random),
      subprotocols: compression === "lz4" ? LZ4_SUBPROTOCOLS : SUBPROTOCOL,
      webSocket,
      clock,
      random,
      maxRetryDelayMs: () => maxRetryDelayMs ?? (isSeen() ? SEEN_RETRY_MS : UNSEEN_RETRY_MS),
      connection: this.connection,
      onMessage: this.#receive,
      onLost: () => {
        // The relay may have named others since its Hello. The list follows five other values.
        this.learned(options.wasm()?.core.hello().slice(5) ?? []);
        this.heartbeat.stop();
        this.#large?.close();
        this.#large = undefined;
        options.onLost(clock.epochMs(), this.#heardMs);
      },
    });
    this.heartbeat = new Heartbeat({
      clock,
      pingIntervalMs,
      pingTimeoutMs,
      isWatched: () => !isHidden(),
      onSilent: (isSilent) => {
        const heardMs = isSilent ? this.#heardMs : NaN;
        onSilent(heardMs);
        // A listener may have ended the connection.
        const silentSinceMs = isSilent && this.isOpen ? heardMs : undefined;
        this.connection.set({ ...this.connection.getSnapshot(), silentSinceMs });
      },
      sendAck: () => {
        this.request(({ core }) => core.ack());
      },
      sendPing: () => {
        this.request(({ core }) => core.ping(clock.epochMs()));
      },
      onSilence: () => {
        this.fail("the relay doesn't answer");
      },
    });
  }

  get isOpen(): boolean {
    return this.connection.getSnapshot().state === "open";
  }

  get #heardMs(): number {
    return this.#options.clock.epochMs() - this.heartbeat.silenceMs;
  }

  /** Starts connecting; the module is loaded. */
  start(): void {
    this.#leavePage = watchPage(
      () => {
        this.#pace();
        if (!isSeen()) return;
        this.heartbeat.woken();
        this.retryWithin(0);
      },
      () => {
        this.heartbeat.woken();
        this.retryWithin(this.#options.random() * ONLINE_SPREAD_MS);
      },
    );
    this.#socket.start();
  }

  /** The relay has sent Hello to a client that is logged in. A listener may end the connection at once. */
  opened(version: string, instance: string, ackIntervalMs: number): void {
    this.opensTotal += 1;
    this.heartbeat.start(ackIntervalMs);
    this.#socket.opened(version, instance);
    if (isHidden()) this.#pace();
  }

  /**
   * A relay has named the relays that serve the same PVs. Returns true when this client goes to
   * another one, because this one is crowded.
   */
  learned(relays: readonly string[], isCrowded?: string): boolean {
    return this.#options.options.discover !== false && this.#socket.learned(relays, isCrowded);
  }

  /** The relay requests a token, and sends Hello again when it has received one. */
  async logIn(): Promise<void> {
    const { attempt } = this.#socket;
    try {
      const token = await this.#options.options.token?.();
      if (attempt === this.#socket.attempt) {
        this.request(({ core }) => core.authenticate(token ?? ""));
      }
    } catch (error) {
      if (attempt === this.#socket.attempt) this.fail(String(error));
    }
  }

  /** Encodes a request and sends it unless it is empty. */
  request(make: (wasm: Wasm) => Uint8Array): void {
    const wasm = this.#options.wasm();
    if (wasm === undefined) return;
    const bytes = make(wasm);
    if (bytes.length > 0) this.send(bytes as Uint8Array<ArrayBuffer>);
  }

  readonly send = (bytes: Uint8Array<ArrayBuffer>): void => {
    this.#socket.send(bytes);
  };

  /** Ends this connection; the client then reconnects. */
  fail(reason: string): void {
    this.#socket.fail(reason);
  }

  /** While the connection is lost: reconnects within `delayMs`. */
  retryWithin(delayMs: number): void {
    this.#socket.retryWithin(delayMs);
  }

  /** Ends the connection for good. */
  end(reason: string): void {
    this.#leavePage?.();
    this.#socket.close(reason);
  }

  /** Sets the update interval of a hidden page. */
  #pace(): void {
    const { hiddenIntervalMs = 1000 } = this.#options.options;
    if (hiddenIntervalMs > 0 && this.isOpen) {
      this.request(({ core }) => core.pace(isHidden() ? hiddenIntervalMs : 0));
    }
  }

  readonly #receive = (message: unknown): void => {
    this.heartbeat.received();
    if (this.#large?.takes(message)) return;
    if (typeof message === "string") {
      this.fail("the relay sent text");
      return;
    }
    // A worker that holds the connection passes records of its stream on unchanged.
    const bytes = message as ArrayBuffer & Partial<LargeRecord>;
    const { data = bytes, head = data.byteLength } = bytes;
    this.#frame(data, head);
  };

  readonly #frame = (data: ArrayBuffer, head: number): void => {
    this.totals.framesTotal += 1;
    this.totals.bytesTotal += data.byteLength;
    if (data.byteLength >= LARGE_BYTES) {
      import("./extras.js").then(
        ({ largeStream }) => {
          if (this.isOpen) {
            this.#large ??= largeStream(this.#socket, this.#frame, this.#options.clock);
          }
        },
        // Then they keep coming by the WebSocket.
        () => undefined,
      );
    }
    this.#options.onMessage(data, head);
  };
}

const hasPage = (): boolean => typeof document === "object";

const isSeen = (): boolean => hasPage() && document.visibilityState === "visible";

const isHidden = (): boolean => hasPage() && document.visibilityState === "hidden";

/**
 * Calls `onVisibility` when the page is shown or hidden, and `onOnline` when the network returns.
 * Returns a function that ends both. Without a page, as in Node, nothing is called.
 */
function watchPage(onVisibility: () => void, onOnline: () => void): () => void {
  const end = new AbortController();
  if (hasPage()) {
    document.addEventListener("visibilitychange", onVisibility, end);
    document.defaultView?.addEventListener("pageshow", onVisibility, end);
    document.defaultView?.addEventListener("online", onOnline, end);
  }
  return () => {
    end.abort();
  };
}
