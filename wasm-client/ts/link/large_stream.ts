/** Puts large values of the stream back into the order of the WebSocket's messages. */

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

/** After this number of streams without data a client requests no more. */
const TRIES = 3;

/** Number of consecutive streams without data. */
const failures = new WeakMap<LargeSocket, number>();

/**
 * The large values of one connection. The relay announces each by an empty WebSocket message;
 * messages after an announcement wait until the value has arrived. Until it is known that the body
 * gets through, large values are sent over the WebSocket, and if it doesn't get through, they
 * continue to be.
 */
export class LargeStream {
  #socket: LargeSocket;
  #apply: (data: ArrayBuffer, head: number) => void;
  #read: Reader;
  /** Waiting WebSocket messages; the first is an announcement. */
  #waiting: ArrayBuffer[] = [];
  #records: LargeRecord[] = [];
  #open = false;
  #closed = false;
  #stop: () => void = () => undefined;

  /** `apply` processes a message; `head` is the number of bytes before its array's elements. */
  constructor(socket: LargeSocket, apply: (data: ArrayBuffer, head: number) => void, read: Reader) {
    this.#socket = socket;
    this.#apply = apply;
    this.#read = read;
    const before = failures.get(socket) ?? 0;
    if (before >= TRIES) return;
    failures.set(socket, before + 1);
    this.#step();
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

  /** Ends the stream; its data is discarded. */
  close(): void {
    this.#stop();
    this.#waiting = [];
    this.#records = [];
    this.#closed = true;
  }

  /** Requests the address of the stream, and later its use. */
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
      // The first record is empty and shows that bodies get through.
      this.#open = true;
      this.#step();
    }
  }

  /** Applies the waiting messages, up to the first whose value hasn't arrived. */
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
    // If no body gets through, large values continue over the WebSocket.
    if (this.#open && !this.#closed) this.#socket.fail(`the stream of large values: ${reason}`);
  }
}
