/**
 * Questions of one client to services of its relay, and their answers. Their requests are written here, so that
 * pages that ask nothing don't load the code for it.
 */

import type { Lazy } from "../lazy.js";
import type { Clock } from "../clock.js";
import type { AskError, LoadError } from "../errors.js";
import type { Applied, Wasm } from "../store/core.js";
import type * as archiveOf from "../history/archive.js";
import type * as pagesOf from "../history/pages.js";
import type { Loader } from "../store/loader.js";
import type {
  ClientOptions,
  NamesOptions,
  NamesResult,
  PvAbout,
  PvHistory,
  PvHistoryOptions,
} from "../types.js";
import type { Link } from "./link.js";

/** What the client's own code has: it is passed in, so that this file imports nothing and is loaded alone. */
interface Parts {
  readonly AskError: typeof AskError;
  readonly Lazy: typeof Lazy;
  readonly Loader: typeof Loader;
}

/** Maximum number of open questions; the relay accepts 8. */
const MAX_OPEN = 6;

const DEFAULT_TIMEOUT_MS = 5000;

/** A long past has some hundred pages, and an archiver may take its time. */
const HISTORY_TIMEOUT_MS = 60_000;

/** Maximum length of the text of a search for names; no name is longer. */
const MAX_TEXT_BYTES = 512;

interface Job {
  readonly service: string;
  readonly question: string;
  readonly pages: ArrayBuffer[];
  /** Ends the job with its pages, or with an error. */
  readonly end: (error?: unknown) => void;
}

const DONE = 1;

/** Kinds of requests, see the union `RequestBody` of `schema/fbs/request.fbs`. */
const ASK = 13;
const CANCEL = 14;

/** Fields of `Frame` and `AnswerPage`, see `schema/fbs/frame.fbs`. */
const REPLY = 12;
const LAST = 3;

/** The first number of a question; the engine numbers its own requests from 1. */
const FIRST_QUESTION = 0x8000_0000;

const utf8 = new TextEncoder();

/** Codes of the outcomes that end an answer, by the wire's numbers. */
const CODES: Readonly<Record<number, string>> = {
  2: "NOT_ALLOWED",
  4: "BAD_VALUE",
  7: "FAILED",
  8: "TIMED_OUT",
  9: "INTERRUPTED",
  10: "BAD_NAME",
  11: "NOT_SUPPORTED",
  12: "WITHHELD",
};

/**
 * A request as its parts lie in the message: the root, the table `Request` with its vtable, and a body of one or
 * two fields with its vtable.
 */
function request(id: number, kind: number, body: readonly number[]): Uint32Array<ArrayBuffer> {
  const head = [20, 0x5257_5650, 10 | (16 << 16), 4 | (12 << 16), 8, 12, id];
  return Uint32Array.from([...head, 16, kind, ...body]);
}

/** An `Ask`: the positions of its two fields are those of the service's name and of the question. */
function ask(id: number, service: string, question: string): Uint8Array<ArrayBuffer> {
  const parts = [utf8.encode(service), utf8.encode(question)] as const;
  // Each has its length in front and at least one zero behind.
  const [first, second] = parts.map(({ length }) => 4 + 4 * Math.floor(length / 4 + 1)) as [
    number,
    number,
  ];
  const body = [8 | (12 << 16), 4 | (8 << 16), 8, 8, 4 + first];
  const head = request(id, ASK, body);
  const bytes = new Uint8Array(head.byteLength + first + second);
  const view = new DataView(bytes.buffer);
  bytes.set(new Uint8Array(head.buffer));
  let at = head.byteLength;
  for (const part of parts) {
    view.setUint32(at, part.length, true);
    bytes.set(part, at + 4);
    at += first;
  }
  return bytes;
}

/** A `Cancel` of the question with this number. */
const cancel = (id: number): Uint8Array =>
  new Uint8Array(request(0, CANCEL, [6 | (8 << 16), 4, 8, id]).buffer);

/** Whether the page in a message is the last one of its answer: `Frame.reply.last`. */
function isLast(data: ArrayBuffer): boolean {
  const view = new DataView(data);
  const follow = (at: number): number => at + view.getUint32(at, true);
  const place = (table: number, field: number): number => {
    const vtable = table - view.getInt32(table, true);
    const entry = 4 + 2 * field;
    const offset = entry < view.getUint16(vtable, true) ? view.getUint16(vtable + entry, true) : 0;
    return offset === 0 ? 0 : table + offset;
  };
  const last = place(follow(place(follow(0), REPLY)), LAST);
  return last !== 0 && view.getUint8(last) !== 0;
}

const parsed = (page?: ArrayBuffer): unknown => JSON.parse(new TextDecoder().decode(page));

export class Questions {
  #clock: Clock;
  #link: Link;
  /** Only when the module is loaded. */
  #wasm: () => Wasm;
  #AskError: typeof AskError;
  #archiveWasm: ClientOptions["archiveWasm"];
  #Loader: typeof Loader;
  #pages: Lazy<typeof pagesOf>;
  #archive: Lazy<typeof archiveOf>;
  #waiting: Job[] = [];
  #open = new Map<number, Job>();
  #sent = 0;

  constructor(
    clock: Clock,
    link: Link,
    wasm: () => Wasm,
    { archiveWasm }: ClientOptions,
    { AskError, Lazy, Loader }: Parts,
  ) {
    this.#archiveWasm = archiveWasm;
    this.#AskError = AskError;
    this.#Loader = Loader;
    this.#pages = new Lazy(() => import("../history/pages.js"));
    this.#archive = new Lazy(() => import("../history/archive.js"));
    this.#clock = clock;
    this.#link = link;
    this.#wasm = wasm;
  }

