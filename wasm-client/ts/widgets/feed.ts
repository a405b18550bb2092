/** Feeds the history of a strip chart with the past of its PV and its updates. */

import { MISSED_FIELDS, PastLoader, missedOf, type TakenUpdate } from "../history/loader.js";
import { timeOf } from "../history/moment.js";
import type { Pv, PvClient, PvConnection, PvDisplay, PvSkips, PvTime, PvValue } from "../types.js";
import type { History } from "./history.js";
import { pastRows } from "./past.js";

/** The fields of a PV that its history needs. */
export const POINT_FIELDS = `{
  value { number }
  time { seconds nanoseconds }
  display { type choices }
  connection { state connected unresponsive readable lastHeard }
  ${MISSED_FIELDS}
}`;

/** The result of POINT_FIELDS. */
export interface PointData {
  readonly value: Pick<PvValue, "number"> | null;
  readonly time: Pick<PvTime, "seconds" | "nanoseconds"> | null;
  readonly display: Pick<PvDisplay, "type" | "choices"> | null;
  readonly connection: Pick<
    PvConnection,
    "state" | "connected" | "unresponsive" | "readable" | "lastHeard"
  >;
  readonly skips: Pick<PvSkips, "behind" | "paced">;
}

/** About how many updates of the past are drawn: each column of a wide chart shows four. */
const PAST_POINTS = 8000;

/** The past begins so much before the left edge, because clocks differ. */
const MARGIN_SECONDS = 10;

interface FeedOptions {
  readonly client: PvClient;
  readonly name: string;
  readonly point: Pv<PointData>;
  readonly history: History;
  readonly signal: AbortSignal;
  /** Length of the time axis, in seconds. */
  readonly seconds: () => number;
  /** An answer was joined; `error`: why the archiver's samples are missing in it. */
  readonly onPast: (error: Error | undefined) => void;
}

/** Adds what is new of a PV to its history, with `take`; `show` is called with each length that is drawn. */
export function feed({ client, history, name, onPast, point, seconds, signal }: FeedOptions): {
  readonly take: () => void;
  readonly show: (seconds: number) => void;
} {
  /** Length of the past that is kept; before it is requested, nothing is missing. */
  let covered = Infinity;
  const loader = new PastLoader({
    client,
    name,
    signal,
    range: () => {
      covered = seconds();
      return { from: `-${String(Math.ceil(covered) + MARGIN_SECONDS)}s`, points: PAST_POINTS };
    },
    onMissing: () => {
      history.missing();
    },
    onPast: ({ isWhole, kept, past }) => {
      history.join(pastRows(past), past.sequence, Date.now() / 1000, {
        isJoined: kept !== undefined,
        isWhole,
      });
      onPast(past.archiveError);
    },
    // A relay that keeps no past: the chart begins with the first value.
    onFailed: () => undefined,
  });
  const take = taker(point, history, (update) => loader.seen(update));
  return {
    take: () => {
      if ((point.getSnapshot()?.connection.state ?? "connecting") === "connecting") loader.waits();
      else take();
    },
    show: (shown) => {
      if (shown > covered) loader.again();
      // What is older than the axis is dropped.
      else if (covered < Infinity) covered = shown;
    },
  };
}

const isPresent = ({ connection }: PointData): boolean =>
  connection.connected && connection.readable && !connection.unresponsive;

/** A function that adds what is new of a PV to its history. */
export function taker(
  point: Pv<PointData>,
  history: History,
  sequence: (update: TakenUpdate | undefined) => number | undefined = () => undefined,
): () => void {
  let last: PointData | undefined;
  return () => {
    const data = point.getSnapshot();
    const before = last;
    last = data;
    if (data === undefined || data.connection.state === "connecting") return;
    const now = Date.now() / 1000;
    const value = isPresent(data) ? data.value : null;
    if (value === null) {
      sequence(undefined);
      const { lastHeard } = data.connection;
      const lastSeen = lastHeard === null ? undefined : Date.parse(lastHeard) / 1000;
      history.add(now, { value: undefined, stamp: undefined, lastSeen });
      return;
    }
    const isSame = before?.value === value && before.time === data.time && isPresent(before);
    // Another part has changed.
    if (isSame) return;
    const { skips, time } = data;
    const number = value.number ?? NaN;
    const timeNs = time === null ? undefined : timeOf(time);
    history.add(now, {
      value: number,
      stamp: time?.seconds,
      sequence: sequence({ number, timeNs, missed: missedOf(skips) }),
    });
  };
}
