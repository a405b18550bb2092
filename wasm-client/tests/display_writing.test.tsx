/** What is written from displays by keys and pointers, and what isn't. */

import { describe, expect, it } from "vitest";
import { userEvent } from "vitest/browser";

import {
  display,
  box,
  FILES,
  fill,
  open,
  part,
  press,
  pv,
  sent,
  status,
  value,
  when,
} from "./display_page.js";
import { eachWithWidgetPage, page, relay } from "./widget_page.js";

eachWithWidgetPage();

/** Holds the outcome of all puts until the returned function is called. */
function holdPuts(): () => void {
  const ends: (() => void)[] = [];
  relay.onPut = () =>
    new Promise((resolve) => {
      ends.push(() => {
        resolve(undefined);
      });
    });
  return () => {
    for (const end of ends.splice(0)) end();
  };
}

const dialog = (): HTMLElement | null => page.querySelector("dialog");
const confirm = "<show_confirm_dialog>1</show_confirm_dialog>";

/** Everything that was pressed or chosen has had its effect: a write that follows it is the only one. */
async function nothingWrittenBefore(name: string, put: unknown): Promise<void> {
  const input = part<HTMLInputElement>(name, "input");
  await userEvent.fill(input, String(put));
  await userEvent.keyboard("{Enter}");
  await when(() => sent().includes(put));
  expect(sent()).toEqual([put]);
}

describe("a slider", () => {
  const slider = (inside = ""): string =>
    pv(
      "scrollbar",
      "SET",
      `<limits_from_pv>false</limits_from_pv><increment>10</increment>${inside}`,
    );
  const thumb = (): HTMLInputElement => part("scrollbar", "input");

  it("shows the value itself, not the nearest step", async () => {
    relay.set("SET", 0.5);
    await open(slider());
    await when(() => !thumb().disabled);
    expect(thumb().value).toBe("0.5");
  });

  it("steps by arrow keys from the value that it shows, and ends at its limits", async () => {
    relay.set("SET", 44);
    await open(slider());
    await when(() => thumb().value === "44");
    thumb().focus();
    await userEvent.keyboard("{ArrowRight}");
    await when(() => sent().length === 1 && thumb().value === "54");
    await userEvent.keyboard("{ArrowDown}");
    await when(() => thumb().value === "44" && sent().length === 2);
    relay.set("SET", 98);
    await when(() => thumb().value === "98");
    await userEvent.keyboard("{ArrowUp}");
    await when(() => sent().length === 3 && thumb().value === "100");
    expect(sent()).toEqual([54, 44, 100]);
    // From outside its limits it doesn't move the other way.
    relay.set("SET", 120);
    await when(() => thumb().title === "120");
    await userEvent.keyboard("{ArrowUp}{ArrowDown}");
    await when(() => sent().length === 4);
    expect(sent().at(-1)).toBe(100);
  });

  it("that is dragged writes whole steps from its minimum", async () => {
    relay.set("SET", 44);
    await open(slider("<minimum>5</minimum>"));
    await when(() => thumb().value === "44");
    fill(thumb(), "47.3");
    await when(() => sent().length === 1);
    expect(sent()).toEqual([45]);
  });
});

