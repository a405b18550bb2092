/** Choices with equal, empty, missing and changing labels: what is written is what was shown. */

import { describe, expect, it } from "vitest";
import { userEvent } from "vitest/browser";

import { EnumChoice, SetPoint } from "../ts/widgets/index.js";
import { eachWithWidgetPage, page, part, relay, show, until } from "./widget_page.js";

eachWithWidgetPage();

const buttons = (): HTMLButtonElement[] => [...page.querySelectorAll("button")];
const texts = (): (string | null)[] => buttons().map((button) => button.textContent);
const pressed = (): (string | null)[] =>
  buttons()
    .filter((button) => button.getAttribute("aria-pressed") === "true")
    .map((button) => button.textContent);
const options = (): (string | null)[] =>
  [...page.querySelectorAll("option")].map((option) => option.textContent);
const select = (): HTMLSelectElement => page.querySelector("select") as HTMLSelectElement;
const shows = async (...expected: string[]): Promise<void> => {
  await until(() => {
    expect(texts()).toEqual(expected);
  });
};

describe("buttons", () => {
  it("of equal labels write their own index", async () => {
    relay.set("MODE", { value: 0, choices: ["Zero", "One", "One"] });
    show(<EnumChoice name="MODE" />);
    await shows("Zero", "One", "One");
    buttons()[2]?.click();
    await until(() => {
      expect(part("outcome")).toMatch(/^Written/);
    });
    expect(relay.puts).toEqual([{ name: "MODE", value: 2 }]);
    // The PV's update may be shown a frame after the outcome.
    await until(() => {
      expect(buttons().map((button) => button.getAttribute("aria-pressed"))).toEqual([
        "false",
        "false",
        "true",
      ]);
    });
  });

  it("of an empty label show and write the index", async () => {
    relay.set("MODE", { value: 1, choices: ["Off", "", "On", ""] });
    show(<EnumChoice name="MODE" />);
    await shows("Off", "1", "On", "3");
    expect(pressed()).toEqual(["1"]);
    buttons()[3]?.click();
    await until(() => {
      expect(pressed()).toEqual(["3"]);
    });
    expect(relay.puts).toEqual([{ name: "MODE", value: 3 }]);
  });

  it("write the index where labels look like other indexes", async () => {
    relay.set("MODE", { value: 0, choices: ["2", "1", "0"] });
    show(<EnumChoice name="MODE" />);
    await shows("2", "1", "0");
    buttons()[0]?.click();
    await until(() => {
      expect(part("outcome")).toMatch(/^Written/);
    });
    expect(relay.puts).toEqual([{ name: "MODE", value: 0 }]);
  });

  it("leave no ghosts when labels change", async () => {
    relay.set("MODE", { value: 0, choices: ["A", "A", "B"] });
    show(<EnumChoice name="MODE" />);
    await shows("A", "A", "B");
    relay.set("MODE", { choices: ["A", "C"] });
    await shows("A", "C");
    relay.set("MODE", { choices: ["X", "X", "X", "Y"] });
    await shows("X", "X", "X", "Y");
  });

  it("show an index that has no label", async () => {
    relay.set("MODE", { value: 9, choices: ["A", "B"] });
    show(<EnumChoice name="MODE" />);
    await shows("A", "B", "9");
    expect(pressed()).toEqual(["9"]);
    expect(buttons()[2]?.disabled).toBe(true);
    relay.set("MODE", { value: 1 });
    await shows("A", "B");
    expect(pressed()).toEqual(["B"]);
  });

  it("write nothing if the label has changed since it was shown", async () => {
    relay.set("MODE", { value: 0, choices: ["Closed", "Open"] });
    show(<EnumChoice name="MODE" />);
    await shows("Closed", "Open");
    // Has arrived, and is not shown before the next frame.
    relay.set("MODE", { choices: ["Closed", "Locked", "Open"] });
    buttons()[1]?.click();
    await until(() => {
      expect(part("outcome")).toBe("Refused: the choice Open is Locked now; nothing was sent");
    });
    relay.set("MODE", { choices: ["Closed"] });
    buttons()[2]?.click();
    await until(() => {
      expect(part("outcome")).toBe("Refused: the choice Open no longer exists; nothing was sent");
    });
    expect(relay.puts).toEqual([]);
  });
});

