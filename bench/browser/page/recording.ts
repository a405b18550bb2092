/** Frames as a relay sends them, for measurements without a network. Recorded as they come, and played to a client as fast as it takes them. */

import { createClient, type PvClient } from "pvwire";

/** The answer to a Subscribe, first values and metadata come in this time. */
const OPENING_MS = 1500;

/** As the client sees a WebSocket. */
type SocketConstructor = typeof WebSocket;

export interface Recording {
  readonly hello: ArrayBuffer;
  /** What follows the Subscribe: answer and snapshots. */
  readonly opening: readonly ArrayBuffer[];
  /** Updates of every PV. */
  readonly frames: readonly ArrayBuffer[];
}

const nothing = (): void => undefined;

/** No ping falls into a recording: it would be an answer to nothing. */
const NO_PING = { pingIntervalMs: 1e8, pingTimeoutMs: 1e8 };

export async function record(
  url: string,
  names: readonly string[],
  ms: number,
): Promise<Recording> {
  const messages: { readonly atMs: number; readonly data: ArrayBuffer }[] = [];
  class Recorder extends WebSocket {
    constructor(to: string | URL, protocols?: string | string[]) {
      super(to, protocols);
      this.addEventListener("message", (event: MessageEvent<ArrayBuffer>) => {
        messages.push({ atMs: performance.now(), data: event.data.slice(0) });
      });
    }
    /** An empty message asks for a stream beside the WebSocket: what came by it would be missing. */
    override send(data: ArrayBufferView<ArrayBuffer>): void {
      if (data.byteLength > 0) super.send(data);
    }
  }
  const client = createClient({ url, webSocket: Recorder, ...NO_PING });
  for (const name of names) client.pv(name).subscribe(nothing);
  await new Promise((resolve) => setTimeout(resolve, OPENING_MS + ms));
  client.dispose();
  const [hello, ...others] = messages;
  if (hello === undefined) throw new Error(`nothing came from ${url}`);
  const openedAt = hello.atMs + OPENING_MS;
  return {
    hello: hello.data,
    opening: others.filter(({ atMs }) => atMs < openedAt).map(({ data }) => data),
    frames: others.filter(({ atMs }) => atMs >= openedAt).map(({ data }) => data),
  };
}

/** A client that thinks it talks to the relay, and what gives it one message. */
export interface Player {
  readonly client: PvClient;
  readonly give: (message: ArrayBuffer) => void;
}

/**
 * Plays the opening to a client that `subscribe` has given the same PVs in the same order, so that
 * the recorded answers fit its requests.
 */
export async function play(
  recording: Recording,
  subscribe: (client: PvClient) => void,
): Promise<Player> {
  let opened = (): void => undefined;
  const played = new Promise<void>((resolve) => {
    opened = resolve;
  });
  let listener: { onmessage: ((event: { data: ArrayBuffer }) => void) | null } | undefined;
  const give = (data: ArrayBuffer): void => {
    if (listener?.onmessage == null) throw new Error("the client has closed the connection");
    listener.onmessage({ data });
  };
  class Played {
    onmessage = null;
    readyState = 1;
    #isRequested = false;
    constructor() {
      // eslint-disable-next-line @typescript-eslint/no-this-alias -- The client makes it, not we.
      listener = this;
      queueMicrotask(() => {
        give(recording.hello);
      });
    }
    send(): void {
      if (this.#isRequested) return;
      this.#isRequested = true;
      queueMicrotask(() => {
        recording.opening.forEach(give);
        opened();
      });
    }
    close(): void {
      listener = undefined;
    }
  }
  const webSocket = Played as unknown as SocketConstructor;
  const client = createClient({ url: "ws://played", webSocket, ...NO_PING });
  subscribe(client);
  await played;
  return { client, give };
}

const BASE64_PIECE = 8192;

function base64(bytes: ArrayBuffer): string {
  const all = new Uint8Array(bytes);
  let text = "";
  for (let at = 0; at < all.length; at += BASE64_PIECE) {
    text += String.fromCharCode(...all.subarray(at, at + BASE64_PIECE));
  }
  return btoa(text);
}

const bytesOf = (text: string): ArrayBuffer =>
  Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;

/** A recording as text. */
export const packed = ({ frames, hello, opening }: Recording): string =>
  JSON.stringify([[hello], opening, frames].map((messages) => messages.map(base64)));

export function unpacked(text: string): Recording {
  const [[hello] = [], opening = [], frames = []] = (JSON.parse(text) as string[][]).map(
    (messages) => messages.map(bytesOf),
  );
  if (hello === undefined) throw new Error("a recording without hello");
  return { hello, opening, frames };
}
