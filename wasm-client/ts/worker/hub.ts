/** Shares one connection to a relay among several pages. */

import { LargeStream, readHere, type LargeSocket } from "../link/large_stream.js";
import type { LargeRecord } from "../link/records.js";
import { ReplyBody, RequestBody } from "../schema.js";
import { cancel, Frame, NO_ID, pace, Request, unsubscribe } from "./wire.js";

/**
 * The port to a page: carries frames, frames of the stream with their head lengths, and at the end
 * a close code.
 */
export interface PagePort {
  postMessage(message: ArrayBuffer | LargeRecord | number, transfer: Transferable[]): void;
}

/** A page with this many unacknowledged frames is disconnected; it reconnects by itself. */
const MAX_UNACKNOWLEDGED_FRAMES = 1000;
const MAX_UNACKNOWLEDGED_BYTES = 1 << 28;

/** Maximum number of open requests; the relay accepts 64. */
const MAX_OPEN = 60;

/** Maximum number of ids in one Unsubscribe. */
const MAX_IDS = 10_000;

/** From this frame size on, a stream in addition to the WebSocket pays off. */
const LARGE_BYTES = 1 << 16;

/** The code of a connection that was cut. */
const CUT = 1006;

/** The relay's code for a client that took no data. */
const TOOK_NOTHING = 4408;

interface Page {
  readonly port: PagePort;
  /** PVs that it has subscribed. */
  readonly ids: Set<number>;
  /** It has received a snapshot, so that it can interpret updates. */
  started: boolean;
  /** Its interval of updates; 0 for every update. */
  intervalMs: number;
  /** Frames sent to it since its last message. */
  unacknowledgedFrames: number;
  unacknowledgedBytes: number;
}

/** An open request, and its number at the page. */
interface Open {
  readonly page: Page | undefined;
  readonly id: number;
  readonly kind: number;
}

/**
 * One connection, opened for the first page and closed after the last one. Frames name no client,
 * so each page gets the frames of all; only answers go to the page that asked.
 */
export class Hub {
  #connect: () => WebSocket;
  #socket: WebSocket | undefined;
  #large: LargeStream | undefined;
  /** The same for every connection, because failed streams are counted per socket. */
  readonly #streamed: LargeSocket;
  #hello: ArrayBuffer | undefined;
  /** The newest list of relays, if the relay has sent one after its Hello. */
  #relays: ArrayBuffer | undefined;
  #pages = new Set<Page>();
  #open = new Map<number, Open>();
  #waiting: { page: Page | undefined; request: Request }[] = [];
  #lastId = 0;
  #subscribesOpen = 0;
  #ackedTick = 0n;
  #intervalMs = 0;
  #authenticates = false;

