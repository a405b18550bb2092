/** Displays are checked without a browser: what isn't shown is counted, and what isn't XML is refused. */

import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { checkDisplay, checkFolder, checkReport } from "../ts/display/check.js";
import { parseXml } from "../ts/display/model/xml.js";

const display = (inside: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<!-- made by hand -->\n<display version="2.0.0">${inside}</display>\n`;

const WHOLE = display(`<widget type="embedded"><file>../part.bob</file></widget>
  <widget type="textupdate"><pv_name>$(P):X</pv_name><file>$(F).bob</file></widget>`);
const PART =
  display(`<widget type="3dviewer"/><widget type="group"><widget type="3dviewer"/></widget>
  <widget type="led"><pv_name>mqtt://a</pv_name><scripts><script file="a.py"/></scripts></widget>
  <widget type="action_button"><actions><action type="execute"/><action type="open_display">
    <file>gone.bob</file></action><action type="open_display"><file>../../x.bob</file></action></actions>
  </widget>`);

describe("the reader of XML", () => {
  it("keeps attributes, texts, sections and entities", () => {
    expect(
      parseXml(`<a b='1 &lt; "2"' c="&#65;&#x42;">x<!-- no -->&amp;<![CDATA[<y>&z;]]><d/></a>`),
    ).toEqual({
      name: "a",
      attributes: { b: '1 < "2"', c: "AB" },
      text: "x&<y>&z;",
      children: [{ name: "d", attributes: {}, children: [], text: "" }],
    });
  });

  it("reads ends of lines and blanks in attributes as one character", () => {
    expect(parseXml("<a b='1\r\n2\t3&#10;'>x\r\ny\r</a>")).toMatchObject({
      attributes: { b: "1 2 3\n" },
      text: "x\ny\n",
    });
  });

  it.each([
    ["", "there is no element"],
    ["<a>", "<a> isn't closed"],
    ["<a></b>", "</b> ends <a>"],
    ["</a>", "</a> ends nothing"],
    ["<a/><b/>", "more than one element"],
    ["<a/>x", "text outside of it"],
    ["<a b='1' b='2'/>", "has b twice"],
    ["<a b=1/>", "isn't well-formed"],
    ["<a>&constructor;</a>", "is no known entity"],
    ["<a>&#x110000;</a>", "is no known entity"],
    ["<a><!-- b -- c --></a>", "isn't well-formed"],
    ["<a>\n&nbsp;</a>", "line 2: &nbsp; is no known entity"],
    ["<a>& b</a>", "is no known entity"],
    ["<a>< b</a>", "line 1: < b</a>… isn't well-formed"],
    ["<!DOCTYPE a><a/>", "document type"],
    ["<a><![CDATA[x</a>", "isn't well-formed"],
    ["<a>".repeat(102), "levels"],
  ])("refuses %j", (text, why) => {
    expect(() => parseXml(text)).toThrow(why);
  });
});

describe("a check", () => {
  const exists = (file: string): boolean => file === "part.bob";

  it("finds nothing in a display that is shown whole", () => {
    const checked = checkDisplay("ops/main.bob", WHOLE, exists);
    expect(checked).toMatchObject({ widgets: 2, known: 2, isWhole: true });
    expect(checked.error).toBe(undefined);
  });

  it("finds the display that is shown for one of an older format", () => {
    const opens = `<widget type="embedded"><file>../part.opi</file></widget>
      <widget type="embedded"><file>../gone.opi</file></widget>`;
    const { notes } = checkDisplay("ops/main.bob", display(opens), exists);
    expect(notes.map(({ text }) => text)).toEqual(["../gone.opi: there is no such file"]);
  });

  it("reads displays of BOY, and the files that they name", () => {
    const widgets = "org.csstudio.opibuilder.widgets";
    const boy = `<display typeId="org.csstudio.opibuilder.Display" version="1.0.0">
      <widget typeId="${widgets}.linkingContainer"><opi_file>gone.opi</opi_file></widget>
      <widget typeId="${widgets}.ActionButton"><actions><action type="OPEN_DISPLAY"><path>../part.opi</path></action>
        </actions></widget><widget typeId="${widgets}.detailpanel"/></display>`;
    const checked = checkDisplay("ops/main.opi", boy, exists);
    expect(checked).toMatchObject({ widgets: 3, known: 2, isWhole: false });
    expect(checked.notes.map(({ text }) => text)).toEqual([
      "widgets of type detailpanel",
      "gone.opi: there is no such file",
    ]);
    const files: Record<string, string> = { "a.opi": boy, "b.opi": boy, "b.bob": display("") };
    const found = checkFolder(Object.keys(files), (path) => files[path] ?? "");
    // The one in today's format is shown.
    expect(found.map(({ path }) => path)).toEqual(["a.opi", "b.bob"]);
  });

  it("counts types, scripts, actions, files and PVs that aren't shown", () => {
    const checked = checkDisplay("ops/part.bob", PART, exists);
    expect(checked).toMatchObject({ widgets: 5, known: 3, isWhole: false });
    const texts = checked.notes.map(({ count, kind, text }) => `${String(count)} ${kind} ${text}`);
    expect(texts).toEqual(
      expect.arrayContaining([
        "2 type widgets of type 3dviewer",
        "1 script scripts: a.py are not run",
        "1 action actions execute are not available",
        "1 file gone.bob: there is no such file",
        "1 file ../../x.bob: outside the folder of displays",
        "1 pv mqtt://a: this kind of PV isn't available here",
      ]),
    );
  });

  it("says how many displays are whole, and what the others lack", () => {
    const all = [
      checkDisplay("a.bob", display(""), exists),
      checkDisplay("b.bob", PART, exists),
      checkDisplay("c.bob", "<display>", exists),
    ];
    const report = checkReport(all);
    expect(report).toContain("3 displays: 1 is shown whole (33.3 %), 1 in part, 1 can't be read");
    expect(report).toContain("5 widgets: 3 of known types (60.0 %)");
    expect(report).toContain("  2 in 1  type: widgets of type 3dviewer");
    expect(report).toContain("  c.bob: line 1: <display> isn't closed");
    expect(report).toMatch(/ {2}b\.bob: 2 × type, 1 × script/);
  });
});

describe("a check of a folder", () => {
  const files: Record<string, string> = {
    "classes.bcf": display(
      `<widget type="label"><name>TITLE</name><x use_class="true">1</x></widget>`,
    ),
    "ops/classes.bcf": "<display>",
    "a.bob": display(`<widget type="label"><class>TITLE</class></widget>`),
    "b.bob": display(`<widget type="label"><class>NOTE</class><sparkle/></widget>`),
    "ops/c.bob": display(`<widget type="label"><sparkle/></widget>`),
    "notes.txt": "",
  };
  const found = checkFolder([...Object.keys(files), "gone.bob"], (path) => {
    const text = files[path];
    if (text === undefined) throw new Error("permission denied");
    return text;
  });
  const textsOf = (path: string): (string | undefined)[] => {
    const one = found.find((each) => each.path === path);
    return one?.error === undefined ? (one?.notes ?? []).map(({ text }) => text) : [one.error];
  };

  it("takes the classes of the nearest file, and says if that can't be read", () => {
    expect(found.map(({ path }) => path)).toEqual(["a.bob", "b.bob", "ops/c.bob", "gone.bob"]);
    expect(textsOf("a.bob")).toEqual([]);
    expect(textsOf("b.bob")).toEqual(["the class NOTE of label: not defined", "label.sparkle"]);
    expect(textsOf("ops/c.bob")).toEqual([
      "label.sparkle",
      "ops/classes.bcf: line 1: <display> isn't closed",
    ]);
    expect(textsOf("gone.bob")).toEqual(["permission denied"]);
  });

  it("lists what has other looks apart from what isn't shown", () => {
    const report = checkReport(found);
    expect(report).toContain("4 displays: 2 are shown whole (50.0 %), 1 in part, 1 can't be read");
    const [, looks = ""] = report.split(
      "Shown with other looks (how often, in how many displays):",
    );
    expect(
      looks
        .trim()
        .split("\n")
        .map((line) => line.trim()),
    ).toEqual([
      "2 in 2  property: label.sparkle",
      "1 in 1  class: the class NOTE of label: not defined",
    ]);
  });
});

describe("pvwire-display check", () => {
  const program = path.resolve(import.meta.dirname, "../bin/pvwire-display.js");
  const folder = mkdtempSync(path.join(tmpdir(), "displays-"));
  beforeAll(() => {
    mkdirSync(path.join(folder, "ops/.git"), { recursive: true });
    writeFileSync(path.join(folder, "ops/main.bob"), WHOLE);
    writeFileSync(path.join(folder, "part.bob"), PART);
    writeFileSync(path.join(folder, "ops/.git/hidden.bob"), "no display");
  });
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });

  it("prints a report, and fails only if it has to be strict", () => {
    const report = execFileSync(process.execPath, [program, "check", folder], { encoding: "utf8" });
    expect(report).toContain("2 displays: 1 is shown whole (50.0 %), 1 in part, 0 can't be read");
    expect(run("check", "--strict", folder).status).toBe(1);
    expect(run("check", "--strict", path.join(folder, "ops")).status).toBe(1);
    const [first = ""] = run("check", "--json", folder).stdout.split("\n");
    expect(JSON.parse(first)).toMatchObject({ path: "ops/main.bob", isWhole: true });
  });

  it("says how it is called", () => {
    for (const args of [[], ["check"], ["check", "--odd", folder], ["check", `${folder}/none`]]) {
      const { status, stderr } = run(...args);
      expect(status).toBe(64);
      expect(stderr).not.toBe("");
    }
    expect(run("--help")).toMatchObject({ status: 0 });
  });
});
