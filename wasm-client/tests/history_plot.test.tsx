/** Plots over time: all of a page have one time, which each of them and the page's control change. */

import { useState } from "react";
import { expect, it, vi } from "vitest";

import {
  HistoryPlot,
  Sparkline,
  TimeControl,
  TimeRangeProvider,
  usePastEnd,
  useTimeRange,
  type TimeRange,
} from "../ts/plots/index.js";
import "../ts/plots/plots.css";
import { client, eachWithWidgetPage, page, relay, show, until } from "./widget_page.js";

eachWithWidgetPage();

const SECOND = 1000;

/** A table that follows the page: it has the moment whose values it would show. */
function Moment() {
  const end = usePastEnd();
  return <output>{end === undefined ? "now" : String(end)}</output>;
}

const cell = (name: string, column: string): string =>
  page.querySelector(`[data-trace="${name}"] [data-column="${column}"]`)?.textContent ?? "";

const charts = (): HTMLElement[] => [...page.querySelectorAll<HTMLElement>(".pvwire-chart")];

function press(name: string): void {
  const button = [...page.querySelectorAll("button")].find((each) => each.textContent === name);
  if (button === undefined) throw new Error(`no button ${name}`);
  button.click();
}

function setPasts(): number {
  const now = Date.now();
  for (const [name, first] of [
    ["P", 1],
    ["Q", 10],
  ] as const) {
    relay.set(name, { value: first, timeMs: now - 3600 * SECOND, units: "mA" });
    relay.set(name, { value: 2 * first, timeMs: now - 1800 * SECOND });
    relay.set(name, { value: 3 * first, timeMs: now - SECOND });
  }
  return now;
}

it("show one past interval, which a table follows, and the present again", async () => {
  const now = setPasts();
  const range: TimeRange = {
    kind: "past",
    fromMs: now - 4000 * SECOND,
    toMs: now - 2000 * SECOND,
  };
  show(
    <TimeRangeProvider defaultRange={range}>
      <TimeControl />
      <HistoryPlot names={["P"]} />
      <HistoryPlot names={["Q"]} />
      <Sparkline name="P" />
      <Moment />
    </TimeRangeProvider>,
  );
  await until(() => {
    expect([cell("P", "at"), cell("P", "high")]).toEqual(["1 mA", "1 mA"]);
    expect(cell("Q", "at")).toBe("10 mA");
    expect(page.querySelector("output")?.textContent).toBe(String(range.toMs));
    expect(page.querySelector(".pvwire-sparkline path")?.getAttribute("d")).toMatch(/^M/);
    expect(page.querySelectorAll(".pvwire-chart canvas")).toHaveLength(2);
  });
  press("Later ▶");
  await until(() => {
    expect([cell("P", "at"), cell("P", "low"), cell("P", "high")]).toEqual([
      "2 mA",
      "1 mA",
      "2 mA",
    ]);
    expect(cell("Q", "at")).toBe("20 mA");
    expect(page.querySelector("output")?.textContent).toBe(String(range.toMs + 1000 * SECOND));
  });
  press("10 min");
  await until(() => {
    expect(page.querySelector('th[data-column="at"]')?.textContent).toBe("Now");
    expect(cell("P", "at")).toBe("3 mA");
    expect(cell("Q", "low")).toBe("20 mA");
    expect(page.querySelector("output")?.textContent).toBe("now");
  });
});

it("a key in one chart zooms all of them, and a page may keep the time itself", async () => {
  setPasts();
  const chosen: TimeRange[] = [];
  function Page() {
    const [range, setRange] = useState<TimeRange>({ kind: "live", seconds: 7200 });
    return (
      <TimeRangeProvider
        range={range}
        onChange={(next) => {
          chosen.push(next);
          setRange(next);
        }}
      >
        <HistoryPlot names={["P", "Q"]} options={{ isStacked: true }} />
      </TimeRangeProvider>
    );
  }
  show(<Page />);
  await until(() => {
    expect(charts()).toHaveLength(2);
    expect(cell("P", "low")).toBe("1 mA");
  });
  charts()[1]?.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
  await until(() => {
    const [first] = chosen;
    expect(first?.kind === "past" && first.toMs - first.fromMs).toBe(3600 * SECOND);
    expect([cell("P", "low"), cell("P", "high")]).toEqual(["1 mA", "2 mA"]);
  });
});

