/** The relay's status, as `/status` gives it. */

import { t } from "pvwire";

export interface Status {
  readonly version: string;
  readonly instance: string;
  readonly uptimeSeconds: number;
  readonly clients: number;
  readonly pvs: Readonly<Record<"connected" | "connecting" | "disconnected" | "notFound", number>>;
  readonly updatesReceived: number;
  readonly updatesSent: number;
  readonly bytesSent: number;
  readonly updatesSkipped: Readonly<Record<"relay" | "source" | "behind", number>> & {
    readonly bus?: number;
  };
  /** The first ones by name. */
  readonly list: readonly ListedPv[];
  /** Whose lists of names the relay reads; `failure` says why it can't and who must act. */
  readonly nameServices?: readonly {
    readonly kind: string;
    readonly address: string;
    readonly failure: string | null;
  }[];
  /** How old updates were when they were sent, by buckets that end at these ages. */
  readonly updateAge?: {
    readonly endsMilliseconds: readonly number[];
    readonly sent: { readonly counts: readonly number[] };
  };
  /** Those that are behind, and those that were sent most. */
  readonly clientList?: readonly ListedClient[];
  /** Whether this page's user may disconnect clients. */
  readonly mayDisconnect?: boolean;
  readonly servers: readonly {
    readonly name: string;
    readonly pvs: number;
    readonly connected?: number;
    readonly bytes: number;
  }[];
  readonly sources?: readonly {
    readonly name: string;
    readonly pvs: number;
    readonly connected: number;
    readonly updates: number;
    readonly bytes: number;
  }[];
  /** The relays that share PVs, this one included. */
  readonly fleet?: readonly {
    readonly id: string;
    readonly name: string;
    readonly role: string;
    readonly pvs: number;
    readonly clients: number;
    readonly uptimeSeconds: number;
    readonly version: string | null;
    readonly draining: boolean;
    readonly thisRelay: boolean;
  }[];
  readonly monitors: number;
  readonly shortOfMemory: boolean;
  readonly memoryBytes?: number | null;
  /** Puts and calls that were answered. */
  readonly operations?: number;
  /** What the operator has set; 0 is no limit. */
  readonly limits?: Readonly<
    Record<"clients" | "pvs" | "memoryBytes" | "subscriptionsPerClient" | "putsPerSecond", number>
  >;
}

export interface ListedPv {
  readonly name: string;
  readonly state: string;
  readonly clients: number;
  readonly server: string | null;
}

export interface ListedClient {
  readonly id: string;
  readonly address: string;
  readonly user: string | null;
  readonly seconds: number;
  readonly bytes: number;
  readonly inStep: boolean;
  readonly behind: boolean;
  /** Number of its PVs, if the relay knows it. */
  readonly pvs: number | null;
  readonly unsent: {
    readonly bytes: number;
    readonly updates: number;
    readonly ageMilliseconds: number | null;
  };
  readonly skipped: number;
}

interface PvsOfClient {
  readonly names: readonly string[];
  /** The next page follows this name. */
  readonly next: string | null;
}

type Result<T> =
  { readonly ok: true; readonly data: T } | { readonly ok: false; readonly why: string };

const refusalText = (status: number): string =>
  status === 401
    ? t`the relay shows it after a login`
    : status === 403
      ? t`the relay doesn't show it to you`
      : status === 404
        ? t`the relay shows it to operators only, at another address`
        : t`the relay answers ${status}`;

async function read<T>(path: string, signal: AbortSignal): Promise<Result<T>> {
  const headers = { Accept: "application/json" };
  const answer = await fetch(path, { cache: "no-store", headers, signal });
  if (!answer.ok) return { ok: false, why: refusalText(answer.status) };
  return { ok: true, data: (await answer.json()) as T };
}

async function readPage<T>(path: string, signal: AbortSignal): Promise<Result<T>> {
  const result = await read<T>(path, signal).catch(() => undefined);
  return result ?? { ok: false, why: t`the relay doesn't answer` };
}

export const readStatus = (signal: AbortSignal): Promise<Result<Status>> => read("status", signal);

export interface FoundPvs {
  readonly pvs: readonly ListedPv[];
  /** More may follow this name. */
  readonly next: string | null;
}

/** Up to `wanted` PVs by name that have these words, from up to `rounds` answers: each compares some thousands. */
export async function readPvs(
  words: string,
  wanted: number,
  rounds: number,
  signal: AbortSignal,
): Promise<Result<FoundPvs>> {
  const pvs: ListedPv[] = [];
  let next = "" as string | null;
  for (let round = 0; round < rounds && next !== null && pvs.length < wanted; round += 1) {
    const limit = String(wanted - pvs.length);
    const query = new URLSearchParams({ q: words, after: next, limit });
    const page = await readPage<FoundPvs>(`status/pvs?${query.toString()}`, signal);
    if (!page.ok) return page;
    pvs.push(...page.data.pvs);
    next = page.data.next;
  }
  return { ok: true, data: { pvs, next } };
}

const pathOf = (id: string): string => `status/clients/${encodeURIComponent(id)}`;

/** Names of a client's PVs that follow this one. */
export async function readPvsOf(
  id: string,
  after: string,
  signal: AbortSignal,
): Promise<Result<PvsOfClient>> {
  return readPage(`${pathOf(id)}?after=${encodeURIComponent(after)}`, signal);
}

/** Disconnects a client; returns why not. */
export async function disconnect(id: string): Promise<string | undefined> {
  const answer = await fetch(pathOf(id), { method: "DELETE" }).catch(() => undefined);
  if (answer === undefined) return t`the relay doesn't answer`;
  switch (answer.status) {
    case 200:
      return undefined;
    case 401:
      return t`the relay asks you to log in again`;
    case 403:
      return t`the relay's operator names who may do so, and you are not among them`;
    case 503:
      return t`the relay can't write its audit file, and disconnects no client without a record`;
    case 404:
      return t`it has left already, or the relay doesn't offer it here`;
    default:
      return t`the relay answers ${answer.status}`;
  }
}
