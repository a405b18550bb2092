/** Present values of large displays are painted; in any other state a widget's elements are shown. */

import { describe, expect, it } from "vitest";

import { parseDisplay } from "../ts/display/model/file.js";
import { bandsOf } from "../ts/display/painting.js";
import { box, display, open, value, when } from "./display_page.js";
import { eachWithWidgetPage, page, relay } from "./widget_page.js";

eachWithWidgetPage();

const COUNT = 500;

/** So small that a value fits into its box for sure. */
const FONT = '<font><font family="Liberation Sans" size="9"/></font>';

interface Placed {
  readonly at: number;
  readonly type?: string;
  readonly pv?: string;
  readonly more?: string;
}

const widget = ({ at, more = "", pv = "TEMP", type = "textupdate" }: Placed): string =>
  `<widget type="${type}"><name>w${String(at)}</name><x>${String((at % 20) * 60)}</x><y>${String(Math.floor(at / 20) * 20)}</y>
    <width>56</width><height>18</height>${FONT}<pv_name>${pv}</pv_name>${more}</widget>`;

const many = (...special: readonly Placed[]): string =>
  Array.from({ length: COUNT }, (_, at) =>
    widget(special.find((each) => each.at === at) ?? { at }),
  ).join("");

/** Number of pixels of the canvases that are painted in a widget's box. */
function painted(name: string, around = 0): number {
  const { bottom, left: inner, right, top: upper } = box(name).getBoundingClientRect();
  const [left, top] = [inner - around, upper - around];
  const [width, height] = [right + around - left, bottom + around - top];
  let count = 0;
  for (const canvas of page.querySelectorAll("canvas")) {
    const own = canvas.getBoundingClientRect();
    const scale = canvas.width / own.width;
    const data = canvas
      .getContext("2d")
      ?.getImageData(
        Math.round((left - own.left) * scale),
        Math.round((top - own.top) * scale),
        width * scale,
        height * scale,
      ).data;
    for (let at = 3; data !== undefined && at < data.length; at += 4) count += data[at] ? 1 : 0;
  }
  return count;
}

const isPainted = (name: string): boolean => box(name).dataset.painted === "true";
const opacity = (name: string): string =>
  getComputedStyle(box(name).firstElementChild as Element).opacity;
const allPresent = (): boolean => page.querySelectorAll("[data-pv][data-present]").length === COUNT;

