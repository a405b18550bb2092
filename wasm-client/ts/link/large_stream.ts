/** Puts large values of the stream back into the order of the WebSocket's messages. */

import { systemClock, type Clock, type Timer } from "../clock.js";
import { readRecords, type LargeRecord } from "./records.js";

/**
 * Fetches a body and passes on its records, or reports why there are no more; the returned function
 * ends it.
 */
export type Reader = (
  url: string,
  onRecord: (record: LargeRecord) => void,
  onLost: (reason: string) => void,
) => () => void;

/** The reader that fetches in this thread. */
export const readHere: Reader = (url, onRecord, onLost) => {
  const end = new AbortController();
  readRecords(url, onRecord, end.signal).catch((error: unknown) => {
    onLost(error instanceof Error ? error.message : String(error));
  });
  return () => {
    end.abort();
  };
};

/** The WebSocket that a stream belongs to. */
export interface LargeSocket {
  readonly url: string;
  send(bytes: Uint8Array<ArrayBuffer>): void;
  fail(reason: string): void;
}

/** After this number of streams without data, or that broke in use, a client requests no more. */
const TRIES = 3;

/**
 * Messages wait this long for announced values, however many. They are the state of all other PVs: a stream
 * that delays them for longer does more harm than good.
 */
const STALL_MS = 2000;

/** A timer that is this late waited with the page: what arrived meanwhile may be queued behind it. */
const LATE_MS = 500;

/** What arrives this long after the stream's end was sent by a relay that goes on. */
const TOGETHER_MS = 500;

/** After a stream that broke in use, large values come over the WebSocket for this time. */
const PAUSE_MS = 300_000;

/** What a client knows of the streams that it has requested. */
interface History {
  /** Number of consecutive streams without data. */
  fruitless: number;
  /** Number of streams that broke or stalled in use. */
  broken: number;
}

const histories = new WeakMap<LargeSocket, History>();

/**
 * The large values of one connection. The relay announces each by an empty WebSocket message;
 * messages after an announcement wait until the value has arrived. Until it is known that the body
 * gets through, large values are sent over the WebSocket, and if it doesn't get through, they
 * continue to be. A stream that stalls ends the connection; the next one begins without a stream.
 */
export class LargeStream {
  #socket: LargeSocket;
  #apply: (data: ArrayBuffer, head: number) => void;
  #read: Reader;
  #clock: Clock;
  #history: History;
  /** Waiting WebSocket messages and when they came; the first is an announcement. */
  #waiting: [ArrayBuffer, number][] = [];
  #records: LargeRecord[] = [];
  #open = false;
  #closed = false;
  #stop: () => void = () => undefined;
  /** When a page that was suspended went on: what waited before isn't the stream's fault. */
  #awake = 0;
  /** Requests the stream after a pause, or checks whether it stalls. */
  #timer: Timer | undefined;
  #dueAt = 0;
  /** Why the stream ended, once it is not known to be part of the connection's end. */
  #end: string | undefined;

  /** `apply` processes a message; `head` is the number of bytes before its array's elements. */
  constructor(
    socket: LargeSocket,
    apply: (data: ArrayBuffer, head: number) => void,
    read: Reader,
    clock = systemClock,
  ) {
    this.#socket = socket;
    this.#apply = apply;
    this.#read = read;
    this.#clock = clock;
    const history = histories.get(socket) ?? { fruitless: 0, broken: 0 };
    this.#history = history;
    histories.set(socket, history);
    if (Math.max(history.fruitless, history.broken) >= TRIES) return;
    if (history.broken === 0) this.#request();
    else this.#wait(PAUSE_MS, this.#request);
  }

  /** Handles a WebSocket message if it belongs to the stream. */
  takes(message: unknown): boolean {
    if (typeof message === "string") {
      const address = new URL(message, this.#socket.url);
      address.protocol = address.protocol.replace("ws", "http");
      this.#stop = this.#read(
        address.href,
        (record) => {
          this.#record(record);
        },
        (reason) => {
          this.#ended(reason);
        },
      );
      return true;
    }
    if (this.#end !== undefined) {
      // The connection is alive, and so the stream alone has ended.
      this.#lost(this.#end);
      return true;
    }
    const isData = message instanceof ArrayBuffer;
    if (!isData || (message.byteLength > 0 && this.#waiting.length === 0)) return false;
    this.#waiting.push([message, this.#clock.now()]);
    this.#advance();
    return true;
  }

  /** Ends the stream; its data is discarded. */
  close(): void {
    this.#clock.clearTimeout(this.#timer);
    this.#stop();
    this.#waiting = [];
    this.#records = [];
    this.#closed = true;
  }

  readonly #request = (): void => {
    this.#timer = undefined;
    this.#history.fruitless += 1;
    this.#step();
  };

  /** Requests the address of the stream, and later its use. */
  #step(): void {
    this.#socket.send(new Uint8Array());
  }

  #wait(delayMs: number, then: () => void): void {
    this.#dueAt = this.#clock.now() + delayMs;
    this.#timer = this.#clock.setTimeout(then, delayMs);
  }

  #record(record: LargeRecord): void {
    if (this.#closed) return;
    if (this.#open) {
      this.#history.fruitless = 0;
      this.#records.push(record);
      this.#advance();
    } else {
      // The first record is empty and shows that bodies get through.
      this.#open = true;
      this.#step();
    }
  }

  /** Applies the waiting messages, up to the first whose value hasn't arrived. */
  #advance(): void {
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) return;
      const [message] = first;
      const isAnnounced = message.byteLength === 0;
      const next = isAnnounced
        ? this.#records.shift()
        : { data: message, head: message.byteLength };
      if (next === undefined) {
        if (this.#timer === undefined) this.#wait(STALL_MS, this.#check);
        return;
      }
      this.#waiting.shift();
      this.#apply(next.data, next.head);
    }
  }

  readonly #check = (): void => {
    this.#timer = undefined;
    const [first] = this.#waiting;
    if (first === undefined) return;
    const now = this.#clock.now();
    if (this.#isLate) this.#awake = now;
    const leftMs = Math.max(first[1], this.#awake) + STALL_MS - now;
    if (leftMs > 0) this.#wait(leftMs, this.#check);
    else this.#lost(this.#end ?? "a value doesn't arrive");
  };

  /** Whether the timer that is due now waited with the page. */
  get #isLate(): boolean {
    return this.#clock.now() - this.#dueAt >= LATE_MS;
  }

  /** If the connection ends too, as with a restart of the relay, the stream isn't to blame. */
  #ended(reason: string): void {
    // If no body gets through, large values continue over the WebSocket.
    if (!this.#open || this.#closed) return;
    this.#clock.clearTimeout(this.#timer);
    this.#wait(TOGETHER_MS, () => {
      if (this.#isLate) {
        this.#ended(reason);
        return;
      }
      this.#end = reason;
      this.#check();
    });
  }

  #lost(reason: string): void {
    this.#history.broken += 1;
    const why = `the stream of large values: ${reason}`;
    console.warn(`pvwire: ${why}; they come over the WebSocket`);
    this.#socket.fail(why);
  }
}
