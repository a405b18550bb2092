/** What displays show: rules without a value, borders at edges, long texts, pictures, limits on scales. */

import { describe, expect, it, onTestFinished } from "vitest";

import { paletteOf } from "../ts/display/index.js";
import {
  display,
  box,
  FILES,
  isShown,
  notes,
  open,
  part,
  pv,
  value,
  when,
} from "./display_page.js";
import { eachWithWidgetPage, page, relay } from "./widget_page.js";

eachWithWidgetPage();

describe("a rule", () => {
  const rule = (condition: string, name: string, type = "label"): string =>
    `<widget type="${type}"><name>ruled</name><rules><rule name="r" prop_id="visible" out_exp="false">
      <exp bool_exp="${condition}"><value>false</value></exp><pv_name>${name}</pv_name></rule></rules></widget>`;

  it("takes the default of a macro that has no value, and isn't evaluated without one", async () => {
    await open(rule("pv0 &gt; $(LIM=2)0", "$(P=TE)MP"));
    await when(() => page.querySelector('[data-name="ruled"]') === null);
    await open(rule("pv0 &gt; $(LIM)0", "TEMP"));
    await when(() => notes.some(({ kind, text }) => kind === "pv" && text.startsWith("rule:")));
    expect(box("ruled")).not.toBe(null);
  });

  it("that can't work on its PV's value is said and marks the widget, until it can", async () => {
    await open(rule("pvInt0 &gt; 9", "TEMP"));
    await when(() => page.querySelector('[data-name="ruled"]') === null);
    relay.set("TEMP", NaN);
    await when(() => page.querySelector('[data-name="ruled"]') !== null);
    const isSaid = (): boolean => notes.some(({ text }) => text.includes("pvInt0 has no integer"));
    expect(box("ruled").title).toContain("pvInt0 has no integer");
    await when(isSaid);
    relay.set("TEMP", 5);
    await when(() => box("ruled").title === "" && !isSaid());
  });

  it("has a number as text with its units and without digits behind the point, as Phoebus has it", async () => {
    await open(rule("pvStr0 == '22 °C'", "TEMP"));
    await when(() => page.querySelector('[data-name="ruled"]') === null);
    relay.set("TEMP", 22.6);
    await when(() => page.querySelector('[data-name="ruled"]') !== null);
  });

  it("whose PV is gone marks the widget, and its tooltip names the PV", async () => {
    await open(rule("pv0 &gt; 99", "TEMP") + pv("textupdate", "TEMP"));
    await when(() => value("textupdate") === "21.5 °C");
    expect(getComputedStyle(box("ruled")).outlineStyle).toBe("none");
    expect(box("ruled").title).toBe("");
    relay.set("TEMP", { state: "disconnected" });
    await when(() => box("ruled").title.includes("TEMP"));
    expect(getComputedStyle(box("ruled")).outlineStyle).toBe("dotted");
    expect(getComputedStyle(box("ruled"), "::after").backgroundImage).toContain("gradient");
    relay.set("TEMP", 20);
    await when(() => box("ruled").title === "");
    expect(getComputedStyle(box("ruled")).outlineStyle).toBe("none");
  });

  it("whose PV is gone marks also a widget that writes its values without rendering", async () => {
    relay.set("OTHER", 1);
    const bare = rule("pv0 &gt; 99", "OTHER", "textupdate");
    await open(bare.replace("</name>", "</name><pv_name>TEMP</pv_name>"));
    await when(() => value("ruled") === "21.5 °C");
    relay.set("OTHER", { unresponsive: true });
    await when(() => box("ruled").title.includes("OTHER"));
    expect(getComputedStyle(box("ruled")).outlineStyle).toBe("dotted");
    expect(box("ruled").dataset.present).toBe("true");
  });

  it("of a file of version 1 has severity 1 in major alarm, not in minor alarm", async () => {
    const isHidden = (): boolean => page.querySelector('[data-name="ruled"]') === null;
    await open(rule("pvSev0 == 1", "TEMP") + pv("textupdate", "TEMP"), {}, "1.0.0");
    relay.set("TEMP", { value: 70, severity: "MINOR" });
    await when(() => value("textupdate") === "70.0 °C");
    expect(isHidden()).toBe(false);
    relay.set("TEMP", { value: 90, severity: "MAJOR" });
    await when(isHidden);
  });
});

