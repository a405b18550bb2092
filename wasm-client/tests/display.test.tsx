/** Displays on a page: places, values, alarms, writing, rules, and what isn't shown. */

import { describe, expect, it } from "vitest";

import { Display, type DisplayProps } from "../ts/display/index.js";
import { KNOWN_TYPES, defaultsOf } from "../ts/display/model/defaults.js";
import {
  box,
  display,
  FILES,
  fill,
  isShown,
  load,
  notes,
  open,
  part,
  press,
  pv,
  sent,
  status,
  value,
  when,
} from "./display_page.js";
import { client, eachWithWidgetPage, page, relay, show } from "./widget_page.js";

eachWithWidgetPage();

function placeOf(element: Element): number[] {
  const sheet = (page.querySelector(".pvwire-display-sheet") as Element).getBoundingClientRect();
  const { height, left, top, width } = element.getBoundingClientRect();
  return [left - sheet.left, top - sheet.top, width, height].map(Math.round);
}

describe("a widget's box", () => {
  it("has the file's pixels, or its type's default size, for every type", async () => {
    const each = KNOWN_TYPES.map(
      (type, at) =>
        `<widget type="${type}"><name>d${String(at)}</name></widget>
         <widget type="${type}"><name>p${String(at)}</name><x>-7</x><y>31</y><width>213</width><height>3</height></widget>`,
    );
    await open(each.join(""));
    KNOWN_TYPES.forEach((type, at) => {
      const { height, width } = defaultsOf(type) ?? {};
      expect(placeOf(box(`d${String(at)}`)), type).toEqual([0, 0, width, height]);
      expect(placeOf(box(`p${String(at)}`)), type).toEqual([-7, 31, 213, 3]);
    });
  });

  it.each([
    [0, [18, 18]],
    [1, [1, 19]],
    [2, [1, 1]],
    [3, [0, 0]],
  ])("is inside its group of style %s", async (style, [x = 0, y = 0]) => {
    await open(
      `<widget type="group"><name>g</name><x>100</x><y>50</y><style>${String(style)}</style>
        <widget type="led"><name>inner</name><x>5</x><y>6</y></widget></widget>`,
    );
    expect(placeOf(box("inner"))).toEqual([105 + x, 56 + y, 20, 20]);
  });

  it("keeps impossible numbers within the page", async () => {
    await open(
      `<widget type="led"><name>a</name><width>-5</width><x>1e300</x><height>NaN</height></widget>`,
    );
    expect(placeOf(box("a")).slice(2)).toEqual([0, 0]);
  });

  it("of an embedded display takes its macros, and scales its content", async () => {
    FILES["part.bob"] = `<display><width>200</width><height>100</height>
      <widget type="textupdate"><name>inner</name><pv_name>$(N)</pv_name><x>20</x></widget></display>`;
    await open(
      `<widget type="embedded"><name>e</name><file>part.bob</file><resize>1</resize><width>100</width>
        <height>100</height><macros><N>TEMP</N></macros></widget>`,
    );
    await when(() => isShown("inner") && value("inner") === "21.5 °C");
    expect(placeOf(box("inner"))).toEqual([10, 0, 50, 10]);
  });
});

describe("a value", () => {
  it("has units and digits, and the alarm as a border", async () => {
    await open(pv("textupdate", "TEMP") + pv("led", "MODE"));
    await when(() => value("textupdate") === "21.5 °C");
    relay.set("TEMP", { value: 85.5, severity: "MAJOR", alarmStatus: 3 });
    await when(() => value("textupdate").startsWith("85.5"));
    expect(box("textupdate").dataset.severity).toBe("MAJOR");
    expect(getComputedStyle(box("textupdate")).outlineStyle).toBe("double");
    expect(getComputedStyle(box("led").querySelector("i") as Element).backgroundColor).toBe(
      "rgb(0, 255, 0)",
    );
  });

  it("that is old looks so, and states have no colour then", async () => {
    await open(pv("textupdate", "TEMP") + pv("led", "MODE") + pv("bool_button", "MODE"));
    await when(() => value("textupdate") === "21.5 °C");
    for (const name of ["TEMP", "MODE"]) relay.set(name, { state: "disconnected" });
    await when(() => box("led").dataset.state === "disconnected");
    expect(value("textupdate")).toBe("21.5 °C");
    expect(box("textupdate").title).toContain("Disconnected");
    expect(box("textupdate").dataset.severity).toBe(undefined);
    expect((box("led").querySelector("i") as HTMLElement).dataset.unknown).toBe("true");
    expect(box("bool_button").textContent).toBe("–");
    expect(box("bool_button").dataset.readOnly).toBe("true");
  });

  it("whose server is silent isn't shown as a state", async () => {
    await open(pv("led", "MODE"));
    await when(() => box("led").dataset.present === "true");
    relay.set("MODE", { unresponsive: true });
    await when(() => box("led").dataset.stale === "true");
    expect((box("led").querySelector("i") as HTMLElement).dataset.unknown).toBe("true");
  });
});

