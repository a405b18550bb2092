/** What is written from displays by keys and pointers, and what isn't. */

import { describe, expect, it } from "vitest";
import { userEvent } from "vitest/browser";

import { display, box, FILES, open, part, pv, sent, when } from "./display_page.js";
import { eachWithWidgetPage, page } from "./widget_page.js";

eachWithWidgetPage();

/** Everything that was pressed or chosen has had its effect: a write that follows it is the only one. */
async function nothingWrittenBefore(name: string, put: unknown): Promise<void> {
  const input = part<HTMLInputElement>(name, "input");
  await userEvent.fill(input, String(put));
  await userEvent.keyboard("{Enter}");
  await when(() => sent().includes(put));
  expect(sent()).toEqual([put]);
}

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
