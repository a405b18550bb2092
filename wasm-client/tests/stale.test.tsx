/** When a widget shows a PV as stale. */

import { describe, expect, it } from "vitest";

import { Readback } from "../ts/widgets/index.js";
import { eachWithWidgetPage, part, relay, show, until } from "./widget_page.js";

eachWithWidgetPage();

describe("staleAfterMs", () => {
  it("counts updates, also with the same time stamp or the same value", async () => {
    relay.set("SAME", { value: 1, timeMs: 1_000_000_000_000 });
    show(<Readback name="SAME" staleAfterMs={600} />);
    await until(() => {
      expect(part("condition")).toBe("No alarm");
    });
    const end = Date.now() + 2500;
    let value = 0;
    while (Date.now() < end) {
      value += 1;
      // Every second update changes nothing that is shown.
      relay.set("SAME", { value: Math.floor(value / 2), timeMs: 1_000_000_000_000 });
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(part("condition")).toBe("No alarm");
    }
    await until(() => {
      expect(part("condition")).toMatch(/^Stale/);
    });
    relay.set("SAME", { value: Math.floor(value / 2), timeMs: 1_000_000_000_000 });
    await until(() => {
      expect(part("condition")).toBe("No alarm");
    });
  });
});