it("tabs follow a PV and the operator, the later of both", async () => {
  relay.set("TAB", 0);
  const tab = (name: string): string => `<tab><name>${name}</name><children>
    <widget type="label"><name>${name}</name></widget></children></tab>`;
  const script = `<scripts><script file="EmbeddedPy"><text>widget.setPropertyValue("active_tab", PVUtil.getInt(pvs[0]))
    </text><pv_name>TAB</pv_name></script></scripts>`;
  await open(
    `<widget type="tabs"><name>t</name>${script}<tabs>${tab("one")}${tab("two")}${tab("three")}</tabs></widget>`,
  );
  await when(() => isShown("one"));
  relay.set("TAB", 2);
  await when(() => isShown("three") && !isShown("one"));
  [...box("t").querySelectorAll<HTMLElement>('[role="tab"]')][1]?.click();
  await when(() => isShown("two") && !isShown("three"));
  relay.set("TAB", 0);
  await when(() => isShown("one") && !isShown("two"));
  expect(notes).toEqual([]);
});

it("widgets beyond the display's size are scrolled to, also where a rule has moved them", async () => {
  const size = "<width>300</width><height>200</height>";
  const beyond = `<widget type="rectangle"><name>far</name><x>340</x><y>50</y><width>40</width><height>20</height></widget>`;
  const moved = `<widget type="rectangle"><name>moved</name><width>10</width><height>20</height>
    <rules><rule name="r" prop_id="y"><exp bool_exp="pv0 &gt; 50"><value>400</value></exp>
    <pv_name>TEMP</pv_name></rule></rules></widget>`;
  relay.set("TEMP", { value: 20 });
  await open(size + beyond + moved);
  const sheet = page.querySelector(".pvwire-display-sheet") as HTMLElement;
  const isSized = (width: number, height: number): boolean =>
    sheet.offsetWidth === width && sheet.offsetHeight === height;
  await when(() => isShown("moved") && isSized(380, 200));
  relay.set("TEMP", { value: 60 });
  await when(() => isSized(380, 420));
  relay.set("TEMP", { value: 20 });
  await when(() => isSized(380, 200));
});

describe("an embedded display", () => {
  const embed = (size: number, resize: number): string => {
    FILES["part.bob"] = `<display><width>100</width><height>20</height>
      <widget type="textupdate"><name>inner</name><pv_name>TEMP</pv_name></widget></display>`;
    return `<widget type="embedded"><name>e</name><file>part.bob</file><resize>${String(resize)}</resize>
      <width>${String(size)}</width><height>20</height></widget>`;
  };

  /** How each box around a widget, up to the embedded display's, cuts what is outside it. */
  function cutsAround(name: string): string[] {
    const cuts: string[] = [];
    for (let at = box(name).parentElement; at !== null; at = at.parentElement) {
      const { overflowClipMargin, overflowX } = getComputedStyle(at);
      cuts.push(overflowX === "clip" ? `clip ${overflowClipMargin}` : overflowX);
      if (at.dataset.name === "e") break;
    }
    return cuts;
  }

  it.each([0, 1, 2, 3, 4])("shows the alarm border of a widget at its edge: %s", async (resize) => {
    await open(embed(100, resize));
    await when(() => page.querySelector('[data-name="inner"]') !== null);
    for (const cut of cutsAround("inner")) expect(cut).toBe("clip 4px");
  });

  it("that is larger than its box is scrolled, or cropped at the box", async () => {
    await open(embed(50, 0));
    await when(() => page.querySelector('[data-name="inner"]') !== null);
    expect(cutsAround("inner").at(-1)).toBe("auto");
    await open(embed(50, 4));
    await when(() => box("e").style.overflow === "hidden");
  });
});