it("draws what is chosen, without the PVs that are hidden, and takes the colours of the page", async () => {
  setPasts();
  show(
    <TimeRangeProvider defaultRange={{ kind: "live", seconds: 7200 }}>
      <HistoryPlot names={["P", "Q"]} />
    </TimeRangeProvider>,
  );
  const colour = (): string | null | undefined =>
    page.querySelector(".pvwire-swatch path")?.getAttribute("stroke");
  await until(() => {
    expect(charts()).toHaveLength(1);
    expect(colour()).toBe("#0b62a8");
  });
  press("Below each other");
  await until(() => {
    expect(charts()).toHaveLength(2);
  });
  page.querySelector<HTMLInputElement>('input[aria-label="Show Q"]')?.click();
  await until(() => {
    expect(charts()).toHaveLength(1);
  });
  page.style.colorScheme = "dark";
  await until(() => {
    expect(colour()).toBe("#6cb4f5");
  });
});

it("asks seldom while its time moves, and at last for the time that is shown", async () => {
  const now = setPasts();
  const questions = vi.spyOn(client, "history");
  let change: (range: TimeRange) => void = () => undefined;
  function Time() {
    const [, setRange] = useTimeRange();
    change = setRange;
    return null;
  }
  const before = (ms: number): TimeRange => ({
    kind: "past",
    fromMs: now - ms - 1800 * SECOND,
    toMs: now - ms,
  });
  show(
    <TimeRangeProvider defaultRange={before(SECOND)}>
      <Time />
      <HistoryPlot names={["P"]} />
    </TimeRangeProvider>,
  );
  await until(() => {
    expect(questions).toHaveBeenCalledTimes(1);
  });
  const began = performance.now();
  for (let frame = 2; frame <= 40; frame += 1) {
    await new Promise(requestAnimationFrame);
    change(before(frame * SECOND));
  }
  const seconds = (performance.now() - began) / 1000;
  await until(() => {
    const last = questions.mock.lastCall?.[1]?.to;
    expect(last).toBe(new Date(now - 40 * SECOND).toISOString());
  });
  expect(questions.mock.calls.length).toBeLessThan(4 + 10 * seconds);
});

it("a plot without a provider has its own time", async () => {
  setPasts();
  show(<HistoryPlot names={["P"]} />);
  await until(() => {
    expect([cell("P", "at"), cell("P", "low"), cell("P", "high")]).toEqual([
      "3 mA",
      "2 mA",
      "3 mA",
    ]);
  });
});

it("the date below the last tick is whole on a phone", async () => {
  relay.set("P", { value: 1, units: "mA" });
  const ends: { text: string; left: number; right: number; width: number }[] = [];
  const drawn = vi.spyOn(CanvasRenderingContext2D.prototype, "fillText");
  drawn.mockImplementation(function (this: CanvasRenderingContext2D, text, x, y) {
    const transform = this.getTransform();
    const half = this.textAlign === "center" ? (transform.a * this.measureText(text).width) / 2 : 0;
    const at = transform.transformPoint(new DOMPoint(x, y)).x;
    ends.push({ text, left: at - half, right: at + half, width: this.canvas.width });
  });
  try {
    // The only tick is at the end of the interval.
    const midnight = Date.UTC(2026, 0, 31);
    const range = { kind: "past", fromMs: midnight - 50 * SECOND, toMs: midnight } as const;
    show(
      <div style={{ width: 340 }}>
        <TimeRangeProvider range={range}>
          <HistoryPlot names={["P"]} isUtc />
        </TimeRangeProvider>
      </div>,
    );
    await until(() => {
      expect(ends.some(({ text }) => text.includes("2026-01-31"))).toBe(true);
    });
    expect(ends.filter(({ left, right, width }) => left < 0 || right > width)).toEqual([]);
  } finally {
    drawn.mockRestore();
  }
});
