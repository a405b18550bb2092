/** `Readback` writes values without rendering. Whatever happens meanwhile, it shows what rendering would show. */

import {
  Activity,
  Profiler,
  StrictMode,
  Suspense,
  startTransition,
  use,
  useLayoutEffect,
  useState,
  type ReactNode,
} from "react";
import { flushSync } from "react-dom";
import { createRoot, hydrateRoot, type Root } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { PvClient } from "../ts/index.js";
import { PvProvider } from "../ts/react/index.js";
import { createFakeRelay, type FakePv } from "../ts/testing/index.js";
import { Readback } from "../ts/widgets/index.js";
import type { ReadbackData } from "../ts/widgets/Readback.js";
import "../ts/widgets/widgets.css";
import { until } from "./until.js";

/** A PV that a test sets: its listeners are called at once. */
class Store {
  readonly listeners = new Set<() => void>();
  #data: ReadbackData | undefined;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly getSnapshot = (): ReadbackData | undefined => this.#data;

  set(number: number, change: Partial<ReadbackData> = {}): void {
    const value = { string: number.toFixed(1), number };
    const time = { seconds: 1_800_000_000 + number, nanoseconds: 0 };
    this.#data = { ...(this.#data ?? DATA), value, time, ...change };
    for (const listener of this.listeners) listener();
  }
}

const DATA: ReadbackData = {
  value: null,
  time: null,
  status: {
    severity: "NO_ALARM",
    alarmStatus: "",
    message: "",
    mutable: true,
    writable: true,
  },
  display: {
    type: "Float64",
    description: "",
    units: "V",
    precision: 1,
    displayRange: { min: 0, max: 100 },
    warningRange: { min: null, max: null },
    alarmRange: { min: null, max: null },
  },
  connection: {
    state: "connected",
    connected: true,
    since: null,
    lastHeard: null,
    unresponsive: false,
    readable: true,
    reason: null,
  },
};
const MAJOR: ReadbackData["status"] = { ...DATA.status, severity: "MAJOR", alarmStatus: "HIHI" };

let stores: Record<string, Store>;
let client: PvClient;
let page: HTMLElement;
let root: Root;
let renders: number;

beforeEach(() => {
  stores = { A: new Store(), B: new Store() };
  client = { pv: (name: string) => stores[name] } as unknown as PvClient;
  page = document.createElement("div");
  document.body.append(page);
  root = createRoot(page);
  renders = 0;
  vi.spyOn(console, "error");
});

afterEach(() => {
  root.unmount();
  page.remove();
  expect(console.error).not.toHaveBeenCalled();
  vi.restoreAllMocks();
});

const store = (name = "A"): Store => stores[name] as Store;

const count = (): void => {
  renders += 1;
};

const tree = (children: ReactNode): ReactNode => (
  <PvProvider client={client}>
    <Profiler id="page" onRender={count}>
      {children}
    </Profiler>
  </PvProvider>
);

/** Renders at once, with all effects. */
function show(children: ReactNode): void {
  flushSync(() => {
    root.render(tree(children));
  });
}

/** What the widget shows of value, time and alarm. */
function shown(): readonly [string, string, string, string | undefined] {
  const text = (selector: string): string => page.querySelector(selector)?.textContent ?? "";
  return [
    text("[data-part=value]"),
    page.querySelector("time")?.dateTime.slice(17, 19) ?? "",
    page.querySelector<HTMLElement>(".pvwire-gauge-mark")?.style.backgroundPositionX ?? "",
    page.querySelector<HTMLElement>("[data-pv]")?.dataset.severity,
  ];
}

/** Begins to record texts that are replaced; the function gives them. */
function formerTexts(): () => readonly (string | null)[] {
  const observer = new MutationObserver(() => undefined);
  observer.observe(page, { characterDataOldValue: true, subtree: true });
  return () => {
    const records = observer.takeRecords();
    observer.disconnect();
    return records.map(({ oldValue }) => oldValue);
  };
}

const of = (number: number, severity = "NO_ALARM"): readonly string[] => [
  `${number.toFixed(1)} V`,
  String(number % 60).padStart(2, "0"),
  `${String(number)}%`,
  severity,
];