describe("a part of an embedded display", () => {
  const grouped = (name: string, more = ""): string =>
    `<display><width>400</width><height>300</height>
      <widget type="textupdate"><name>other</name><pv_name>TEMP</pv_name></widget>
      <widget type="group"><name>${name}</name><x>100</x><y>50</y><width>200</width><height>90</height>
        <background_color><color red="1" green="2" blue="3"/></background_color>
        <macros><N>TEMP</N></macros>${more}
        <widget type="textupdate"><name>inner</name><pv_name>$(N)</pv_name><x>30</x><y>$(Y)</y>
          <width>60</width><height>10</height></widget>
        <widget type="label"><name>last</name><x>80</x><y>40</y><width>20</width><height>10</height></widget>
      </widget></display>`;
  const embed = (more = ""): string =>
    `<widget type="embedded"><name>e</name><file>part.bob</file><resize>2</resize>
      <group_name>Inner $(WHICH)</group_name><macros><WHICH>A</WHICH><Y>20</Y></macros>${more}</widget>`;
  const ground = (): string =>
    getComputedStyle(part("e", ".pvwire-display-content")).backgroundColor;
  const sizeOf = (name: string): number[] => [box(name).clientWidth, box(name).clientHeight];
  const offsetOf = (name: string): number[] => {
    const [outer, inner] = ["e", name].map((each) => box(each).getBoundingClientRect());
    return [(inner?.left ?? 0) - (outer?.left ?? 0), (inner?.top ?? 0) - (outer?.top ?? 0)];
  };

  it("is the group of that name, with macros, at the corner and in its size and colour", async () => {
    FILES["part.bob"] = grouped("Inner $(WHICH)");
    await open(embed());
    await when(() => isShown("inner") && value("inner") === "21.5 °C");
    expect(isShown("other")).toBe(false);
    expect(offsetOf("inner")).toEqual([0, 0]);
    expect(offsetOf("last")).toEqual([50, 20]);
    expect(sizeOf("e")).toEqual([70, 30]);
    expect(ground()).toBe("rgb(1, 2, 3)");
    expect(notes).toEqual([]);
    FILES["part.bob"] = grouped("Inner A", "<transparent>true</transparent>");
    await open(embed());
    await when(() => isShown("inner"));
    expect(ground()).toBe("rgba(0, 0, 0, 0)");
  });

  it("is the whole display where no group has that name, which is said", async () => {
    FILES["part.bob"] = grouped("Outer");
    await open(embed());
    await when(() => isShown("other") && isShown("inner"));
    await when(() => notes.length > 0);
    expect(notes.map(({ text }) => text).join()).toContain("no group Inner A");
    expect(sizeOf("e")).toEqual([400, 300]);
  });

  it("of before version 2 has the size of its widgets", async () => {
    FILES["part.bob"] = `<display version="1.0.0"><width>400</width><height>300</height>
      <widget type="textupdate"><name>inner</name><pv_name>TEMP</pv_name><x>15</x><y>25</y>
        <width>60</width><height>10</height></widget></display>`;
    await open(
      `<widget type="embedded"><name>e</name><file>part.bob</file><resize>2</resize></widget>`,
    );
    await when(() => isShown("inner"));
    expect(offsetOf("inner")).toEqual([0, 0]);
    expect(sizeOf("e")).toEqual([60, 10]);
  });
});

describe("a value that is too long for its box", () => {
  const narrow = (more = ""): string => pv("textupdate", "LONG", `<width>40</width>${more}`);

  const linesOf = (text: Element): number =>
    new Set([...text.getClientRects()].map(({ top }) => Math.round(top))).size;

  it.each([
    ["", ""],
    ["in the middle", "<vertical_alignment>1</vertical_alignment>"],
  ])("ends with an ellipsis, and its tooltip has all of it %s", async (_, more) => {
    relay.set("LONG", { value: 1234567, type: "Int32", units: "mA" });
    await open(narrow(more));
    await when(() => value("textupdate") === "1234567 mA");
    const text = part("textupdate", '[data-part="value"]');
    const line = getComputedStyle(text).display === "inline" ? box("textupdate") : text;
    const { overflowX, textOverflow } = getComputedStyle(line);
    expect([overflowX, textOverflow]).toEqual([more === "" ? "hidden" : "clip", "ellipsis"]);
    expect(line.scrollWidth).toBeGreaterThan(line.clientWidth);
    // The units aren't on a line of their own, which would not be seen.
    expect(linesOf(text)).toBe(1);
    expect(text.title).toBe("");
    text.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    await when(() => text.title.includes("1234567 mA") && text.title.includes("LONG"));
    relay.set("LONG", 7654321);
    await when(() => text.title.includes("7654321 mA"));
    text.dispatchEvent(new PointerEvent("pointerout", { bubbles: true }));
    await when(() => text.title === "");
  });

  it("wraps in a box of several lines", async () => {
    relay.set("LONG", { value: "one two" });
    await open(narrow("<height>60</height>"));
    await when(() => value("textupdate") === "one two");
    expect(linesOf(part("textupdate", '[data-part="value"]'))).toBe(2);
  });
});

