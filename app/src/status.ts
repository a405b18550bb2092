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
  readonly updatesSkipped: Readonly<Record<"relay" | "source" | "behind", number>>;
  readonly list: readonly {
    readonly name: string;
    readonly state: string;
    readonly clients: number;
    readonly server: string | null;
  }[];
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
  /** The clients that were sent most. */
  readonly clientList?: readonly {
    readonly address: string;
    readonly user: string | null;
    readonly seconds: number;
    readonly bytes: number;
    readonly inStep: boolean;
  }[];
  readonly servers: readonly {
    readonly name: string;
    readonly pvs: number;
    readonly bytes: number;
  }[];
}

export type StatusResult =
  { readonly ok: true; readonly data: Status } | { readonly ok: false; readonly why: string };

const refusalText = (status: number): string =>
  status === 401
    ? t`the relay shows it after a login`
    : status === 403
      ? t`the relay doesn't show it to you`
      : status === 404
        ? t`the relay shows it to operators only, at another address`
        : t`the relay answers ${status}`;

export async function readStatus(signal: AbortSignal): Promise<StatusResult> {
  const headers = { Accept: "application/json" };
  const answer = await fetch("status", { cache: "no-store", headers, signal });
  if (!answer.ok) {
    return {
      ok: false,
      why: refusalText(answer.status),
    };
  }
  return { ok: true, data: (await answer.json()) as Status };
}
