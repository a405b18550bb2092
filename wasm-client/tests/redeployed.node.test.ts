/** After a redeployment files of the package are gone: each question says so, and none rejects with a browser's own error. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { introspected } from "../ts/graphql/module.js";
import { LoadError, type PvClient } from "../ts/index.js";
import { createFakeRelay } from "../ts/testing/index.js";
import { wasm } from "./golden.js";

let client: PvClient;

beforeEach(async () => {
  client = createFakeRelay({ pvs: { A: 1 }, ...(wasm && { wasm }) }).client();
  await client.ready;
});

afterEach(() => {
  client.dispose();
  vi.resetModules();
});

const gone = (): never => {
  throw new TypeError("Failed to fetch dynamically imported module");
};

const failureOf = (question: Promise<unknown>): Promise<unknown> =>
  question.then(
    () => expect.fail("answered without its code"),
    (error: unknown) => error,
  );

describe("a question", () => {
  it("for the past rejects with a LoadError that says to reload", async () => {
    vi.doMock("../ts/history/pages.js", gone);
    const error = await failureOf(client.history("A"));
    vi.doUnmock("../ts/history/pages.js");
    expect(error).toBeInstanceOf(LoadError);
    expect((error as Error).message).toContain("reload the page");
    // The file is there again.
    expect(await client.history("A")).toMatchObject({ name: "A" });
  });

  it("for the past has what the relay keeps if only the archiver's code is gone", async () => {
    vi.doMock("../ts/history/pages.js", () => ({
      question: (pv: string) => JSON.stringify({ pv }),
      joined: (name: string) => ({ kept: { name }, archived: { fromNs: 0n, toNs: 1n } }),
    }));
    vi.doMock("../ts/history/archive.js", gone);
    const past = await client.history("A");
    vi.doUnmock("../ts/history/pages.js");
    vi.doUnmock("../ts/history/archive.js");
    expect(past.name).toBe("A");
    expect(past.archiveError).toBeInstanceOf(LoadError);
  });

  it("for the schema rejects with a LoadError", async () => {
    vi.doMock("../pkg/pvwire_sdl.js", gone);
    const error = await failureOf(introspected(undefined, "{ queryType { name } }"));
    vi.doUnmock("../pkg/pvwire_sdl.js");
    expect(error).toBeInstanceOf(LoadError);
  });
});
