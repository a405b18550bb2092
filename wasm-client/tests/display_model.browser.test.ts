/** Displays as they are read: files, macros, colours, fonts, expressions, rules and names. */

import { describe, expect, it } from "vitest";

import { inspect } from "../ts/display/model/inspect.js";
import { inspectDisplay, isWhole, paletteOf } from "../ts/display/index.js";
import {
  fileName,
  nearestFile,
  PALETTE_FILES,
  resolveFile,
  webPage,
} from "../ts/display/model/address.js";
import { defaultsOf, KNOWN_TYPES } from "../ts/display/model/defaults.js";
import { withClasses } from "../ts/display/model/classes.js";
import { compile, isTrue, type ExpressionValue } from "../ts/display/model/expression.js";
import { parseDisplay, type WidgetSource } from "../ts/display/model/file.js";
import { numberText, valueText } from "../ts/display/model/format.js";
import { expand, innerMacros } from "../ts/display/model/macros.js";
import { clientName } from "../ts/display/model/names.js";
import { DEFAULT_PALETTE, type Palette } from "../ts/display/model/palette.js";
import { Props } from "../ts/display/model/props.js";
import { evaluate, rulesOf, type RulePv } from "../ts/display/model/rules.js";
import type { NumericArray } from "../ts/index.js";
import { stepsOf } from "../ts/display/model/script.js";
import { type XmlNode } from "../ts/display/model/xml.js";
import { typedNumber, typedValue } from "../ts/display/model/typed.js";
import { coloursOf } from "../ts/display/plot/colours.js";
import { WIDGETS } from "../ts/display/registry.js";
import { partOf } from "../ts/display/widgets/files.js";
import type { Colours } from "../ts/widgets/pixels.js";
import { firstPages, presentOf, turn, waysOf } from "../ts/display/pages.js";

const display = (inside: string): string => `<display version="2.0.0">${inside}</display>`;
/** What `inspectDisplay` says, at once. */
const notesIn = (text: string, { classes }: Palette = DEFAULT_PALETTE) =>
  inspect(withClasses(parseDisplay(text), classes ?? new Map()));
const first = (inside: string) => {
  const widget = parseDisplay(display(inside)).widgets[0];
  if (widget === undefined) throw new Error("the test has no widget");
  return widget;
};
const propsOf = (inside: string, macros: Record<string, string> = {}): Props => {
  const { node, type } = first(inside);
  const lookup = (name: string): string | undefined => macros[name];
  return new Props(node, defaultsOf(type) ?? {}, { lookup, palette: DEFAULT_PALETTE });
};

describe("a file", () => {
  it("keeps widgets of groups, tabs and unknown types in drawing order", () => {
    const { widgets } = parseDisplay(
      display(`<widget type="group"><widget type="led"/><widget type="odd"/></widget>
        <widget type="tabs"><tabs><tab><children><widget type="label"/></children></tab></tabs></widget>`),
    );
    expect(widgets.map(({ type }) => type)).toEqual(["group", "tabs"]);
    expect(widgets[0]?.children.map(({ type }) => type)).toEqual(["led", "odd"]);
    expect(widgets[1]?.pages[0]?.map(({ type }) => type)).toEqual(["label"]);
  });

  it.each([
    ["", "NOT_XML"],
    ["<display><widget></display>", "NOT_XML"],
    ["<opi/>", "NOT_A_DISPLAY"],
    ['<!DOCTYPE d [<!ENTITY e "x">]><display/>', "NOT_XML"],
    [`<display>${"<widget>".repeat(150)}${"</widget>".repeat(150)}</display>`, "TOO_LARGE"],
  ])("is refused if it isn't a display: %s", (text, code) => {
    expect(() => parseDisplay(text)).toThrow(expect.objectContaining({ code }) as Error);
  });

  it("of either format is inspected", async () => {
    const text = display('<widget type="3dviewer"/>');
    expect(await inspectDisplay(text)).toEqual(notesIn(text));
    const older = `<display typeId="org.csstudio.opibuilder.Display" version="1.0.0">${["LED", "odd"].map((type) => `<widget typeId="org.csstudio.opibuilder.widgets.${type}"/>`).join("")}</display>`;
    const notes = await inspectDisplay(older);
    expect(notes.map(({ kind, text: what }) => `${kind}: ${what}`)).toEqual([
      "type: widgets of type odd",
    ]);
    await expect(inspectDisplay("<opi/>")).rejects.toMatchObject({ code: "NOT_A_DISPLAY" });
  });

  it("says what of it isn't shown", () => {
    const notes = notesIn(
      display(`<widget type="3dviewer"/><widget type="3dviewer"/>
        <widget type="label"><scripts><script file="a.py"/></scripts><sparkle>1</sparkle>
          <actions><action type="execute"/><action type="write_pv"/></actions>
          <rules><rule name="r" prop_id="visible"><exp bool_exp="pv0 +"><value>0</value></exp>
            <pv_name>X</pv_name></rule></rules></widget>`),
    );
    expect(notes.map(({ count, kind }) => [kind, count])).toEqual([
      ["type", 2],
      ["rule", 1],
      ["script", 1],
      ["action", 1],
      ["property", 1],
    ]);
    expect(isWhole(notes)).toBe(false);
    expect(isWhole(notesIn(display('<widget type="led"><sparkle/></widget>')))).toBe(true);
  });

  it("doesn't list what converters write to every widget, where Phoebus has no such property", () => {
    const written = "<border_width>1</border_width><foreground_color/>";
    const led = `<widget type="led">${written}</widget><widget type="polyline">${written}</widget>`;
    expect(notesIn(display(led))).toEqual([]);
  });

  it("says that an image has no axes, and which colours it can't show", () => {
    const texts = (inside: string): string[] =>
      notesIn(display(`<widget type="image">${inside}</widget>`)).map(({ text }) => text);
    const hidden =
      "<x_axis><visible>false</visible></x_axis><y_axis><visible>false</visible></y_axis>";
    const known = `<color_mode>RGB1</color_mode><log_scale>true</log_scale><limits_from_pv>true</limits_from_pv>`;
    expect(texts(known + hidden)).toEqual([]);
    expect(texts(`<color_mode>YUV444</color_mode>${hidden}`)).toEqual([
      "an image of the colour mode YUV444",
    ]);
    expect(texts("")).toEqual(["an image is shown without its axes"]);
  });

  it("has a component for each type that has defaults", () => {
    expect([...WIDGETS.keys()].sort()).toEqual([...KNOWN_TYPES].sort());
  });
});