describe("a button of a bit", () => {
  /** The addresses of all pictures that come onto the page. */
  function pictures(): Set<string> {
    const found = new Set<string>();
    const observer = new MutationObserver(() => {
      for (const { src } of page.querySelectorAll("img")) found.add(new URL(src).pathname);
    });
    observer.observe(page, { childList: true, subtree: true, attributeFilter: ["src"] });
    onTestFinished(() => {
      observer.disconnect();
    });
    return found;
  }

  const images = "<on_image>on.png</on_image><off_image>off.png</off_image>";

  it("takes its pictures from beside its own file, and shows a lamp in place of a broken one", async () => {
    const found = pictures();
    FILES["part.bob"] = display(pv("bool_button", "MODE", images));
    await open(`<widget type="embedded"><file>sub/part.bob</file></widget>`);
    await when(() => notes.some(({ text }) => text === "on.png: the picture can't be read"));
    expect([...found]).toEqual(["/screens/sub/on.png"]);
    await when(() => box("bool_button").querySelector(".pvwire-display-lamp") !== null);
    expect(page.querySelector("img")).toBe(null);
  });

  it("shows no picture of a state while the state isn't known", async () => {
    const found = pictures();
    relay.set("MODE", { state: "disconnected" });
    await open(pv("bool_button", "MODE", images));
    await when(() => box("bool_button").dataset.state === "disconnected");
    expect(part("bool_button", ".pvwire-display-lamp").dataset.unknown).toBe("true");
    expect([...found]).toEqual([]);
  });

  it("takes its labels from the PV only if there are two", async () => {
    relay.set("THREE", { value: 1, choices: ["Closed", "Moving", "Open"] });
    const fromPv = "<labels_from_pv>true</labels_from_pv>";
    await open(pv("bool_button", "THREE", fromPv + "<on_label>Not closed</on_label>"));
    await when(() => box("bool_button").textContent === "Not closed");
    await open(pv("bool_button", "MODE", fromPv + "<on_label>Not closed</on_label>"));
    await when(
      () => box("bool_button").dataset.pv === "MODE" && box("bool_button").textContent === "On",
    );
  });
});

describe("a symbol of a text", () => {
  const symbols = "<symbols><symbol>open1.png</symbol><symbol>2shut.png</symbol></symbols>";
  // No picture can be read: its file is named in its place.
  const shown = (): string => box("symbol").textContent;

  it("is the one of the number that the text is", async () => {
    relay.set("STATE", { value: "1" });
    await open(pv("symbol", "STATE", symbols));
    await when(() => shown().startsWith("2shut.png"));
  });

  it.each(["open1", "1 mm", "2", "", "0x1"])("isn't guessed for %j", async (text) => {
    relay.set("STATE", { value: text });
    await open(pv("symbol", "STATE", `${symbols}<fallback_symbol>other.png</fallback_symbol>`));
    await when(() => shown().startsWith("other.png"));
  });

  it("looks unknown for another text if there is no symbol for that", async () => {
    relay.set("STATE", { value: "open1" });
    await open(pv("symbol", "STATE", `${symbols}<show_index>true</show_index>`));
    await when(() => box("symbol").dataset.present === "true");
    expect(part("symbol", ".pvwire-display-lamp").dataset.unknown).toBe("true");
    expect(shown()).toBe("–");
  });
});

describe("an image", () => {
  const range = (): string | null =>
    page.querySelector(".pvwire-colour-bar")?.getAttribute("aria-label") ?? null;
  const size = "<data_width>2</data_width><data_height>1</data_height>";

  /** The colours of the first row that is painted. */
  function colours(): number[][] {
    const canvas = page.querySelector("canvas");
    if (canvas === null || canvas.hidden) return [];
    const copy = new OffscreenCanvas(canvas.width, 1);
    const context = copy.getContext("2d");
    context?.drawImage(canvas, 0, 0);
    const data = context?.getImageData(0, 0, canvas.width, 1).data ?? [];
    return Array.from({ length: canvas.width }, (_, at) => [...data.slice(4 * at, 4 * at + 3)]);
  }
  const pixels = (): (number | undefined)[] => colours().map(([red]) => red);

  it("reads integers with a sign as unsigned if the display says so, and only its rows", async () => {
    relay.set("RAW", { value: Int8Array.of(1, -1, 127, -128) });
    await open(pv("image", "RAW", size));
    await when(() => range() === "Colours from -1 to 1");
    await open(pv("image", "RAW", `${size}<unsigned>true</unsigned>`));
    await when(() => range() === "Colours from 1 to 255");
    relay.set("RAW16", { value: Int16Array.of(1, -1) });
    await open(pv("image", "RAW16", `${size}<unsigned>true</unsigned>`));
    await when(() => range() === "Colours from 1 to 65535");
  });

  it("of a logarithmic scale has the values themselves beside its colours", async () => {
    relay.set("RAW", { value: Uint16Array.of(0, 10, 100, 1000) });
    const four = "<data_width>4</data_width><log_scale>true</log_scale><color_map>GRAY</color_map>";
    await open(pv("image", "RAW", four));
    await when(() => range() === "Colours from 10 to 1000");
    await when(() => pixels().join() === "0,0,127,255");
    const own = "<autoscale>false</autoscale><minimum>1</minimum><maximum>1000</maximum>";
    await open(pv("image", "RAW", four + own));
    await when(() => range() === "Colours from 1 to 1000");
    await when(() => pixels().join() === "85,85,170,255");
  });

  it("takes the PV's limits if the display wants them", async () => {
    relay.set("RAW", { value: Uint8Array.of(10, 20), displayRange: { min: 0, max: 40 } });
    const own = `${size}<autoscale>false</autoscale><maximum>99</maximum>`;
    await open(pv("image", "RAW", `${own}<limits_from_pv>true</limits_from_pv>`));
    await when(() => range() === "Colours from 0 to 40");
    await open(pv("image", "RAW", own));
    await when(() => range() === "Colours from 0 to 99");
  });

  it("of three elements a pixel is in colours, in the order that the display says", async () => {
    const red = [200, 0, 0];
    const green = [0, 100, 0];
    relay.set("RGB1", { value: Uint8Array.from([...red, ...green, 9]) });
    await open(pv("image", "RGB1", `${size}<color_mode>RGB1</color_mode>`));
    await when(() => colours().join(" ") === "200,0,0 0,100,0");
    expect(range()).toBe(null);
    relay.set("RGB3", { value: Uint8Array.of(200, 0, 0, 100, 0, 0) });
    await open(pv("image", "RGB3", `${size}<color_mode>4</color_mode>`));
    await when(() => colours().join(" ") === "200,0,0 0,100,0");
  });

  it("hides its colour bar if the display does", async () => {
    relay.set("RAW", { value: Uint8Array.of(1, 2) });
    await open(
      pv("image", "RAW", `${size}<color_bar><visible>false</visible></color_bar>`) +
        pv("image", "RAW", size).replace(">image<", ">barred<"),
    );
    await when(() => page.querySelectorAll(".pvwire-colour-bar").length === 2);
    expect(part("barred", ".pvwire-colour-bar").offsetHeight).toBeGreaterThan(0);
    expect(part("image", ".pvwire-colour-bar").offsetHeight).toBe(0);
  });
});

