/** What keeps large displays quick: few things are watched, and nothing makes the browser build its layers again. */

import { describe, expect, it } from "vitest";

import { parseDisplay, type WidgetSource } from "../ts/display/model/file.js";
import { extentOf } from "../ts/display/sight.js";
import { box, display, open, pv, value, when } from "./display_page.js";
import { eachWithWidgetPage, page, relay } from "./widget_page.js";

eachWithWidgetPage();

const text = (x: number, y: number, more = ""): string =>
  `<widget type="textupdate"><name>${String(x)} ${String(y)}</name><x>${String(x)}</x><y>${String(y)}</y>
    <width>50</width><height>20</height><pv_name>TEMP</pv_name>${more}</widget>`;

describe("the box around some widgets", () => {
  const sources = (inside: string): readonly WidgetSource[] =>
    parseDisplay(display(inside)).widgets;
  const four = text(10, 20) + text(60, 20) + text(10, 50) + text(100, 90);

  it("is that of all of them, with the sizes of their types", () => {
    expect(extentOf(sources(four))).toEqual({ left: 10, top: 20, width: 140, height: 90 });
    expect(extentOf(sources(`${four}<widget type="led"><x>-5</x><y>200</y></widget>`))).toEqual({
      left: -5,
      top: 20,
      width: 155,
      height: 200,
    });
  });

  const rule = (property: string): string =>
    `<rules><rule name="r" prop_id="${property}"><exp bool_exp="pv0"><value>9000</value></exp><pv_name>TEMP</pv_name></rule></rules>`;
  const script = `<scripts><script file="EmbeddedPy"><text>widget.setPropertyValue("y", PVUtil.getInt(pvs[0]))</text>
    <pv_name>TEMP</pv_name></script></scripts>`;

  it.each([
    ["rules move them", four + text(0, 0, rule("x"))],
    ["rules resize them", four + text(0, 0, rule("height"))],
    ["scripts that are rules move them", four + text(0, 0, script)],
    ["their content resizes them", four + text(0, 0, "<auto_size>true</auto_size>")],
    ["macros place them", `${four}<widget type="led"><x>$(X)</x></widget>`],
    ["they are larger than the window", four + text(0, 100_000)],
    ["they are few", text(0, 0)],
  ])("isn't used if %s", (_, inside) => {
    expect(extentOf(sources(inside))).toBe(undefined);
  });

  it("is, if rules only colour or hide them", () => {
    expect(extentOf(sources(four + text(0, 0, rule("visible"))))).not.toBe(undefined);
  });
});

it("widgets that come into sight together show the present value", async () => {
  const far = Array.from({ length: 6 }, (_, at) => text(0, 5000 + 30 * at)).join("");
  await open(`${pv("label", "")}${far}`);
  expect(page.querySelectorAll(".pvwire-display-extent")).toHaveLength(0);
  await open(far);
  expect(page.querySelectorAll(".pvwire-display-extent")).toHaveLength(1);
  const names = [0, 1, 2, 3, 4, 5].map((at) => `0 ${String(5000 + 30 * at)}`);
  await when(() => names.every((name) => value(name) === "21.5 °C"));
  relay.set("TEMP", 33);
  box(names[5] ?? "").scrollIntoView();
  await when(() => names.every((name) => value(name) === "33.0 °C"));
  relay.set("TEMP", { state: "disconnected" });
  await when(() => names.every((name) => box(name).dataset.state === "disconnected"));
  scrollTo(0, 0);
});

describe("of many widgets", () => {
  const many = (count: number, more = ""): string =>
    Array.from({ length: count }, (_, at) => text(0, 10 * at)).join("") + more;
  const chunks = (): Element[] => [...page.querySelectorAll(".pvwire-display-chunk")];

  it("some are drawn together, few are not", async () => {
    await open(many(40));
    await when(() => page.querySelectorAll("[data-pv]").length === 40);
    expect(chunks()).toEqual([]);
    await open(many(41));
    await when(() => page.querySelectorAll("[data-pv]").length === 41);
    expect(chunks().map(({ childElementCount }) => childElementCount)).toEqual([41, 1]);
  });

  it("a part has the size of what it is in, and only its widgets are clicked", async () => {
    const long = `<widget type="label"><name>long</name><x>300</x><text>two words</text><auto_size>true</auto_size></widget>`;
    const button = `<widget type="action_button"><name>under</name><x>100</x><y>40</y><width>80</width><height>30</height></widget>`;
    await open(button + long + many(60));
    await when(() => page.querySelectorAll("[data-pv]").length === 60);
    const sheet = page.querySelector(".pvwire-display-sheet") as Element;
    for (const chunk of chunks()) {
      expect(chunk.getBoundingClientRect()).toEqual(sheet.getBoundingClientRect());
    }
    // On one line: its room is that of the display.
    expect(box("long").getBoundingClientRect().height).toBeLessThan(25);
    const { left, top } = box("under").getBoundingClientRect();
    const hit = document.elementFromPoint(left + 40, top + 15);
    expect(box("under").contains(hit)).toBe(true);
  });

  it("no widget has a separate part of the page's layers", async () => {
    await open(pv("textupdate", "TEMP") + pv("led", "TEMP") + pv("label", ""));
    await when(() => value("textupdate") === "21.5 °C");
    for (const { contain } of ["textupdate", "led", "label"].map((name) =>
      getComputedStyle(box(name)),
    )) {
      expect(contain).toMatch(/layout/);
      expect(contain).not.toMatch(/style|paint|strict|content/);
    }
  });
});

it("a text that fits into a low box isn't clipped", async () => {
  const font = '<font><font family="Liberation Sans" size="9"/></font>';
  await open(pv("textupdate", "TEMP", `<width>54</width><height>11</height>${font}`));
  await when(() => value("textupdate") === "21.5 °C");
  expect(box("textupdate").dataset.wide).toBe(undefined);
  await open(pv("textupdate", "TEMP", `<width>54</width><height>10</height>${font}`));
  await when(() => box("textupdate").dataset.wide === "true");
});

it("widgets of many chunks all say so when the relay is lost, and follow it again", async () => {
  const many = Array.from({ length: 90 }, (_, at) => text(0, 10 * at)).join("");
  await open(many);
  const states = (): Set<string | undefined> =>
    new Set(
      [...page.querySelectorAll<HTMLElement>("[data-pv]")].map(({ dataset }) => dataset.state),
    );
  await when(() => page.querySelectorAll("[data-pv][data-present]").length === 90);
  relay.lose();
  await when(() => states().size === 1 && states().has("relayLost"));
  relay.restore();
  await when(() => states().size === 1 && states().has("connected"));
});