  constructor(url: string, connect: () => WebSocket) {
    this.#connect = connect;
    this.#streamed = {
      url,
      send: (bytes) => {
        this.#socket?.send(bytes);
      },
      fail: () => {
        this.#end(CUT);
      },
    };
  }

  /**
   * Adds a page. Returns a function that takes its requests; `undefined` means that the page
   * leaves.
   */
  join(port: PagePort): (request: ArrayBuffer | undefined) => void {
    const page: Page = {
      port,
      ids: new Set(),
      started: false,
      intervalMs: 0,
      unacknowledgedFrames: 0,
      unacknowledgedBytes: 0,
    };
    this.#pages.add(page);
    this.#socket ??= this.#begin();
    if (this.#hello !== undefined) this.#post(page, this.#hello.slice(0));
    if (this.#relays !== undefined) this.#post(page, this.#relays.slice(0));
    this.#pace();
    return (data) => {
      if (!this.#pages.has(page)) return;
      if (data === undefined) this.#leave(page);
      else this.#request(page, data);
    };
  }

  #begin(): WebSocket {
    const socket = this.#connect();
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }: MessageEvent<unknown>) => {
      if (this.#large?.takes(data)) return;
      if (data instanceof ArrayBuffer) this.#received(data, data.byteLength);
    };
    socket.onclose = ({ code }) => {
      this.#end(code);
    };
    return socket;
  }

  readonly #received = (data: ArrayBuffer, head: number): void => {
    // One stream serves all pages, like the connection.
    if (data.byteLength >= LARGE_BYTES) {
      this.#large ??= new LargeStream(this.#streamed, this.#received, readHere);
    }
    this.#frame(new Frame(data, head));
  };

  /** The connection was lost; every page opens the next one itself. */
  #end(code: number): void {
    const pages = [...this.#pages];
    this.#forget();
    for (const { port } of pages) port.postMessage(code, []);
  }

  #forget(): void {
    const socket = this.#socket;
    this.#large?.close();
    this.#large = undefined;
    this.#socket = undefined;
    this.#hello = undefined;
    this.#relays = undefined;
    this.#pages.clear();
    this.#open.clear();
    this.#waiting = [];
    this.#subscribesOpen = 0;
    this.#ackedTick = 0n;
    this.#intervalMs = 0;
    this.#authenticates = false;
    if (socket === undefined) return;
    socket.onmessage = null;
    socket.onclose = null;
    if (socket.readyState < 2) socket.close(1000);
  }

  #leave(page: Page): void {
    this.#pages.delete(page);
    if (this.#pages.size === 0) {
      this.#forget();
      return;
    }
    for (const [id, open] of this.#open) {
      if (open.page === page && open.kind === RequestBody.Ask) this.#send(cancel(id));
    }
    this.#giveBack([...page.ids]);
    this.#pace();
  }

  /** Ends subscriptions that no other page has. */
  #giveBack(ids: readonly number[]): void {
    for (let at = 0; at < ids.length; at += MAX_IDS) {
      this.#waiting.push({ page: undefined, request: unsubscribe(ids.slice(at, at + MAX_IDS)) });
    }
    this.#pump();
  }

  #request(page: Page, data: ArrayBuffer): void {
    page.unacknowledgedFrames = 0;
    page.unacknowledgedBytes = 0;
    // A page's empty message requests a stream of large values; the hub requests the stream itself.
    if (data.byteLength === 0) return;
    const request = new Request(data);
    switch (request.kind) {
      case RequestBody.Ack:
        // The fastest page acknowledges for all: slower pages are checked here.
        if (request.tick <= this.#ackedTick) break;
        this.#ackedTick = request.tick;
        this.#send(request);
        break;
      case RequestBody.Pace:
        page.intervalMs = request.intervalMs;
        this.#pace();
        break;
      case RequestBody.Cancel:
        this.#cancel(page, request);
        break;
      case RequestBody.Describe:
        // It has no answer, and its result is for all pages that show the PV.
        this.#send(request);
        break;
      case RequestBody.Authenticate:
        // Sent only once: the pages of one origin have one user.
        if (this.#authenticates) break;
        this.#authenticates = true;
        this.#forward(page, request);
        break;
      default:
        this.#waiting.push({ page, request });
        this.#pump();
    }
  }

  /** A page wants no further answer to its request. */
  #cancel(page: Page, request: Request): void {
    const { cancelled } = request;
    for (const [id, open] of this.#open) {
      if (open.page !== page || open.id !== cancelled[0]) continue;
      cancelled[0] = id;
      this.#send(request);
      return;
    }
  }

  /** Uses the shortest interval of all pages. */
  #pace(): void {
    const intervalMs = Math.min(...[...this.#pages].map((page) => page.intervalMs));
    if (intervalMs === this.#intervalMs || this.#hello === undefined) return;
    this.#intervalMs = intervalMs;
    this.#send(pace(intervalMs));
  }

  #pump(): void {
    while (this.#open.size < MAX_OPEN) {
      const [first] = this.#waiting;
      if (first === undefined) return;
      // The answer to an open Subscribe may contain one of the PVs to be released.
      if (first.request.kind === RequestBody.Unsubscribe && this.#subscribesOpen > 0) return;
      this.#waiting.shift();
      this.#forward(first.page, first.request);
    }
  }

  #forward(page: Page | undefined, request: Request): void {
    const { id, kind } = request;
    if (kind === RequestBody.Unsubscribe) {
      const { ids } = request;
      ids.forEach((pv, at) => {
        page?.ids.delete(pv);
        // The relay ignores this id, which belongs to no PV.
        if ([...this.#pages].some((other) => other.ids.has(pv))) ids[at] = NO_ID;
      });
      if (page === undefined && ids.every((pv) => pv === NO_ID)) return;
    } else if (kind === RequestBody.Subscribe) {
      this.#subscribesOpen += 1;
    }
    const first = this.#lastId + 1;
    this.#lastId += request.answers;
    for (let at = 0; at < request.answers; at += 1) {
      this.#open.set(first + at, { page, id: id + at, kind });
    }
    request.id = first;
    this.#send(request);
  }

  #send({ data }: Request): void {
    if (this.#socket?.readyState === 1) this.#socket.send(new Uint8Array(data));
  }

  #frame(frame: Frame): void {
    if (frame.reply === ReplyBody.Hello) {
      this.#open.clear();
      this.#hello = frame.data;
      for (const page of this.#pages) this.#post(page, frame.data.slice(0));
      return;
    }
    if (frame.reply === ReplyBody.Relays) {
      this.#relays = frame.data;
      for (const page of this.#pages) this.#post(page, frame.data.slice(0));
      return;
    }
    if (frame.reply === ReplyBody.NONE) {
      this.#broadcast(frame);
      return;
    }
    const open = this.#open.get(frame.replyTo);
    if (!frame.hasMore) this.#open.delete(frame.replyTo);
    if (open?.kind === RequestBody.Subscribe) this.#subscribesOpen -= 1;
    const page = open?.page !== undefined && this.#pages.has(open.page) ? open.page : undefined;
    if (frame.isData) {
      // It moves the connection's tick, on which the next frames of the other pages depend.
      for (const other of this.#pages) {
        if (other !== page && other.started) this.#post(other, frame.withoutReply(), frame.head);
      }
    }
    if (frame.reply === ReplyBody.Subscribed) {
      const ids = [...frame.ids].filter((id) => id !== NO_ID);
      if (page === undefined) this.#giveBack(ids);
      else {
        for (const id of ids) page.ids.add(id);
        page.started = true;
      }
    }
    if (page !== undefined) this.#post(page, frame.answering(open?.id ?? 0), frame.head);
    this.#pump();
  }

  #broadcast({ data, head }: Frame): void {
    const pages = [...this.#pages].filter(({ started }) => started);
    // One of the pages gets the message itself, the others copies.
    pages.forEach((page, at) => {
      this.#post(page, at + 1 < pages.length ? data.slice(0) : data, head);
    });
  }

  #post(page: Page, data: ArrayBuffer, head = data.byteLength): void {
    page.unacknowledgedFrames += 1;
    page.unacknowledgedBytes += data.byteLength;
    if (
      page.unacknowledgedFrames > MAX_UNACKNOWLEDGED_FRAMES ||
      page.unacknowledgedBytes > MAX_UNACKNOWLEDGED_BYTES
    ) {
      page.port.postMessage(TOOK_NOTHING, []);
      this.#leave(page);
      return;
    }
    page.port.postMessage(head < data.byteLength ? { data, head } : data, [data]);
  }
}
