/**
 * The reasons why connections end, and whether reconnecting helps; PROTOCOL.md contains the same
 * table.
 */

interface CloseCode {
  readonly reason: string;
  /** How to reconnect if not soon; `no` if reconnecting can't help. */
  readonly retry?: "slowly" | "no";
}

const CODES: Readonly<Record<number, CloseCode>> = {
  1000: { reason: "the relay ended the connection", retry: "no" },
  1001: { reason: "the relay goes away" },
  1002: { reason: "a message was damaged on its way to the relay" },
  1007: { reason: "a message was damaged on its way to the relay" },
  1009: { reason: "a request was too large", retry: "no" },
  1011: { reason: "fault of the relay" },
  1012: { reason: "the relay is restarting" },
  1013: { reason: "the relay is full" },
  4400: { reason: "the relay can't read this page's requests", retry: "no" },
  4401: { reason: "not logged in" },
  4403: { reason: "the page's rights have changed" },
  4408: { reason: "this page took no data" },
  4410: { reason: "an operator ended the connection" },
  4429: { reason: "too many requests at once", retry: "slowly" },
};

/** The default for any other code. */
const CUT: CloseCode = { reason: "the connection was cut" };

/** The meaning of a close code. */
export function closeCode(code: number): CloseCode {
  return CODES[code] ?? CUT;
}

const FIRST_DELAY_MS = 250;

/**
 * How long to wait before connecting again after `failures` attempts in a row have failed, or
 * `undefined` when it doesn't help. `random` is between 0 and 1.
 */
export function retryDelayMs(
  code: number,
  failures: number,
  random: number,
  maxDelayMs: number,
): number | undefined {
  const { retry } = closeCode(code);
  if (retry === "no") return undefined;
  if (retry === "slowly") return ((1 + random) * maxDelayMs) / 2;
  return random * Math.min(maxDelayMs, FIRST_DELAY_MS * 2 ** Math.min(failures, 30));
}

/** The first message of a worker to a page, before any close code: it is running. */
export const HERE = 0;
