/** What is written from displays by keys and pointers, and what isn't. */

import { describe, expect, it } from "vitest";
import { userEvent } from "vitest/browser";

import { display, box, FILES, open, part, pv, sent, status, value, when } from "./display_page.js";
import { eachWithWidgetPage, page, relay } from "./widget_page.js";

eachWithWidgetPage();

/** Everything that was pressed or chosen has had its effect: a write that follows it is the only one. */
async function nothingWrittenBefore(name: string, put: unknown): Promise<void> {
  const input = part<HTMLInputElement>(name, "input");
  await userEvent.fill(input, String(put));
  await userEvent.keyboard("{Enter}");
  await when(() => sent().includes(put));
  expect(sent()).toEqual([put]);
}

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

describe("an action", () => {
  const action = (inside: string): string =>
    `<widget type="action_button"><name>b</name><macros><W>w</W></macros><actions>${inside}</actions></widget>`;

  it("opens the file that its own macros name", async () => {
    FILES["w-next.bob"] = display('<widget type="label"><name>next</name></widget>');
    await open(
      action(
        '<action type="open_display"><file>$(W)-$(F).bob</file><macros><F>next</F></macros></action>',
      ),
    );
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