describe("a rule", () => {
  const rule = (property: string, condition: string, set: string): string =>
    `<rules><rule name="r" prop_id="${property}"><exp bool_exp="${condition}"><value>${set}</value></exp>
      <pv_name>TEMP</pv_name></rule></rules>`;

  it("hides a widget in alarm, and the file's value holds without a present one", async () => {
    await open(
      `<widget type="label"><name>l</name>${rule("visible", "pvSev0 &gt; 1", "false")}</widget>${pv("textupdate", "TEMP")}`,
    );
    await when(() => value("textupdate") === "21.5 °C");
    expect(box("l")).not.toBe(null);
    relay.set("TEMP", { value: 90, severity: "MAJOR" });
    await when(() => !isShown("l"));
    relay.set("TEMP", { state: "disconnected" });
    await when(() => isShown("l"));
  });

  it("moves and colours a widget", async () => {
    const red = `<color red="255" green="0" blue="0"/>`;
    await open(
      `<widget type="rectangle"><name>r</name>${rule("x", "pv0 &gt; 20", "44")}</widget>
       <widget type="rectangle"><name>c</name>${rule("background_color", "true", red)}</widget>`,
    );
    await when(() => placeOf(box("r"))[0] === 44);
    expect(getComputedStyle(box("c")).backgroundColor).toBe("rgb(255, 0, 0)");
  });
});