describe("properties", () => {
  it("have the defaults of their type, and Phoebus's standard sizes", () => {
    const sizes = ["label", "rectangle", "action_button", "choice", "group", "tank", "xyplot"].map(
      (type) => {
        const props = propsOf(`<widget type="${type}"/>`);
        return [props.number("width"), props.number("height")];
      },
    );
    expect(sizes).toEqual([
      [100, 20],
      [100, 20],
      [100, 30],
      [100, 43],
      [300, 200],
      [150, 200],
      [400, 300],
    ]);
    expect(propsOf('<widget type="led"/>').colour("off_color")).toEqual([60, 100, 60, 255]);
    expect(propsOf('<widget type="textupdate"/>').colour("background_color")).toEqual([
      240, 240, 240, 255,
    ]);
  });

  it("take macros in every kind of value, and errors as the default", () => {
    const props = propsOf(
      `<widget type="label"><width>$(W)</width><height>odd</height><transparent>$(T)</transparent>
        <text>\${A} $(B=b) $(C) \\$(D) $(name)</text><name>N$(A)</name></widget>`,
      { W: "70", T: "false", A: "1" },
    );
    expect([props.number("width"), props.number("height")]).toEqual([70, 20]);
    expect(props.flag("transparent")).toBe(false);
    expect(props.text("text")).toBe("1 b $(C) $(D) N1");
  });

  it("prefer the name of a colour or font to its numbers", () => {
    const palette = paletteOf({
      colours: "# c\nWarm = 1, 2, 3\nHot=Warm\nClear = 1,2,3,4\nOK = 9,9,9\nBad = 300,0,0",
      fonts: "// f\nBig = Liberation Sans-bold-30\nSame = @Big\nBig(windows) = Arial-regular-1",
    });
    const { node } =
      first(`<widget type="label"><foreground_color><color name="Hot" red="7"/></foreground_color>
      <background_color><color name="None" red="7" green="8" blue="900"/></background_color>
      <font><font name="Same" family="X" style="REGULAR" size="5"/></font></widget>`);
    const props = new Props(node, {}, { lookup: () => undefined, palette });
    expect(props.colour("foreground_color")).toEqual([1, 2, 3, 255]);
    expect(props.colour("background_color")).toEqual([7, 8, 255, 255]);
    expect(props.font()).toEqual({
      family: "Liberation Sans",
      size: 30,
      bold: true,
      italic: false,
    });
    expect(palette.colours.get("ok")).toEqual([9, 9, 9, 255]);
    expect(palette.colours.has("bad")).toBe(false);
  });

  it("that a rule has set are so in macros of the widget too", () => {
    const props = propsOf(
      '<widget type="label"><pv_name>A</pv_name><text>$(pv_name)</text></widget>',
    );
    expect(props.with(new Map([["pv_name", "B"]])).text("text")).toBe("B");
    expect(props.with(new Map([["pv_name", "$(pv_name)2"]])).text("pv_name")).toBe("A2");
  });

  it("of buttons without a text are the description of their only action", () => {
    const action = '<action type="write_pv"><description>Go $(X)</description></action>';
    const text = (actions: string) =>
      propsOf(`<widget type="action_button"><actions>${actions}</actions></widget>`, {
        X: "1",
      }).text("text");
    expect(text(action)).toBe("Go 1");
  });
});

