/** The WebSocket to the relay: connects, reports the connection's state, and reconnects when it is lost. */

import type { Clock, Timer } from "../clock.js";
import { closeCode, retryDelayMs } from "./close_code.js";
import type { Cell } from "../store/readable.js";
import type { ConnectionSnapshot } from "../types.js";
import type { Relays } from "./relays.js";

export const SUBPROTOCOL = "pvwire.v1";

/** Subprotocols for packed columns; a relay that can't pack selects the second. */
export const LZ4_SUBPROTOCOLS = [`${SUBPROTOCOL}.lz4`, SUBPROTOCOL];

/** Maximum time to wait for the relay's first message. */
const HELLO_TIMEOUT_MS = 10_000;

/** An attempt older than this began before the network returned, and may never end. */
const OLD_ATTEMPT_MS = 1000;

/** A connection that lasted this long was good: the count of failed attempts starts again. */
const GOOD_AFTER_MS = 5000;

/** The code that a browser reports when a connection ended without a close frame. */
const CUT = 1006;

const UNREACHABLE = "the relay can't be reached";

/** The parts of a WebSocket that are used here. */
export type SocketConstructor = new (url: string, protocols: string | string[]) => WebSocket;

export interface SocketOptions {
  relays: Relays;
  subprotocols: string | string[];
  webSocket: SocketConstructor | undefined;
  clock: Clock;
  /** Between 0 and 1. */
  random: () => number;
  /** Called before each pause; the pause is shorter while the page is visible. */
  maxRetryDelayMs: () => number;
  onMessage: (data: unknown) => void;
  /** An open connection was lost, or the first attempt failed. */
  onLost: () => void;
  /** The state of the connection. */
  connection: Cell<ConnectionSnapshot>;
}

export const NOT_CONNECTED: ConnectionSnapshot = {
  state: "connecting",
  sinceMs: 0,
  attempt: 0,
  reason: undefined,
  retryInMs: undefined,
  silentSinceMs: undefined,
  relayUrl: "",
  relayVersion: undefined,
  relayInstance: undefined,
};

export class RelaySocket {
  /** The present connection or attempt: what an older one still waited for is ignored. */
  attempt = 0;
  #options: SocketOptions;
  #socket: WebSocket | undefined;
  #timer: Timer | undefined;
  #failures = 0;
  #openedAt: number | undefined;
  #triedAt = 0;
  /** Why the last attempt failed, as far as the relay says it. */
  #why = UNREACHABLE;

  constructor(options: SocketOptions) {
    this.#options = options;
  }

  get url(): string {
    return this.#options.relays.url;
  }

