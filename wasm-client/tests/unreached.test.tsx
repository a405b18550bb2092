/** A page without a relay, or without the package's module, says in each widget what is wrong. */

import type { ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { createClient, type PvClient } from "../ts/index.js";
import { PvProvider } from "../ts/react/index.js";
import { createFakeRelay } from "../ts/testing/index.js";
import { Led, Readback, SetPoint } from "../ts/widgets/index.js";
import { until } from "./until.js";

let page: HTMLElement;
let root: Root;
let client: PvClient | undefined;

beforeEach(() => {
  page = document.createElement("div");
  document.body.append(page);
  root = createRoot(page);
});

afterEach(() => {
  root.unmount();
  client?.dispose();
  page.remove();
  vi.restoreAllMocks();
});

const part = (name: string): string | null | undefined =>
  page.querySelector(`[data-part="${name}"]`)?.textContent;

function show(of: PvClient, children: ReactNode): void {
  client = of;
  root.render(<PvProvider client={of}>{children}</PvProvider>);
}

it("a module that can't be loaded is said by widgets and by the console", async () => {
  const logged = vi.spyOn(console, "error").mockImplementation(() => undefined);
  // Before anything else of this page has loaded the module.
  const of = createClient({ url: "ws://127.0.0.1:9/ws", wasm: "/nowhere/pvwire.wasm" });
  show(
    of,
    <>
      <Readback name="A" />
      <SetPoint name="B" />
    </>,
  );
  await until(() => {
    expect(part("condition")).toContain("the WebAssembly module can't be loaded");
  });
  expect(part("condition")).toMatch(/^Not connected to a relay: /);
  expect(part("hint")).toContain("the WebAssembly module can't be loaded");
  expect(logged.mock.calls.join()).toContain("the WebAssembly module can't be loaded");
});

it("a relay that was never there isn't lost", async () => {
  const relay = createFakeRelay({ pvs: { A: { value: 1 } } });
  relay.lose();
  const of = relay.client();
  await of.ready;
  show(
    of,
    <>
      <Led name="A" />
      <SetPoint name="A" />
    </>,
  );
  await until(() => {
    expect(part("condition")).toBe("Not connected to a relay: the relay can't be reached");
    expect(part("hint")).toBe("Not connected to a relay: the relay can't be reached");
  });
  relay.restore();
  of.retryNow();
  await until(() => {
    expect(part("condition")).toBe("No alarm");
  });
  relay.lose();
  await until(() => {
    expect(part("condition")).toMatch(/^Relay lost · old since/);
  });
});

it("shows a PREC that JavaScript can't write", async () => {
  const relay = createFakeRelay({
    pvs: {
      A: { value: 1e-300, precision: 250 },
      B: { value: 3e-120, precision: 101, controlRange: { min: 0, max: 1 } },
    },
  });
  const of = relay.client();
  await of.ready;
  show(
    of,
    <>
      <Readback name="A" notation="exponent" />
      <SetPoint name="B" control="slider" />
    </>,
  );
  await until(() => {
    expect(part("value")).toMatch(/^1\.0{5}\d+e-300/);
  });
  relay.set("A", { precision: 101, value: 2e-300 });
  await until(() => {
    expect(part("value")).toMatch(/^2\.0{5}\d+e-300/);
  });
});