describe("a widget class", () => {
  const bcf = `<display version="2.0.0"><grid_visible use_class="true">false</grid_visible>
    <widget type="label"><name>TITLE</name><text>no</text><x use_class="true">0</x>
      <foreground_color use_class="true"><color red="1" green="2" blue="3"/></foreground_color></widget>
    <widget type="label"><name>TITLE</name><transparent use_class="true">false</transparent></widget>
    <widget type="led"><name>TITLE</name><x use_class="true">99</x></widget>
    <widget type="led"><name>DEFAULT</name><square use_class="true">true</square></widget>
    <widget type="led"><square use_class="true">false</square></widget></display>`;
  const { classes = new Map() } = paletteOf({ classes: bcf });
  const classed = (inside: string, version = "2.0.0"): Props => {
    const file = parseDisplay(`<display version="${version}">${inside}</display>`);
    const { node, type } = withClasses(file, classes).widgets[0] as WidgetSource;
    const context = { lookup: () => undefined, palette: DEFAULT_PALETTE };
    return new Props(node, defaultsOf(type) ?? {}, context);
  };
  const title = `<widget type="label"><class>TITLE</class><x use_class="true">5</x><y>6</y>
    <text use_class="true">mine</text></widget>`;

  it("sets what it marks, and the rest is the widget's", () => {
    const props = classed(title);
    expect([props.number("x"), props.number("y")]).toEqual([0, 6]);
    expect([props.text("text"), props.flag("transparent")]).toEqual(["mine", false]);
    expect(props.colour("foreground_color")).toEqual([1, 2, 3, 255]);
  });

  it("is of one type, and DEFAULT is that of widgets that name none", () => {
    expect(classed('<widget type="led"><class>TITLE</class></widget>').number("x")).toBe(99);
    expect(classed('<widget type="led"/>').flag("square")).toBe(true);
    expect(classed('<widget type="led"><class></class></widget>').flag("square")).toBe(false);
    expect(classed('<widget type="led"/>', "1.0.0").flag("square")).toBe(false);
  });

  it("is in groups and tabs too", () => {
    const inside = `<widget type="group">${title}</widget>
      <widget type="tabs"><tabs><tab><children>${title}</children></tab></tabs></widget>`;
    const [group, tabs] = withClasses(parseDisplay(display(inside)), classes).widgets;
    for (const { node } of [...(group?.children ?? []), ...(tabs?.pages[0] ?? [])]) {
      expect(node.children.find(({ name }) => name === "x")?.text).toBe("0");
    }
  });

  it("that isn't defined is listed, and the widget's own looks hold", () => {
    const texts = (text: string, palette?: Palette): string[] =>
      notesIn(display(text), palette).map((note) => `${note.kind}: ${note.text}`);
    const palette = paletteOf({ classes: bcf });
    expect(texts(title)).toEqual(["class: the class TITLE of label: not defined"]);
    expect(texts(title, palette)).toEqual([]);
    expect(texts('<widget type="led"><x use_class="true">1</x></widget>')).toEqual([
      "class: led.x of a widget class",
    ]);
    expect(texts(title, paletteOf({ classes: "<display>" }))).toEqual(texts(title));
    expect(paletteOf({ classes: "<opi/>", colours: "A = 1,2,3" }).colours.has("a")).toBe(true);
  });
});

describe("the colours of an image", () => {
  const map = (inside: string): Colours =>
    coloursOf(first(`<widget type="image"><color_map>${inside}</color_map></widget>`).node);
  const at = (inside: string, ...levels: number[]) => {
    const colours = map(inside);
    return typeof colours === "string" ? colours : levels.map((level) => colours[level]);
  };

  it("are Phoebus's maps by name or number, else viridis", () => {
    expect(coloursOf(first('<widget type="image"/>').node)).toBe("viridis");
    expect(map("<name>GRAY</name>")).toBe("grey");
    expect(map("<map>1</map>")).toBe("grey");
    expect(map("<name>PLAID</name>")).toBe("viridis");
    expect(at("<name>JET</name>", 0, 93, 255)).toEqual([
      [0, 0, 143],
      [0, 255, 255],
      [128, 0, 0],
    ]);
    expect(at("<map>5</map>", 0, 255)).toEqual([
      [0, 255, 255],
      [255, 0, 255],
    ]);
  });

  it("may be the display's own, in any order", () => {
    const sections = `<section value="200" red="0" green="100" blue="0"/>
      <section value="100" red="0" green="0" blue="0"/><section value="x" red="9"/>`;
    expect(at(sections, 0, 100, 150, 255)).toEqual([
      [0, 0, 0],
      [0, 0, 0],
      [0, 50, 0],
      [0, 100, 0],
    ]);
    const older = `<map><e red="0" green="0" blue="0">0.0</e><e red="255" green="255" blue="255">1.0</e></map>`;
    expect(at(older, 0, 51, 255)).toEqual([
      [0, 0, 0],
      [51, 51, 51],
      [255, 255, 255],
    ]);
  });
});

describe("macros", () => {
  it("nest, have defaults, and end if they contain themselves", () => {
    const values: Record<string, string> = { A: "1", P1: "X", LOOP: "$(LOOP)y" };
    const lookup = (name: string) => values[name];
    expect(expand("$(P$(A)):${P${A}}", lookup)).toBe("X:X");
    expect(expand("$(Q=$(A)) $(Q=)|$(9)|$(", lookup)).toBe("1 |$(9)|$(");
    expect(expand("$(LOOP)", lookup).length).toBeLessThan(1000);
  });

  it("of an inner scope replace those around it, whose values they may use", () => {
    const outer = new Map([
      ["P", "A"],
      ["Q", "1"],
    ]);
    const inner = innerMacros(outer, [
      ["P", "$(P):B"],
      ["R", "$(P)$(Q)"],
    ]);
    expect(Object.fromEntries(inner)).toEqual({ P: "A:B", Q: "1", R: "A:B1" });
  });
});