describe("a list", () => {
  const LABELS = ["One", "Two", "Two", "", "Five"];

  it("writes the index of the chosen one of equal labels", async () => {
    relay.set("MODE", { value: 0, choices: LABELS });
    show(<EnumChoice name="MODE" />);
    await until(() => {
      expect(options()).toEqual(["One", "Two", "Two", "3", "Five"]);
    });
    for (const index of [2, 3, 1]) {
      await userEvent.selectOptions(select(), select().options[index] as HTMLOptionElement);
      expect(part("hint")).toContain("Not sent");
      select().focus();
      await userEvent.keyboard("{Enter}");
      await until(() => {
        expect(part("outcome")).toMatch(/^Written/);
      });
      expect(relay.puts.at(-1)).toEqual({ name: "MODE", value: index });
      await until(() => {
        expect(select().selectedIndex).toBe(index);
      });
    }
  });

  it("keeps the label that was chosen when it changes, and doesn't send it", async () => {
    relay.set("MODE", { value: 0, choices: LABELS });
    show(<EnumChoice name="MODE" />);
    await until(() => {
      expect(options()).toHaveLength(5);
    });
    await userEvent.selectOptions(select(), select().options[4] as HTMLOptionElement);
    relay.set("MODE", { choices: ["One", "Two", "Three", "Four", "Six"] });
    await until(() => {
      expect(options()).toEqual(["Five", "One", "Two", "Three", "Four", "Six"]);
    });
    expect(select().selectedOptions[0]?.textContent).toBe("Five");
    select().focus();
    await userEvent.keyboard("{Enter}");
    await until(() => {
      expect(part("outcome")).toBe("Refused: the choice Five is Six now; nothing was sent");
    });
    expect(relay.puts).toEqual([]);
  });

  it("stays while a choice is typed, which can be taken back, and gives way to buttons", async () => {
    relay.set("MODE", { value: 0, choices: LABELS });
    show(<EnumChoice name="MODE" />);
    await until(() => {
      expect(options()).toHaveLength(5);
    });
    await userEvent.selectOptions(select(), select().options[4] as HTMLOptionElement);
    relay.set("MODE", { choices: ["One", "Two"] });
    await until(() => {
      expect(options()).toEqual(["Five", "One", "Two"]);
    });
    page.querySelector<HTMLButtonElement>("button[type=submit]")?.click();
    await until(() => {
      expect(part("outcome")).toBe("Refused: the choice Five no longer exists; nothing was sent");
    });
    expect(part("hint")).toContain("Not sent");
    page.querySelector<HTMLButtonElement>("button[type=reset]")?.click();
    await shows("One", "Two");
    expect(part("hint")).not.toContain("Not sent");
    expect(relay.puts).toEqual([]);
  });

  it("doesn't become a field that sends a choice's label as a number", async () => {
    relay.set("MODE", { value: 1, choices: ["9", "8", "7", "6", "0"] });
    show(<SetPoint name="MODE" />);
    await until(() => {
      expect(options()).toHaveLength(5);
    });
    await userEvent.selectOptions(select(), select().options[4] as HTMLOptionElement);
    relay.set("MODE", { choices: [], type: "Enum" });
    await until(() => {
      expect(options()).toEqual(["0"]);
    });
    page.querySelector<HTMLButtonElement>("button[type=submit]")?.click();
    await until(() => {
      expect(part("outcome")).toBe("Refused: the choice 0 no longer exists; nothing was sent");
    });
    page.querySelector<HTMLButtonElement>("button[type=reset]")?.click();
    await until(() => {
      expect(page.querySelector("input")?.value).toBe("1");
    });
    expect(relay.puts).toEqual([]);
  });

  it("shows an index that has no label", async () => {
    relay.set("MODE", { value: 12, choices: LABELS });
    show(<EnumChoice name="MODE" />);
    await until(() => {
      expect(select().selectedOptions[0]?.textContent).toBe("12");
    });
  });
});

describe("a PV without choices", () => {
  it("is set by its index, or shown as it is", async () => {
    relay.set("BARE", { value: 3, type: "Enum", choices: [] });
    show(<SetPoint name="BARE" />);
    await until(() => {
      expect(page.querySelector("input")?.value).toBe("3");
    });
    show(<EnumChoice name="BARE" />);
    await shows("3");
    expect(part("hint")).toBe("The PV has no choices");
    show(<EnumChoice name="TEMP" />);
    await shows("21.5");
  });
});