  async names(text: string, options: NamesOptions): Promise<NamesResult> {
    const { after, limit } = options;
    if (utf8.encode(text).length > MAX_TEXT_BYTES) {
      throw new this.#AskError(
        "BAD_VALUE",
        `the text is longer than ${String(MAX_TEXT_BYTES)} bytes`,
      );
    }
    const pages = await this.#ask("names", JSON.stringify({ text, limit, after }), options);
    const parts = pages.map((page) => parsed(page) as NamesResult);
    const next = parts.at(-1)?.next;
    const names = parts.flatMap((part) => part.names);
    return next === undefined ? { names } : { names, next };
  }

  async about(name: string): Promise<PvAbout> {
    const [page] = await this.#ask("about", JSON.stringify({ pv: name }), {});
    return parsed(page) as PvAbout;
  }

  async history(name: string, options: PvHistoryOptions): Promise<PvHistory> {
    const { joined, question } = await this.#pages.load();
    const { signal } = options;
    const timeoutMs = HISTORY_TIMEOUT_MS;
    const limits = signal === undefined ? { timeoutMs } : { timeoutMs, signal };
    const pages = await this.#ask("history", question(name, options), limits);
    const { archived: range, kept } = joined(name, pages);
    if (range === undefined) return kept;
    let archive;
    try {
      archive = await this.#archive.load();
    } catch (error) {
      return { ...kept, archiveError: error as LoadError };
    }
    const ask = (body: string): Promise<ArrayBuffer[]> => this.#ask("archiver", body, limits);
    return archive.withArchive(kept, {
      Loader: this.#Loader,
      wasm: this.#archiveWasm,
      range,
      options,
      ask,
    });
  }

  /** The pages of the answer to the question what was missed. */
  missed(question: string): Promise<ArrayBuffer[]> {
    return this.#ask("missed", question, { timeoutMs: HISTORY_TIMEOUT_MS });
  }

  /** The pages of the answer to a question. */
  #ask(
    service: string,
    question: string,
    options: Pick<NamesOptions, "signal" | "timeoutMs">,
  ): Promise<ArrayBuffer[]> {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        this.#cancel(job, signal?.reason);
      };
      const timer = this.#clock.setTimeout(() => {
        const message = `no answer within ${String(timeoutMs)} ms`;
        this.#cancel(job, new this.#AskError("TIMED_OUT", message));
      }, timeoutMs);
      const pages: ArrayBuffer[] = [];
      const job: Job = {
        service,
        question,
        pages,
        end: (error) => {
          this.#clock.clearTimeout(timer);
          signal?.removeEventListener("abort", abort);
          if (error === undefined) resolve(pages);
          // The reason of an aborted signal is what the caller has chosen.
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
          else reject(error);
        },
      };
      if (signal?.aborted === true) {
        job.end(signal.reason);
        return;
      }
      signal?.addEventListener("abort", abort);
      this.#waiting.push(job);
      this.pump();
    });
  }

  /** Sends as many questions as possible; without a connection, ends all. */
  pump(): void {
    const { connection, isOpen } = this.#link;
    const { reason, state } = connection.getSnapshot();
    if (!isOpen) {
      if (state !== "lost" && state !== "closed") return;
      const code = state === "lost" ? "RELAY_LOST" : "CLOSED";
      const jobs = [...this.#open.values(), ...this.#waiting];
      this.#open.clear();
      this.#waiting = [];
      for (const job of jobs) job.end(new this.#AskError(code, reason ?? state));
      return;
    }
    while (this.#open.size < MAX_OPEN) {
      const job = this.#waiting.shift();
      if (job === undefined) return;
      const id = FIRST_QUESTION + this.#sent;
      this.#sent = (this.#sent + 1) % FIRST_QUESTION;
      this.#open.set(id, job);
      this.#link.send(ask(id, job.service, job.question));
    }
  }

  /** A page came in the message in `data`. */
  answered({ arrays, replyTo: request }: Applied, data: ArrayBuffer): void {
    const { core } = this.#wasm();
    const [, offset = 0, length = 0] = arrays;
    const job = this.#open.get(request);
    if (job === undefined) return;
    const outcome = core.outcome();
    if (outcome === DONE) {
      job.pages.push(data.slice(offset, offset + length));
    }
    if (outcome === DONE && !isLast(data)) return;
    this.#open.delete(request);
    if (outcome === DONE) job.end();
    else job.end(new this.#AskError(CODES[outcome] ?? "UNKNOWN", core.request_error()));
    this.pump();
  }

  /** A request was refused as a whole; returns `false` if it wasn't one of these. */
  refused(request: number, message: string): boolean {
    const job = this.#open.get(request);
    if (job === undefined) return false;
    this.#open.delete(request);
    const why = `the relay answers no questions; its operator updates it (${message})`;
    job.end(new this.#AskError("NOT_SUPPORTED", why));
    this.pump();
    return true;
  }

  /** The caller wants no answer any more. */
  #cancel(job: Job, reason: unknown): void {
    this.#waiting = this.#waiting.filter((waiting) => waiting !== job);
    for (const [request, open] of this.#open) {
      if (open !== job) continue;
      this.#open.delete(request);
      this.#link.request(() => cancel(request));
    }
    job.end(reason);
    this.pump();
  }
}
