/** 1,000 widgets, one for each PV: by pvwire's hook or widget, by hand, or fed by a peer through a small store. */

import { memo, useSyncExternalStore, type ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { createClient, type PvClient } from "pvwire";
import { PvProvider, usePv } from "pvwire/react";
import { Readback } from "pvwire/widgets";
import "pvwire/widgets.css";

import {
  CELL,
  isOwn,
  pvNames,
  PVS,
  type Channel,
  type FeedName,
  type OwnFeed,
  type PeerName,
} from "../pvs";
import { startPeer } from "./peers";
import { writeReadbacks } from "./readbacks_by_hand";

/** What happened since the page began. */
export interface Totals {
  readonly updates: number;
  /** That the relay left out. */
  readonly skipped: number;
  readonly paints: number;
}

/** Shows the widgets; the returned function tells what happened so far. */
export function showWidgets(feed: FeedName, url: string): () => Totals {
  let paints = 0;
  requestAnimationFrame(function count() {
    paints += 1;
    requestAnimationFrame(count);
  });
  const counted = isOwn(feed) ? showPvs(feed, url) : showPeer(feed, url);
  return () => ({ paints, ...counted() });
}

type Counted = () => Omit<Totals, "paints">;

let shown: Root | undefined;

function render(cells: ReactNode, className = "cells"): void {
  shown = createRoot(document.getElementById("root") as HTMLElement);
  shown.render(<div className={className}>{cells}</div>);
}

function Cell({ channel }: { readonly channel: Channel | undefined }): ReactNode {
  return (
    <span className="cell" data-quality={channel?.status?.quality}>
      {channel?.value?.string ?? "–"}
    </span>
  );
}

const PvwireCell = memo(function PvwireCell({ name }: { readonly name: string }) {
  return <Cell channel={usePv<Channel>(name, CELL)} />;
});

const SHOW: Readonly<Record<OwnFeed, (client: PvClient, names: readonly string[]) => void>> = {
  pvwire: (client, names) => {
    render(
      <PvProvider client={client}>
        {names.map((name) => (
          <PvwireCell key={name} name={name} />
        ))}
      </PvProvider>,
    );
  },
  "text nodes by hand": (client, names) => {
    const cells = document.createElement("div");
    cells.className = "cells";
    for (const name of names) {
      const cell = document.createElement("span");
      cell.className = "cell";
      const text = cell.appendChild(document.createTextNode("–"));
      cells.append(cell);
      let quality: string | undefined;
      const pv = client.pv<Channel>(name, CELL);
      // The client calls in an animation frame, once.
      pv.subscribe(() => {
        const channel = pv.getSnapshot();
        text.data = channel?.value?.string ?? "–";
        if (channel?.status?.quality === quality) return;
        quality = channel?.status?.quality;
        cell.dataset.quality = quality;
      });
    }
    document.getElementById("root")?.append(cells);
  },
  Readback: (client, names) => {
    render(
      <PvProvider client={client}>
        {names.map((name, pv) => (
          <Readback key={name} name={name} label={`PV ${String(pv)}`} />
        ))}
      </PvProvider>,
      "readbacks",
    );
  },
  "Readback by hand": (client, names) => {
    SHOW.Readback(client, names);
    const root = document.getElementById("root") as HTMLElement;
    const timer = setInterval(() => {
      if (root.querySelectorAll("[data-severity]").length < names.length) return;
      clearInterval(timer);
      // A copy that React doesn't know.
      const copy = document.importNode(root.firstElementChild as Element, true);
      shown?.unmount();
      root.append(copy);
      writeReadbacks(client, root);
    }, 100);
  },
};

function showPvs(feed: OwnFeed, url: string): Counted {
  const client = createClient({ url });
  const names = pvNames();
  SHOW[feed](client, names);
  const sum = (of: "updatesReceived" | "skipped"): number =>
    names.reduce((total, name) => total + (client.inspect(name)?.[of] ?? 0), 0);
  return () => ({ updates: sum("updatesReceived"), skipped: sum("skipped") });
}

/** What an application writes to have at most one render of a widget per animation frame. */
class Store {
  readonly #shown: (Channel | undefined)[] = [];
  readonly #listeners: ((() => void) | undefined)[] = [];
  #changed = new Set<number>();

  set(pv: number, channel: Channel): void {
    const status = channel.status ?? this.#shown[pv]?.status ?? null;
    this.#shown[pv] = { ...channel, status };
    if (this.#changed.size === 0) requestAnimationFrame(this.#tell);
    this.#changed.add(pv);
  }

  get(pv: number): Channel | undefined {
    return this.#shown[pv];
  }

  listen(pv: number, listener: () => void): () => void {
    this.#listeners[pv] = listener;
    return () => {
      this.#listeners[pv] = undefined;
    };
  }

  readonly #tell = (): void => {
    const changed = this.#changed;
    this.#changed = new Set();
    for (const pv of changed) this.#listeners[pv]?.();
  };
}

const PeerCell = memo(function PeerCell(props: { readonly store: Store; readonly pv: number }) {
  const { pv, store } = props;
  const channel = useSyncExternalStore(
    (listener) => store.listen(pv, listener),
    () => store.get(pv),
  );
  return <Cell channel={channel} />;
});

function showPeer(feed: PeerName, url: string): Counted {
  const store = new Store();
  let updates = 0;
  render(Array.from({ length: PVS }, (_, pv) => <PeerCell key={pv} store={store} pv={pv} />));
  startPeer(feed, {
    url,
    webSocket: WebSocket,
    selection: CELL,
    pvs: PVS,
    onChannel: (pv, channel) => {
      updates += 1;
      store.set(pv, channel);
    },
  });
  return () => ({ updates, skipped: 0 });
}