describe("a value", () => {
  it("is written at once, without a render", () => {
    store().set(1);
    show(<Readback name="A" />);
    const before = renders;
    for (const number of [2, 3, 2, 2, 1]) {
      store().set(number);
      expect(shown()).toEqual(of(number));
    }
    expect(renders).toBe(before);
    store().set(7, { status: MAJOR });
    flushSync(() => undefined);
    expect(renders).toBe(before + 1);
    expect(shown()).toEqual(of(7, "MAJOR"));
  });

  it("is not written before the alarm that came with it", async () => {
    store().set(1);
    show(<Readback name="A" />);
    const seen: unknown[] = [];
    const observer = new MutationObserver(() => seen.push(shown()));
    observer.observe(page, {
      attributes: true,
      characterData: true,
      childList: true,
      subtree: true,
    });
    store().set(2, { status: MAJOR });
    expect(shown()).toEqual(of(1));
    store().set(3);
    expect(shown()).toEqual(of(1));
    await until(() => {
      expect(shown()).toEqual(of(3, "MAJOR"));
    });
    observer.disconnect();
    for (const one of seen) expect(one).toEqual(of(3, "MAJOR"));
  });

  it("may be the one that React rendered before", () => {
    store().set(1);
    show(<Readback name="A" />);
    store().set(2);
    flushSync(() => {
      store().set(1, { status: MAJOR });
    });
    expect(shown()).toEqual(of(1, "MAJOR"));
    store().set(2);
    flushSync(() => {
      store().set(1, { status: DATA.status });
    });
    expect(shown()).toEqual(of(1));
  });

  it("stays when the application renders again", () => {
    store().set(1);
    show(<Readback name="A" label="one" />);
    store().set(2);
    show(<Readback name="A" label="two" />);
    expect(page.textContent).toContain("two");
    expect(shown()).toEqual(of(2));
    // A value that the notation changes.
    store().set(0.001, { display: { ...DATA.display, precision: 1 } as ReadbackData["display"] });
    flushSync(() => undefined);
    store().set(0.002);
    const former = formerTexts();
    show(<Readback name="A" notation="exponent" />);
    expect(shown()[0]).toBe("2.0e-3 V");
    expect(former(), "no older value in between").not.toContain("1.0e-3");
    store().set(0.003);
    expect(shown()[0]).toBe("3.0e-3 V");
  });

  it("never goes back to an older one", () => {
    /** Runs when React has changed the page, before the widget's own effect. */
    function Update({ label }: { readonly label: string }): ReactNode {
      useLayoutEffect(() => {
        if (label === "after") store().set(4, { status: MAJOR });
      }, [label]);
      return null;
    }
    const both = (label: string): ReactNode => (
      <>
        <Update label={label} />
        <Readback name="A" label={label} />
      </>
    );
    store().set(1);
    show(both("before"));
    store().set(2);
    const former = formerTexts();
    show(both("after"));
    expect(shown()).toEqual(of(4, "MAJOR"));
    expect(former()).not.toContain("1.0");
  });

  it("that is missing or lacks its labels comes with the reason", () => {
    const condition = (): string | null | undefined =>
      page.querySelector("[data-part=condition]")?.textContent;
    const connection = { ...DATA.connection, reason: "the server is silent" };
    store().set(1, { connection });
    show(<Readback name="A" />);
    expect(condition()).toBe("No alarm · the server is silent");
    for (const [state, text] of [
      ["connected", "the server is silent"],
      ["connecting", "Connecting: the server is silent"],
      ["notFound", "Not found: the server is silent"],
    ] as const) {
      const connected = state === "connected";
      store().set(1, { value: null, connection: { ...connection, state, connected } });
      flushSync(() => undefined);
      expect(condition()).toBe(text);
    }
  });

  it("may be an empty text", () => {
    const text = (string: string): ReadbackData["value"] => ({ string, number: null });
    store().set(1, { value: text("") });
    show(<Readback name="A" />);
    for (const string of ["one", "other", "", "", "another"]) {
      flushSync(() => {
        store().set(2, { value: text(string) });
      });
      expect(shown()[0]).toBe(`${string} V`);
    }
  });

  it("is written in another window's document", () => {
    const frame = page.appendChild(document.createElement("iframe"));
    const body = (frame.contentDocument as Document).body;
    const inside = createRoot(body);
    store().set(1);
    flushSync(() => {
      inside.render(tree(<Readback name="A" />));
    });
    store().set(2);
    expect(body.querySelector("[data-part=value]")?.textContent).toBe("2.0 V");
    inside.unmount();
  });
});