describe("a page of dark colours", () => {
  /** The brightness of a colour as CSS writes it, 0 to 255. */
  const brightness = (colour: string): number =>
    Math.max(...(colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number));
  const looks = (selector: string) => {
    const { backgroundColor, color } = getComputedStyle(page.querySelector(selector) as Element);
    return { ground: brightness(backgroundColor), ink: brightness(color) };
  };
  const openIn = async (colorScheme: string): Promise<void> => {
    document.documentElement.style.colorScheme = colorScheme;
    onTestFinished(() => {
      document.documentElement.style.colorScheme = "";
    });
    const confirm = "<show_confirm_dialog>1</show_confirm_dialog>";
    const action = '<action type="open_webpage"><url>https://a.example</url></action>';
    await open(
      `<widget type="combo"><name>c</name><pv_name>MODE</pv_name>${confirm}</widget>
       <widget type="3dviewer"/><widget type="action_button"><name>b</name><actions>${action}${action}</actions></widget>`,
    );
  };

  it.each(["light", "dark"])(
    "has a bar, a menu and questions of its colours: %s",
    async (scheme) => {
      await openIn(scheme);
      const isDark = scheme === "dark";
      part("b", "button").click();
      await when(() => page.querySelector(".pvwire-display-menu") !== null);
      for (const selector of [
        ".pvwire-display-bar",
        ".pvwire-display-bar button",
        ".pvwire-display-menu",
      ]) {
        const { ground, ink } = looks(selector);
        expect(ground < 80, selector).toBe(isDark);
        expect(ink > 200, selector).toBe(isDark);
      }
      document.body.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
      const list = part<HTMLSelectElement>("c", "select");
      await when(() => !list.disabled);
      list.value = "0";
      list.dispatchEvent(new Event("change", { bubbles: true }));
      await when(() => page.querySelector("dialog") !== null);
      for (const selector of ["dialog", "dialog button"]) {
        const { ground, ink } = looks(selector);
        expect(Math.abs(ground - ink), selector).toBeGreaterThan(150);
        expect(ground < 80, selector).toBe(isDark);
      }
    },
  );

  it("changes nothing of the display itself", async () => {
    const look = (): string[] => {
      const { color, colorScheme } = getComputedStyle(box("c"));
      return [color, colorScheme, getComputedStyle(part("c", "select")).color];
    };
    await openIn("light");
    const light = look();
    await openIn("dark");
    expect(look()).toEqual(light);
    expect(light[1]).toBe("light");
  });
});