describe("of many widgets", () => {
  it("present values are painted, and the elements follow for readers", async () => {
    await open(many({ at: 1, type: "led", pv: "BITS" }, { at: 2, type: "progressbar" }));
    await when(allPresent);
    await when(() => page.querySelectorAll("[data-painted]").length === COUNT);
    expect(["w0", "w1", "w2"].map(opacity)).toEqual(["0", "0", "0"]);
    for (const name of ["w0", "w1", "w2"]) expect(painted(name), name).toBeGreaterThan(20);
    expect(value("w0")).toBe("21.5 °C");
    const before = painted("w2");
    relay.set("TEMP", 88);
    await when(() => painted("w2") > before || painted("w0") > 0);
    await when(() => value("w0") === "88.0 °C" && value("w499") === "88.0 °C");
  });

  it("a value that isn't present, or isn't as simple, is shown by its element", async () => {
    relay.set("LONG", "a text that is far too long for its box");
    const labelled = "<on_label>On</on_label><off_label>Off</off_label>";
    await open(
      many(
        { at: 1, pv: "LONG" },
        { at: 2, type: "led", pv: "BITS", more: labelled },
        { at: 3, pv: "OTHER" },
        { at: 4, type: "progressbar", more: "<scale_visible>true</scale_visible>" },
        { at: 5, more: "<rotation_step>1</rotation_step>" },
      ),
    );
    await when(() => isPainted("w0"));
    await when(() => value("w1") !== "–");
    for (const name of ["w1", "w2", "w3", "w4", "w5"]) {
      expect(isPainted(name), name).toBe(false);
      expect(opacity(name), name).toBe("1");
      expect(painted(name), name).toBe(0);
    }
    relay.set("TEMP", { unresponsive: true });
    await when(() => !isPainted("w0"));
    expect(opacity("w0")).toBe("1");
    expect(painted("w0")).toBe(0);
    relay.set("TEMP", { state: "disconnected" });
    await when(() => box("w0").dataset.state === "disconnected");
    expect(painted("w0")).toBe(0);
    expect(value("w0")).toBe("21.5 °C");
  });

  it("nothing is left of a value when the relay is lost, or when its widget is hidden", async () => {
    const hidden = `<rules><rule name="r" prop_id="visible" out_exp="false"><exp bool_exp="pv0 &gt; 50"><value>false</value></exp><pv_name>BITS</pv_name></rule></rules>`;
    await open(many({ at: 1, more: hidden }));
    await when(() => isPainted("w0") && isPainted("w1"));
    const { left, top } = box("w1").getBoundingClientRect();
    relay.set("BITS", 60);
    await when(() => page.querySelector('[data-name="w1"]') === null);
    const [canvas] = page.querySelectorAll("canvas");
    const own = canvas?.getBoundingClientRect() ?? new DOMRect();
    const scale = (canvas?.width ?? 0) / own.width;
    const data = canvas
      ?.getContext("2d")
      ?.getImageData((left - own.left) * scale, (top - own.top) * scale, 56 * scale, 18 * scale);
    expect(data?.data.every((byte) => byte === 0)).toBe(true);
    relay.lose();
    await when(() => box("w0").dataset.state === "relayLost");
    await when(() => page.querySelectorAll("[data-painted]").length === 0);
    expect(painted("w0")).toBe(0);
  });

  it("the border of an alarm is painted around its box, as long as there is one", async () => {
    await open(many({ at: 30, pv: "OTHER" }));
    relay.set("OTHER", 5);
    await when(() => isPainted("w30") && isPainted("w31"));
    const around = (): number => painted("w30", 2) - painted("w30");
    expect(around()).toBe(0);
    for (const severity of ["MINOR", "MAJOR", "INVALID"] as const) {
      relay.set("OTHER", { value: 5, severity });
      await when(() => box("w30").dataset.severity === severity && around() > 50);
      expect(getComputedStyle(box("w30")).outlineStyle).toBe("none");
    }
    // One beside it changes nothing of the border.
    const before = around();
    relay.set("TEMP", 22);
    await when(() => value("w31") === "22.0 °C");
    expect(around()).toBe(before);
    relay.set("OTHER", { value: 5, severity: "NO_ALARM" });
    await when(() => around() === 0);
    // Without a server, the element has the border.
    relay.set("OTHER", { value: 5, severity: "MAJOR" });
    await when(() => around() > 50);
    relay.set("OTHER", { state: "disconnected" });
    await when(() => around() === 0 && !isPainted("w30"));
    expect(getComputedStyle(box("w30")).outlineStyle).toBe("dotted");
  });

  it("a rule's colour is painted", async () => {
    const coloured = `<rules><rule name="r" prop_id="foreground_color" out_exp="false"><exp bool_exp="pv0 &gt; 50"><value><color red="255" green="0" blue="0"/></value></exp><pv_name>BITS</pv_name></rule></rules>`;
    await open(many({ at: 1, more: coloured }));
    await when(() => isPainted("w1"));
    relay.set("BITS", 60);
    const isRed = (): boolean => {
      const { left, top } = box("w1").getBoundingClientRect();
      return [...page.querySelectorAll("canvas")].some((canvas) => {
        const own = canvas.getBoundingClientRect();
        const scale = canvas.width / own.width;
        const data = canvas
          .getContext("2d")
          ?.getImageData(
            (left - own.left) * scale,
            (top - own.top) * scale,
            56 * scale,
            18 * scale,
          ).data;
        return data?.some((byte, at) => at % 4 === 0 && byte > 200) === true;
      });
    };
    await when(isRed);
  });
});

it("few widgets are not painted", async () => {
  await open(Array.from({ length: 100 }, (_, at) => widget({ at })).join(""));
  await when(() => page.querySelectorAll("[data-present]").length === 100);
  expect(page.querySelectorAll("canvas, [data-painted]")).toHaveLength(0);
});

describe("on a canvas, which is over all widgets,", () => {
  const paints = (inside: string, at: number): boolean => {
    const { widgets } = parseDisplay(display(inside));
    const source = widgets[at];
    return source !== undefined && bandsOf(widgets).get(source) !== undefined;
  };
  const over = (x: number, y: number): string =>
    `<widget type="rectangle"><x>${String(x)}</x><y>${String(y)}</y><width>10</width><height>10</height></widget>`;

  it("isn't what a later widget covers", () => {
    expect(paints(many(), 21)).toBe(true);
    expect(paints(many() + over(62, 22), 21)).toBe(false);
    expect(paints(many() + over(62, 22), 22)).toBe(true);
    // Beside each other.
    expect(paints(many() + over(116, 22), 21)).toBe(true);
    // One that is drawn before is below.
    expect(paints(over(62, 22) + many(), 22)).toBe(true);
  });

  it("is nothing that a widget may move over", () => {
    const moved = `<widget type="rectangle"><rules><rule name="r" prop_id="x"><exp bool_exp="pv0"><value>9</value></exp><pv_name>TEMP</pv_name></rule></rules></widget>`;
    expect(paints(many() + moved, 21)).toBe(false);
    expect(paints(moved + many(), 22)).toBe(true);
  });
});