describe("an expression", () => {
  const values: Record<string, ExpressionValue> = {
    pv0: 2.5,
    pv1: 6,
    pvInt1: 6n,
    pvStr0: "on",
    pvStr3: "ACQ1014",
    pvSev0: 2n,
    pv2: NaN,
    "widget.width": "40",
  };
  const run = (text: string) =>
    compile(text)((name) => {
      const value = values[name];
      if (value === undefined) throw new Error("no value");
      return value;
    });

  it.each<[string, ExpressionValue]>([
    ["pv0 > 2 && pv1 <= 6", true],
    ["!(pv0!=2.5)", true],
    ["!pv0==2.5", false],
    ["not pv0 == 1 and pv1 == 6", true],
    ["pv0=2.5", true],
    ["(pvInt1&0x2)>>1", 1n],
    ["pv1&(1<<2)", 4n],
    ["pvInt1 & 2 == 2", true],
    ["7/2 + 7.0/2", 6.5],
    ["-7 // 2", -4n],
    ["-7 % 3", 2n],
    ["2 ** 3 * 2", 16],
    ['pvStr0 == "on" || pv9 == 1', true],
    ["pvStr0 == 'o\\'n'", false],
    ['pv0 != ""', true],
    ["pvSev0 == 2 ? pv1 : 0", 6],
    ["1 if pv0 > 9 else 3", 3n],
    ["1 < pv0 < 3", true],
    ["pv2 == pv2", false],
    ["max(abs(-3), Math.sqrt(16))", 4],
    ['"a" + str(5) + "b"', "a5b"],
    ["str(pv0 * 2) + str(1 == 1)", "5.0True"],
    // What Python 3 gives.
    ['"%d" % 5.7', "5"],
    ['"%5.2f" % 3.14159', " 3.14"],
    ['"%-8s|" % "ab"', "ab      |"],
    ['"%+d %d%%" % (5, -3)', "+5 -3%"],
    ['"%05d" % -42', "-0042"],
    ['"%x %X %#x %o" % (255, 255, 255, 8)', "ff FF 0xff 10"],
    ['"%e" % 12345.678', "1.234568e+04"],
    ['"%.3e" % 0.00012', "1.200e-04"],
    ['"%g %g %g" % (100000.0, 1000000.0, 0.0001)', "100000 1e+06 0.0001"],
    ['"%G" % 1e-10', "1E-10"],
    ['"%.2s" % "abc"', "ab"],
    ['"%s is %.1f" % ("T", pv0)', "T is 2.5"],
    ['"% d" % 7', " 7"],
    ['"%i" % True', "1"],
    ['"%f" % 1', "1.000000"],
    ["pv1 in (5, 6)", true],
    ["pvStr0 in ['off']", false],
    ['int(widget.getPropertyValue("width")) + 1', 41n],
    ["true and not False", true],
    ["1e-3 < 2.5E0", true],
    ['pvStr3.startsWith("ACQ") && pv1 == 6', true],
    ['pvStr3.indexOf("Q1") > -1', true],
    ['pvStr3.contains("99") || pvStr3.equals("acq1014")', false],
    ['pvStr3.lower().startswith("acq1") and len(pvStr3.strip()) == 7', true],
    ['"CH" + pvStr3.substring(3, 5)', "CH10"],
    ["pvStr3.replace('1', '$&').length() + pvStr3.length", 16n],
    ["pvStr3[-1] + pvStr3[0]", "4A"],
    ["'Q' in pvStr3 and 'x' not in pvStr3", true],
    ["pv1 in (5, 6) and pv1 not in [1, 2,] and pvStr0 in ('on')", true],
    ['(pv0 > 9 ? "a" : "b").equals("b")', true],
  ])("%s", (text, result) => {
    const value = run(text);
    expect(typeof result === "boolean" ? isTrue(value) : value).toBe(result);
  });

  it.each([
    "",
    "pv0 +",
    "(pv0",
    "alert(1)",
    "a.b",
    "pv0 pv1",
    "x = 1; y",
    "`1`",
    "${pv0}",
    "constructor",
    "pv0.constructor('x')()",
    "(".repeat(200),
    "toString()",
    "pvStr0.constructor",
    'pvStr0.constructor("x")',
    'pvStr0["constructor"](',
    "pvStr0.",
    "pv0 in",
    "pvStr0.matches('(a+)+')",
    "constructor()",
  ])("isn't compiled: %s", (text) => {
    expect(() => compile(text)).toThrow();
  });

  it.each([
    "pv0 < 'a'",
    "1/0",
    "pv0.length()",
    "pvStr0[7]",
    "pvStr0[0.5]",
    "pv0 & 1",
    "1 << 999",
    "'%d' % 'a'",
    "'%d %d' % 1",
    "'%d' % (1, 2)",
    "'%q' % 1",
    "pv7",
  ])("has no value: %s", (text) => {
    expect(() => run(text)).toThrow();
  });
});

describe("a rule", () => {
  const rule = (exps: string, more = "", property = "visible") =>
    rulesOf(
      first(`<widget type="led"><rules><rule name="r" prop_id="${property}" ${more}>${exps}
        <pv_name>$(P)x</pv_name></rule></rules></widget>`).node,
      (name) => ({ P: "dev:" })[name],
    );
  const pv = (number: number, severity = 0): RulePv => ({
    number,
    integer: undefined,
    text: String(number),
    severity,
  });
  const set = (rules: ReturnType<typeof rule>, at: RulePv | undefined) => {
    const found = evaluate(rules, [at], () => "").get("visible");
    return typeof found === "object" ? found.text : found;
  };

  it("sets the value of the first condition that holds, and nothing if none does", () => {
    const rules = rule(
      `<exp bool_exp="pv0&gt;5"><value>false</value></exp><exp bool_exp="pv0&gt;3"><value>true</value></exp>`,
    );
    expect(rules.names).toEqual(["dev:x"]);
    expect([9, 4, 1].map((number) => set(rules, pv(number)))).toEqual(["false", "true", undefined]);
  });

  it("sets nothing while a PV has no present value", () => {
    const rules = rule(`<exp bool_exp="true"><value>false</value></exp>`);
    expect(set(rules, undefined)).toBe(undefined);
    expect(set(rules, pv(0))).toBe("false");
  });

  it("of a file before version 2 has other numbers of severities in its condition", () => {
    const { node } =
      first(`<widget type="led"><rules><rule name="r" prop_id="visible" out_exp="true">
      <exp bool_exp="pvSev0 == 1"><expression>pvSev0</expression></exp>
      <exp bool_exp="pvSev0 == -1"><expression>9</expression></exp><pv_name>x</pv_name></rule></rules></widget>`);
    const of = (isLegacy: boolean) =>
      [1, 2, 3].map((severity) =>
        set(
          rulesOf(node, () => undefined, isLegacy),
          pv(0, severity),
        ),
      );
    expect(of(true)).toEqual([undefined, 2, 9]);
    expect(of(false)).toEqual([1, undefined, undefined]);
  });

  it("may compute the value, also from the severity", () => {
    const rules = rule(
      `<exp bool_exp="true"><expression>pvSev0 &lt; 2</expression></exp>`,
      'out_exp="true"',
    );
    expect([pv(0, 1), pv(0, 2)].map((at) => set(rules, at))).toEqual([true, false]);
  });

  it("that isn't understood is a problem, and the others hold", () => {
    const rules = rule(`<exp bool_exp="import os"><value>1</value></exp>`);
    expect(rules.rules).toEqual([]);
    expect(rules.problems).toHaveLength(1);
  });
});

