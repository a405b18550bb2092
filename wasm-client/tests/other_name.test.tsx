/** What a component keeps of one PV is not shown for another, and not sent to it. */

import { useState, type ReactNode } from "react";
import { describe, expect, it, vi } from "vitest";
import { userEvent } from "vitest/browser";

import { PvProvider, usePut, usePv, usePvs, usePvSelector, useRate } from "../ts/react/index.js";
import { createFakeRelay, type PutAnswer } from "../ts/testing/index.js";
import {
  ImageView,
  Led,
  Readback,
  SetPoint,
  TableView,
  WaveformPlot,
} from "../ts/widgets/index.js";
import { client, eachWithWidgetPage, page, part, relay, show, until } from "./widget_page.js";

eachWithWidgetPage();

const field = (): HTMLInputElement => page.querySelector("input") as HTMLInputElement;

const has = async (text: string): Promise<void> => {
  await until(() => {
    expect(field().value).toBe(text);
  });
};

/** Answers to puts, each when the test gives it. */
function laterAnswers(): ((answer: PutAnswer) => void)[] {
  const ends: ((answer: PutAnswer) => void)[] = [];
  relay.onPut = () => new Promise((resolve) => ends.push(resolve));
  return ends;
}

describe("SetPoint", () => {
  it("sends nothing of what was typed for the PV before", async () => {
    relay.set("T", { value: 7 });
    show(<SetPoint name="TEMP" />);
    await has("21.5");
    await userEvent.fill(field(), "42");
    show(<SetPoint name="T" />);
    await has("7");
    field().focus();
    await userEvent.keyboard("{Enter}");
    field().form?.requestSubmit();
    expect(relay.puts).toEqual([]);
    expect(part("hint")).not.toContain("Not sent");
    show(<SetPoint name="TEMP" />);
    await has("21.5");
    expect(part("hint")).not.toContain("Not sent");
  });

  it("shows no outcome, refusal or progress of the PV before", async () => {
    relay.set("T", { value: 7 });
    const ends = laterAnswers();
    show(<SetPoint name="TEMP" />);
    await has("21.5");
    await userEvent.fill(field(), "30");
    await userEvent.keyboard("{Enter}");
    await until(() => {
      expect(part("outcome")).toBe("Sending…");
    });
    await until(() => {
      expect(ends).toHaveLength(1);
    });
    show(<SetPoint name="T" />);
    await has("7");
    expect(part("outcome")).toBe("");
    ends[0]?.("the coil is locked");
    await userEvent.fill(field(), "8");
    await userEvent.keyboard("{Enter}");
    await until(() => {
      expect(ends).toHaveLength(2);
    });
    expect(part("outcome")).toBe("Sending…");
    ends[1]?.(undefined);
    await until(() => {
      expect(part("outcome")).toMatch(/^Written/);
    });
    show(<SetPoint name="TEMP" />);
    await has("21.5");
    expect(part("outcome")).toBe("");
    await userEvent.fill(field(), "95");
    await userEvent.keyboard("{Enter}");
    expect(part("outcome")).toContain("95 is not within");
    show(<SetPoint name="T" />);
    await has("8");
    expect(part("outcome")).toBe("");
  });

  it("keeps nothing when the client changes", async () => {
    const other = createFakeRelay({ pvs: { TEMP: { value: 3 } } });
    const second = other.client();
    show(<SetPoint name="TEMP" />);
    await has("21.5");
    await userEvent.fill(field(), "42");
    show(
      <PvProvider client={second}>
        <SetPoint name="TEMP" />
      </PvProvider>,
    );
    await has("3");
    field().form?.requestSubmit();
    expect([...relay.puts, ...other.puts]).toEqual([]);
    second.dispose();
  });

  it("moves no slider of another PV", async () => {
    const range = { min: 0, max: 90 };
    relay.set("T", { value: 7, controlRange: range });
    laterAnswers();
    show(<SetPoint name="TEMP" control="slider" />);
    await has("21.5");
    await userEvent.fill(field(), "42");
    await has("42");
    show(<SetPoint name="T" control="slider" />);
    await has("7");
    expect(relay.puts.every(({ name }) => name === "TEMP")).toBe(true);
  });
});