describe("a list of choices", () => {
  const list = (): HTMLSelectElement => part("combo", "select");
  const opened = async (inside = ""): Promise<void> => {
    relay.set("MODES", { value: 0, choices: ["Off", "Low", "Beam dump", "High"] });
    await open(pv("combo", "MODES", inside) + pv("spinner", "BITS"));
    await when(() => !list().disabled && list().value === "0");
  };

  it("doesn't write the choices that arrow keys pass, but the one of Enter", async () => {
    await opened();
    list().focus();
    await userEvent.keyboard("{ArrowDown}{ArrowDown}{ArrowDown}");
    await when(() => list().dataset.typed === "true");
    expect(list().value).toBe("3");
    await userEvent.keyboard("{Enter}");
    await when(() => sent().length > 0);
    expect(sent()).toEqual([3]);
    await when(() => list().value === "3" && list().dataset.typed === undefined);
  });

  it.each(["{Escape}", "{Tab}"])(
    "shows the PV's value again after %s, and writes nothing",
    async (key) => {
      await opened();
      list().focus();
      await userEvent.keyboard("{ArrowDown}");
      await when(() => list().dataset.typed === "true");
      await userEvent.keyboard(key);
      await when(() => list().dataset.typed === undefined && list().value === "0");
      await nothingWrittenBefore("spinner", 7);
    },
  );

  it("writes a choice with the pointer at once", async () => {
    await opened();
    list().focus();
    press(list(), "ArrowDown");
    await userEvent.selectOptions(list(), "High");
    await when(() => list().dataset.typed === "true");
    list().dispatchEvent(new PointerEvent("pointerdown", { bubbles: true }));
    await userEvent.selectOptions(list(), "Low");
    await when(() => sent().length > 0);
    expect(sent()).toEqual([1]);
  });

  it("doesn't write a choice whose label has changed during the question", async () => {
    await opened(confirm);
    await userEvent.selectOptions(list(), "Low");
    await when(() => dialog() !== null);
    relay.set("MODES", { value: 0, choices: ["Off", "Beam dump", "Low", "High"] });
    await when(() => list().options[1]?.textContent === "Beam dump");
    (page.querySelector('dialog [type="submit"]') as HTMLElement).click();
    await when(() => status().includes("Refused: the choice Low has changed; nothing was sent"));
    expect(sent()).toEqual([]);
  });

  it("doesn't write a choice that may no longer be written after the question", async () => {
    await opened(confirm);
    await userEvent.selectOptions(list(), "Low");
    await when(() => dialog() !== null);
    relay.set("MODES", { mutable: false });
    await when(() => list().disabled);
    (page.querySelector('dialog [type="submit"]') as HTMLElement).click();
    await when(() => status().includes("Refused:") && status().includes("nothing was sent"));
    expect(sent()).toEqual([]);
  });
});

it("buttons for a number stand for 0, 1, 2 …, as in Phoebus", async () => {
  relay.set("PAGE", { value: 1 });
  const items =
    "<items_from_pv>false</items_from_pv><items><item>One</item><item>Two</item></items>";
  await open(pv("radio", "PAGE", items));
  const buttons = (): HTMLInputElement[] => [...box("radio").querySelectorAll("input")];
  await when(() => buttons()[1]?.checked === true);
  buttons()[0]?.click();
  await when(() => sent().length > 0);
  expect(sent()).toEqual([0]);
});

it("arrow keys move the focus of radio buttons without choosing; Space chooses", async () => {
  relay.set("MODES", { value: 0, choices: ["Off", "Low", "High"] });
  await open(pv("radio", "MODES"));
  const buttons = (): HTMLInputElement[] => [...box("radio").querySelectorAll("input")];
  await when(() => buttons()[0]?.checked === true);
  buttons()[0]?.focus();
  await userEvent.keyboard("{ArrowDown}{ArrowRight}");
  expect(document.activeElement).toBe(buttons()[2]);
  await userEvent.keyboard("{ArrowRight}");
  expect(document.activeElement).toBe(buttons()[0]);
  await userEvent.keyboard("{ArrowUp}{ArrowUp}");
  expect(buttons().map(({ checked }) => checked)).toEqual([true, false, false]);
  await userEvent.keyboard(" ");
  await when(() => sent().length > 0);
  expect(sent()).toEqual([1]);
});

