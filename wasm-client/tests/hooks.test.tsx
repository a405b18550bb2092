/** A component renders when what it selected changed, and only then. */

import { act, StrictMode, type ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { PvClient } from "../ts/index.js";
import {
  PvProvider,
  useClient,
  useConnection,
  usePut,
  usePv,
  usePvHistory,
  usePvs,
  usePvSelector,
  usePvSummary,
  useRate,
  useSkipped,
  useStats,
  type PutHandle,
  type PvSummary,
} from "../ts/react/index.js";
import { fakeClient, FakeSocket, GOLDEN_NAMES, runPromises } from "./fake_relay.js";

let client: PvClient;
let root: Root;
let page: HTMLElement;
const renders = { value: 0, units: 0, all: 0 };

beforeEach(async () => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.useFakeTimers({
    toFake: [
      "setTimeout",
      "clearTimeout",
      "performance",
      "requestAnimationFrame",
      "cancelAnimationFrame",
    ],
  });
  client = fakeClient();
  await client.ready;
  page = document.createElement("div");
  root = createRoot(page);
  Object.assign(renders, { value: 0, units: 0, all: 0 });
});

afterEach(() => {
  act(() => {
    root.unmount();
  });
  client.dispose();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function Value({ name = "TEMP" }: { name?: string }): ReactNode {
  renders.value += 1;
  const pv = usePv<{ value: { string: string } | null }>(name, "{ value { string } }");
  return <b>{pv?.value?.string ?? "–"}</b>;
}

function Units(): ReactNode {
  renders.units += 1;
  const pv = usePv<{ display: { units: string } | null }>("TEMP", "{ display { units } }");
  return <i>{pv?.display?.units}</i>;
}

function All(): ReactNode {
  renders.all += 1;
  const pvs = usePvs<{ value: { string: string } | null }>(
    [...GOLDEN_NAMES],
    "{ value { string } }",
  );
  return <p>{pvs.map((pv) => pv?.value?.string ?? "–").join("|")}</p>;
}

function State(): ReactNode {
  const { state } = useConnection();
  const { subscriptions } = useStats();
  return <u>{`${state} ${String(subscriptions)}`}</u>;
}

async function show(children: ReactNode): Promise<void> {
  await act(async () => {
    root.render(<PvProvider client={client}>{children}</PvProvider>);
    await runPromises();
  });
}

/** Opens the connection; the snapshot answers the names in the golden order. */
async function connect(): Promise<FakeSocket> {
  await act(async () => {
    FakeSocket.last.open();
    await runPromises();
    FakeSocket.last.answer("snapshot", "subscribe");
    vi.advanceTimersByTime(300);
  });
  return FakeSocket.last;
}

const arrives = (socket: FakeSocket, ...names: Parameters<FakeSocket["frame"]>[0][]): void => {
  act(() => {
    for (const name of names) socket.frame(name);
    vi.advanceTimersByTime(300);
  });
};

describe("usePv", () => {
  it("renders once per frame, and only for selected changes", async () => {
    await show(
      <>
        <All />
        <Value />
        <Units />
      </>,
    );
    expect(page.querySelector("b")?.textContent).toBe("–");
    const socket = await connect();
    expect(page.querySelector("b")?.textContent).toBe("21.50");
    expect(page.querySelector("p")?.textContent).toBe("21.50|State 2|Träger läuft|–|–");
    const before = { ...renders };
    arrives(socket, "update", "catch_up");
    expect(page.querySelector("b")?.textContent).toBe("99.00");
    expect(page.querySelector("p")?.textContent).toBe("99.00|State 0||–|–");
    expect(renders).toEqual({ value: before.value + 1, units: before.units, all: before.all + 1 });
  });

  it("gives its PV back a while after the last component is gone", async () => {
    await show(
      <>
        <All />
        <Value />
      </>,
    );
    const socket = await connect();
    await show(<Value />);
    vi.advanceTimersByTime(1900);
    expect(socket.sent("unsubscribe")).toHaveLength(0);
    vi.advanceTimersByTime(200);
    expect(socket.sent("unsubscribe").map((sent) => sent.ids)).toEqual([[4, 5, 6]]);
    await show(null);
    await show(<Value />);
    vi.advanceTimersByTime(5000);
    expect(socket.sent("unsubscribe"), "mounted again in time").toHaveLength(1);
    await show(null);
    vi.advanceTimersByTime(5000);
    expect(socket.sent("unsubscribe")).toHaveLength(2);
  });

  it("follows its name", async () => {
    await show(
      <>
        <All />
        <Value />
      </>,
    );
    await connect();
    await show(
      <>
        <All />
        <Value name="MODE" />
      </>,
    );
    expect(page.querySelector("b")?.textContent).toBe("State 2");
  });

  it("subscribes by its options, once for equal inline options", async () => {
    function Slow({ rateHz }: { rateHz: number }): ReactNode {
      const pv = usePv<{ value: { string: string } | null }>("TEMP", "{ value { string } }", {
        rateHz,
      });
      const [other] = usePvs(["TEMP"], "{ id }", { rateHz });
      return <b>{`${pv?.value?.string ?? "–"} ${other === undefined ? "" : "both"}`}</b>;
    }
    await show(<Slow rateHz={2} />);
    const socket = await connect();
    await show(<Slow rateHz={2} />);
    expect(socket.sent("subscribe").map(({ filter }) => filter)).toEqual([[500, 0, 1]]);
    expect(page.querySelector("b")?.textContent).toBe("21.50 both");
    await show(<Slow rateHz={4} />);
    expect(socket.sent("subscribe").at(-1)?.filter).toEqual([250, 0, 1]);
  });

  it("throws a wrong selection where a boundary can catch it", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    function Wrong(): ReactNode {
      // @ts-expect-error -- the compiler says the same
      usePv("TEMP", "{ nonsense }");
      return null;
    }
    await expect(show(<Wrong />)).rejects.toThrow('Cannot query field "nonsense"');
    vi.restoreAllMocks();
  });
});

describe("usePvSelector", () => {
  it("renders only when the derived value changed", async () => {
    let count = 0;
    let objects = 0;
    function Hot(): ReactNode {
      count += 1;
      const hot = usePvSelector(
        "TEMP",
        "{ value { number } }",
        (pv) => (pv?.value?.number ?? 0) > 10,
      );
      return <s>{String(hot)}</s>;
    }
    function Units(): ReactNode {
      objects += 1;
      const both = usePvSelector(
        ["TEMP", "MODE"],
        "{ value { number } display { units } }",
        ([temp, mode]) => ({ units: temp?.display?.units, mode: mode?.display?.units }),
      );
      return <em>{JSON.stringify(both)}</em>;
    }
    await show(
      <>
        <All />
        <Hot />
        <Units />
      </>,
    );
    expect(page.querySelector("s")?.textContent).toBe("false");
    const socket = await connect();
    expect(page.querySelector("s")?.textContent).toBe("true");
    expect(page.querySelector("em")?.textContent).toBe('{"units":"°C","mode":""}');
    const before = { all: renders.all, count, objects };
    arrives(socket, "update");
    arrives(socket, "catch_up");
    expect(page.querySelector("p")?.textContent).toContain("99.00");
    expect(renders.all).toBe(before.all + 2);
    expect({ count, objects }).toEqual({ count: before.count, objects: before.objects });
  });

  it("takes another comparison", async () => {
    let count = 0;
    function Near(): ReactNode {
      count += 1;
      const value = usePvSelector("TEMP", "{ value { number } }", (pv) => pv?.value?.number ?? 0, {
        isEqual: (before, now) => before !== 0 && Math.abs(now - before) < 1000,
      });
      return <s>{value}</s>;
    }
    await show(
      <>
        <All />
        <Near />
      </>,
    );
    const socket = await connect();
    expect(page.querySelector("s")?.textContent).toBe("21.5");
    const before = count;
    arrives(socket, "update", "catch_up");
    expect(count).toBe(before);
  });
});

describe("usePut", () => {
  let handle: PutHandle;
  function Button({ name }: { name: string }): ReactNode {
    handle = usePut(name);
    return <s>{`${handle.state} ${handle.reason ?? ""}`.trim()}</s>;
  }
  const says = (): string | null | undefined => page.querySelector("s")?.textContent;
  const begin = async (value: number): Promise<void> => {
    await act(async () => {
      void handle.put(value);
      await runPromises();
    });
  };
  const end = async (how: "put_done" | "put_written"): Promise<void> => {
    await act(async () => {
      FakeSocket.last.answer(how, "put");
      await runPromises();
    });
  };

  it("passes checkLimits on", async () => {
    function Checked(): ReactNode {
      handle = usePut("A", { checkLimits: true });
      return <s>{handle.state}</s>;
    }
    await show(
      <>
        <All />
        <Checked />
      </>,
    );
    await connect();
    await begin(1);
    expect(FakeSocket.last.sent("putWithin").map(({ names }) => names)).toEqual([["A"]]);
  });

  it("says that a put is under way, done, or why not", async () => {
    await show(
      <>
        <All />
        <Button name="A" />
      </>,
    );
    await connect();
    expect(says()).toBe("idle");
    await begin(1);
    expect(says()).toBe("pending");
    await end("put_written");
    expect(says()).toBe("done");
    await begin(2);
    expect(says()).toBe("pending");
    await end("put_done");
    expect(says()).toBe('failed "abc" is no number');
    expect(handle.error?.mayBeWritten).toBe(false);
    act(() => {
      handle.reset();
    });
    expect(says()).toBe("idle");
  });

  it("says nothing of another PV's put", async () => {
    await show(
      <>
        <All />
        <Button name="A" />
      </>,
    );
    await connect();
    await begin(1);
    await show(
      <>
        <All />
        <Button name="B" />
      </>,
    );
    expect(says()).toBe("idle");
    await end("put_done");
    expect(says()).toBe("idle");
  });
});

describe("useRate and useSkipped", () => {
  it("count what came of a PV in the last second, and what didn't", async () => {
    function Rates(): ReactNode {
      const rate = useRate("TEMP");
      const skipped = useSkipped("TEMP");
      return <s>{`${rate?.toFixed(1) ?? "–"} ${String(skipped.total)}`}</s>;
    }
    await show(
      <>
        <All />
        <Rates />
      </>,
    );
    const socket = await connect();
    expect(page.querySelector("s")?.textContent).toBe("– 0");
    // What came on subscribing is no rate.
    act(() => {
      vi.advanceTimersByTime(1000);
    });
    expect(page.querySelector("s")?.textContent).toMatch(/^– /);
    arrives(socket, "update");
    act(() => {
      vi.advanceTimersByTime(1000);
    });
    const { updatesReceived = 0, skipped = 0 } = client.inspect("TEMP") ?? {};
    expect(updatesReceived).toBeGreaterThan(1);
    const [rate = "", total] = page.querySelector("s")?.textContent.split(" ") ?? [];
    expect(Number(rate)).toBeGreaterThan(0.5);
    expect(total).toBe(String(skipped));
    act(() => {
      vi.advanceTimersByTime(1000);
    });
    expect(page.querySelector("s")?.textContent).toMatch(/^0\.0 /);
  });
});

describe("usePvHistory", () => {
  it("ends with an error when its code is gone, as after a redeployment", async () => {
    function Past(): ReactNode {
      const [past] = usePvHistory(["TEMP"], { from: "-1m" });
      return <b>{past?.isLoading === true ? "loading" : String(past?.error)}</b>;
    }
    vi.doMock("../ts/history/tail.js", () => {
      throw new TypeError("Failed to fetch dynamically imported module");
    });
    await show(<Past />);
    expect(page.textContent).toBe("loading");
    await vi.waitFor(async () => {
      await act(runPromises);
      expect(page.textContent).toMatch(/^LoadError: reload the page/);
    });
    vi.doUnmock("../ts/history/tail.js");
  });
});

describe("useConnection and useStats", () => {
  it("say how it stands", async () => {
    await show(
      <>
        <All />
        <State />
      </>,
    );
    expect(page.querySelector("u")?.textContent).toBe("connecting 0");
    const socket = await connect();
    act(() => {
      vi.advanceTimersByTime(1000);
    });
    expect(page.querySelector("u")?.textContent).toBe("open 5");
    act(() => {
      socket.end(1006);
    });
    expect(page.querySelector("u")?.textContent).toBe("lost 5");
  });
});

describe("usePvSummary", () => {
  it("counts the PVs of the page once each, by state and severity", async () => {
    const seen: PvSummary[] = [];
    function Summary(): ReactNode {
      seen.push(usePvSummary());
      return null;
    }
    const after = (ms: number): PvSummary | undefined => {
      act(() => {
        vi.advanceTimersByTime(ms);
      });
      return seen.at(-1);
    };
    await show(
      <>
        <All />
        <Value name={GOLDEN_NAMES[0]} />
        <Summary />
      </>,
    );
    expect(after(1000)).toMatchObject({ pvs: 5, states: { connecting: 5 } });
    const socket = await connect();
    const { pvs, severities, states } = after(1000) as PvSummary;
    expect(pvs).toBe(5);
    expect(states.connected).toBeGreaterThan(0);
    expect(Object.values(states).reduce((sum, count) => sum + count)).toBe(5);
    const all = client.pv<{ status: { severity: string | null } }>(
      "TEMP",
      "{ status { severity } }",
    );
    expect(severities[all.getSnapshot()?.status.severity as "MINOR"]).toBeGreaterThan(0);
    // Nothing changed: nothing is rendered. After three seconds without a message there is no news.
    const renders = seen.length;
    after(1500);
    expect(seen).toHaveLength(renders);
    act(() => {
      socket.end(1006);
    });
    expect(after(1000)).toMatchObject({
      states: { connected: 0, relayLost: 5 },
      severities: { NO_ALARM: 0, MINOR: 0, MAJOR: 0, INVALID: 0 },
    });
  });

  it("counts and values are of the same flush", async () => {
    const seen: { summary: number; shown: number }[] = [];
    function Both(): ReactNode {
      const { pvs, states } = usePvSummary();
      const all = usePvs([...GOLDEN_NAMES], "{ connection { state } }");
      const shown = all.filter((pv) => pv?.connection.state === "connected").length;
      // Before the first flush nothing is counted.
      if (pvs > 0) seen.push({ summary: states.connected, shown });
      return null;
    }
    await show(<Both />);
    act(() => {
      vi.advanceTimersByTime(1000);
    });
    expect(seen.at(-1)).toEqual({ summary: 0, shown: 0 });
    const socket = await connect();
    act(() => {
      vi.advanceTimersByTime(50);
    });
    expect(seen.at(-1)?.shown).toBeGreaterThan(0);
    expect(seen.filter(({ shown, summary }) => shown !== summary)).toEqual([]);
    act(() => {
      socket.end(1006);
      vi.advanceTimersByTime(50);
    });
    expect(seen.at(-1)).toEqual({ summary: 0, shown: 0 });
    expect(seen.filter(({ shown, summary }) => shown !== summary)).toEqual([]);
  });

  it("counts PVs as soon as they come, and not after they went", async () => {
    const counted: number[] = [];
    function Summary(): ReactNode {
      counted.push(usePvSummary().pvs);
      return null;
    }
    const countedOn = async (...values: ReactNode[]): Promise<number | undefined> => {
      await show(
        <>
          <Summary />
          {values}
        </>,
      );
      act(() => {
        vi.advanceTimersByTime(50);
      });
      return counted.at(-1);
    };
    expect(await countedOn()).toBe(0);
    expect(await countedOn(<Value key="a" />)).toBe(1);
    await connect();
    expect(await countedOn(<Value key="a" />, <Value key="b" name={GOLDEN_NAMES[1]} />)).toBe(2);
    expect(await countedOn(<Value key="a" />)).toBe(1);
  });
});

describe("PvProvider", () => {
  it("makes one client per address, in StrictMode too, and ends it", async () => {
    vi.stubGlobal("WebSocket", FakeSocket);
    const seen = new Set<PvClient>();
    function Seen(): ReactNode {
      seen.add(useClient());
      return <Value />;
    }
    await act(async () => {
      root.render(
        <StrictMode>
          <PvProvider url="ws://relay.test/">
            <Seen />
          </PvProvider>
        </StrictMode>,
      );
      await runPromises();
      vi.advanceTimersByTime(50);
    });
    expect(FakeSocket.all).toHaveLength(1);
    expect(FakeSocket.last.closedWith).toBeUndefined();
    act(() => {
      root.render(null);
    });
    vi.advanceTimersByTime(1900);
    expect(FakeSocket.last.closedWith, "mounted again in time it costs nothing").toBeUndefined();
    vi.advanceTimersByTime(200);
    expect(FakeSocket.last.closedWith).toBe(1000);
  });

  it("shares a client per address and replaces one that ended", async () => {
    vi.stubGlobal("WebSocket", FakeSocket);
    const seen: PvClient[] = [];
    function Seen(): ReactNode {
      seen.push(useClient());
      return null;
    }
    const showAt = async (...places: (string | string[])[]): Promise<void> => {
      seen.length = 0;
      await act(async () => {
        root.render(
          places.map((place, at) => (
            <PvProvider
              key={at}
              {...(typeof place === "string" ? { url: place } : { urls: place })}
            >
              <Seen />
            </PvProvider>
          )),
        );
        await runPromises();
      });
    };
    await showAt("ws://a.test/", "ws://a.test/", "ws://b.test/");
    const [first, second, other] = seen;
    expect(second).toBe(first);
    expect(other).not.toBe(first);
    const pair = ["ws://a.test/", "ws://b.test/"];
    await showAt(pair, [...pair], "ws://a.test/");
    expect(seen[1], "of an equal list").toBe(seen[0]);
    expect(seen[2]).toBe(first);
    await showAt();
    vi.advanceTimersByTime(1000);
    await showAt("ws://a.test/");
    vi.advanceTimersByTime(5000);
    expect(seen[0], "in time").toBe(first);
    await showAt();
    vi.advanceTimersByTime(2100);
    await showAt("ws://a.test/");
    expect(seen[0], "too late").not.toBe(first);
    await showAt();
    vi.advanceTimersByTime(2100);
  });

  it("renders on a server, without data and without requests", () => {
    const html = renderToString(
      <PvProvider url="/ws">
        <Value />
        <State />
        <All />
      </PvProvider>,
    );
    expect(html).toContain("<b>–</b>");
    expect(html).toContain("connecting 0");
    expect(FakeSocket.all).toHaveLength(0);
  });

  it("is needed", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    await expect(
      act(() => {
        root.render(<Value />);
        return Promise.resolve();
      }),
    ).rejects.toThrow("need a <PvProvider>");
    vi.restoreAllMocks();
  });
});
