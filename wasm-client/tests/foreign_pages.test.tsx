/** Widgets look the same on pages with other style sheets. */

import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, it } from "vitest";

import { PvProvider } from "../ts/react/index.js";
import { createFakeRelay } from "../ts/testing/index.js";
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
} from "../ts/widgets/index.js";
import "../ts/widgets/widgets.css";
import { until } from "./until.js";

// The pages' style sheets.

const poster = `
/* A page that sets all that text inherits, and centres its items. */
#root {
  display: flex;
  flex-direction: column;
  align-items: center;
  justify-items: center;
  color: #808;
  font: italic small-caps 700 40px/3 system-ui;
  letter-spacing: 0.5em;
  word-spacing: 1em;
  text-align: right;
  text-indent: 3em;
  text-shadow: 2px 2px red;
  text-transform: uppercase;
  white-space: pre;
}

p,
ul,
table {
  margin: 2em;
}
`;

const vite = `
/* Vite's template for React (create-vite 9.3.0): what it says of the root and of what is in it. */
:root {
  --text: #6b6375;
  --bg: #fff;
  --border: #e5e4e7;
  --sans: system-ui, "Segoe UI", Roboto, sans-serif;

  font: 18px/145% var(--sans);
  letter-spacing: 0.18px;
  color-scheme: light dark;
  color: var(--text);
  background: var(--bg);
  font-synthesis: none;
  text-rendering: optimizeLegibility;
  -webkit-font-smoothing: antialiased;
}

#root {
  width: 1126px;
  max-width: 100%;
  margin: 0 auto;
  text-align: center;
  border-inline: 1px solid var(--border);
  min-height: 100svh;
  display: flex;
  flex-direction: column;
  box-sizing: border-box;
}

body {
  margin: 0;
}

p {
  margin: 0;
}
`;

const vite5 = `
/* Vite's template for React as it was for years (create-vite 5.5.5): many apps began with it. */
:root {
  font-family: system-ui, Avenir, Helvetica, Arial, sans-serif;
  line-height: 1.5;
  font-weight: 400;
  color-scheme: light dark;
  color: rgba(255, 255, 255, 0.87);
  background-color: #242424;
  font-synthesis: none;
  text-rendering: optimizeLegibility;
}

body {
  margin: 0;
  display: flex;
  place-items: center;
  min-width: 320px;
  min-height: 100vh;
}

button {
  border-radius: 8px;
  border: 1px solid transparent;
  padding: 0.6em 1.2em;
  font-size: 1em;
  font-weight: 500;
  font-family: inherit;
  background-color: #1a1a1a;
  cursor: pointer;
  transition: border-color 0.25s;
}

#root {
  max-width: 1280px;
  margin: 0 auto;
  padding: 2rem;
  text-align: center;
}
`;

const NAMES =
  "Readback SetPoint EnumChoice slider text Led ByteMonitor Meter strip wave image table";

const relay = createFakeRelay({
  pvs: {
    TEMP: {
      value: 21.5,
      units: "°C",
      precision: 1,
      displayRange: { min: 0, max: 100 },
      controlRange: { min: 0, max: 90 },
    },
    TEXT: { value: "all is well" },
    MODE: { value: 1, choices: ["Off", "On"] },
    BITS: { value: 5, type: "Int32" },
    WAVE: { value: Float64Array.from({ length: 200 }, (_, at) => Math.sin(at / 10)) },
    IMAGE: { value: Uint8Array.of(0, 1, 2, 3, 4, 255) },
    TABLE: {
      value: { labels: ["Name", "Size"], value: { n: ["a", "b"], s: Int32Array.of(1, 2) } },
    },
  },
});
const client = relay.client({ unsubscribeDelayMs: 0 });

/** The page's styles, and what it undoes at the end. */
const ends: (() => void)[] = [];

beforeEach(async () => {
  await client.ready;
});

afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A page with one of each widget; `width` is that of its content. */
async function open(css: string, width?: number): Promise<HTMLElement> {
  const style = document.createElement("style");
  style.textContent = css;
  // Before those of the widgets, which an app imports in its components.
  document.head.prepend(style);
  const page = document.createElement("div");
  page.id = "root";
  if (width !== undefined) page.style.width = `${String(width)}px`;
  document.body.append(page);
  const root = createRoot(page);
  ends.push(() => {
    root.unmount();
    page.remove();
    style.remove();
  });
  root.render(
    <PvProvider client={client}>
      <Readback name="TEMP" />
      <SetPoint name="TEMP" />
      <EnumChoice name="MODE" />
      <SetPoint name="TEMP" control="slider" />
      <SetPoint name="TEXT" />
      <Led name="BITS" />
      <ByteMonitor name="BITS" bits={3} />
      <Meter name="TEMP" />
      <StripChart name="TEMP" />
      <WaveformPlot name="WAVE" />
      <ImageView name="IMAGE" width={3} />
      <TableView name="TABLE" />
    </PvProvider>,
  );
  await until(() => {
    expect(page.textContent).toContain("21.5 °C");
    expect(page.querySelectorAll(".u-over")).toHaveLength(2);
    expect(page.querySelectorAll("td")).toHaveLength(4);
    expect(page.querySelector(".pvwire-image canvas")).toHaveProperty("hidden", false);
    expect(page.querySelector(".pvwire-image canvas"), "painted").toHaveProperty("width", 3);
  });
  // Plots are drawn again when their boxes have changed: until nothing moves any more.
  let before = "";
  await until(async () => {
    await new Promise(requestAnimationFrame);
    const now = JSON.stringify([...page.children].map(look));
    const isSame = now === before;
    before = now;
    expect(isSame, "the page has settled").toBe(true);
  });
  return page;
}

interface Look {
  readonly texts: string[];
  readonly places: number[];
}

/** How the text of a widget's elements is set, and where they are. What isn't ours is left out. */
function look(widget: Element): Look {
  const from = widget.getBoundingClientRect();
  const all = [widget, ...widget.querySelectorAll("*")].filter(
    (part) => part.closest("svg, option, .u-axis, .u-over, .u-under, time") === null,
  );
  const texts = all.map((part) => {
    const style = getComputedStyle(part);
    const text = [
      style.color,
      style.fontSize,
      style.fontStyle,
      style.fontVariantCaps,
      style.fontWeight,
      style.letterSpacing,
      style.lineHeight,
      style.textAlign,
      style.textIndent,
      style.textShadow,
      style.textTransform,
      style.whiteSpace,
      style.wordSpacing,
    ];
    return [part.localName, part.className, ...text].join(" | ");
  });
  // What has no box has no place.
  const shown = all.filter((part) => part.getClientRects().length > 0);
  const places = shown.flatMap((part) => {
    const { height, left, top, width } = part.getBoundingClientRect();
    return [left - from.left, top - from.top, width, height];
  });
  return { texts, places };
}

/** Halves of pixels are rounded by where on the page the widget stands. */
const TOLERANCE_PX = 1;

const FONT = "#root { font-family: system-ui; color-scheme: light }";

for (const [name, css] of Object.entries({
  "Vite's template": vite,
  "Vite's former template": vite5,
  "a page that sets all that text inherits": poster,
})) {
  it(`looks on ${name} as on an empty page`, async () => {
    const kinds = NAMES.split(" ");
    const page = await open(css + FONT);
    const widgets = [...page.children];
    expect(widgets).toHaveLength(kinds.length);
    const style = getComputedStyle(page);
    const around = ["paddingLeft", "paddingRight", "borderLeftWidth", "borderRightWidth"] as const;
    const width = around.reduce(
      (left, side) => left - parseFloat(style[side]),
      page.getBoundingClientRect().width,
    );
    const foreign = widgets.map(look);
    for (const end of ends.splice(0)) end();
    const own = [...(await open(FONT, width)).children].map(look);
    for (const [at, kind] of kinds.entries()) {
      const [found, expected] = [foreign[at], own[at]] as [Look, Look];
      expect(found.texts, kind).toEqual(expected.texts);
      const moved = found.places.map((place, which) =>
        Math.abs(place - (expected.places[which] ?? NaN)),
      );
      expect(Math.max(...moved), kind).toBeLessThanOrEqual(TOLERANCE_PX);
    }
    expect(width).toBeGreaterThan(260);
  });
}
