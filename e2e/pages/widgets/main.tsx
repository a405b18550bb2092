/** Each widget in each state. The page's relay is a fake one that the test commands. */

import { createRoot } from "react-dom/client";
import { PvProvider } from "pvwire/react";
import { createFakeRelay, type FakeRelay } from "pvwire/testing";
import {
  ByteMonitor,
  EnumChoice,
  ImageView,
  Led,
  Meter,
  Readback,
  SetPoint,
  StripChart,
  TableView,
  WaveformPlot,
} from "pvwire/widgets";
import "pvwire/widgets.css";
import "../page.css";

declare global {
  interface Window {
    relay?: FakeRelay;
  }
}

const [WIDTH, HEIGHT] = [64, 48];

const TEMP = {
  value: 42.5,
  units: "°C",
  precision: 1,
  description: "Coil temperature",
  displayRange: { min: 0, max: 100 },
  controlRange: { min: 0, max: 90 },
  warningRange: { min: 10, max: 60 },
  alarmRange: { min: 5, max: 80 },
};

const relay = createFakeRelay({
  pvs: {
    TEMP,
    SET: TEMP,
    METER: TEMP,
    STRIP: TEMP,
    MODE: { value: 1, choices: ["Off", "On", "Fault"] },
    MANY: { value: 1, choices: ["Off", "Starting", "On", "Stopping", "Fault"] },
    MESSAGE: "Beam available",
    LED: { value: 1, type: "Int32" },
    BITS: { value: 0b10110, type: "Int32" },
    WAVE: {
      value: Float64Array.from(
        { length: 5000 },
        (_, at) => Math.sin(at / 200) + (at === 777 ? 3 : 0),
      ),
      units: "V",
    },
    CAMERA: {
      value: {
        value: {
          selected: "ushortValue",
          value: Uint16Array.from({ length: WIDTH * HEIGHT }, (_, at) => {
            const [x, y] = [(at % WIDTH) - 30, Math.floor(at / WIDTH) - 20];
            return 4000 * Math.exp(-(x * x + 2 * y * y) / 200);
          }),
        },
        dimension: [WIDTH, HEIGHT].map((size) => ({ size })),
        attribute: [],
      },
    },
    TABLE: {
      value: {
        labels: ["Magnet", "Current", "Turns"],
        value: {
          magnet: ["Q1", "Q2", "Q3"],
          current: Float64Array.of(1.25, -0.5, 1e-9),
          turns: BigInt64Array.of(1n, 2n, 9007199254740993n),
        },
      },
    },
  },
});
window.relay = relay;
const client = relay.client();

const staleAfterMs = new URLSearchParams(window.location.search).has("stale") ? 300 : 3_600_000;
const stale = { staleAfterMs };

createRoot(document.getElementById("root") as HTMLElement).render(
  <PvProvider client={client}>
    <main>
      <h1 className="pvwire-visually-hidden">Widgets</h1>
      <Readback name="TEMP" label="Readback" {...stale} />
      <SetPoint name="SET" label="Set point" {...stale} />
      <SetPoint name="SET" label="Slider" control="slider" {...stale} />
      <SetPoint name="MESSAGE" label="Text" {...stale} />
      <EnumChoice name="MODE" label="Few choices" {...stale} />
      <EnumChoice name="MANY" label="Many choices" {...stale} />
      <Meter name="METER" label="Meter" {...stale} />
      <Led name="LED" label="Lamp" {...stale} />
      <ByteMonitor name="BITS" label="Bits" labels={["Fan", "Pump"]} bits={6} {...stale} />
      <StripChart name="STRIP" label="Strip chart" height={120} windowSeconds={10} {...stale} />
      <WaveformPlot name="WAVE" label="Waveform" height={120} {...stale} />
      <ImageView name="CAMERA" label="Image" colourMap="viridis" {...stale} />
      <TableView name="TABLE" label="Table" {...stale} />
      <Readback name="NOBODY" label="Unknown name" {...stale} />
    </main>
  </PvProvider>,
);