describe("writing", () => {
  const type = async (name: string, text: string): Promise<void> => {
    const input = part<HTMLInputElement>(name, "input");
    fill(input, text);
    await when(() => input.dataset.typed === "true");
    press(input, "Enter");
  };

  it("a text entry puts on Enter, and shows why it was refused", async () => {
    await open(pv("textentry", "TEMP"));
    const input = () => box("textentry").querySelector("input") as HTMLInputElement;
    await when(() => input().value === "21.5 °C" && !input().readOnly);
    await type("textentry", "33 °C");
    await when(() => status().includes("TEMP: Written"));
    expect(relay.puts.map(({ name, value: sent }) => [name, sent])).toEqual([["TEMP", 33]]);
    relay.onPut = () => ({ code: "NOT_ALLOWED", message: "locked by the operator" });
    await type("textentry", "44");
    await when(() => status().includes("Refused: locked by the operator"));
    expect(box("textentry").dataset.outcome).toBe("refused");
    expect(input().value).toBe("44");
  });

  it("what can't be written is read-only, with the reason", async () => {
    relay.set("TEMP", { puts: false });
    await open(pv("textentry", "TEMP") + pv("combo", "MODE", "<enabled>false</enabled>"));
    await when(() => box("textentry").title.includes("not allowed by the relay"));
    expect((box("textentry").querySelector("input") as HTMLInputElement).readOnly).toBe(true);
    expect((box("combo").querySelector("select") as HTMLSelectElement).disabled).toBe(true);
  });

  it("a button writes, once confirmed, and one of a bit toggles it", async () => {
    await open(
      `<widget type="action_button"><name>b</name><show_confirm_dialog>true</show_confirm_dialog><actions>
        <action type="write_pv"><pv_name>MODE</pv_name><value>0</value><description>Off</description></action>
       </actions></widget>${pv("bool_button", "BITS", "<bit>1</bit>")}`,
    );
    const button = (name: string) => box(name).querySelector("button") as HTMLButtonElement;
    await when(
      () => button("b").ariaDisabled === "false" && button("bool_button").ariaDisabled === "false",
    );
    expect(button("b").textContent).toBe("Off");
    button("b").click();
    await when(() => page.querySelector("dialog") !== null);
    expect(relay.puts).toEqual([]);
    (page.querySelector('dialog [type="submit"]') as HTMLButtonElement).click();
    await when(() => relay.puts.length === 1);
    button("bool_button").click();
    await when(() => relay.puts.length === 2);
    expect(relay.puts.map(({ name, value: sent }) => [name, sent])).toEqual([
      ["MODE", 0],
      ["BITS", 7],
    ]);
  });

  it("a bit is put into the newest value, also if that came during the question", async () => {
    await open(
      pv("bool_button", "BITS", "<bit>1</bit><show_confirm_dialog>true</show_confirm_dialog>") +
        pv("textupdate", "BITS"),
    );
    const button = part<HTMLButtonElement>("bool_button", "button");
    await when(() => button.ariaDisabled === "false");
    button.click();
    await when(() => page.querySelector("dialog") !== null);
    relay.set("BITS", 12);
    await when(() => value("textupdate") === "12");
    (page.querySelector('dialog [type="submit"]') as HTMLButtonElement).click();
    await when(() => relay.puts.length === 1);
    expect(sent()).toEqual([14]);
  });

  it("a held button is released by the end of the capture, until it isn't refused as changed", async () => {
    await open(pv("bool_button", "BITS", "<bit>1</bit><mode>1</mode>"));
    const button = part<HTMLButtonElement>("bool_button", "button");
    button.setPointerCapture = () => undefined;
    await when(() => button.ariaDisabled === "false");
    const pointer = (kind: string, which: number): void => {
      button.dispatchEvent(new PointerEvent(kind, { bubbles: true, button: which }));
    };
    pointer("pointerdown", 2);
    pointer("lostpointercapture", 2);
    pointer("pointerdown", 0);
    await when(() => part("bool_button", "button").ariaPressed === "true");
    expect(sent()).toEqual([7]);
    const put = client.put.bind(client);
    const refused: unknown[] = [];
    client.put = (name, first) => {
      client.put = put;
      refused.push(first);
      relay.set("BITS", 15);
      const why = { code: "MOVED", pv: name, mayBeWritten: false };
      return Promise.resolve({ ok: false, error: Object.assign(new Error("changed"), why) });
    };
    pointer("pointerup", 0);
    pointer("lostpointercapture", 0);
    await when(() => relay.puts.length === 2);
    expect([refused, sent()]).toEqual([[5], [7, 13]]);
    await when(() => part("bool_button", "button").ariaPressed === "false");
    for (const kind of ["keydown", "keyup"]) {
      button.dispatchEvent(new KeyboardEvent(kind, { key: " ", bubbles: true }));
    }
    await when(() => relay.puts.length === 4);
    expect(sent().slice(2)).toEqual([15, 13]);
  });

  it("the right button asks too, and does nothing where the widget is disabled", async () => {
    const actions = `<actions><action type="write_pv"><pv_name>MODE</pv_name><value>0</value></action></actions>`;
    await open(
      `<widget type="action_button"><name>b</name><show_confirm_dialog>true</show_confirm_dialog>${actions}</widget>
       <widget type="action_button"><name>off</name><enabled>false</enabled>${actions}</widget>
       <widget type="symbol"><name>s</name><enabled>false</enabled>${actions}</widget>`,
    );
    await when(() => part("b", "button").ariaDisabled === "false");
    const menu = (): Element | null => page.querySelector('[role="menu"]');
    const rightClick = (element: Element): void => {
      element.dispatchEvent(new MouseEvent("contextmenu", { bubbles: true, cancelable: true }));
    };
    rightClick(part("off", "button"));
    rightClick(box("s"));
    expect(box("s").querySelector("button")).toBe(null);
    rightClick(part("b", "button"));
    await when(() => page.querySelector("dialog") !== null);
    expect(menu()).toBe(null);
    (page.querySelector('dialog [type="submit"]') as HTMLButtonElement).click();
    await when(() => menu() !== null);
    expect(relay.puts).toEqual([]);
  });

  it("a field that is typed in keeps its text, and what was typed after Enter", async () => {
    await open(pv("textentry", "TEMP") + pv("textupdate", "TEMP"));
    const input = part<HTMLInputElement>("textentry", "input");
    await when(() => input.value === "21.5 °C" && !input.readOnly);
    input.focus();
    relay.set("TEMP", 50);
    await when(() => value("textupdate") === "50.0 °C");
    expect(input.value).toBe("21.5 °C");
    let end = (): void => undefined;
    relay.onPut = () =>
      new Promise((resolve) => {
        end = () => {
          resolve(undefined);
        };
      });
    await type("textentry", "33");
    await when(() => relay.puts.length === 1);
    fill(input, "334");
    end();
    await when(() => value("textupdate") === "33.0 °C" && status().includes("Written"));
    expect(input.value).toBe("334");
  });

  it("a spinner steps whole numbers exactly, and none that it would round", async () => {
    relay.set("WIDE", { value: 9007199254740990n, type: "Int64" });
    await open(pv("spinner", "WIDE", "<limits_from_pv>false</limits_from_pv><maximum>0</maximum>"));
    const up = part<HTMLButtonElement>("spinner", '[aria-label="Up"]');
    await when(() => !up.disabled);
    up.click();
    await when(() => relay.puts.length === 1);
    expect(BigInt(sent()[0] as number)).toBe(9007199254740991n);
    relay.set("WIDE", 9007199254740993n);
    await when(() => part<HTMLInputElement>("spinner", "input").value === "9007199254740993");
    up.click();
    await when(() => status().includes("Refused: only whole numbers"));
    expect(relay.puts.length).toBe(1);
  });
});