it("a rule sets one state of a lamp, also by the name that older files have", () => {
  const lamp = (property: string): string => `<widget type="multi_state_led"><states>
    <state><value>0</value><label>a</label></state><state><value>1</value><label>b</label></state></states>
    <rules><rule name="r" prop_id="${property}" out_exp="false"><exp bool_exp="pv0 == 1"><value>new</value></exp>
    <pv_name>A</pv_name></rule></rules></widget>`;
  for (const property of ["states[1].label", "state_label_1"]) {
    const { node, type } = first(lamp(property));
    const pv: RulePv = { number: 1, integer: undefined, text: "1", severity: 0 };
    const set = evaluate(
      rulesOf(node, () => undefined),
      [pv],
      () => "",
    );
    const context = { lookup: () => undefined, palette: DEFAULT_PALETTE };
    const props = new Props(node, defaultsOf(type) ?? {}, context).with(set);
    expect(props.list("states").map((state) => state.text("label"))).toEqual(["a", "new"]);
    expect(notesIn(display(lamp(property)))).toEqual([]);
  }
});

describe("a script of a button", () => {
  const steps = (text: string, file = "EmbeddedPy") => {
    const script = `<script file="${file}"><text><![CDATA[${text}]]></text></script>`;
    const { node } = first(
      `<widget type="action_button"><actions><action type="execute">${script}</action></actions></widget>`,
    );
    return stepsOf(node.children[0]?.children[0] as XmlNode)?.map((step) =>
      step.kind === "close"
        ? "close"
        : [step.type, ...step.node.children.map(({ text }) => text)].join(" "),
    );
  };
  const imports =
    "# Stops it\nfrom org.csstudio.display.builder.runtime.script import PVUtil, ScriptUtil\n\n";

  it("is known if each line is a known step", () => {
    const stop = `name = widget.getPropertyValue('pv_name')  # the "record"
A = name + ".EN" + "BL"
PVUtil.writePV(A, 0, 1000)
PVUtil.writePV(widget.propPVName().getValue() + '.TXT', "a, b # c")
ScriptUtil.openDisplay(widget, "x.bob", "TAB", None)
ScriptUtil.closeDisplay(widget)`;
    expect(steps(imports + stop)).toEqual([
      "write_pv $(pv_name).ENBL 0",
      "write_pv $(pv_name).TXT a, b # c",
      "open_display x.bob tab",
      "close",
    ]);
  });

  it.each([
    "",
    "print('x')",
    "import os\nPVUtil.writePV('a', 1)",
    "from java.lang import Runtime\nPVUtil.writePV('a', 1)",
    "if True:\n    PVUtil.writePV('a', 1)",
    "  PVUtil.writePV('a', 1)",
    "PVUtil.writePV('a', 1) if x else 0",
    "PVUtil.writePV('a', b)",
    "PVUtil.writePV('a', 1 + 2)",
    "PVUtil.writePV('a' 'b', 1)",
    "PVUtil.writePV('a' +, 1)",
    "PVUtil.writePV('a',)",
    "PVUtil.writePV(1, 1)",
    "PVUtil.writePV('a\\'', 1)",
    "PVUtil.writePV('a', PVUtil.getDouble(pvs[0]))",
    "PVUtil.writePV('a', 1); x()",
    "ScriptUtil.closeDisplay(other)",
    "ScriptUtil.openDisplay(widget, 'x.bob', 'TAB', {'A': '1'})",
    "a = b\nPVUtil.writePV('a', 1)",
  ])("isn't known with another line: %j", (text) => {
    expect(steps(text)).toBe(undefined);
  });

  it("in a file isn't known", () => {
    expect(steps("PVUtil.writePV('a', 1)", "stop.py")).toBe(undefined);
  });

  it("is listed unless it is known", () => {
    const action = (text: string): string =>
      display(`<widget type="action_button"><actions><action type="execute">
        <script file="EmbeddedPy"><text>${text}</text></script></action></actions></widget>`);
    expect(isWhole(notesIn(action("ScriptUtil.closeDisplay(widget)")))).toBe(true);
    expect(isWhole(notesIn(action("exit()")))).toBe(false);
  });
});

