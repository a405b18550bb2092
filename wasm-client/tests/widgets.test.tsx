/** The text of each widget for its PV, including that for assistive technology. */

import type { ReactNode } from "react";
import { describe, expect, it } from "vitest";
import { userEvent } from "vitest/browser";

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
import { eachWithWidgetPage, page, part, relay, show, until, widget } from "./widget_page.js";

eachWithWidgetPage();

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
  it("is read-only where the relay takes no puts", async () => {
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
    expect(badge()?.title).toContain("not allowed by the relay");
    relay.set("TEMP", { mutable: false });
    await until(() => {
      expect(badge()?.title).toBe("The IOC gives no write access");
    });
  });
});

describe("every widget", () => {
  for (const [kind, make] of Object.entries(ALL)) {
    it(`shows stale, disconnected, not found and relay lost: ${kind}`, async () => {
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
        expect(part("condition")).toMatch(/^No response since \d\d:\d\d:\d\d$/);
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
      expect(new Set([stale, gone, lost, missing]).size, "each has a different shape").toBe(4);
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
    for (const [widget, expected] of cases) {
      show(widget);
      await until(() => {
        expect(nothing()).toBe(expected);
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

describe("a formula", () => {
  it("says that it can't be written, and blames no IOC", async () => {
    for (const name of ["=1 + 1", "eq://1 + 1"]) {
      show(
        <>
          <SetPoint name={name} />
          <Readback name={name} />
        </>,
      );
      await until(() => {
        expect(part("hint")).toBe("A formula can't be written");
      });
      expect(page.querySelector("[data-access]")?.getAttribute("title")).toBe(
        "A formula can't be written",
      );
    }
  });
});

describe("SetPoint of an array", () => {
  const field = (): HTMLInputElement => page.querySelector("input") as HTMLInputElement;

  it("sends nothing: what is typed would become its only element", async () => {
    relay.set("BYTES", { value: Uint8Array.of(1, 2, 3) });
    relay.set("ONE", { value: Float64Array.of(2.5) });
    relay.set("NAMES", { value: ["a", "b"] });
    for (const [name, shown] of [
      ["BYTES", "[1, 2, 3]"],
      ["ONE", "[2.5]"],
      ["NAMES", '["a", "b"]'],
      ["TABLE", ""],
    ] as const) {
      show(<SetPoint name={name} />);
      await until(() => {
        expect(part("hint"), name).toBe("Only programs write arrays and structures");
      });
      expect(field().value).toContain(shown);
      expect(field().readOnly, name).toBe(true);
    }
  });

  it("sends a text where the array is shown as one", async () => {
    const value = new TextEncoder().encode("abc");
    relay.set("NOTE.VAL$", { value });
    relay.set("FORMED", { value, form: "String" });
    for (const name of ["NOTE.VAL$", "FORMED"]) {
      show(<SetPoint name={name} />);
      await until(() => {
        expect(field().value).toBe("abc");
      });
      await userEvent.fill(field(), "4");
      await userEvent.keyboard("{Enter}");
      await until(() => {
        expect(relay.puts.at(-1)).toEqual({ name, value: "4" });
      });
    }
  });
});

interface Shown {
  readonly found: () => HTMLElement;
  readonly text: () => string | null | undefined;
}

describe("Readback", () => {
  it("updates less often out of sight and catches up in sight", async () => {
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
    await until(isBehind);
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
  it("sends within limits, shows results, picks a control by type", async () => {
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

  it("writes any finite number where the limits are equal", async () => {
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

  it("refuses nan, inf and overflow unless the page allows them", async () => {
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

  it("replaces the whole text if that was selected and an update came before the first key", async () => {
    show(<SetPoint name="TEMP" />);
    const field = (): HTMLInputElement => page.querySelector("input") as HTMLInputElement;
    await until(() => {
      expect(field().value).toBe("21.5");
    });
    await userEvent.tripleClick(field());
    for (const value of [22.5, 23.5, 24.5]) {
      relay.set("TEMP", { value });
      await until(() => {
        expect(field().value).toBe(value.toFixed(1));
      });
    }
    await userEvent.keyboard("7.25");
    expect(field().value).toBe("7.25");
  });

  it("has no step: numbers are written as typed", async () => {
    show(<SetPoint name="TEMP" />);
    await until(() => {
      expect(part("hint")).toBe("0 to 90 °C");
    });
    await send("19.555");
    await written();
    expect(relay.puts).toEqual([{ name: "TEMP", value: "19.555" }]);
  });

  it("steps integers of 64 bits by arrow keys without rounding them", async () => {
    relay.set("BIG", { value: 9_007_199_254_740_993n, type: "Int64" });
    show(<SetPoint name="BIG" />);
    const field = (): HTMLInputElement => page.querySelector("input") as HTMLInputElement;
    await until(() => {
      expect(field().value).toBe("9007199254740993");
    });
    field().focus();
    await userEvent.keyboard("{ArrowUp}");
    expect(field().value).toBe("9007199254740994");
    await userEvent.keyboard("{PageDown}");
    expect(field().value).toBe("9007199254740984");
    // Limits hold.
    relay.set("SMALL", { value: 4, type: "Int32", controlRange: { min: 0, max: 5 } });
    show(<SetPoint name="SMALL" />);
    await until(() => {
      expect(field().value).toBe("4");
    });
    field().focus();
    await userEvent.keyboard("{PageUp}");
    expect(field().value).toBe("5");
    await userEvent.keyboard("{PageDown}");
    expect(field().value).toBe("0");
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

describe("SetPoint as a slider", () => {
  const thumb = (): HTMLInputElement => page.querySelector("input") as HTMLInputElement;
  const shown = (value: string): Promise<void> =>
    until(() => {
      expect(thumb().value).toBe(value);
    });

  it("shows the PV's value, not the nearest step, and steps from it", async () => {
    const controlRange = { min: 0, max: 10 };
    relay.set("HALF", { value: 0.5, precision: 0, controlRange });
    show(<SetPoint name="HALF" control="slider" />);
    await shown("0.5");
    thumb().focus();
    await userEvent.keyboard("{ArrowRight}");
    await until(() => {
      expect(relay.puts).toEqual([{ name: "HALF", value: 1.5 }]);
    });
    // A position is one of the steps from the lower limit.
    await userEvent.fill(thumb(), "7.3");
    await until(() => {
      expect(relay.puts.at(-1)).toEqual({ name: "HALF", value: 7 });
    });
    await userEvent.keyboard("{End}");
    await until(() => {
      expect(relay.puts.at(-1)).toEqual({ name: "HALF", value: 10 });
    });
  });

  it("is not moved the other way from outside the limits", async () => {
    relay.set("OUT", { value: 12, precision: 1, controlRange: { min: 0, max: 10 } });
    show(<SetPoint name="OUT" control="slider" />);
    await until(() => {
      expect(part("value")).toBe("12.0");
    });
    thumb().focus();
    await userEvent.keyboard("{ArrowUp}");
    await userEvent.keyboard("{ArrowDown}");
    await until(() => {
      expect(relay.puts).toEqual([{ name: "OUT", value: 10 }]);
    });
  });

  it("can't be moved while the PV has no value", async () => {
    relay.set("NOTHING", { state: "connected", controlRange: { min: 0, max: 10 } });
    show(<SetPoint name="NOTHING" control="slider" />);
    await until(() => {
      expect(widget().dataset.state).toBe("connected");
    });
    expect(thumb().disabled).toBe(true);
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

  it("shows integers with all digits", async () => {
    const numbers = Float64Array.of(2_147_483_647, -123_456_789_012, 0.1 + 0.2);
    relay.set("WHOLE", { value: { labels: ["N"], value: { n: numbers } } });
    show(<TableView name="WHOLE" />);
    await until(() => {
      const cells = [...page.querySelectorAll("td")].map((cell) => cell.textContent);
      expect(cells).toEqual(["2147483647", "-123456789012", "0.3"]);
    });
  });
});