describe("a widget of a class", () => {
  it("looks as the facility's classes say, and the page lists one that isn't defined", async () => {
    const classes = `<display version="2.0.0"><widget type="label"><name>TITLE</name>
      <foreground_color use_class="true"><color red="1" green="2" blue="3"/></foreground_color></widget></display>`;
    await open(
      `<widget type="label"><name>t</name><class>TITLE</class></widget>
       <widget type="label"><name>o</name><class>OTHER</class></widget>`,
      { palette: paletteOf({ classes }) },
    );
    await when(() => isShown("t"));
    expect(getComputedStyle(box("t")).color).toBe("rgb(1, 2, 3)");
    expect(getComputedStyle(box("o")).color).toBe("rgb(0, 0, 0)");
    await when(() => notes.length > 0);
    expect(notes.map(({ text }) => text)).toEqual(["the class OTHER of label: not defined"]);
  });
});

describe("a label that is longer than its place", () => {
  const isCut = (element: HTMLElement): boolean => element.scrollWidth > element.clientWidth;

  it("shows its beginning and an ellipsis, on every widget with one", async () => {
    const long = "Enable the orbit feedback of the ring";
    const items = `<items_from_pv>false</items_from_pv><items><item>${long}</item></items>`;
    await open(
      pv("checkbox", "TEMP", `<label>${long}</label>`) +
        pv("slide_button", "TEMP", `<label>${long}</label>`) +
        pv("choice", "TEMP", items.replaceAll(" the orbit ", "TheOrbit")) +
        pv("radio", "TEMP", items) +
        `<widget type="navtabs"><name>navtabs</name><tabs><tab><name>${long}</name></tab></tabs></widget>`,
    );
    await when(() => isShown("radio") && box("radio").querySelector("span") !== null);
    for (const [name, selector] of [
      ["checkbox", "label > span"],
      ["slide_button", "label > span"],
      ["choice", "button > span"],
      ["radio", "label > span"],
      ["navtabs", '[role="tab"]'],
    ] as const) {
      const label = part(name, selector);
      expect(isCut(label), name).toBe(true);
      expect(getComputedStyle(label).textOverflow, name).toBe("ellipsis");
      // The beginning isn't outside, as it would be in the middle of a box.
      const outer = box(name).getBoundingClientRect();
      expect(label.getBoundingClientRect().left, name).toBeGreaterThanOrEqual(outer.left);
      expect(label.getBoundingClientRect().right, name).toBeLessThanOrEqual(outer.right + 1);
    }
    // In one line: a second would be below the box.
    expect(part("checkbox", "label").scrollHeight).toBeLessThanOrEqual(20);
  });
});

it("a label that is too long for its box ends with an ellipsis, and no line is cut", async () => {
  const label = (name: string, more: string): string =>
    `<widget type="label"><name>${name}</name><text>Temperature of the third cavity</text><width>90</width>${more}</widget>`;
  await open(
    label("cut", "<wrap_words>false</wrap_words><height>60</height>") +
      label("one", "<height>20</height>") +
      label("two", "<height>40</height>") +
      label("all", "<height>60</height>") +
      label("grown", "<height>20</height><auto_size>true</auto_size>"),
  );
  const text = (name: string): Element => part(name, "span > span");
  for (const name of ["cut", "one"]) {
    expect(getComputedStyle(text(name)).textOverflow, name).toBe("ellipsis");
    expect(getComputedStyle(text(name)).overflowX, name).toBe("clip");
    expect(text(name).scrollWidth, name).toBeGreaterThan(text(name).clientWidth);
    expect(text(name).getBoundingClientRect().width, name).toBeLessThanOrEqual(90);
  }
  const two = text("two").getBoundingClientRect();
  expect(text("two").scrollHeight).toBeGreaterThan(two.height);
  expect(two.bottom).toBeLessThanOrEqual(box("two").getBoundingClientRect().bottom);
  expect(text("all").scrollHeight).toBe(text("all").clientHeight);
  expect(box("grown").getBoundingClientRect().width).toBeGreaterThan(90);
});

it("choices that are too narrow for their words end with an ellipsis", async () => {
  await open(
    `<widget type="choice"><name>narrow</name><width>80</width><height>20</height>
      <items><item>Item number 1</item><item>Item number 2</item></items></widget>`,
  );
  const text = part("narrow", "button > span");
  expect(getComputedStyle(text).textOverflow).toBe("ellipsis");
  expect(text.scrollWidth).toBeGreaterThan(text.clientWidth);
  expect(text.getBoundingClientRect().height).toBeLessThanOrEqual(20);
});

