/** Puts large values of the stream back into the order of the WebSocket's messages. */

import { readRecords, type LargeRecord } from "./records.js";

/**
 * Fetches a body and gives its records, or says why there are no more; what it returns ends it.
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

/** After this number of streams without data a client asks for no more. */
const TRIES = 3;

/** Streams that brought nothing, in a row. */
const failures = new WeakMap<LargeSocket, number>();

/**
 * The large values of one connection. The relay announces each by an empty message among those of
 * the WebSocket; what comes after an announcement waits until the value is there. As long as it
 * isn't known that the body gets through, large values come over the WebSocket, and if it doesn't
 * they stay there.
 */
export class LargeStream {
  #socket: LargeSocket;
  #apply: (data: ArrayBuffer, head: number) => void;
  #read: Reader;
  /** Messages of the WebSocket that wait; the first is an announcement. */
  #waiting: ArrayBuffer[] = [];
  #records: LargeRecord[] = [];
  #open = false;
  #closed = false;
  #stop: () => void = () => undefined;

  /** `apply` takes a message, of which so much comes before its array's elements. */
  constructor(socket: LargeSocket, apply: (data: ArrayBuffer, head: number) => void, read: Reader) {
    this.#socket = socket;
    this.#apply = apply;
    this.#read = read;
    const before = failures.get(socket) ?? 0;
    if (before >= TRIES) return;
    failures.set(socket, before + 1);
    this.#step();
  }

  /** Handles a message of the WebSocket if it belongs to the stream. */
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
          this.#lost(reason);
        },
      );
      return true;
    }
    const isData = message instanceof ArrayBuffer;
    if (!isData || (message.byteLength > 0 && this.#waiting.length === 0)) return false;
    this.#waiting.push(message);
    this.#advance();
    return true;
  }

  /** Ends the stream; what it has is discarded. */
  close(): void {
    this.#stop();
    this.#waiting = [];
    this.#records = [];
    this.#closed = true;
  }

  /** Asks where the stream is, and later for its use. */
  #step(): void {
    this.#socket.send(new Uint8Array());
  }

  #record(record: LargeRecord): void {
    if (this.#closed) return;
    if (this.#open) {
      failures.delete(this.#socket);
      this.#records.push(record);
      this.#advance();
    } else {
      // The first is empty and says that bodies get through.
      this.#open = true;
      this.#step();
    }
  }

  /** Applies the messages that wait, up to the first whose value isn't there yet. */
  #advance(): void {
    for (;;) {
      const [message] = this.#waiting;
      if (message === undefined) return;
      const isAnnounced = message.byteLength === 0;
      const next = isAnnounced
        ? this.#records.shift()
        : { data: message, head: message.byteLength };
      if (next === undefined) return;
      this.#waiting.shift();
      this.#apply(next.data, next.head);
    }
  }

  #lost(reason: string): void {
    // Large values go on over the WebSocket where no body gets through.
    if (this.#open && !this.#closed) this.#socket.fail(`the stream of large values: ${reason}`);
  }
}
