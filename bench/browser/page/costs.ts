/** Time of one update in JavaScript's thread, without the network and without widgets. */

import { createGraphqlClient } from "pvwire/graphql";

import {
  FULL,
  LIGHT,
  changes,
  coniqlMessage,
  PVS,
  subscription,
  type Channel,
  type PeerName,
} from "../pvs";
import { startPeer, subscribeWithApollo, type OnChannel } from "./peers";
import { packed, play, record, unpacked, type Recording } from "./recording";

/** Frames that are sent as JSON: each is 1,000 messages. */
const JSON_FRAMES = 12;

const RECORD_MS = 3000;

/** One way from a message to a callback: takes a frame's updates. */
type Way = (frame: number) => void | Promise<void>;

const PVWIRE = {
  decode_ns: { selection: "{ display { units } }", read: false, calls: 0 },
  callback_ns: { selection: LIGHT, read: false, calls: PVS },
  light_ns: { selection: LIGHT, read: true, calls: PVS },
  full_ns: { selection: FULL, read: true, calls: PVS },
  everything_ns: { selection: undefined, read: true, calls: PVS },
} as const;

const GRAPHQL = {
  graphql_light_ns: { selection: LIGHT, apollo: false },
  graphql_full_ns: { selection: FULL, apollo: false },
  graphql_apollo_ns: { selection: FULL, apollo: true },
} as const;

const PEER = {
  json_parse_ns: "JSON.parse",
  graphql_ws_ns: "graphql-ws",
  apollo_no_cache_ns: "Apollo, no-cache",
  apollo_default_cache_ns: "Apollo, default cache",
} as const satisfies Record<string, PeerName>;

/** Named as the figures that they lead to. */
export type WayName = keyof typeof PVWIRE | keyof typeof GRAPHQL | keyof typeof PEER;

export interface Sizes {
  readonly updates_per_frame: number;
  readonly bytes_per_update: number;
  readonly json_bytes_per_update: number;
}

/** Frames that hold an update of every PV, as text that other pages can be given. */
export async function recordScans(
  url: string,
  names: readonly string[],
): Promise<{ readonly recording: string; readonly sizes: Sizes }> {
  const { recording, updatesPerFrame } = await withoutFlushes(async () =>
    wholeScans(await record(url, names, RECORD_MS), names),
  );
  const channels = await withoutFlushes(() => channelsOf(recording, names));
  const bytes = recording.frames.reduce((sum, frame) => sum + frame.byteLength, 0);
  const json = toldAsJson(channels, false).flat();
  return {
    recording: packed(recording),
    sizes: {
      updates_per_frame: updatesPerFrame,
      bytes_per_update: bytes / recording.frames.length / updatesPerFrame,
      json_bytes_per_update: json.reduce((sum, { length }) => sum + length, 0) / json.length,
    },
  };
}

let way: Way | undefined;
let frame = 0;

/** Makes everything ready for one way. */
export async function startWay(
  name: WayName,
  recording: string,
  names: readonly string[],
): Promise<void> {
  stealAnimationFrames();
  const unpackedRecording = unpacked(recording);
  if (name in PVWIRE) {
    way = await pvwire(unpackedRecording, names, PVWIRE[name as keyof typeof PVWIRE]);
  } else if (name in GRAPHQL) {
    way = await graphql(unpackedRecording, names, GRAPHQL[name as keyof typeof GRAPHQL]);
  } else {
    const peerName = PEER[name as keyof typeof PEER];
    const channels = await channelsOf(unpackedRecording, names);
    way = await peer(peerName, toldAsJson(channels, peerName.startsWith("Apollo")));
  }
}

/** Takes frames for so long; says how many. */
export async function runWay(ms: number): Promise<number> {
  const began = performance.now();
  let frames = 0;
  while (frames === 0 || performance.now() - began < ms) {
    const waiting = way?.(frame);
    if (waiting !== undefined) await waiting;
    frame += 1;
    frames += 1;
  }
  return frames;
}

/** Lets timers and what else waits run. */
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

let flush: FrameRequestCallback | undefined;

/** The client tells of changes when `flush` is called, not when the screen is painted. */
function stealAnimationFrames(): () => void {
  const request = window.requestAnimationFrame.bind(window);
  const cancel = window.cancelAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) => {
    flush = callback;
    return 1;
  };
  window.cancelAnimationFrame = () => {
    flush = undefined;
  };
  return () => {
    window.requestAnimationFrame = request;
    window.cancelAnimationFrame = cancel;
  };
}

async function withoutFlushes<T>(work: () => Promise<T>): Promise<T> {
  const restore = stealAnimationFrames();
  try {
    return await work();
  } finally {
    restore();
  }
}

/** The most frames in a row that have an update of every PV; those before them belong to the opening. */
async function wholeScans(
  recording: Recording,
  names: readonly string[],
): Promise<{ recording: Recording; updatesPerFrame: number }> {
  const { client, give } = await play(recording, (client) => {
    for (const name of names) client.pv(name, LIGHT).subscribe(() => undefined);
  });
  const received = (): number =>
    names.reduce((sum, name) => sum + (client.inspect(name)?.updatesReceived ?? 0), 0);
  const rows = recording.frames.map((frame) => {
    const before = received();
    give(frame);
    return received() - before;
  });
  flush?.(0);
  client.dispose();
  let [from, to] = [0, 0];
  for (let start = 0; start < rows.length; start += 1) {
    let end = start;
    while ((rows[end] ?? 0) >= names.length) end += 1;
    if (end - start > to - from) [from, to] = [start, end];
  }
  if (to - from < JSON_FRAMES) {
    throw new Error(`only ${String(to - from)} of the relay's frames in a row hold a whole scan`);
  }
  const { frames, hello, opening } = recording;
  return {
    recording: {
      hello,
      opening: [...opening, ...frames.slice(0, from)],
      frames: frames.slice(from, to),
    },
    updatesPerFrame: rows.slice(from, to).reduce((sum, count) => sum + count, 0) / (to - from),
  };
}