describe("a script of a widget", () => {
  const scripted = (text: string): string => `<widget type="rectangle"><scripts>
    <script file="EmbeddedPy"><text>from org.csstudio.display.builder.runtime.script import PVUtil
${text}</text><pv_name>A</pv_name><pv_name trigger="false">B</pv_name></script></scripts></widget>`;
  const pv = (text: string, number: number, severity = 0): RulePv => ({
    number,
    integer: undefined,
    text,
    severity,
  });
  const set = (text: string, property: string, one: RulePv, other: RulePv, isLegacy = false) => {
    const rules = rulesOf(first(scripted(text)).node, () => undefined, isLegacy);
    expect(rules.names).toEqual(["A", "B"]);
    const found = evaluate(rules, [one, other], () => "").get(property);
    return typeof found === "object" ? found.children[0]?.attributes.name : found;
  };

  it("that sets a property to a PV's value is a rule", () => {
    const setter = (get: string) =>
      `# Follows it\nwidget.setPropertyValue("x", PVUtil.${get}(pvs[1]))`;
    const [one, other] = [pv("n", 1), pv("t", 2.5)];
    expect(set(setter("getString"), "x", one, other)).toBe("t");
    expect(set(setter("getDouble"), "x", one, other)).toBe(2.5);
    expect(set(setter("getInt"), "x", one, other)).toBe(2);
    expect(isWhole(notesIn(display(scripted(setter("getLong")))))).toBe(true);
  });

  it("that colours by an alarm is a rule, with the same severities in files of version 1", () => {
    const colour = `sevr = PVUtil.getSeverity(pvs[0])
cn = ( 'OK', 'MINOR', 'MAJOR', 'INVALID', 'DISCONNECTED' )[sevr]
widget.setPropertyValue('line_color', WidgetColorService.getColor(cn))`;
    const named = [0, 1, 2, 3].map((severity) =>
      set(colour, "line_color", pv("", 0, severity), pv("", 0), true),
    );
    expect(named).toEqual(["OK", "MINOR", "MAJOR", "INVALID"]);
  });

  it("of a display is listed if it has an effect", () => {
    const kinds = (text: string) =>
      notesIn(
        display(`<scripts><script file="EmbeddedPy"><text>${text}</text></script></scripts>`),
      ).map(({ kind }) => kind);
    expect(kinds("# Nothing\nprint 'Hello'")).toEqual([]);
    expect(kinds('widget.setPropertyValue("x", PVUtil.getInt(pvs[0]))')).toEqual(["script"]);
  });

  it("is listed if it does anything else, and not if it only prints", () => {
    const kinds = (text: string) => notesIn(display(scripted(text))).map(({ kind }) => kind);
    expect(kinds("print 'Hello'\nprint('x')  # y")).toEqual([]);
    expect(kinds("print x()")).toEqual(["script"]);
    expect(kinds('widget.setPropertyValue("x", PVUtil.getInt(pvs[0]) + f())')).toEqual(["script"]);
    expect(kinds('widget.setPropertyValue("x", 1)\npvs[1].write(1)')).toEqual(["script"]);
    expect(kinds('widget.setPropertyValue("class", PVUtil.getString(pvs[0]))')).toEqual(["rule"]);
  });
});

describe("a PV's name", () => {
  it.each([
    ["X:Y.VAL ", "X:Y.VAL"],
    ["pva://X", "pva://X"],
    ["loc://x<VInt>(1)", "loc://x<VInt>(1)"],
    ["sim://sine(0, 10, 0.5)", "psim://sine(0, 10, 0.5)"],
    ["eq://`A`+1", "=`A`+1"],
    ["=`A`+1", "=`A`+1"],
    ["sys://time", "sys://time"],
    ["sys://timeOffset(12 hours)", "sys://timeOffset(12 hours)"],
  ])("%s is %s for the client", (written, name) => {
    expect(clientName(written)).toEqual({ name });
  });

  it("that isn't available here has a reason, and an empty one has no name", () => {
    expect(clientName("tango://x")?.problem).toContain("isn't available");
    expect(clientName("sys://free_mb")?.problem).toContain("isn't available");
    expect(clientName("$(P)x")?.problem).toContain("macro");
    expect(clientName("  ")).toBe(undefined);
  });
});