describe("a widget", () => {
  it("in strict mode is like any other", () => {
    store().set(1);
    show(
      <StrictMode>
        <Readback name="A" />
      </StrictMode>,
    );
    const before = renders;
    store().set(2);
    expect(shown()).toEqual(of(2));
    expect(renders).toBe(before);
    show(<StrictMode>gone</StrictMode>);
    expect(store().listeners.size).toBe(0);
    store().set(3);
    show(
      <StrictMode>
        <Readback name="A" />
      </StrictMode>,
    );
    expect(shown()).toEqual(of(3));
    store().set(4);
    expect(shown()).toEqual(of(4));
    expect(store().listeners.size).toBe(1);
  });

  it("for another PV doesn't show the former one's updates", async () => {
    store("A").set(1);
    store("B").set(50);
    const inBetween: (readonly [string, string])[] = [];
    /** Runs after the widget has been changed, and before it has subscribed to its new PV. */
    function Update({ name }: { readonly name: string }): ReactNode {
      useLayoutEffect(() => {
        store("A").set(2);
        inBetween.push([name, shown()[0]]);
        store(name).set(51);
      }, [name]);
      return null;
    }
    const both = (name: string): ReactNode => (
      <>
        <Readback name={name} />
        <Update name={name} />
      </>
    );
    show(both("A"));
    await until(() => {
      expect(shown()).toEqual(of(51));
    });
    root.render(tree(both("B")));
    await until(() => {
      expect(page.querySelector("[data-pv]")?.getAttribute("data-pv")).toBe("B");
      expect(shown()).toEqual(of(51));
    });
    expect(inBetween.at(-1)).toEqual(["B", "50.0 V"]);
    store("A").set(3);
    expect(shown()).toEqual(of(51));
    store("B").set(52);
    expect(shown()).toEqual(of(52));
  });

  it("shows the newest value after a render that took its time", async () => {
    for (const last of [DATA.status, MAJOR]) {
      store().set(1, { status: DATA.status });
      let update = (): void => undefined;
      let change: (label: string) => void = () => undefined;
      /** Updates come while React renders, when it has rendered the widget and pauses. */
      const Slow = ({ label }: { readonly label: string }): ReactNode => {
        queueMicrotask(update);
        const end = performance.now() + 10;
        while (performance.now() < end);
        return label;
      };
      const Page = (): ReactNode => {
        const [label, setLabel] = useState("before");
        useLayoutEffect(() => {
          change = setLabel;
        }, []);
        return (
          <>
            <Readback name="A" label={label} />
            <Slow label={label} />
            <Slow label={label} />
          </>
        );
      };
      show(<Page key={last.severity} />);
      store().set(2);
      let isPending = true;
      update = () => {
        if (!isPending) return;
        isPending = false;
        store().set(3);
        store().set(4, { status: last });
        if (last === MAJOR) store().set(5);
      };
      startTransition(() => {
        change("after");
      });
      await until(() => {
        expect(page.querySelector("[data-pv]")?.getAttribute("aria-label")).toBe("after");
        expect(shown()).toEqual(last === MAJOR ? of(5, "MAJOR") : of(4));
      });
    }
  });

  it("that was interrupted by a suspended one goes on where it was", async () => {
    store().set(1);
    let open = (): void => undefined;
    const wait = new Promise<void>((resolve) => {
      open = resolve;
    });
    const Suspended = (): ReactNode => {
      use(wait);
      return "loaded";
    };
    const both = (more: ReactNode): ReactNode => (
      <Suspense fallback="loading">
        <Readback name="A" />
        {more}
      </Suspense>
    );
    show(both(null));
    store().set(2);
    show(both(<Suspended />));
    expect(page.textContent).toContain("loading");
    store().set(3);
    store().set(4, { status: MAJOR });
    store().set(5);
    open();
    await until(() => {
      expect(page.textContent).toContain("loaded");
      expect(shown()).toEqual(of(5, "MAJOR"));
    });
    store().set(6);
    expect(shown()).toEqual(of(6, "MAJOR"));
  });

  it("that was hidden shows the newest value", async () => {
    const hidden = (mode: "hidden" | "visible"): ReactNode => (
      <Activity mode={mode}>
        <Readback name="A" />
      </Activity>
    );
    store().set(1);
    show(hidden("visible"));
    store().set(2);
    show(hidden("hidden"));
    await until(() => {
      expect(store().listeners.size).toBe(0);
    });
    store().set(3);
    store().set(4);
    show(hidden("visible"));
    expect(shown()).toEqual(of(4));
    store().set(5);
    await until(() => {
      expect(shown()).toEqual(of(5));
    });
  });

  it("continues what a server rendered", async () => {
    store().set(1);
    const place = page.appendChild(document.createElement("div"));
    place.innerHTML = renderToString(tree(<Readback name="A" />));
    expect(shown()).toEqual(["–", "", "", undefined]);
    const hydrated = hydrateRoot(place, tree(<Readback name="A" />), {
      onRecoverableError: (error) => {
        throw error as Error;
      },
    });
    await until(() => {
      expect(shown()).toEqual(of(1));
    });
    store().set(2);
    expect(shown()).toEqual(of(2));
    hydrated.unmount();
  });
});