describe("Enter", () => {
  const action = (name: string, put: string): string =>
    `<action type="write_pv"><pv_name>${name}</pv_name><value>${put}</value><description>Put ${put}</description></action>`;
  const button = (): HTMLButtonElement => part("b", "button");
  const opened = async (actions: string, inside = ""): Promise<void> => {
    await open(
      `<widget type="action_button"><name>b</name>${inside}<actions>${actions}</actions></widget>${pv("spinner", "BITS")}`,
    );
    await when(() => button().ariaDisabled === "false");
    button().focus();
  };

  it("twice doesn't confirm what the first one asked", async () => {
    await opened(action("MODE", "0"), confirm);
    await userEvent.keyboard("{Enter}");
    await when(() => dialog() !== null);
    expect(document.activeElement?.textContent).toBe("Cancel");
    await userEvent.keyboard("{Enter}");
    await when(() => dialog() === null);
    await nothingWrittenBefore("spinner", 7);
  });

  it("begins at the password where one is asked", async () => {
    await opened(action("MODE", "0"), "<password>x</password>");
    button().click();
    await when(() => dialog() !== null);
    expect(document.activeElement?.getAttribute("type")).toBe("password");
  });

  it("that is held doesn't press anything again", async () => {
    await opened(action("MODE", "0"));
    const isStopped = (element: Element): boolean => {
      const repeat = { key: "Enter", repeat: true, bubbles: true, cancelable: true };
      return !element.dispatchEvent(new KeyboardEvent("keydown", repeat));
    };
    expect(isStopped(button())).toBe(true);
    for (const type of ["bool_button", "slide_button", "checkbox"]) {
      await open(pv(type, "MODE"));
      await when(() => page.querySelector(`[data-name="${type}"] :is(button, input)`) !== null);
      expect(isStopped(part(type, "button, input")), type).toBe(true);
    }
  });

  it("twice doesn't run the first action of a menu, which the arrow keys reach", async () => {
    await opened(action("MODE", "0") + action("MODE", "1"));
    await userEvent.keyboard("{Enter}");
    await when(() => page.querySelector('[role="menu"]') !== null);
    await when(() => document.activeElement?.getAttribute("role") === "menu");
    await userEvent.keyboard("{Enter}{ArrowUp}");
    expect(document.activeElement?.textContent).toBe("Put 1");
    await userEvent.keyboard("{ArrowDown}");
    expect(document.activeElement?.textContent).toBe("Put 0");
    await userEvent.keyboard("{Enter}");
    await when(() => sent().length > 0);
    expect(sent()).toEqual([0]);
  });

  it("again while a text is being written doesn't write it again", async () => {
    const end = holdPuts();
    await open(pv("textentry", "TEMP"));
    const input = part<HTMLInputElement>("textentry", "input");
    await when(() => !input.readOnly);
    await userEvent.fill(input, "33");
    await userEvent.keyboard("{Enter}{Enter}");
    await userEvent.fill(input, "34");
    await userEvent.keyboard("{Enter}");
    await when(() => sent().includes(34));
    expect(sent()).toEqual([33, 34]);
    end();
    await when(() => status().includes("Written"));
  });

  it("again while a bit is being written doesn't write it again", async () => {
    const end = holdPuts();
    await open(pv("bool_button", "BITS", "<bit>1</bit>") + pv("textentry", "TEMP"));
    await when(() => part("bool_button", "button").ariaDisabled === "false");
    part("bool_button", "button").focus();
    await userEvent.keyboard("{Enter}{Enter}");
    await when(() => sent().length > 0);
    await userEvent.fill(part("textentry", "input"), "34");
    await userEvent.keyboard("{Enter}");
    await when(() => sent().includes(34));
    expect(sent()).toEqual([7, 34]);
    end();
  });
});

describe("a spinner", () => {
  const input = (): HTMLInputElement => part("spinner", "input");

  it("that doesn't show the PV's value shows it first, and steps from there", async () => {
    await open(pv("spinner", "TEMP") + pv("textupdate", "TEMP"));
    await when(() => input().value === "21.5" && !input().readOnly);
    input().focus();
    relay.set("TEMP", 50);
    await when(() => value("textupdate") === "50.0 °C");
    expect(input().value).toBe("21.5");
    await userEvent.keyboard("{ArrowUp}");
    await when(() => input().value === "50.0");
    expect(status()).toContain("Refused: the value has changed meanwhile");
    expect(sent()).toEqual([]);
    await userEvent.keyboard("{ArrowUp}");
    await when(() => sent().length > 0);
    expect(sent()).toEqual([51]);
  });

  it("steps on while its own puts change the value", async () => {
    await open(pv("spinner", "TEMP"));
    await when(() => input().value === "21.5" && !input().readOnly);
    input().focus();
    for (const next of ["22.5", "23.5", "24.5"]) {
      await userEvent.keyboard("{ArrowUp}");
      await when(() => input().value === next);
    }
    expect(sent()).toEqual([22.5, 23.5, 24.5]);
  });

  it("refuses a typed number outside the limits, and says what they are", async () => {
    await open(pv("spinner", "TEMP"));
    await when(() => input().value === "21.5" && !input().readOnly);
    await userEvent.fill(input(), "95");
    await userEvent.keyboard("{Enter}");
    await when(() =>
      status().includes("Refused: 95 isn't within the limits, 0 to 90 °C; nothing was sent"),
    );
    expect(sent()).toEqual([]);
    expect(input().value).toBe("95");
  });
});

