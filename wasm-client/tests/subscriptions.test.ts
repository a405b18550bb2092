/** What a client requests from its relay, and when it ends a subscription. */

import { describe, expect, it, vi } from "vitest";

import type { PvData, PvOptions } from "../ts/index.js";
import {
  client,
  eachWithClient,
  FakeSocket,
  GOLDEN_NAMES,
  open,
  replaceClient,
  runPromises,
} from "./fake_relay.js";

eachWithClient();

describe("subscriptions", () => {
  it("end a while after the last listener left", async () => {
    const socket = await open();
    const end = client.pv("TEMP", "{ id }").subscribe(() => undefined);
    end();
    end();
    vi.advanceTimersByTime(3000);
    expect(socket.sent("unsubscribe"), "others still listen").toHaveLength(0);

    replaceClient();
    const ends = GOLDEN_NAMES.map((name) => client.pv(name).subscribe(() => undefined));
    FakeSocket.last.open();
    await runPromises();
    FakeSocket.last.answer("snapshot", "subscribe");
    for (const end of ends.slice(0, 2)) end();
    vi.advanceTimersByTime(1000);
    client.pv("TEMP").subscribe(() => undefined);
    vi.advanceTimersByTime(1000);
    expect(FakeSocket.last.sent("unsubscribe").map((sent) => sent.ids)).toEqual([[4]]);
    expect(client.inspect("MODE")).toBeUndefined();
    expect(FakeSocket.last.sent("subscribe")).toHaveLength(1);
  });

  it("with other options are others, subscribed filter by filter", async () => {
    const listen = (name: string, options?: PvOptions): void => {
      client.pv(name, undefined, options).subscribe(() => undefined);
    };
    listen("TEMP");
    listen("TEMP", { rateHz: 3 });
    listen("MODE", { deadband: 0.5, every: 10, stride: 2, maxLength: 9, points: 4, float32: true });
    listen("MODE", { rateHz: 3, deadband: undefined, average: false });
    listen("MODE", { every: 5, average: true });
    listen("loc://x(1)", { rateHz: 3 });
    const socket = FakeSocket.last;
    socket.open();
    await runPromises();
    for (let answered = 1; answered <= 4; answered += 1) {
      expect(socket.sent("subscribe"), "one at a time").toHaveLength(answered);
      socket.answer("snapshot", "subscribe", [answered, answered + 10, 30, 31, 32]);
    }
    const requests = socket.sent("subscribe").map(({ names, filter }) => [names, filter]);
    expect(requests).toEqual([
      [["TEMP"], []],
      [
        ["TEMP", "MODE"],
        [334, 0, 1],
      ],
      [["MODE"], [0, 0.5, 10, 2, 9, 4, 1]],
      [["MODE"], [0, 0, 5, 0, 0, 0, 0, 1]],
    ]);
    expect(client.pv("TEMP", undefined, { rateHz: 3 })).toBe(
      client.pv("TEMP", undefined, { rateHz: 3, every: 1 }),
    );
    expect(
      client.inspect("MODE", {
        every: 10,
        deadband: 0.5,
        stride: 2,
        maxLength: 9,
        points: 4,
        float32: true,
      }),
    ).toBeDefined();
    expect(client.inspect("MODE")).toBeUndefined();
  });

  it("are not ended while others are being made", async () => {
    const ends = GOLDEN_NAMES.map((name) => client.pv(name).subscribe(() => undefined));
    FakeSocket.last.open();
    await runPromises();
    ends[0]?.();
    client.pv("ca://TEMP").subscribe(() => undefined);
    await runPromises();
    vi.advanceTimersByTime(3000);
    expect(FakeSocket.last.sent("unsubscribe")).toHaveLength(0);
    expect(FakeSocket.last.sent("subscribe"), "one at a time").toHaveLength(1);
    FakeSocket.last.answer("snapshot", "subscribe");
    expect(FakeSocket.last.sent("subscribe").map((sent) => sent.names)[1]).toEqual(["ca://TEMP"]);
    expect(FakeSocket.last.sent("unsubscribe"), "the next one is open").toHaveLength(0);
    FakeSocket.last.answer("error", "subscribe");
    expect(FakeSocket.last.sent("unsubscribe").map((sent) => sent.ids)).toEqual([[3]]);
    const refused = client.pv("ca://TEMP").getSnapshot() as PvData;
    expect(refused.connection.reason).toBe("this relay doesn't know the request");
  });
});