/** Changes of a PV, of which a test makes some at a time. */
const CHANGES: readonly FakePv[] = [
  { type: "Float64", value: 1 },
  { type: "Float64", value: 99.5 },
  { type: "Float64", value: -7 },
  { type: "Float64", value: NaN },
  { type: "Float64", value: Infinity },
  { type: "Float64", value: 1e-9 },
  { type: "String", value: "" },
  { type: "String", value: "text" },
  { type: "String", value: "another text" },
  { type: "Float64", value: Float64Array.of(1, 2, 3) },
  { type: "Enum", value: 1, choices: ["Off", "On"] },
  { type: "Enum", value: 1, choices: ["Off", ""] },
  { timeMs: 1_700_000_000_123 },
  { timeMs: 1_700_000_000_124 },
  { timeMs: null },
  { severity: "NO_ALARM", alarmStatus: 0 },
  { severity: "MINOR", alarmStatus: 4, message: "warm" },
  { severity: "MAJOR", alarmStatus: 3, message: "hot" },
  { severity: null },
  { units: "mm" },
  { units: "" },
  { precision: 3 },
  { precision: 0 },
  { displayRange: { min: 0, max: 10 } },
  { displayRange: { min: 0, max: 0 } },
  { warningRange: { min: 1, max: 5 }, alarmRange: { min: 0, max: 8 } },
  { description: "A description" },
  { mutable: false },
  { mutable: true, puts: false },
  { puts: true },
  { readable: false },
  { readable: true },
  { unresponsive: true },
  { unresponsive: false },
  { state: "disconnected" },
  { state: "connected" },
  { state: "connected", unresponsive: false, readable: true },
];

const STEPS = 100;

it("shows after any changes what a new widget shows", async () => {
  const relay = createFakeRelay({ pvs: { PV: { value: 0, precision: 1 }, MARK: { value: -1 } } });
  const live = relay.client({ unsubscribeDelayMs: 0 });
  await live.ready;
  const mark = live.pv<{ value: { number: number } | null }>("MARK", "{ value { number } }");
  let isKnown = (): void => undefined;
  const end = mark.subscribe(() => {
    isKnown();
  });
  /** Resolves when the page knows all that was set before. */
  const known = async (step: number): Promise<void> => {
    await new Promise<void>((resolve) => {
      isKnown = () => {
        if (mark.getSnapshot()?.value?.number === step) resolve();
      };
      relay.set("MARK", { value: step });
    });
    // What listeners let React render has been rendered then.
    await new Promise(requestAnimationFrame);
  };
  const draw = (step: number | string): void => {
    flushSync(() => {
      root.render(
        <PvProvider client={live}>
          <Readback name="PV" />
          <Readback name="PV" notation="exponent" />
          <Readback key={step} name="PV" />
          <Readback key={`exponent ${String(step)}`} name="PV" notation="exponent" />
        </PvProvider>,
      );
    });
  };
  const compare = (step: number | string): void => {
    const widgets = [...page.children].slice(0, 2);
    const seen = widgets.map(({ outerHTML }) => outerHTML);
    draw(step);
    widgets.forEach((widget, at) => {
      const fresh = page.children[at + 2] as Element;
      expect(widget.outerHTML, "rendering again changes nothing").toBe(seen[at]);
      const both = `${widget.outerHTML}\n${fresh.outerHTML}`;
      // In whatever order attributes came.
      expect(widget.isEqualNode(fresh), both).toBe(true);
    });
  };
  let seed = 17;
  const next = (below: number): number => {
    seed = (seed * 48_271) % 0x7fffffff;
    return seed % below;
  };
  draw("first");
  for (let step = 0; step < STEPS; step += 1) {
    for (let change = next(4); change >= 0; change -= 1) {
      relay.set("PV", CHANGES[next(CHANGES.length)] as FakePv);
    }
    await known(step);
    compare(step);
  }
  const condition = (): string => page.querySelector("[data-part=condition]")?.textContent ?? "";
  relay.lose();
  await until(() => {
    expect(condition()).toMatch(/^Relay lost/);
  });
  compare("lost");
  relay.set("PV", { value: 12, state: "connected", unresponsive: false });
  relay.restore();
  await until(() => {
    expect(condition()).not.toMatch(/^Relay lost/);
  });
  await known(STEPS);
  compare("again");
  end();
  root.render(null);
  live.dispose();
});