describe("a file's address", () => {
  const root = "https://site.example/screens/";
  const from = "https://site.example/screens/a/main.bob";

  it.each([
    ["b.bob", "https://site.example/screens/a/b.bob"],
    ["../c d.bob", "https://site.example/screens/c%20d.bob"],
    ["sub\\e.bob", "https://site.example/screens/a/sub/e.bob"],
  ])("%s is %s", (file, address) => {
    expect(resolveFile(file, from, root)).toEqual({ address });
  });

  it.each([
    "../../secret",
    "/etc/passwd",
    "https://evil.example/x.bob",
    "//evil.example/x.bob",
    "javascript:alert(1)",
    "data:text/xml,x",
    "file:///etc/passwd",
    "%2e%2e/%2e%2e/x.bob",
    "..%2f..%2fx.bob",
    "..\\..\\x",
    "$(X).bob",
    "",
  ])("outside the folder is refused: %s", (file) => {
    expect(resolveFile(file, from, root).problem).toBeTypeOf("string");
  });

  it("isn't in a folder whose name only begins like the root's", () => {
    const other = "https://site.example/screens2/a.bob";
    expect(resolveFile(other, from, root.slice(0, -1)).problem).toBeTypeOf("string");
    expect(resolveFile("b.bob", from, root.slice(0, -1)).problem).toBe(undefined);
  });

  it("of the facility's colours is the nearest one around a display", () => {
    const [colours, fonts, classes] = PALETTE_FILES;
    const paths = [
      "color.def",
      "a/b/my_Colours.def",
      "a/b/c/a_color.def",
      "a/b/c/color.def",
      "a/x.bcf",
    ];
    const found = ["x.bob", "a/x.bob", "a/b/x.bob", "a/b/c/x.bob", "a/b/c/d/x.bob"].map((display) =>
      nearestFile(paths, display, colours),
    );
    expect(found).toEqual([paths[0], paths[0], paths[1], paths[3], paths[3]]);
    expect(nearestFile(paths, "a/x.bob", fonts)).toBe(undefined);
    expect(nearestFile(paths, "a/b/x.bob", classes)).toBe("a/x.bcf");
    expect(nearestFile(paths, "b/x.bob", classes)).toBe(undefined);
  });

  it.each([
    ["FULL", "/data/run 1/a.b.txt"],
    ["DIRECTORY", "/data/run 1"],
    ["FULLNAME", "a.b.txt"],
    ["BASENAME", "a.b"],
  ])("has parts that a file selector writes: %s", (component, part) => {
    expect(partOf("/data/run 1/a.b.txt", component)).toBe(part);
  });

  it("at the top or without a folder has parts too", () => {
    const parts = ["/a", "a", ".hidden", "C:\\x\\y.txt"].map((path) =>
      ["DIRECTORY", "FULLNAME", "BASENAME"].map((component) => partOf(path, component)),
    );
    expect(parts).toEqual([
      ["/", "a", "a"],
      ["", "a", "a"],
      ["", ".hidden", ".hidden"],
      ["C:\\x", "y.txt", "y"],
    ]);
  });

  it("has a name for people, also with a % that encodes nothing", () => {
    expect([fileName("/a/b%20c.bob"), fileName("/a/50%.bob")]).toEqual(["b c.bob", "50%.bob"]);
  });

  it("of a web page is one of http", () => {
    expect(webPage("javascript:alert(1)")).toBe(undefined);
    expect(webPage("https://a.example/")).toBe("https://a.example/");
  });
});

describe("a number as text", () => {
  const text = (number: number | bigint, format: string, precision: number) =>
    numberText(number, null, { format: format as "HEX", precision, units: false });

  it.each([
    [1234.5678, "DECIMAL", 2, "1234.57"],
    [1234.5678, "EXPONENTIAL", 3, "1.235E3"],
    [12345.678, "ENGINEERING", 2, "12.35E3"],
    [255, "HEX", 4, "0x00FF"],
    [-1n, "HEX", 0, "0xFFFFFFFFFFFFFFFF"],
    [5, "BINARY", 8, "0b00000101"],
    [0.00001, "COMPACT", 2, "1.00E-5"],
    [12.5, "COMPACT", 2, "12.50"],
    [-1.5, "SEXAGESIMAL", 4, "-1:30:00"],
    [NaN, "DECIMAL", 2, "NaN"],
    [-Infinity, "EXPONENTIAL", 2, "-Infinity"],
    [NaN, "HEX", 2, "NaN"],
    [9007199254740993n, "DECIMAL", -1, "9007199254740993"],
  ])("%s as %s with %s digits is %s", (number, format, precision, shown) => {
    expect(text(number, format, precision)).toBe(shown);
  });

  const how = (format: string) => ({ format: format as "COMPACT", precision: -1, units: false });
  const display = (type: string, precision: number | null = null) => ({
    type: type as "Float64",
    units: "",
    precision,
  });

  it("of an array of bytes is its numbers, unless it is a text", () => {
    const shown = (string: string, format = "DEFAULT") =>
      valueText(
        { array: Uint8Array.of(65, 66, 0, 9), bigint: null, number: null, string, text: "AB" },
        display("UInt8"),
        how(format),
      );
    expect(shown("[65, 66, 0, 9]")).toBe("[65, 66, 0, 9]");
    expect(shown("[65, 66, 0, 9]", "STRING")).toBe("AB");
    expect(shown("AB")).toBe("AB");
  });

  it("of an array without a precision has all its digits", () => {
    const shown = (array: Float64Array | Float32Array, type: string, format = "DEFAULT") =>
      valueText(
        { array, bigint: null, number: null, string: "", text: null },
        display(type),
        how(format),
      );
    const elements = Float64Array.of(0.00012, 1.5, 3, 1234567.25);
    expect(shown(elements, "Float64")).toBe("[0.00012, 1.5, 3, 1234567.25]");
    expect(shown(elements, "Float64", "DECIMAL")).toBe("[0.00012, 1.5, 3, 1234567.25]");
    expect(shown(elements, "Float64", "COMPACT")).toBe("[0.00012, 1.5, 3, 1.23456725E6]");
    expect(shown(Float32Array.of(0.1, 16777216, -2.5e-7), "Float32")).toBe(
      "[0.1, 16777216, -2.5e-7]",
    );
  });

  it("in the compact format has all its digits without a precision", () => {
    const shown = (number: number | bigint, type: string, precision: number | null = null) =>
      numberText(number, display(type, precision), how("COMPACT"));
    expect([
      shown(0.0004321, "Float64"),
      shown(123456, "Float64"),
      shown(123456n, "Int64"),
      shown(Math.fround(0.7), "Float32"),
      shown(0.7, "Float64", 2),
    ]).toEqual(["0.0004321", "1.23456E5", "1.23456E5", "0.7", "0.70"]);
  });

  const scalar = (number: number, string: string, type: string, format: string) =>
    valueText(
      { array: null, bigint: null, number, string, text: null },
      display(type),
      how(format),
    );

  it("that isn't finite is written as Phoebus writes it, whatever the relay's text is", () => {
    expect(scalar(NaN, "nan", "Float64", "DEFAULT")).toBe("NaN");
    expect(scalar(Infinity, "inf", "Float64", "DECIMAL")).toBe("Infinity");
    expect(scalar(-Infinity, "-inf", "Float32", "HEX")).toBe("-Infinity");
  });

  it("that is negative has in HEX the bits of its type, in BINARY 64", () => {
    expect(scalar(-1, "-1", "Int8", "HEX")).toBe("0xFF");
    expect(scalar(-2, "-2", "Int16", "HEX")).toBe("0xFFFE");
    expect(scalar(-2, "-2", "Int32", "HEX")).toBe("0xFFFFFFFE");
    expect(scalar(-2, "-2", "Float64", "HEX")).toBe("0xFFFFFFFFFFFFFFFE");
    expect(scalar(-1, "-1", "Int8", "BINARY")).toBe(`0b${"1".repeat(64)}`);
  });

  it("of an enum is its label only in the default format and as a string", () => {
    const formats = ["DEFAULT", "STRING", "COMPACT", "DECIMAL"];
    expect(formats.map((format) => scalar(1, "On", "Enum", format))).toEqual([
      "On",
      "On",
      "1",
      "1",
    ]);
    expect(scalar(1, "true", "Boolean", "DECIMAL")).toBe("true");
  });

  it("is read back", () => {
    expect(["0xff", "-0x10", "0b101", "1e3", "", "x"].map((each) => typedNumber(each))).toEqual([
      255,
      -16,
      5,
      1000,
      undefined,
      undefined,
    ]);
  });
});

