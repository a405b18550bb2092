/** What an application's own tests show of PVs, with Jest and with Vitest, in jsdom. */

/* global document, expect, process, setTimeout, test */

import { act, createElement as make } from "react";
import { createRoot } from "react-dom/client";
import { createClient } from "pvwire";
import { PvProvider, usePv } from "pvwire/react";
import { createFakeRelay } from "pvwire/testing";
import { Readback, SetPoint } from "pvwire/widgets";
import { WebSocket } from "ws";

const COUNTER = "sim://counter(rate_hz=5)";
const LARGE = "sim://waveform(size=100000,rate_hz=4)";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;

function Screen() {
  const count = usePv(COUNTER, "{ value { string } }");
  const double = usePv(`=\`${COUNTER}\` * 2`, "{ value { string } }");
  const large = usePv(LARGE, "{ value { array } }");
  const texts = [count?.value?.string, double?.value?.string, large?.value?.array?.length];
  return make("output", null, texts.map(String).join(" "));
}

/** Renders it until its text matches, which it then returns. */
async function shown(client, component, pattern) {
  const host = document.createElement("div");
  const root = createRoot(host);
  await act(() => root.render(make(PvProvider, { client }, make(component))));
  const deadline = Date.now() + 60_000;
  while (!pattern.test(host.textContent)) {
    if (Date.now() > deadline) throw new Error(`it shows ${host.textContent}`);
    await act(() => new Promise((resolve) => setTimeout(resolve, 50)));
  }
  const text = host.textContent;
  await act(() => root.unmount());
  return text;
}

test("a live PV, a formula and a large array of a relay", async () => {
  const client = createClient({ url: process.env.RELAY, webSocket: WebSocket });
  const text = await shown(client, Screen, /^\d+ \d+ 100000$/);
  const [count, double] = text.split(" ").map(Number);
  expect(double).toBe(2 * count);
  client.dispose();
}, 120_000);

test("a relay inside the test", async () => {
  const relay = createFakeRelay({ pvs: { TEMP: { value: 21.5, units: "°C", precision: 1 } } });
  const client = relay.client();
  const Temperature = () => usePv("TEMP", "{ value { string(units: true) } }")?.value?.string;
  expect(await shown(client, Temperature, /°C/)).toBe("21.5 °C");
  client.dispose();
}, 120_000);

test("widgets of the same relay", async () => {
  const relay = createFakeRelay({ pvs: { TEMP: { value: 21.5, units: "°C", precision: 1 } } });
  const client = relay.client();
  const Widgets = () => [
    make(Readback, { key: "readback", name: "TEMP" }),
    make(SetPoint, { key: "set point", name: "TEMP" }),
  ];
  expect(await shown(client, Widgets, /21\.5/)).toContain("°C");
  client.dispose();
}, 120_000);
