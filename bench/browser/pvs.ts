/** The PVs that are measured, and how Coniql describes one. */

export const PVS = 1000;
export const RATE_HZ = 10;

/** What is measured beside pvwire. */
export const PEERS = [
  "JSON.parse",
  "graphql-ws",
  "Apollo, no-cache",
  "Apollo, default cache",
] as const;

export type PeerName = (typeof PEERS)[number];

/** What a selection shows of a channel; `null` in a message says: as before. */
export interface Channel {
  readonly id: string;
  readonly value: { readonly float?: number | null; readonly string?: string } | null;
  readonly time?: { readonly datetime?: string; readonly seconds: number } | null;
  readonly status: { readonly quality: string } | null;
}

export const LIGHT = "{ id value { float } time { seconds } status { quality } }";
export const FULL = "{ id value { float string } time { datetime seconds } status { quality } }";
export const CELL = "{ id value { string } status { quality } }";

export const subscription = (selection: string): string =>
  `subscription Channel($id: ID!) { subscribeChannel(id: $id) ${selection} }`;

const periodS = (pv: number): number => 10 + pv / 100;

/** 1,000 sines that run through their alarm limits, each in its own time. */
export const pvNames = (): string[] =>
  Array.from(
    { length: PVS },
    (_, pv) =>
      `sim://sine(period_s=${String(periodS(pv))},offset=${String(pv)},rate_hz=${String(RATE_HZ)})`,
  );

/** What a widget shows of the same PV where there is no relay. */
export function cell(pv: number, epochMs: number): Channel {
  const wave = Math.sin((2 * Math.PI * (epochMs / 1000)) / periodS(pv));
  const distance = Math.abs(wave);
  return {
    id: `ca://PV${String(pv)}`,
    value: { string: (pv + wave).toFixed(3) },
    status: { quality: distance > 0.9 ? "ALARM" : distance > 0.7 ? "WARNING" : "VALID" },
  };
}

/** What a message says of an update. */
export const changes = (now: Channel, before: Channel | undefined): Channel =>
  now.status?.quality === before?.status?.quality ? { ...now, status: null } : now;

/** The same as Apollo asks for it. */
const withTypenames = ({ id, status, time, value }: Channel): object => ({
  __typename: "Channel",
  id,
  value: value && { __typename: "ChannelValue", ...value },
  ...(time === undefined ? {} : { time: time && { __typename: "ChannelTime", ...time } }),
  status: status && { __typename: "ChannelStatus", ...status },
});

/** A message of graphql-transport-ws. */
export const coniqlMessage = (operation: string, channel: Channel, typenames: boolean): string =>
  JSON.stringify({
    id: operation,
    type: "next",
    payload: { data: { subscribeChannel: typenames ? withTypenames(channel) : channel } },
  });

/** Pages that show the PVs from the relay. */
export const OWN_FEEDS = ["pvwire", "text nodes by hand", "Readback", "Readback by hand"] as const;

export type OwnFeed = (typeof OWN_FEEDS)[number];

export type FeedName = OwnFeed | PeerName;

export const isOwn = (feed: FeedName): feed is OwnFeed => OWN_FEEDS.some((own) => own === feed);
