/** What charts draw: their curves as pixels, and each label of their axes as it is drawn. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { StripChart, WaveformPlot } from "../ts/widgets/index.js";
import { eachWithWidgetPage, page, part, relay, show, until } from "./widget_page.js";

eachWithWidgetPage();

interface Label {
  readonly text: string;
  readonly left: number;
  readonly right: number;
}

/** The labels of the last drawing of the axes. */
let drawn: Label[] = [];

beforeEach(() => {
  drawn = [];
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with the context below
  const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
  vi.spyOn(CanvasRenderingContext2D.prototype, "clearRect").mockImplementation(function (
    this: CanvasRenderingContext2D,
    ...box
  ) {
    drawn = [];
    clearRect.apply(this, box);
  });
  vi.spyOn(CanvasRenderingContext2D.prototype, "fillText").mockImplementation(function (
    this: CanvasRenderingContext2D,
    text: string,
    x: number,
    y: number,
  ) {
    const { width } = this.measureText(text);
    const left = { right: x - width, center: x - width / 2 }[this.textAlign as string] ?? x;
    drawn.push({ text, left, right: left + width });
    fillText.call(this, text, x, y);
  });
});

afterEach(() => {
  vi.restoreAllMocks();
});

const canvas = (): HTMLCanvasElement => page.querySelector("canvas") as HTMLCanvasElement;

/** The labels of the vertical axis, none of which is cut. */
function yLabels(): string[] {
  const { width } = canvas();
  for (const { left, right, text } of drawn) {
    expect(left, `${text} is cut`).toBeGreaterThanOrEqual(0);
    expect(right, `${text} is cut`).toBeLessThanOrEqual(width + 1);
  }
  return drawn
    .map(({ text }) => text)
    .filter((text) => !/:|^\d+$/.test(text) || !text.includes(":"));
}

/** Waits for labels of numbers from `low` to `high`. */
async function untilLabels(low: number, high: number, what: string): Promise<void> {
  await until(() => {
    const labels = yLabels();
    const numbers = labels.map(Number).filter((number) => number >= low && number <= high);
    expect(new Set(numbers).size, `${what}: ${labels.join(" ")}`).toBeGreaterThanOrEqual(2);
    expect(new Set(labels).size, what).toBe(labels.length);
  });
}

describe("the labels of a strip chart", () => {
  it("are whole, right and distinct for tiny, large and negative numbers", async () => {
    for (const [value, from, to] of [
      [1.2345e-9, 1.1e-9, 1.4e-9],
      [-12345.678, -13600, -11100],
      [123456789, 1.1e8, 1.4e8],
      [6.02e23, 5e23, 7e23],
      [-1e-300, -1.2e-300, -0.8e-300],
    ] as const) {
      const name = `N${String(value)}`;
      relay.set(name, { value });
      show(<StripChart key={name} name={name} />);
      await untilLabels(from, to, name);
    }
  });

  it("are the choices of an enum", async () => {
    show(<StripChart name="MODE" />);
    await until(() => {
      expect(drawn.map(({ text }) => text)).toContain("On");
    });
    relay.set("MODE", { value: 0 });
    await until(() => {
      const labels = drawn.map(({ text }) => text).filter((text) => !text.includes(":"));
      expect(labels).toEqual(["Off", "On"]);
    });
  });
});

describe("a curve that is flat but for one bit", () => {
  const pairs = [
    [1, 1.0000000000000002],
    [1e300, 1.0000000000000002e300],
    [0, Number.MIN_VALUE],
    [-Number.MAX_VALUE, Number.MAX_VALUE],
    [123456789.12345678, 123456789.1234568],
    [NaN, 5],
    [Infinity, -Infinity],
  ] as const;

  it("is drawn, at any magnitude", async () => {
    for (const [at, pair] of pairs.entries()) {
      relay.set(`FLAT${String(at)}`, { value: Float64Array.from(pair) });
      show(<WaveformPlot key={at} name={`FLAT${String(at)}`} />);
      await until(() => {
        expect(part("value")).toBe("2 elements");
        expect(drawn.length).toBeGreaterThan(2);
      });
    }
  });

  it("is drawn in ranges that an application sets, whatever they are", async () => {
    relay.set("FLAT", { value: Float64Array.of(1, 2) });
    for (const range of [
      [1, 1.0000000000000002],
      [5, 5],
      [10, 0],
      [NaN, 3],
      [-Infinity, Infinity],
      [1e308, -1e308],
      [0, Number.MIN_VALUE],
    ] as const) {
      show(<WaveformPlot key={String(range)} name="FLAT" yRange={range} />);
      await until(() => {
        expect(drawn.length, String(range)).toBeGreaterThan(2);
      });
    }
    for (const seconds of [0, -5, NaN, 1e-9, Infinity, 1e12]) {
      show(<StripChart key={seconds} name="TEMP" windowSeconds={seconds} />);
      drawn = [];
      await until(() => {
        expect(drawn.length, String(seconds)).toBeGreaterThan(0);
      });
    }
  });
});