describe("usePut", () => {
  it("counts pending puts and outcomes of each PV for itself", async () => {
    let handle = {} as ReturnType<typeof usePut>;
    function Button({ name }: { name: string }): ReactNode {
      handle = usePut(name);
      return <s>{`${handle.state} ${String(handle.pending)} ${handle.reason ?? ""}`.trim()}</s>;
    }
    const says = async (text: string): Promise<void> => {
      await until(() => {
        expect(page.querySelector("s")?.textContent).toBe(text);
      });
    };
    relay.set("T", { value: 7 });
    const ends = laterAnswers();
    const sent = async (count: number): Promise<void> => {
      await until(() => {
        expect(ends).toHaveLength(count);
      });
    };
    show(<Button name="TEMP" />);
    void handle.put(1);
    await says("pending 1");
    await sent(1);
    show(<Button name="T" />);
    await says("idle 0");
    void handle.put(2);
    const resetOfT = handle.reset;
    await sent(2);
    await says("pending 1");
    show(<Button name="TEMP" />);
    await says("pending 1");
    void handle.put(3);
    await sent(3);
    await says("pending 2");
    ends[0]?.("locked");
    await says("pending 1 locked");
    ends[1]?.("jammed");
    ends[2]?.("stuck");
    await says("failed 0 stuck");
    resetOfT();
    await says("failed 0 stuck");
    show(<Button name="T" />);
    await says("idle 0");
  });
});

describe("usePvSelector", () => {
  it("doesn't keep a value of the PV before that its comparison calls equal", async () => {
    relay.set("T", { value: 21.8 });
    function Near({ name }: { name: string }): ReactNode {
      const value = usePvSelector(name, "{ value { number } }", (pv) => pv?.value?.number ?? 0, {
        isEqual: (before, now) => Math.abs(before - now) < 1,
      });
      return <s>{value}</s>;
    }
    // Both PVs have arrived, so that nothing comes between their values.
    for (const name of ["TEMP", "T"]) client.pv(name).subscribe(() => undefined);
    show(<Near name="TEMP" />);
    await until(() => {
      expect(page.querySelector("s")?.textContent).toBe("21.5");
    });
    show(<Near name="T" />);
    await until(() => {
      expect(page.querySelector("s")?.textContent).toBe("21.8");
    });
  });
});

describe("a widget", () => {
  it("isn't stale because the PV before was, with the same time stamp", async () => {
    const timeMs = Date.now();
    relay.set("TEMP", { value: 1, timeMs });
    relay.set("T", { value: 2, timeMs });
    client.pv("T").subscribe(() => undefined);
    for (const make of [
      (name: string) => <Readback name={name} staleAfterMs={300} />,
      (name: string) => <Led name={name} staleAfterMs={300} />,
      (name: string) => <WaveformPlot name={name} staleAfterMs={300} />,
      (name: string) => <TableView name={name} staleAfterMs={300} />,
    ]) {
      show(make("TEMP"));
      await until(() => {
        expect(part("condition")).toMatch(/^Stale/);
      });
      show(make("T"));
      expect(part("condition")).not.toMatch(/^Stale/);
      show(null);
    }
  });

  it("draws no image and no curve of the PV before", async () => {
    show(<WaveformPlot name="WAVE" />);
    const isDrawn = (): boolean => {
      const canvas = page.querySelector("canvas");
      const pixels = canvas?.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data;
      return pixels?.some((byte) => byte !== 0) === true;
    };
    await until(() => {
      expect(isDrawn()).toBe(true);
    });
    show(<WaveformPlot name="NOBODY" />);
    expect(isDrawn(), "before anything else is known").toBe(false);
    show(<ImageView name="CAMERA" />);
    await until(() => {
      expect(page.querySelector("canvas")?.hidden).toBe(false);
    });
    show(<ImageView name="NOBODY" />);
    expect(page.querySelector("canvas")?.hidden).toBe(true);
  });
});

describe("a name that isn't known yet", () => {
  it("means that there is no PV", async () => {
    vi.spyOn(console, "error");
    let choose: (name: string | undefined) => void = () => undefined;
    function Chosen(): ReactNode {
      const [name, setName] = useState<string>();
      choose = setName;
      const pv = usePv(name, "{ value { string } }");
      const all = usePvs([name, "MODE"], "{ value { string } }");
      const length = usePvSelector(
        name,
        "{ value { string } }",
        (one) => one?.value?.string.length,
      );
      const rate = useRate(name);
      const { put } = usePut(name);
      return (
        <s onClick={() => void put(1).then((result) => (page.title = JSON.stringify(result)))}>
          {[pv?.value?.string, all[0]?.value?.string, all[1]?.value?.string, length, rate].join(
            "|",
          )}
        </s>
      );
    }
    show(<Chosen />);
    const text = (): string | null | undefined => page.querySelector("s")?.textContent;
    await until(() => {
      expect(text()).toBe("||On||");
    });
    page.querySelector("s")?.click();
    await until(() => {
      expect(page.title).toContain('"ok":false');
    });
    choose("TEMP");
    await until(() => {
      expect(text()).toMatch(/^21.5\|21.5\|On\|4\|/);
    });
    choose(undefined);
    await until(() => {
      expect(text()).toBe("||On||");
    });
    expect(relay.subscriptions).not.toContain("undefined");
    expect(console.error).not.toHaveBeenCalled();
    vi.restoreAllMocks();
  });
});