it("widgets that take the size of their content are as large as it is", async () => {
  const size = "<width>30</width><height>60</height><auto_size>true</auto_size>";
  const label = "<label>Enable the orbit feedback</label>";
  const types = ["checkbox", "slide_button", "symbol"];
  await open(types.map((type) => pv(type, "TEMP", size + label)).join(""));
  await when(() => isShown("symbol"));
  expect(box("symbol").style.width).toBe("fit-content");
  for (const name of ["checkbox", "slide_button"]) {
    await when(() => isShown(name));
    const text = part(name, "label > span");
    expect(text.scrollWidth, name).toBe(text.clientWidth);
    const { height, right, width } = box(name).getBoundingClientRect();
    expect(right, name).toBeGreaterThanOrEqual(text.getBoundingClientRect().right);
    expect(width, name).toBeGreaterThan(100);
    expect(height, name).toBeLessThan(40);
  }
});

it("the list of what isn't shown breaks no words", async () => {
  await open('<widget type="3dviewer"/><widget type="thumbwheel"/>');
  (page.querySelector(".pvwire-display-notes-button") as HTMLElement).click();
  await when(() => page.querySelector(".pvwire-display-notes") !== null);
  (page.querySelector(".pvwire-display-notes") as HTMLElement).style.maxWidth = "130px";
  const [line] = page.querySelectorAll<HTMLTableRowElement>(".pvwire-display-notes tr");
  const heightOf = (cell: Element | null | undefined): number => {
    const range = document.createRange();
    if (cell != null) range.selectNodeContents(cell);
    return range.getBoundingClientRect().height;
  };
  expect(heightOf(line?.cells[0])).toBeLessThan(20);
  expect(heightOf(line?.cells[2])).toBeLessThan(20);
  const words = [...page.querySelectorAll(".pvwire-display-notes td:nth-child(2)")].flatMap(
    (cell) => {
      const text = cell.firstChild as globalThis.Text;
      return [...text.data.matchAll(/\S+/g)].map(({ 0: word, index }) => {
        const range = document.createRange();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        return range.getClientRects().length;
      });
    },
  );
  expect(words.length).toBeGreaterThan(5);
  expect(new Set(words)).toEqual(new Set([1]));
});

it("a scale and its marks are the PV's or the display's, as each widget says", async () => {
  const own =
    "<width>300</width><height>80</height><minimum>-40</minimum><maximum>1000</maximum>" +
    "<level_high>500</level_high><show_alarm_limits>true</show_alarm_limits><show_limits>true</show_limits>";
  const meter = (name: string, number: string): string =>
    pv("linearmeter", "TEMP", `${own}<limits_from_pv>${number}</limits_from_pv>`).replace(
      "<name>linearmeter<",
      `<name>${name}<`,
    );
  await open(["0", "1", "2", "3", "true", "false"].map((each) => meter(`m${each}`, each)).join(""));
  const ends = (name: string): string =>
    [...box(name).querySelectorAll(".pvwire-display-scale > span")]
      .map(({ textContent }) => textContent)
      .join(" ");
  const isOwn = (name: string): boolean => ends(name).includes("1000");
  await when(() => isOwn("m3") && !isOwn("m0") && !isOwn("m1") && !isOwn("mtrue"));
  expect(["m0", "m1", "m2", "m3", "mtrue", "mfalse"].map(isOwn)).toEqual([
    false,
    false,
    true,
    true,
    false,
    true,
  ]);
});

it("labels at the ends of a scale are inside their widget", async () => {
  const size = "<width>200</width><height>80</height>";
  await open(
    pv("linearmeter", "TEMP", size) +
      pv("tank", "TEMP", size) +
      pv("scaledslider", "TEMP", size) +
      pv("progressbar", "TEMP", `${size}<scale_visible>true</scale_visible>`),
  );
  for (const name of ["linearmeter", "tank", "scaledslider", "progressbar"]) {
    await when(() => box(name).querySelectorAll(".pvwire-display-scale > span").length > 1);
    const outer = box(name).getBoundingClientRect();
    for (const label of box(name).querySelectorAll(".pvwire-display-scale > span")) {
      const { bottom, left, right, top } = label.getBoundingClientRect();
      expect(left, name).toBeGreaterThanOrEqual(outer.left - 0.5);
      expect(right, name).toBeLessThanOrEqual(outer.right + 0.5);
      expect(top, name).toBeGreaterThanOrEqual(outer.top - 0.5);
      expect(bottom, name).toBeLessThanOrEqual(outer.bottom + 0.5);
    }
  }
});