describe("a knob", () => {
  const knob = (inside = ""): string =>
    pv("knob", "TEMP", `<width>200</width><height>200</height>${inside}`);
  const dial = (): HTMLElement => part("knob", '[role="slider"]');
  const target = (): Element | null => box("knob").querySelector("[data-target]");

  /** Presses at three o'clock and turns clockwise by this many degrees, in steps. */
  function turn(degrees: number, isReleased = true): void {
    const { height, left, top, width } = dial().getBoundingClientRect();
    const fire = (type: string, at: number): void => {
      const angle = (at * Math.PI) / 180;
      const clientX = left + width / 2 + 60 * Math.cos(angle);
      const clientY = top + height / 2 + 60 * Math.sin(angle);
      dial().dispatchEvent(
        new PointerEvent(type, { bubbles: true, pointerId: 1, clientX, clientY, button: 0 }),
      );
    };
    // There is no real pointer that could be captured.
    dial().setPointerCapture = () => undefined;
    fire("pointerdown", 0);
    for (let at = 1; at <= 9; at += 1) fire("pointermove", (degrees * at) / 9);
    if (isReleased) fire("pointerup", degrees);
  }

  const ready = async (inside = ""): Promise<void> => {
    await open(knob(inside));
    await when(() => dial().ariaDisabled === "false" && dial().ariaValueNow === "21.5");
  };

  it("writes once it is released, and its needle shows the PV's value meanwhile", async () => {
    await ready();
    // 270 degrees are 100.
    turn(27, false);
    await when(() => target() !== null);
    expect(box("knob").textContent).toContain("21.5 °C → 31.5");
    expect(sent()).toEqual([]);
    turn(27);
    await when(() => sent().length > 0);
    expect(sent()).toEqual([31.5]);
    await when(() => target() === null);
  });

  it("that is only pressed writes nothing, and one that is turned far ends at the limit", async () => {
    await ready();
    turn(0);
    turn(180);
    await when(() => sent().length > 0);
    // 21.5 and 66.7 are within the limits of 0 to 90.
    expect(sent()).toEqual([88.2]);
    relay.set("TEMP", 88.2);
    await when(() => dial().ariaValueNow === "88.2");
    turn(90);
    await when(() => sent().length > 1);
    expect(sent()[1]).toBe(90);
  });

  it("writes while it is turned if the display wants that", async () => {
    await ready("<write_on_release>false</write_on_release>");
    turn(27, false);
    await when(() => sent().at(-1) === 31.5);
  });

  it("is turned by arrow keys, and asks before it writes if the display does", async () => {
    await ready(confirm);
    press(dial(), "ArrowUp");
    await when(() => dialog() !== null);
    expect(sent()).toEqual([]);
    const [ok] = [...page.querySelectorAll<HTMLElement>("dialog button")];
    ok?.click();
    await when(() => sent().length > 0);
    expect(sent()).toEqual([22.5]);
  });

  it("isn't turned without a right to write", async () => {
    relay.set("TEMP", { mutable: false });
    await open(knob());
    await when(() => dial().ariaDisabled === "true");
    turn(27);
    press(dial(), "ArrowUp");
    expect(target()).toBe(null);
    expect(box("knob").dataset.readOnly).toBe("true");
    expect(sent()).toEqual([]);
  });
});

