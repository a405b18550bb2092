/** Does each widget say what it shows and how it stands, in words and to assistive technology? */

import type { ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { userEvent } from "vitest/browser";

import type { PvClient } from "../ts/index.js";
import { PvProvider } from "../ts/react/index.js";
import { createFakeRelay, type FakeRelay } from "../ts/testing/index.js";
import { decimate } from "../ts/widgets/decimate.js";
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
import { decodeImage } from "../ts/widgets/codec.js";
import { createGlPainter } from "../ts/widgets/gl.js";
import { decodeLz4 } from "../ts/widgets/lz4.js";
import { paint, pictureOf, rangeOf, type Picture } from "../ts/widgets/pixels.js";
import "../ts/widgets/widgets.css";
import lz4Hex from "./image.lz4.hex?raw";

/** An image of 96 × 40 pixels of 16 bits: rows that repeat, a constant, noise; packed by lz4_flex. */
const lz4Image = (() => {
  const packed = Uint8Array.from(lz4Hex.trim().match(/../g) ?? [], (byte) => parseInt(byte, 16));
  const pixels = new Uint16Array(96 * 40);
  let seed = 1;
  for (let at = 0; at < pixels.length; at += 1) {
    const [x, y] = [at % 96, Math.floor(at / 96)];
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    pixels[at] = y < 30 ? x * 300 + Math.floor(y / 10) * 1000 : y < 38 ? 7 : seed >>> 16;
  }
  return { packed, bytes: new Uint8Array(pixels.buffer), size: pixels.byteLength };
})();

let relay: FakeRelay;
let client: PvClient;
let root: Root;
let page: HTMLElement;

beforeEach(async () => {
  relay = createFakeRelay({
    pvs: {
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
    },
  });
  client = relay.client({ unsubscribeDelayMs: 0 });
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

function image(sizes: readonly number[], kind: string, elements: Uint8Array | Uint16Array) {
  return {
    value: { selected: kind, value: elements },
    dimension: sizes.map((size) => ({ size, offset: 0 })),
    attribute: [],
  };
}

function show(children: ReactNode): void {
  root.render(<PvProvider client={client}>{children}</PvProvider>);
}

/** Waits until it holds. */
async function until(holds: () => void): Promise<void> {
  await vi.waitFor(holds, { timeout: 10_000 });
}

const part = (name: string): string =>
  page.querySelector(`[data-part="${name}"]`)?.textContent ?? "";
const widget = (): HTMLElement => page.querySelector("[data-pv], [data-set-point]") as HTMLElement;

const ALL: Readonly<Record<string, (name: string) => ReactNode>> = {
  Readback: (name) => <Readback name={name} staleAfterMs={200} />,
  Meter: (name) => <Meter name={name} staleAfterMs={200} />,
  Led: (name) => <Led name={name} staleAfterMs={200} />,
  ByteMonitor: (name) => <ByteMonitor name={name} staleAfterMs={200} />,
  StripChart: (name) => <StripChart name={name} staleAfterMs={200} />,
  WaveformPlot: (name) => <WaveformPlot name={name} staleAfterMs={200} />,
  ImageView: (name) => <ImageView name={name} staleAfterMs={200} />,
  TableView: (name) => <TableView name={name} staleAfterMs={200} />,
};

describe("access", () => {
  it("is read only where the IOC allows writing and the relay takes no puts", async () => {
    const badge = (): HTMLElement | null => page.querySelector("[data-access]");
    show(<Readback name="TEMP" />);
    await until(() => {
      expect(badge()?.textContent).toBe("rw");
    });
    relay.set("TEMP", { puts: false });
    await until(() => {
      expect(badge()?.textContent).toBe("ro");
    });
    expect(badge()?.dataset.access).toBe("read-only");
    expect(badge()?.title).toContain("this relay takes no puts");
    relay.set("TEMP", { mutable: false });
    await until(() => {
      expect(badge()?.title).toBe("The IOC gives no write access");
    });
  });
});

describe("an image of one colour a pixel", () => {
  it("has a colour bar that says what is darkest and brightest", async () => {
    show(<ImageView name="CAMERA" colourMap="heat" />);
    const bar = (): HTMLElement | null => page.querySelector(".pvwire-colour-bar");
    await until(() => {
      expect(bar()?.getAttribute("aria-label")).toBe("Colours from 0 to 255");
    });
    expect(bar()?.textContent).toBe("2550");
    show(<ImageView name="CAMERA" colourMap="heat" range={[1, 4]} />);
    await until(() => {
      expect(bar()?.getAttribute("aria-label")).toBe("Colours from 1 to 4");
    });
  });
});

describe("every widget", () => {
  for (const [kind, make] of Object.entries(ALL)) {
    it(`says of a PV when it is stale, gone, not there, or the relay is: ${kind}`, async () => {
      show(make("TEMP"));
      await until(() => {
        expect(part("condition")).toContain("No alarm");
      });
      await until(() => {
        expect(part("condition")).toMatch(/^Stale: no update since/);
      });
      const stale = widget().querySelector("svg")?.innerHTML;
      relay.set("TEMP", { severity: "MAJOR", alarmStatus: 3 });
      await until(() => {
        expect(widget().dataset.severity).toBe("MAJOR");
      });
      expect(part("condition")).toMatch(/MAJOR HIHI$/);
      relay.set("TEMP", { unresponsive: true });
      await until(() => {
        expect(part("condition")).toMatch(/^No news since \d\d:\d\d:\d\d$/);
      });
      expect(widget().dataset.severity, "nothing passes for present").toBeUndefined();
      expect(widget().dataset.stale).toBe("true");
      relay.set("TEMP", { unresponsive: false, readable: false });
      await until(() => {
        expect(part("condition")).toBe("No read access");
      });
      expect(widget().dataset.severity).toBeUndefined();
      relay.set("TEMP", { readable: true, value: 22 });
      await until(() => {
        expect(part("condition")).toMatch(/MAJOR HIHI$/);
      });
      relay.set("TEMP", { state: "disconnected" });
      await until(() => {
        expect(part("condition")).toMatch(/^Disconnected · old since \d\d:/);
      });
      expect(widget().dataset.severity).toBeUndefined();
      const gone = widget().querySelector("svg")?.innerHTML;
      relay.lose();
      await until(() => {
        expect(part("condition")).toMatch(/^Relay lost · old since \d\d:/);
      });
      const lost = widget().querySelector("svg")?.innerHTML;
      relay.restore();
      show(make("NOBODY"));
      await until(() => {
        expect(part("condition")).toBe("Not found · still searching");
      });
      const missing = widget().querySelector("svg")?.innerHTML;
      expect(new Set([stale, gone, lost, missing]).size, "each has a shape of its own").toBe(4);
    });
  }
});

describe("a widget for another kind of PV", () => {
  const nothing = (): string | null | undefined =>
    page.querySelector(".pvwire-nothing")?.textContent;

  it("says what the PV is in place of an empty box", async () => {
    relay.set("TEXT", "all is well");
    const cases: readonly (readonly [ReactNode, string])[] = [
      [<TableView key={0} name="TEMP" />, "Not a table: this is a number"],
      [<TableView key={1} name="TEXT" />, "Not a table: this is a text"],
      [<TableView key={2} name="WAVE" />, "Not a table: this is an array"],
      [<TableView key={3} name="CAMERA" />, "Not a table: this is a structure"],
      [<WaveformPlot key={4} name="TEMP" />, "A plot shows arrays of numbers; this is a number"],
      [<StripChart key={5} name="TEXT" />, "A strip chart shows numbers; this is a text"],
      [<StripChart key={6} name="WAVE" />, "A strip chart shows numbers; this is an array"],
      [<Meter key={7} name="TABLE" />, "A meter shows numbers; this is a structure"],
    ];
    for (const [widget, said] of cases) {
      show(widget);
      await until(() => {
        expect(nothing()).toBe(said);
      });
      expect(page.textContent).not.toContain("0 rows");
    }
    show(<TableView name="TABLE" />);
    await until(() => {
      expect(nothing()).toBeUndefined();
    });
    relay.set("TABLE", { value: { labels: ["Name"], value: { n: [] } } });
    await until(() => {
      expect(part("value")).toBe("0 rows");
    });
    expect(nothing()).toBeUndefined();
  });
});

describe("a PV that can't be written", () => {
  it("says that simulated PVs can't be written, and names no IOC", async () => {
    for (const name of ["sim://sine", "ssim://sine"]) {
      relay.set(name, { value: 1, mutable: false });
      show(
        <>
          <SetPoint name={name} />
          <Readback name={name} />
        </>,
      );
      await until(() => {
        expect(part("hint")).toBe("Simulated PVs can't be written");
      });
      expect(page.querySelector("[data-access]")?.getAttribute("title")).toBe(
        "Simulated PVs can't be written",
      );
    }
  });
});

interface Shown {
  readonly found: () => HTMLElement;
  readonly text: () => string | null | undefined;
}

describe("Readback", () => {
  it("keeps up where it is seen, lags behind where it isn't, and catches up when it is", async () => {
    show(
      <>
        <Readback name="TEMP" label="Seen" />
        <div style={{ height: 20_000 }} />
        <Readback name="TEMP" label="Below" />
      </>,
    );
    const [seen, below] = ["Seen", "Below"].map((label) => {
      const found = (): HTMLElement => page.querySelector(`[aria-label="${label}"]`) as HTMLElement;
      return { found, text: () => found().querySelector('[data-part="value"]')?.textContent };
    }) as [Shown, Shown];
    const set = async (value: number): Promise<void> => {
      relay.set("TEMP", { value });
      await until(() => {
        expect(seen.text()).toBe(`${value.toFixed(1)} °C`);
      });
    };
    let value = 30;
    const isBehind = async (): Promise<void> => {
      value += 1;
      await set(value);
      expect(below.text(), "behind once the browser skips it").not.toBe(seen.text());
    };
    await vi.waitFor(isBehind, { timeout: 10_000 });
    await until(() => {
      expect(below.text(), "not for long").toBe(seen.text());
    });
    await set(90);
    below.found().scrollIntoView();
    await until(() => {
      expect(below.text()).toBe("90.0 °C");
    });
    relay.set("TEMP", { value: 91 });
    await until(() => {
      expect(below.text()).toBe("91.0 °C");
    });
  });
});

describe("Meter", () => {
  it("is a meter with a scale, a value and its words", async () => {
    show(<Meter name="TEMP" label="Coil" />);
    await until(() => {
      const meter = page.querySelector('[role="meter"]');
      expect(meter?.getAttribute("aria-valuenow")).toBe("21.5");
      expect(meter?.getAttribute("aria-valuemax")).toBe("100");
      expect(meter?.getAttribute("aria-valuetext")).toBe("21.5 °C, No alarm");
    });
    expect(page.querySelectorAll(".pvwire-gauge-warning, .pvwire-gauge-alarm")).toHaveLength(2);
    relay.set("TEMP", { alarmRange: { min: 0, max: 0 }, warningRange: { min: 0, max: 0 } });
    await until(() => {
      expect(
        page.querySelectorAll(".pvwire-gauge-warning, .pvwire-gauge-alarm"),
        "0 to 0 is no alarm range",
      ).toHaveLength(0);
    });
  });
});

describe("SetPoint", () => {
  it("sends within the limits, says what became of it, and chooses its control by type", async () => {
    show(<SetPoint name="TEMP" />);
    await until(() => {
      expect(page.querySelector("input")?.value).toBe("21.5");
    });
    const send = async (text: string): Promise<void> => {
      await userEvent.fill(page.querySelector("input") as HTMLInputElement, text);
      await userEvent.keyboard("{Enter}");
    };
    await send("95");
    expect(part("outcome")).toContain("95 is not within 0 to 90 °C");
    expect(relay.puts).toEqual([]);
    await send("30");
    await until(() => {
      expect(part("outcome")).toMatch(/^Written/);
    });
    expect(relay.puts).toEqual([{ name: "TEMP", value: "30" }]);
    relay.onPut = () => "the coil is locked";
    await send("40");
    await until(() => {
      expect(part("outcome")).toBe("Refused: the coil is locked");
    });
    relay.onPut = () => ({ readback: 3 });
    await send("45");
    await until(() => {
      expect(part("outcome")).toBe("Written, but the PV now holds 3");
      expect(page.querySelector("input")?.value).toBe("3.0");
    });
    show(<EnumChoice name="MODE" />);
    await until(() => {
      expect(page.querySelector('[aria-pressed="true"]')?.textContent).toBe("On");
    });
  });
});

describe("SetPoint of a number", () => {
  const send = async (text: string): Promise<void> => {
    const field = page.querySelector("input") as HTMLInputElement;
    await userEvent.fill(field, text);
    await userEvent.keyboard("{Enter}");
  };
  const written = async (): Promise<void> => {
    await until(() => {
      expect(part("outcome")).toMatch(/^Written/);
    });
  };

  it("writes any finite number where the limits are EPICS's 0 to 0, or equal", async () => {
    for (const [name, min, max] of [
      ["UNLIMITED", 0, 0],
      ["EQUAL", 5, 5],
      ["REVERSED", 5, 0],
    ] as const) {
      relay.set(name, { value: 1, units: "mm", precision: 2, controlRange: { min, max } });
      show(<SetPoint name={name} />);
      await until(() => {
        expect(page.querySelector("input")?.value).toBe("1.00");
      });
      expect(part("hint"), name).toBe("");
      await send("-7.5");
      await written();
      expect(relay.puts.at(-1)).toEqual({ name, value: "-7.5" });
    }
    show(<SetPoint name="EQUAL" control="slider" />);
    await until(() => {
      expect(part("hint")).toBe("The PV has no limits, which a slider needs");
    });
  });

  it("refuses nan, inf and numbers beyond any double, unless the page allows nan and inf", async () => {
    show(<SetPoint name="TEMP" />);
    await until(() => {
      expect(page.querySelector("input")?.value).toBe("21.5");
    });
    for (const text of ["nan", "NaN", "inf", "-inf", "+Infinity", "1e999"]) {
      await send(text);
      expect(part("outcome"), text).toBe(
        `Refused: ${text} is not a finite number; nothing was sent`,
      );
    }
    expect(relay.puts).toEqual([]);
    show(<SetPoint name="TEMP" allowNonFinite />);
    await send("-inf");
    await written();
    expect(relay.puts).toEqual([{ name: "TEMP", value: "-inf" }]);
    await send("1e999");
    expect(part("outcome")).toContain("1e999 is not a finite number");
  });

  it("claims no steps: a number between two of them is written as it was typed", async () => {
    show(<SetPoint name="TEMP" />);
    await until(() => {
      expect(part("hint")).toBe("0 to 90 °C");
    });
    await send("19.555");
    await written();
    expect(relay.puts).toEqual([{ name: "TEMP", value: "19.555" }]);
  });

  it("keeps limits of which there is only one", async () => {
    relay.set("FLOW", { value: 1, units: "l/s", controlRange: { min: 0, max: null } });
    show(<SetPoint name="FLOW" />);
    await until(() => {
      expect(part("hint")).toBe("at least 0 l/s");
    });
    await send("-1");
    expect(part("outcome")).toContain("-1 is not at least 0 l/s");
    await send("1000000");
    await written();
  });
});

describe("Led and ByteMonitor", () => {
  it("say each bit by a word", async () => {
    show(<ByteMonitor name="BITS" bits={3} labels={["Fan", "Pump"]} />);
    await until(() => {
      const bits = [...page.querySelectorAll("li")].map((bit) => bit.textContent);
      expect(bits).toEqual(["Fan on", "Pump off", "Bit 2 on"]);
    });
    show(<Led name="BITS" bit={1} />);
    await until(() => {
      expect(part("value")).toBe("Off");
    });
    show(<Led name="MODE" />);
    await until(() => {
      expect(part("value")).toBe("On");
    });
  });
});

describe("plots", () => {
  it("draw", async () => {
    show(<WaveformPlot name="WAVE" label="Orbit" />);
    await until(() => {
      expect(page.querySelector('[role="img"]')?.getAttribute("aria-label")).toBe(
        "Orbit: curve of 2,000 elements",
      );
      const canvas = page.querySelector("canvas");
      const pixels = canvas?.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data;
      expect(pixels?.some((byte) => byte !== 0)).toBe(true);
    });
  });

  it("lose no peak and keep gaps", () => {
    const values = Float64Array.from({ length: 100_000 }, (_, at) => (at === 54_321 ? 99 : 0));
    const { x, y } = decimate(values, 100);
    expect(y.length).toBeLessThanOrEqual(200);
    expect(x[y.indexOf(99)]).toBe(54_321);
    expect(decimate([1, null, NaN, 2], 100).y).toEqual([1, null, null, 2]);
    values[777] = NaN;
    expect(decimate(values, 100).y).toContain(null);
  });
});

describe("ImageView", () => {
  it("shows an NTNDArray in its size and colours", async () => {
    show(<ImageView name="CAMERA" />);
    const pixels = (): Uint8ClampedArray | undefined => {
      const canvas = page.querySelector("canvas") as HTMLCanvasElement;
      // A copy, whatever it was painted by.
      const copy = document.createElement("canvas");
      Object.assign(copy, { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d");
      context?.drawImage(canvas, 0, 0);
      return context?.getImageData(0, 0, canvas.width, canvas.height).data;
    };
    await until(() => {
      expect(page.querySelector("canvas")?.width).toBe(3);
      expect(pixels()?.[4 * 5]).toBe(255);
    });
    expect(part("value")).toBe("3 × 2");
    relay.set("CAMERA", { value: image([2, 1], "ushortValue", Uint16Array.of(1000, 3000)) });
    await until(() => {
      expect([...(pixels() ?? [])]).toEqual([0, 0, 0, 255, 255, 255, 255, 255]);
    });
  });

  it("decodes JPEG and lz4, and says which codec it doesn't know", async () => {
    const encoded = (
      name: string,
      bytes: Uint8Array,
      sizes: readonly number[],
      uncompressedSize: number,
      parameters: number,
    ) => ({
      // A server may send more than the encoded bytes.
      value: { selected: "ubyteValue", value: Uint8Array.from([...bytes, 9, 9, 9]) },
      codec: { name, parameters },
      compressedSize: BigInt(bytes.length),
      uncompressedSize: BigInt(uncompressedSize),
      dimension: sizes.map((size) => ({ size, offset: 0 })),
      attribute: [],
    });
    const pixelsOf = (): Uint8ClampedArray | undefined => {
      const canvas = page.querySelector("canvas") as HTMLCanvasElement;
      const copy = document.createElement("canvas");
      Object.assign(copy, { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d");
      context?.drawImage(canvas, 0, 0);
      return context?.getImageData(0, 0, canvas.width, canvas.height).data;
    };
    const drawn = new OffscreenCanvas(32, 16);
    const context = drawn.getContext("2d") as OffscreenCanvasRenderingContext2D;
    context.fillStyle = "rgb(250, 20, 20)";
    context.fillRect(0, 0, 16, 16);
    context.fillStyle = "rgb(20, 20, 250)";
    context.fillRect(16, 0, 16, 16);
    const jpeg = await drawn.convertToBlob({ type: "image/jpeg", quality: 1 });
    const bytes = new Uint8Array(await jpeg.arrayBuffer());
    // areaDetector says 3 × 32 × 16 of unsigned bytes.
    relay.set("CAMERA", { value: encoded("jpeg", bytes, [3, 32, 16], 1536, 5) });
    show(<ImageView name="CAMERA" />);
    await until(() => {
      expect(part("value")).toBe("32 × 16");
      const pixels = pixelsOf() ?? new Uint8ClampedArray();
      const [left, right] = [pixels.slice(0, 3), pixels.slice(4 * 31, 4 * 31 + 3)];
      expect(Math.abs((left[0] ?? 0) - 250)).toBeLessThan(20);
      expect(Math.abs((right[2] ?? 0) - 250)).toBeLessThan(20);
    });
    expect(page.querySelector(".pvwire-nothing")).toBeNull();

    // By ScalarType and by NDDataType: both are unsigned 16 bits.
    for (const parameters of [6, 3]) {
      const packed = encoded("lz4", lz4Image.packed, [96, 40], lz4Image.size, parameters);
      relay.set("CAMERA", { value: packed });
      await until(() => {
        expect(part("value")).toBe("96 × 40");
      });
      relay.set("CAMERA", { value: image([3, 2], "ubyteValue", new Uint8Array(6)) });
      await until(() => {
        expect(part("value")).toBe("3 × 2");
      });
    }

    relay.set("CAMERA", { value: encoded("zfp", bytes, [32, 16], 512, 5) });
    await until(() => {
      expect(page.querySelector(".pvwire-nothing")?.textContent).toBe(
        "Codec zfp isn't supported: choose jpeg, lz4, bslz4, blosc or none in the detector's codec plugin",
      );
    });
    expect(page.querySelector("canvas")?.hidden).toBe(true);
    relay.set("CAMERA", { value: encoded("jpeg", Uint8Array.of(1, 2, 3), [3, 32, 16], 1536, 5) });
    await until(() => {
      expect(page.querySelector(".pvwire-nothing")?.textContent).toContain("can't be read as one");
    });
  });

  it("decodes lz4 to the bytes that were packed, and refuses damaged ones", async () => {
    const { packed, size } = lz4Image;
    expect(decodeLz4(packed, size)).toEqual(lz4Image.bytes);
    for (let length = 0; length < packed.length; length += 7) {
      expect(() => decodeLz4(packed.subarray(0, length), size)).toThrow("damaged");
    }
    expect(() => decodeLz4(packed, size - 1)).toThrow("damaged");
    expect(() => decodeLz4(packed, size + 1)).toThrow("damaged");
    const structure = {
      value: { selected: "ubyteValue", value: packed },
      codec: { name: "lz4", parameters: 6 },
      uncompressedSize: BigInt(size),
      dimension: [{ size: 96 }, { size: 40 }],
    };
    const picture = await decodeImage(structure);
    expect(picture).toMatchObject({ width: 96, height: 40, order: "mono" });
    expect(picture.elements).toEqual(new Uint16Array(lz4Image.bytes.buffer));
  });

  it("has the same colours by the graphics card as by the processor", () => {
    const canvas = document.createElement("canvas");
    const options = { allowSoftware: true, onFailed: vi.fn() };
    const painter = createGlPainter(canvas, options);
    const context = canvas.getContext("webgl2");
    const [width, height] = [16, 4];
    const mono = { width, height, order: "mono" } as const;
    const ramp = (step: number): number[] => Array.from({ length: 64 }, (_, at) => at * step);
    const pictures: Picture[] = [
      { ...mono, elements: Uint8Array.from(ramp(4)) },
      { ...mono, elements: Uint16Array.from(ramp(1000)) },
      { ...mono, elements: Float64Array.from(ramp(0.1)) },
      {
        width,
        height,
        order: "rgb1",
        elements: Uint8Array.from([...ramp(1), ...ramp(2), ...ramp(4)]),
      },
    ];
    for (const map of ["grey", "viridis", "heat"] as const) {
      for (const picture of pictures) {
        const range = rangeOf(picture.elements);
        const expected = new Uint8ClampedArray(4 * width * height);
        paint(picture, range, map, expected);
        painter?.paint(picture, range, map);
        const found = new Uint8Array(expected.length);
        context?.readPixels(0, 0, width, height, context.RGBA, context.UNSIGNED_BYTE, found);
        // The card counts rows from below; what lies between two of the map's levels may round.
        const differing = [...found].filter((_, at) => {
          const [row, column] = [Math.floor(at / (4 * width)), at % (4 * width)];
          const other = expected[4 * width * (height - 1 - row) + column] ?? NaN;
          return !(Math.abs((found[at] ?? NaN) - other) <= 8);
        });
        expect(differing).toEqual([]);
      }
    }
    const huge = { ...mono, width: 1 << 20, height: 1, elements: new Uint8Array(1 << 20) };
    expect(options.onFailed).not.toHaveBeenCalled();
    painter?.paint(huge, [0, 1], "grey");
    expect(options.onFailed, "larger than any card takes").toHaveBeenCalledOnce();
    painter?.end();
  });

  it("knows every order of colours", () => {
    const [red, green] = [
      [9, 0, 0],
      [0, 8, 0],
    ] as const;
    const orders = {
      rgb1: [
        [3, 2, 1],
        [...red, ...green],
      ],
      rgb2: [
        [2, 3, 1],
        [9, 0, 0, 8, 0, 0],
      ],
      rgb3: [
        [2, 1, 3],
        [9, 0, 0, 8, 0, 0],
      ],
    } as const;
    for (const [order, [sizes, elements]] of Object.entries(orders)) {
      const picture = pictureOf(
        image(sizes, "ubyteValue", Uint8Array.from(elements)),
        null,
        undefined,
      );
      expect(picture).toMatchObject({ width: 2, height: 1, order });
      const rgba = new Uint8ClampedArray(8);
      if (picture !== undefined) paint(picture, [0, 255], "grey", rgba);
      expect([...rgba]).toEqual([...red, 255, ...green, 255]);
    }
    expect(pictureOf(null, Uint8Array.of(1, 2, 3, 4), 2)).toMatchObject({ width: 2, height: 2 });
    expect(pictureOf(null, Uint8Array.of(1), undefined)).toBeUndefined();
    expect(rangeOf(Int16Array.of(3, -5, 2))).toEqual([-5, 3]);
  });

  it("gives the elements of cameras the colours of the same numbers", () => {
    const levels = [7, 0, 255, 128, 20, 200];
    const cameras = [
      Uint8Array.from(levels),
      Uint16Array.from(levels),
      Uint16Array.from(levels, (level) => 257 * level),
    ];
    for (const elements of cameras) {
      const painted = [elements, Float64Array.from(elements)].map((elements) => {
        const rgba = new Uint8ClampedArray(24);
        const picture: Picture = { width: 6, height: 1, order: "mono", elements };
        paint(picture, [10, rangeOf(elements)[1]], "viridis", rgba);
        return [...rgba];
      });
      expect(painted[0]).toEqual(painted[1]);
      expect(rangeOf(elements)).toEqual([0, Math.max(...elements)]);
    }
    expect(rangeOf(new Uint16Array())).toEqual([0, 1]);
  });
});

describe("TableView", () => {
  it("is a table with its labels", async () => {
    show(<TableView name="TABLE" maxRows={1} />);
    await until(() => {
      expect([...page.querySelectorAll("th")].map((head) => head.textContent)).toEqual([
        "Name",
        "Size",
      ]);
    });
    expect([...page.querySelectorAll("td")].map((cell) => cell.textContent)).toEqual(["a", "1"]);
    expect(page.textContent).toContain("1 more rows");
  });
});