it("the labels of an upright slider are beside it", async () => {
  const upright = "<width>90</width><height>100</height><horizontal>false</horizontal>";
  await open(pv("scaledslider", "TEMP", upright));
  await when(() => box("scaledslider").querySelectorAll(".pvwire-display-scale > span").length > 1);
  const { right } = part("scaledslider", "input").getBoundingClientRect();
  for (const label of box("scaledslider").querySelectorAll(".pvwire-display-scale > span")) {
    expect(label.getBoundingClientRect().left - right).toBeGreaterThanOrEqual(0);
    expect(label.getBoundingClientRect().left - right).toBeLessThan(8);
  }
});

it("the value of a dial isn't on the labels of its scale", async () => {
  const size = "<width>110</width><height>110</height>";
  await open(["gauge", "knob", "meter"].map((type) => pv(type, "TEMP", size)).join(""));
  for (const name of ["gauge", "knob", "meter"]) {
    await when(() => box(name).textContent.includes("21.5 °C"));
    const texts = [...box(name).querySelectorAll("text")];
    const value = texts.find(({ textContent }) => textContent.includes("°C"));
    const shown = value?.getBoundingClientRect() ?? new DOMRect();
    for (const label of texts.filter((text) => text !== value)) {
      const { bottom, left, right, top } = label.getBoundingClientRect();
      const isApart =
        right <= shown.left || left >= shown.right || bottom <= shown.top || top >= shown.bottom;
      expect(isApart, `${name}: ${label.textContent}`).toBe(true);
    }
  }
});

it("a plot says in words why a trace is missing", async () => {
  const trace = "<traces><trace><y_pv>GONE</y_pv></trace></traces>";
  await open(`<widget type="xyplot"><name>plot</name>${trace}</widget>`);
  relay.set("GONE", { state: "notFound" });
  await when(() => box("plot").textContent.includes("GONE: not found · still searching"));
  relay.set("GONE", { state: "connected", readable: false });
  await when(() => box("plot").textContent.includes("GONE: no read access"));
});

it("many traces without values leave a small plot and its title visible", async () => {
  const names = ["A", "B", "C", "D", "E"];
  const traces = names.map((name) => `<trace><y_pv>GONE:${name}</y_pv></trace>`).join("");
  const plot = (name: string, title: string, height: number): string =>
    `<widget type="xyplot"><name>${name}</name><title>${title}</title><width>160</width><height>${String(height)}</height>
      <traces>${traces}</traces></widget>`;
  await open(plot("low", "Orbit", 90) + plot("high", "Orbit", 160) + plot("bare", "", 90));
  const problems = (name: string): HTMLElement => part(name, ".pvwire-display-plot-problem");
  const lines = (name: string): (string | null)[] =>
    [...problems(name).children].map(({ textContent }) => textContent);
  await when(() => page.querySelectorAll(".pvwire-display-plot-problem").length === 3);
  expect(lines("low")).toEqual(["5 PVs have no value"]);
  expect(lines("high")).toHaveLength(3);
  expect(lines("high").at(-1)).toBe("3 more PVs have no value");
  // All of them are in the tooltip.
  expect(names.every((name) => box("low").title.includes(`GONE:${name}`))).toBe(true);
  const below = (name: string): number =>
    problems(name).getBoundingClientRect().top - box(name).getBoundingClientRect().top;
  expect(below("low")).toBeGreaterThanOrEqual(24);
  expect(below("bare")).toBeLessThan(6);
  expect(problems("low").getBoundingClientRect().height).toBeLessThan(30);
});

it("a plot without its error bars says so", async () => {
  const trace = (type: string, more: string): string =>
    `<widget type="xyplot"><traces><trace><y_pv>WAVE</y_pv><trace_type>${type}</trace_type>${more}</trace></traces></widget>`;
  await open(trace("4", "<err_pv>WAVE</err_pv>") + trace("1", "") + trace("4", "<err_pv/>"));
  await when(() => notes.length > 0);
  expect(notes).toEqual([{ kind: "property", text: "a plot without its error bars", count: 1 }]);
});

it("a limit outside the scale isn't marked at the scale's end", async () => {
  // TEMP warns at 60 and alarms at 80.
  const limits = `<limits_from_pv>false</limits_from_pv><minimum>0</minimum><maximum>70</maximum>
    <show_alarm_limits>true</show_alarm_limits><alarm_limits_from_pv>true</alarm_limits_from_pv>`;
  await open(pv("progressbar", "TEMP", limits) + pv("meter", "TEMP", limits));
  const marks = (name: string): (string | undefined)[] =>
    [...box(name).querySelectorAll<HTMLElement>("[data-level]")].map(
      ({ dataset }) => dataset.level,
    );
  for (const name of ["progressbar", "meter"]) {
    await when(() => marks(name).length > 0);
    expect(marks(name)).toEqual(["minor"]);
  }
});
