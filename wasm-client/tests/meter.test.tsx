/** What meters and colour bars show of a range. */

import { describe, expect, it } from "vitest";

import { ImageView, Meter } from "../ts/widgets/index.js";
import {
  eachWithWidgetPage,
  image,
  page,
  part,
  relay,
  show,
  until,
  widget,
} from "./widget_page.js";

eachWithWidgetPage();

describe("a meter", () => {
  const LIMITS = {
    displayRange: { min: 0, max: 100 },
    warningRange: { min: 10, max: 80 },
    alarmRange: { min: 5, max: 120 },
  };

  it("paints the range that the value is in, and not that at the other end", async () => {
    relay.set("M", { ...LIMITS, value: 50, units: "bar" });
    show(<Meter name="M" />);
    const painted = (): string[] => {
      const line = getComputedStyle(widget().querySelector(".pvwire-widget-body") as Element);
      return [...page.querySelectorAll<HTMLElement>(".pvwire-gauge-band")]
        .filter((band) => getComputedStyle(band).backgroundColor === line.borderTopColor)
        .filter((band) => band.getBoundingClientRect().width > 1)
        .map((band) => `${band.dataset.side ?? ""} ${band.className.split("-").at(-1) ?? ""}`);
    };
    for (const [value, severity, wanted] of [
      [50, "NO_ALARM", []],
      [90, "MINOR", ["high warning"]],
      [110, "MINOR", ["high warning"]],
      [150, "MAJOR", ["high alarm"]],
      [3, "MAJOR", ["low alarm"]],
      [-20, "MAJOR", ["low alarm"]],
      [50, "MAJOR", []],
    ] as const) {
      relay.set("M", { value, severity });
      await until(() => {
        expect(part("value")).toContain(String(value));
        expect(painted(), String(value)).toEqual(wanted);
      });
    }
    relay.set("M", { value: 150 });
    await until(() => {
      expect(page.querySelector(".pvwire-scale-ends")?.textContent).toBe("0100 bar ▸");
    });
  });
});

describe("a colour bar", () => {
  it("has the numbers themselves at its ends", async () => {
    relay.set("DEEP", { value: image([2, 1], "ushortValue", Uint16Array.of(12345, 65535)) });
    show(<ImageView name="DEEP" />);
    await until(() => {
      expect(page.querySelector(".pvwire-colour-bar")?.textContent).toBe("6553512345");
    });
  });
});