describe("what is typed", () => {
  it.each([
    ["20", "HEX", "Int32", 0x20],
    ["0b1", "HEX", "Int32", 0xb1],
    ["-0x20", "HEX", "Int32", -0x20],
    ["FFFFFFFFFFFFFFFF", "HEX", "Int32", -1],
    ["0xFFFFFFFE", "HEX", "Int32", -2],
    ["0xFFFFFFFE", "HEX", "UInt32", 0xfffffffe],
    ["0xFFFFFFFE", "HEX", "Int64", 0xfffffffe],
    ["0x80", "HEX", "Int8", -128],
    ["0x80", "HEX", "Int16", 128],
    ["101", "BINARY", "Int32", 5],
    ["-1:30", "SEXAGESIMAL", "Float64", -1.5],
    ["6:00:00", "SEXAGESIMAL_HMS", "Float64", Math.PI / 2],
    ["90", "SEXAGESIMAL_DMS", "Float64", Math.PI / 2],
    ["1:60", "SEXAGESIMAL", "Float64", undefined],
    ["9007199254740993", "DEFAULT", "Int64", 9007199254740993n],
    ["0xFFFFFFFFFFFFFFFF", "HEX", "UInt64", 18446744073709551615n],
    ["007", "DEFAULT", "Int64", 7],
  ])("%s in %s for %s is %s", (text, format, type, number) => {
    expect(typedNumber(text, format as "HEX", type)).toBe(number);
  });

  const value = (
    text: string,
    type: string,
    more: object = {},
    array: Float64Array | null = null,
  ) =>
    typedValue(
      text,
      {
        value: { text: null, array },
        display: { type: type as "Enum", units: "A", choices: null, ...more },
      },
      "DEFAULT",
    );

  it("is the text of an array of characters that is shown as one", () => {
    const put = (array: NumericArray, format: string) =>
      typedValue(
        "/data/run 1, [a]",
        { value: { text: null, array }, display: { type: "Int8", units: "", choices: null } },
        format as "STRING",
      );
    expect(put(Int8Array.of(47, 0), "STRING")).toBe("/data/run 1, [a]");
    expect(put(Uint8Array.of(47, 0), "STRING")).toBe("/data/run 1, [a]");
    expect(put(Int8Array.of(47, 0), "DEFAULT")).toEqual(["/data/run", "1", "[a"]);
    expect(put(Float64Array.of(1), "STRING")).toEqual(["/data/run", "1", "[a"]);
    const bytes = { text: "AB", array: Uint8Array.of(65, 66), string: "[65, 66]" };
    const pv = { value: bytes, display: { type: "UInt8", units: "", choices: null } } as const;
    expect(typedValue("[1, 2, 3]", pv, "DEFAULT")).toEqual([1, 2, 3]);
  });

  it("is a number before its units are cut, and a label before it is an index", () => {
    expect([value("0x1A", "Int32"), value("3 A", "Int32")]).toEqual([26, 3]);
    const choices = ["1", "0", "2 A"];
    expect(["1", "0", "2 A", "2", "x"].map((text) => value(text, "Enum", { choices }))).toEqual([
      0,
      1,
      2,
      2,
      "x",
    ]);
    expect(value("[1, 9007199254740993]", "Int64", {}, Float64Array.of(1))).toEqual([
      1n,
      9007199254740993n,
    ]);
  });
});

it("goes back and forward in each tab, and to a tab that has the display already", () => {
  const file = (name: string) => ({ file: name, macros: {} });
  let pages = firstPages(file("a"));
  pages = turn(pages, { kind: "replace", ...file("b") });
  expect(waysOf(pages)).toEqual({ back: true, forward: false });
  pages = turn(turn(pages, { kind: "back" }), { kind: "tab", ...file("c") });
  expect(presentOf(pages).file).toBe("c");
  pages = turn(pages, { kind: "tab", ...file("a") });
  expect([pages.at, pages.tabs.length]).toEqual([0, 2]);
  expect(waysOf(pages)).toEqual({ back: false, forward: true });
  pages = turn(pages, { kind: "close", tab: 0 });
  expect(presentOf(pages).file).toBe("c");
});