/** What each PV shows after each of the first frames. */
async function channelsOf(recording: Recording, names: readonly string[]): Promise<Channel[][]> {
  const { client, give } = await play(recording, (client) => {
    for (const name of names) client.pv(name, FULL).subscribe(() => undefined);
  });
  const channels = recording.frames.slice(0, JSON_FRAMES).map((frame) => {
    give(frame);
    flush?.(0);
    return names.map((name) => client.pv<Channel>(name, FULL).getSnapshot() as Channel);
  });
  client.dispose();
  return channels;
}

const toldAsJson = (channels: readonly Channel[][], typenames: boolean): string[][] =>
  channels.map((scan, frame) =>
    scan.map((channel, pv) =>
      coniqlMessage(String(pv), changes(channel, channels[frame - 1]?.[pv]), typenames),
    ),
  );

/** Kept, so that nothing that is read can be left out by the compiler. */
let kept: unknown;

async function pvwire(
  recording: Recording,
  names: readonly string[],
  { read, selection, calls }: { selection: string | undefined; read: boolean; calls: number },
): Promise<Way> {
  let called = 0;
  const { give } = await play(recording, (client) => {
    for (const name of names) {
      const pv = client.pv<Channel>(name, selection);
      pv.subscribe(() => {
        called += 1;
        kept = read ? pv.getSnapshot() : pv;
      });
    }
  });
  // The first frames also tell of what came while the PVs were connected.
  flush?.(0);
  const { frames } = recording;
  return (at) => {
    give(frames[at % frames.length] as ArrayBuffer);
    called = 0;
    flush?.(0);
    if (called < calls) throw new Error(`only ${String(called)} PVs called back for a frame`);
  };
}

/** The GraphQL client, a subscription a PV, with an application's callback or Apollo behind it. */
async function graphql(
  recording: Recording,
  names: readonly string[],
  { apollo, selection }: { selection: string; apollo: boolean },
): Promise<Way> {
  let called = 0;
  const onChannel: OnChannel = (_pv, channel) => {
    called += 1;
    kept = channel;
  };
  const stops: (() => void)[] = [];
  const { client, give } = await play(recording, (client) => {
    for (const name of names) stops.push(client.pv(name, LIGHT).subscribe(() => undefined));
  });
  const graphqlClient = createGraphqlClient(client);
  if (apollo) subscribeWithApollo(graphqlClient, names, selection, onChannel);
  else {
    const query = subscription(selection);
    names.forEach((id, pv) => {
      graphqlClient.subscribe<{ subscribeChannel: Channel }>(
        { query, variables: { id } },
        {
          next: ({ data }) => {
            if (data != null) onChannel(pv, data.subscribeChannel);
          },
          error: (error) => {
            throw error as Error;
          },
          complete: () => undefined,
        },
      );
    });
  }
  while (called < PVS) await turn();
  for (const stop of stops) stop();
  flush?.(0);
  const { frames } = recording;
  return async (at) => {
    give(frames[at % frames.length] as ArrayBuffer);
    called = 0;
    flush?.(0);
    while (called < PVS) await turn();
  };
}

/** A peer on a socket that hands it its messages; all of a frame's, one after the other. */
async function peer(name: PeerName, messages: readonly string[][]): Promise<Way> {
  let socket: WebSocket | undefined;
  let subscribed = 0;
  class Played {
    static readonly CONNECTING = 0;
    static readonly OPEN = 1;
    static readonly CLOSING = 2;
    static readonly CLOSED = 3;
    readyState = 1;
    protocol = "graphql-transport-ws";
    onopen: (() => void) | null = null;
    constructor() {
      socket = this as unknown as WebSocket;
      setTimeout(() => this.onopen?.(), 0);
    }
    send(text: string): void {
      const { type } = JSON.parse(text) as { type: string };
      if (type === "subscribe") subscribed += 1;
      if (type === "connection_init") setTimeout(give, 0, '{"type":"connection_ack"}');
    }
    close = (): void => undefined;
  }
  const give = (data: string): void => {
    socket?.onmessage?.call(socket, { data } as MessageEvent<string>);
  };
  let received = 0;
  startPeer(name, {
    url: "ws://played",
    webSocket: Played as unknown as typeof WebSocket,
    selection: FULL,
    pvs: PVS,
    onChannel: (_pv, channel) => {
      received += 1;
      kept = channel;
    },
  });
  while (subscribed < PVS) await turn();
  let expected = 0;
  return async (at) => {
    for (const message of messages[at % messages.length] as string[]) give(message);
    expected += PVS;
    while (received < expected) await turn();
  };
}

/** The last thing read, so that the reads are not optimised away. */
export const lastRead = (): unknown => kept;
