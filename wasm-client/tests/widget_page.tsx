/** A page with widgets, a client and a fake relay, new for each test. */

import type { ReactNode } from "react";
import { flushSync } from "react-dom";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach } from "vitest";

import type { PvClient, PvStructure } from "../ts/index.js";
import { PvProvider } from "../ts/react/index.js";
import {
  createFakeRelay,
  type FakeRelay,
  type FakeRelayOptions,
  type PutAnswer,
} from "../ts/testing/index.js";
import "../ts/widgets/widgets.css";

export let relay: FakeRelay;
export let client: PvClient;
export let page: HTMLElement;
let root: Root;

type Pvs = NonNullable<FakeRelayOptions["pvs"]>;

/** A PV of each kind. */
const EACH_KIND: Pvs = {
  TEMP: {
    value: 21.5,
    units: "°C",
    precision: 1,
    displayRange: { min: 0, max: 100 },
    controlRange: { min: 0, max: 90 },
    warningRange: { min: null, max: 60 },
    alarmRange: { min: null, max: 80 },
  },
  MODE: { value: 1, choices: ["Off", "On"] },
  BITS: { value: 5, type: "Int32" },
  WAVE: { value: Float64Array.from({ length: 2000 }, (_, at) => Math.sin(at / 100)) },
  CAMERA: { value: image([3, 2], "ubyteValue", Uint8Array.of(0, 1, 2, 3, 4, 255)) },
  TABLE: {
    value: { labels: ["Name", "Size"], value: { n: ["a", "b"], s: Int32Array.of(1, 2) } },
  },
};

/** Called once at the top of a test file. The relay has a PV of each kind. */
export function eachWithWidgetPage(): void {
  eachWithPage(EACH_KIND, 0);
}

/** Ends the puts that have no outcome yet, oldest first. */
export let ends: ((answer: PutAnswer) => void)[];

/** Called once at the top of a test file. The relay has no PVs, and the test ends the puts. */
export function eachWithHeldPuts(): void {
  eachWithPage({});
  beforeEach(() => {
    ends = [];
    relay.onPut = () => new Promise((resolve) => ends.push(resolve));
  });
}

function eachWithPage(pvs: Pvs, unsubscribeDelayMs?: number): void {
  beforeEach(async () => {
    relay = createFakeRelay({ pvs });
    client = relay.client(unsubscribeDelayMs === undefined ? {} : { unsubscribeDelayMs });
    await client.ready;
    page = document.createElement("div");
    page.style.width = "400px";
    document.body.append(page);
    root = createRoot(page);
  });

  afterEach(() => {
    root.unmount();
    client.dispose();
    page.remove();
  });
}

export function image(
  sizes: readonly number[],
  kind: string,
  elements: Uint8Array | Uint16Array,
): PvStructure {
  return {
    value: { selected: kind, value: elements },
    dimension: sizes.map((size) => ({ size, offset: 0 })),
    attribute: [],
  };
}

/** Renders at once: what a test does next must not meet the widget of before. */
export function show(children: ReactNode): void {
  flushSync(() => {
    root.render(<PvProvider client={client}>{children}</PvProvider>);
  });
}

export { until } from "./until.js";

export const part = (name: string): string =>
  page.querySelector(`[data-part="${name}"]`)?.textContent ?? "";
export const widget = (): HTMLElement =>
  page.querySelector("[data-pv], [data-set-point]") as HTMLElement;