  start(): void {
    if (this.#goesOn({ sinceMs: this.#options.clock.epochMs() })) this.#begin();
  }

  send(bytes: Uint8Array<ArrayBuffer>): void {
    // A closing socket can't send; its close event follows.
    if (this.#socket?.readyState === 1) this.#socket.send(bytes);
  }

  /** The relay has sent Hello. */
  opened(relayVersion: string, relayInstance: string): void {
    const { clock } = this.#options;
    clock.clearTimeout(this.#timer);
    this.#openedAt = clock.now();
    this.#why = UNREACHABLE;
    this.#change({
      state: "open",
      sinceMs: clock.epochMs(),
      attempt: 0,
      reason: undefined,
      retryInMs: undefined,
      relayVersion,
      relayInstance,
    });
  }

  /** The relay has named others. The first connection goes to one of them if this relay is crowded. */
  learned(addresses: readonly string[], isCrowded?: string): boolean {
    const { relays } = this.#options;
    relays.learn(addresses);
    if (!isCrowded || this.#openedAt || this.#failures || relays.count < 2) return false;
    this.#failures = 1;
    this.#drop();
    this.#begin();
    return true;
  }

  /** Ends a connection that delivers invalid data or none, and reconnects. */
  fail(reason: string): void {
    if (this.#socket === undefined) return;
    this.#drop();
    this.#retry(CUT, reason);
  }

  /** While the connection is lost: reconnects after `delayMs`, and not at the planned time. */
  retryWithin(delayMs: number): void {
    const { state, retryInMs } = this.#snapshot;
    const isOld = this.#options.clock.now() - this.#triedAt >= OLD_ATTEMPT_MS;
    if (state !== "lost" || (retryInMs === undefined && !isOld)) return;
    this.#drop();
    this.#retryAfter(delayMs);
  }

  /** Ends the connection for good. */
  close(reason: string): void {
    this.#drop();
    this.#end(reason);
  }

  /** Connects to the next relay. */
  #begin(): void {
    const { clock, relays } = this.#options;
    this.#triedAt = clock.now();
    try {
      const next = relays.next();
      if (typeof next === "string") this.#connect(next);
      else this.#beginLater(next);
    } catch (error) {
      this.#end(error instanceof Error ? error.message : String(error));
    }
  }

  /** The list of relays has to be read first. */
  #beginLater(next: Promise<string>): void {
    const attempt = this.attempt;
    const failed = (reason: string): void => {
      if (attempt !== this.attempt) return;
      this.#drop();
      this.#retry(CUT, reason);
    };
    this.#timer = this.#options.clock.setTimeout(() => {
      failed("the list of relays doesn't arrive");
    }, HELLO_TIMEOUT_MS);
    next.then(
      (url) => {
        if (attempt !== this.attempt) return;
        this.#drop();
        this.#connect(url);
      },
      (error: unknown) => {
        failed(`no list of relays: ${error instanceof Error ? error.message : String(error)}`);
      },
    );
  }

  #connect(url: string): void {
    if (!this.#goesOn({ relayUrl: url })) return;
    const { clock, subprotocols, webSocket = globalThis.WebSocket } = this.#options;
    // Node has no WebSocket before version 22.
    if ((webSocket as unknown) === undefined) {
      this.#end("no WebSocket here: pass one as `webSocket`");
      return;
    }
    let socket: WebSocket;
    try {
      socket = new webSocket(url, subprotocols);
    } catch (error) {
      // The address itself is invalid: no attempt with it can succeed.
      const reason = error instanceof Error ? error.message : String(error);
      if (this.#options.relays.count < 2) this.#end(reason);
      else this.#retry(CUT, reason);
      return;
    }
    socket.binaryType = "arraybuffer";
    // In Node an error event without a listener ends the process.
    socket.onerror = () => {
      clock.setTimeout(() => {
        // A connection that the page's policy forbids has no close event.
        if (socket === this.#socket && socket.readyState > 2) closed({ code: CUT });
      }, 0);
    };
    socket.onmessage = (event: MessageEvent<unknown>) => {
      this.#options.onMessage(event.data);
    };
    const closed = ({ code }: Pick<CloseEvent, "code">): void => {
      this.#drop();
      const neverOpen = this.#openedAt === undefined && code === CUT;
      this.#retry(code, neverOpen ? this.#why : closeCode(code).reason);
      // Other WebSockets than the browser's may have no relay.
      if (neverOpen && this.#options.webSocket === undefined) this.#explain(url);
    };
    socket.onclose = closed;
    this.#socket = socket;
    this.#timer = clock.setTimeout(() => {
      this.fail("the relay doesn't answer");
    }, HELLO_TIMEOUT_MS);
  }

  /** Replaces the reason of a failed attempt by what the relay says. */
  #explain(url: string): void {
    const explained = import("./extras.js").then(({ whyRefused }) => whyRefused(url, SUBPROTOCOL));
    explained.then(
      (why = UNREACHABLE) => {
        this.#why = why;
        if (this.#snapshot.state === "lost") this.#change({ reason: why });
      },
      () => undefined,
    );
  }

  /** Detaches the socket: its further events are ignored. */
  #drop(): void {
    const socket = this.#socket;
    this.#options.clock.clearTimeout(this.#timer);
    this.attempt += 1;
    this.#socket = undefined;
    if (socket === undefined) return;
    socket.onmessage = null;
    socket.onclose = null;
    // Closing while connecting causes an error event too: `onerror` stays.
    if (socket.readyState < 2) socket.close(1000);
  }

  #retry(code: number, reason: string): void {
    const { clock, maxRetryDelayMs, random, relays } = this.#options;
    if (clock.now() - (this.#openedAt ?? NaN) >= GOOD_AFTER_MS) this.#failures = 0;
    // The pause grows when all relays have failed.
    const rounds = Math.floor(this.#failures / relays.count);
    const delayMs = retryDelayMs(code, rounds, random(), maxRetryDelayMs());
    if (delayMs === undefined) {
      this.#end(reason);
      return;
    }
    this.#failures += 1;
    this.#openedAt = undefined;
    const { state, sinceMs } = this.#snapshot;
    const lostBefore = state === "lost";
    // Before the listeners, which may end the client or ask for an attempt at once.
    this.#retryAfter(delayMs);
    this.#change({
      state: "lost",
      sinceMs: lostBefore ? sinceMs : clock.epochMs(),
      attempt: this.#failures,
      reason,
      retryInMs: delayMs,
    });
    if (!lostBefore) this.#options.onLost();
  }

  #retryAfter(delayMs: number): void {
    const { clock } = this.#options;
    this.#timer = clock.setTimeout(() => {
      this.#triedAt = clock.now();
      // The connection is no longer waiting to retry.
      if (this.#goesOn({ retryInMs: undefined })) this.#begin();
    }, delayMs);
  }

  #end(reason: string): void {
    if (this.#snapshot.state === "closed") return;
    this.#openedAt = undefined;
    this.#change({
      state: "closed",
      sinceMs: this.#options.clock.epochMs(),
      reason,
      retryInMs: undefined,
    });
    this.#options.onLost();
  }

  get #snapshot(): ConnectionSnapshot {
    return this.#options.connection.getSnapshot();
  }

  /** Changes the state; false if a listener has ended the client or begun another attempt. */
  #goesOn(part: Partial<ConnectionSnapshot>): boolean {
    const attempt = this.attempt;
    this.#change(part);
    return attempt === this.attempt;
  }

  #change(part: Partial<ConnectionSnapshot>): void {
    this.#options.connection.set({ ...this.#snapshot, silentSinceMs: undefined, ...part });
  }
}