describe("a file selector", () => {
  const input = (): HTMLInputElement => page.querySelector("dialog input") as HTMLInputElement;

  it("writes the part of the typed path that the display names", async () => {
    relay.set("PATH", { value: "/data/old.txt" });
    await open(pv("fileselector", "PATH", "<component>1</component>"));
    await when(() => !part<HTMLButtonElement>("fileselector", "button").disabled);
    part("fileselector", "button").click();
    await when(() => dialog() !== null);
    expect(input().value).toBe("/data/old.txt");
    await userEvent.fill(input(), "/data/new/a.txt");
    await userEvent.keyboard("{Enter}");
    await when(() => sent().length > 0);
    expect(sent()).toEqual(["/data/new"]);
    expect(dialog()).toBe(null);
  });

  it("writes nothing if the question is cancelled, or nothing may be written any more", async () => {
    relay.set("PATH", { value: "a" });
    await open(pv("fileselector", "PATH") + pv("spinner", "BITS"));
    await when(() => !part<HTMLButtonElement>("fileselector", "button").disabled);
    part("fileselector", "button").click();
    await when(() => dialog() !== null);
    const [, cancel] = [...page.querySelectorAll<HTMLElement>("dialog button")];
    cancel?.click();
    await when(() => dialog() === null);
    part("fileselector", "button").click();
    await when(() => dialog() !== null);
    relay.set("PATH", { mutable: false });
    await when(() => box("fileselector").dataset.readOnly === "true");
    input().form?.requestSubmit();
    await when(() => status().includes("Refused"));
    await nothingWrittenBefore("spinner", 7);
  });
});

describe("an action", () => {
  const action = (inside: string): string =>
    `<widget type="action_button"><name>b</name><macros><W>w</W></macros><actions>${inside}</actions></widget>`;

  it("opens the file that its own macros name, each of which may use those before it", async () => {
    FILES["w-next.bob"] = display('<widget type="label"><name>next $(W) $(G)</name></widget>');
    await open(
      action(
        `<action type="open_display"><file>$(G).bob</file>
          <macros><F>next</F><G>$(W)-$(F)</G><W>x$(W)</W></macros></action>`,
      ),
    );
    part("b", "button").click();
    await when(() => page.querySelector('[data-name="next xw w-next"]') !== null);
  });

  it("runs the steps of a script in their order, and none after a write that was refused", async () => {
    relay.set("TEMP.A", 1);
    relay.set("TEMP.B", { value: 0, choices: ["1", "0"] });
    FILES["next.bob"] = display('<widget type="label"><name>next</name></widget>');
    const script = `name = widget.getPropertyValue('pv_name')
PVUtil.writePV(name + '.A', 7)
PVUtil.writePV(name + '.B', 0, 1000)
ScriptUtil.openDisplay(widget, 'next.bob', 'REPLACE', None)`;
    const button = action(
      `<action type="execute"><script file="EmbeddedPy"><text>${script}</text></script></action>`,
    ).replace("</name>", "</name><pv_name>TEMP</pv_name>");
    let isRefused = true;
    relay.onPut = ({ name }) => (isRefused && name === "TEMP.A" ? "not now" : undefined);
    await open(button + pv("textupdate", "TEMP.B"));
    await when(() => value("textupdate") === "1");
    part("b", "button").click();
    await when(() => status().includes("Refused"));
    expect(sent()).toEqual(["7"]);
    isRefused = false;
    part("b", "button").click();
    await when(() => page.querySelector('[data-name="next"]') !== null);
    // The index 0, and not the choice of this name.
    expect(sent()).toEqual(["7", "7", 0]);
  });

  it("closes a display: the one before it comes back", async () => {
    FILES["next.bob"] = display(
      action(
        '<action type="execute"><script file="EmbeddedPy"><text>ScriptUtil.closeDisplay(widget)</text></script></action>',
      ).replace("<name>b<", "<name>close<"),
    );
    await open(action('<action type="open_display"><file>next.bob</file></action>'));
    part("b", "button").click();
    await when(() => page.querySelector('[data-name="close"]') !== null);
    part("close", "button").click();
    await when(() => page.querySelector('[data-name="b"]') !== null);
  });

  it("opens today's format of a display that it names by the older one", async () => {
    FILES["detail.bob"] = display('<widget type="label"><name>next</name></widget>');
    await open(action('<action type="open_display"><file>detail.opi</file></action>'));
    part("b", "button").click();
    await when(() => page.querySelector('[data-name="next"]') !== null);
  });

  it("doesn't write a value whose macro has none", async () => {
    await open(
      action('<action type="write_pv"><pv_name>TEMP</pv_name><value>$(X)1</value></action>') +
        pv("spinner", "BITS"),
    );
    expect(part("b", "button").ariaDisabled).toBe("true");
    expect(box("b").title).toContain("$(X)1: a macro has no value");
    part("b", "button").click();
    await nothingWrittenBefore("spinner", 7);
  });
});