describe("a display", () => {
  it("opens another with macros, and goes back", async () => {
    FILES["next.bob"] = display(pv("textupdate", "$(P)MP"));
    await open(
      `<widget type="action_button"><name>go</name><actions><action type="open_display"><file>next.bob</file>
        <macros><P>TE</P></macros><description>Next</description></action></actions></widget>`,
    );
    (box("go").querySelector("button") as HTMLButtonElement).click();
    await when(() => isShown("textupdate") && value("textupdate") === "21.5 °C");
    expect(page.querySelector(".pvwire-display-title")?.textContent).toBe("Test TE");
    (page.querySelector('[aria-label="Back"]') as HTMLButtonElement).click();
    await when(() => isShown("go"));
  });

  it("says on the page what isn't shown, behind one button", async () => {
    await open(
      `<widget type="3dviewer"><name>u</name></widget><widget type="picture"><file>../x.png</file></widget>
       <widget type="embedded"><file>gone.bob</file></widget>${pv("textupdate", "tango://x")}`,
    );
    await when(() => notes.length === 4);
    expect(notes.map(({ kind }) => kind).sort()).toEqual(["file", "file", "pv", "type"]);
    expect(box("u").textContent).toContain("3dviewer: not shown");
    const button = page.querySelector(".pvwire-display-notes-button") as HTMLButtonElement;
    expect(button.textContent).toBe("4 not shown");
    button.click();
    await when(() => page.querySelector(".pvwire-display-notes") !== null);
    expect(page.querySelector(".pvwire-display-notes")?.textContent).toContain("gone.bob");
  });

  it("is read again when its file has changed, and shown as before while that can't be read", async () => {
    let changed: (addresses: readonly string[]) => void = () => undefined;
    let isOver = false;
    const watch: DisplayProps["watch"] = (call) => {
      changed = call;
      return () => {
        isOver = true;
      };
    };
    FILES["part.bob"] = display('<widget type="label"><text>one</text></widget>');
    const embedded = '<widget type="embedded"><file>part.bob</file></widget>';
    await open(embedded, { watch });
    await when(() => page.textContent.includes("one"));
    const address = (name: string): string => new URL(`/screens/${name}`, document.baseURI).href;
    FILES["part.bob"] = display('<widget type="label"><text>two</text></widget>');
    changed([address("other.bob"), address("part.bob")]);
    await when(() => page.textContent.includes("two"));
    const whole = FILES["main.bob"] ?? "";
    FILES["main.bob"] = whole.slice(0, 60);
    changed([address("main.bob")]);
    await when(() => page.querySelector('[role="alert"]') !== null);
    expect(page.textContent).toContain("two");
    FILES["main.bob"] = display(pv("textupdate", "TEMP") + embedded);
    changed([address("main.bob")]);
    await when(() => isShown("textupdate") && value("textupdate") === "21.5 °C");
    expect(page.querySelector('[role="alert"]')).toBe(null);
    show(null);
    await when(() => isOver);
  });

  it("of BOY is read if its folder has none in today's format, and again when it has changed", async () => {
    const boy = (text: string): string =>
      `<display typeId="org.csstudio.opibuilder.Display" version="1.0.0">
        <widget typeId="org.csstudio.opibuilder.widgets.Label"><text>${text}</text></widget>
        <widget typeId="org.csstudio.opibuilder.widgets.edm.symbolwidget"/></display>`;
    const embedded = '<widget type="embedded"><file>old.opi</file></widget>';
    const address = (name: string): string => new URL(`/screens/${name}`, document.baseURI).href;
    let changed: (addresses: readonly string[]) => void = () => undefined;
    const requested: string[] = [];
    const read = async (file: string): Promise<string> => {
      requested.push(file.replace(/^.*\//, ""));
      return await load(file);
    };
    const watch: DisplayProps["watch"] = (call) => {
      changed = call;
      return () => undefined;
    };
    FILES["old.opi"] = boy("one");
    await open(embedded, { load: read, watch });
    await when(() => page.textContent.includes("one"));
    expect(requested).toEqual(["main.bob", "old.bob", "old.opi"]);
    await when(() => notes.some(({ text }) => text.endsWith("edm.symbolwidget")));
    FILES["old.opi"] = boy("two");
    changed([address("old.opi")]);
    await when(() => page.textContent.includes("two"));
    FILES["old.bob"] = display('<widget type="label"><text>three</text></widget>');
    changed([address("old.bob")]);
    await when(() => page.textContent.includes("three"));
    delete FILES["old.bob"];
    delete FILES["old.opi"];
    changed([address("old.opi")]);
    await when(() =>
      notes.some(({ text }) => text.includes("old.opi can't be read: HTTP status 404")),
    );
  });

  it("that only shows writes nothing, and goes the page's own ways", async () => {
    const went: string[] = [];
    const ways = { back: () => went.push("back"), forward: undefined };
    const action =
      "<actions><action type='write_pv'><pv_name>TEMP</pv_name><value>2</value></action></actions>";
    await open(
      pv("textentry", "TEMP") +
        pv("checkbox", "MODE") +
        `<widget type="action_button"><name>go</name>${action}</widget>`,
      { readOnly: true, ways },
    );
    await when(() => box("textentry").title.includes("read-only"));
    expect(box("checkbox").title).toContain("read-only");
    expect(box("go").title).toContain("read-only");
    const arrow = (label: string): HTMLButtonElement =>
      page.querySelector(`[aria-label="${label}"]`) as HTMLButtonElement;
    expect([arrow("Back").disabled, arrow("Forward").disabled]).toEqual([false, true]);
    arrow("Back").click();
    expect(went).toEqual(["back"]);
  });

  it("shows the plot of a data browser's file, and why it can't", async () => {
    FILES["a.plt"] = `<databrowser><title>Plot of $(P)</title><start>-2 minutes</start>
      <axes><axis><name>Amplitude</name><min>-1</min><max>1</max><autoscale>false</autoscale></axis></axes>
      <pvlist><pv><display_name>Temp</display_name><name>$(P)</name><axis>0</axis><trace_type>AREA</trace_type>
      <color><red>255</red><green>0</green><blue>0</blue></color></pv>
      <formula><name>sum</name></formula></pvlist></databrowser>`;
    FILES["b.plt"] = display("");
    const plot = (name: string): string =>
      `<widget type="databrowser"><name>${name}</name><file>${name}.plt</file><x>7</x><width>300</width></widget>`;
    await open(plot("a") + plot("b"), { macros: { P: "TEMP" } });
    await when(() => box("a").querySelector("canvas") !== null);
    expect(box("a").querySelector("canvas")?.getAttribute("aria-label")).toBe("Plot of TEMP");
    expect(placeOf(box("a"))).toEqual([7, 0, 300, 300]);
    await when(() => box("b").textContent.includes("not a <databrowser>"));
    await when(() => notes.some(({ text }) => text.includes("1 formulas of a data browser")));
  });

  it("that embeds itself ends", async () => {
    await open(`<widget type="embedded"><name>e</name><file>main.bob</file></widget>`);
    await when(() => notes.some(({ text }) => text.includes("inside each other")));
    expect(page.querySelectorAll('[data-name="e"]').length).toBeLessThan(20);
  });

  it("that can't be read says why", async () => {
    show(<Display file="/screens/none.bob" load={load} />);
    await when(() => page.querySelector('[role="alert"]') !== null);
    expect(page.querySelector('[role="alert"]')?.textContent).toContain("HTTP status 404");
  });
});