describe("the curve of a strip chart", () => {
  /** Columns of the plot in which the curve is drawn, from 0 to 1, with its heights. */
  function columns(): { readonly at: number; readonly top: number; readonly bottom: number }[] {
    const { height, width } = canvas();
    const context = canvas().getContext("2d") as CanvasRenderingContext2D;
    const { data } = context.getImageData(0, 0, width, height);
    // The curve is the only thing in this colour.
    const ink = getComputedStyle(page.querySelector(".pvwire-plot") as Element).caretColor;
    const [red, green, blue] = ink.match(/\d+/g)?.map(Number) ?? [];
    const over = page.querySelector<HTMLElement>(".u-over");
    const ratio = width / canvas().clientWidth;
    const [from, room] = [(over?.offsetLeft ?? 0) * ratio, (over?.offsetWidth ?? 0) * ratio];
    const found = [];
    for (let x = Math.ceil(from); x < from + room; x += 1) {
      let [top, bottom] = [Infinity, -Infinity];
      for (let y = 0; y < height; y += 1) {
        const at = 4 * (y * width + x);
        const isInk = data[at] === red && data[at + 1] === green && data[at + 2] === blue;
        if (!isInk) continue;
        top = Math.min(top, y);
        bottom = Math.max(bottom, y);
      }
      if (top <= bottom) found.push({ at: (x - from) / room, top, bottom });
    }
    return found;
  }

  const SECOND = 1000;

  it("is a line over the whole width for a PV that doesn't change", async () => {
    relay.set("STATIC", { value: 5, timeMs: Date.now() - 3600 * SECOND });
    show(<StripChart name="STATIC" windowSeconds={30} />);
    await until(() => {
      const all = columns();
      expect(all[0]?.at).toBeLessThan(0.02);
      expect(all.at(-1)?.at).toBeGreaterThan(0.98);
    });
    const clock = new Date().toTimeString().slice(0, 5);
    const before = new Date(Date.now() - 60 * SECOND).toTimeString().slice(0, 5);
    const labels = drawn.map(({ text }) => text).filter((text) => text.includes(":"));
    expect(labels.length).toBeGreaterThan(0);
    for (const label of labels) expect([clock, before]).toContain(label.slice(0, 5));
    expect(page.querySelector('[data-part="by-arrival"]')).toBeNull();
  });

  it("is a step and no ramp", async () => {
    relay.set("STEP", { value: 100, timeMs: Date.now() - 3600 * SECOND });
    show(<StripChart name="STEP" windowSeconds={60} yRange={[0, 1100]} />);
    await until(() => {
      expect(columns().length).toBeGreaterThan(50);
    });
    relay.set("STEP", { value: 1000, timeMs: Date.now() });
    await until(() => {
      const all = columns();
      expect(all.at(-1)?.top).toBeLessThan((all[0]?.top ?? 0) - 50);
    });
    const all = columns();
    // Every column but those of the step itself has the one or the other value.
    const heights = new Set(
      all.filter(({ bottom, top }) => bottom - top < 6).map(({ top }) => top),
    );
    expect([...heights].length).toBeLessThanOrEqual(4);
  });

  it("stays when height, window or range change, as with a window's size", async () => {
    relay.set("KEPT", { value: 100, timeMs: Date.now() - 3600 * SECOND });
    const start = { windowSeconds: 60, yRange: [0, 1100], height: 180 } as const;
    show(<StripChart name="KEPT" {...start} />);
    await until(() => {
      expect(columns().length).toBeGreaterThan(50);
    });
    relay.set("KEPT", { value: 1000, timeMs: Date.now() });
    for (const changed of [
      {},
      { height: 300 },
      { windowSeconds: 30 },
      { yRange: [-500, 2000] },
    ] as const) {
      const props = { ...start, ...changed };
      show(<StripChart name="KEPT" {...props} />);
      await until(() => {
        const all = columns();
        expect(all[0]?.at).toBeLessThan(0.02);
        expect(all.at(-1)?.top).toBeLessThan((all[0]?.top ?? 0) - 30);
        expect(canvas().clientHeight).toBe(props.height);
      });
    }
  });

  it("begins at the left edge also of an axis that grows", async () => {
    const now = Date.now();
    relay.set("LONG", { value: 100, timeMs: now - 300 * SECOND });
    relay.set("LONG", { value: 1000, timeMs: now - 100 * SECOND });
    for (const [windowSeconds, hasStep] of [
      [20, false],
      [200, true],
      [20, false],
      [200, true],
    ] as const) {
      show(<StripChart name="LONG" windowSeconds={windowSeconds} yRange={[0, 1100]} />);
      await until(() => {
        const all = columns();
        expect(all[0]?.at).toBeLessThan(0.02);
        expect((all[0]?.top ?? 0) - (all.at(-1)?.top ?? 0) > 50).toBe(hasStep);
      });
    }
  });

  it("has a gap while the PV is disconnected", async () => {
    relay.set("GAP", { value: 5, timeMs: Date.now() - 3600 * SECOND });
    show(<StripChart name="GAP" windowSeconds={2} />);
    await until(() => {
      expect(columns().at(-1)?.at).toBeGreaterThan(0.95);
    });
    relay.set("GAP", { state: "disconnected" });
    await until(() => {
      expect(columns().at(-1)?.at).toBeLessThan(0.8);
    });
    relay.set("GAP", { state: "connected" });
    await until(() => {
      const all = columns().map(({ at }) => at);
      const jumps = all.filter((at, place) => at - (all[place - 1] ?? at) > 0.05);
      expect(jumps).toHaveLength(1);
      expect(all.at(-1)).toBeGreaterThan(0.95);
    });
  });

  it("says that values without usable time stamps are drawn by arrival", async () => {
    relay.set("STUCK", { value: 1, timeMs: 1_000_000_000_000 });
    show(<StripChart name="STUCK" />);
    await until(() => {
      expect(part("value")).toBe("1");
    });
    expect(part("by-arrival")).toBe("");
    // The chart is loaded after the value, and compares what it has seen itself.
    await until(() => {
      expect(columns().length).toBeGreaterThan(50);
    });
    relay.set("STUCK", { value: 2, timeMs: 1_000_000_000_000 });
    await until(() => {
      expect(part("by-arrival")).toBe("By time of arrival: time stamps that don't change");
    });
    show(<StripChart name="TEMP" />);
    expect(part("by-arrival"), "the note belongs to its PV").toBe("");
  });
});
