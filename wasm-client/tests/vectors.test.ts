/**
 * The package gives the results of `client-core/tests/vectors`. With `PVWIRE_WRITE_VECTORS=1` in
 * Node it writes the results that it gives into these files.
 */

import { afterAll, describe, expect, it } from "vitest";

import { inNode, textOf } from "./golden.js";
import { run, type Vectors } from "./vectors.js";

const FILES = [
  "numbers",
  "texts",
  "arrays",
  "structures",
  "metadata",
  "times",
  "states",
  "access",
  "selections",
  "subscriptions",
  "queries",
  "language",
  "requests",
  "puts",
] as const;

const fileOf = (name: string): URL =>
  new URL(`../../client-core/tests/vectors/${name}.json`, import.meta.url);

const isWriting = inNode && process.env.PVWIRE_WRITE_VECTORS === "1";

/** Two lines for each step, so that a change of a result is one line of a diff. */
function written({ cases, ...head }: Vectors): string {
  const members = (of: object): string =>
    Object.entries(of)
      .map(([key, value]) => `"${key}": ${JSON.stringify(value)}, `)
      .join("");
  const blocks = cases.map(({ steps, ...rest }) => {
    const lines = steps.map(({ event, expected }) => {
      const given = event === undefined ? "  {" : `  {"event": ${JSON.stringify(event)},\n   `;
      return `${given}"expected": ${JSON.stringify(expected)}}`;
    });
    return `{${members(rest)}"steps": [\n${lines.join(",\n")}]}`;
  });
  return `{${members(head)}"cases": [\n${blocks.join(",\n")}]}\n`;
}

describe.each(FILES)("the vectors of %s", async (file) => {
  const vectors = JSON.parse(await textOf(fileOf(file))) as Vectors;

  it.each(vectors.cases)("$name", async (of) => {
    const { results, puts } = await run(vectors, of);
    if (isWriting) {
      if (puts.length > 0) of.puts = puts;
      for (const [at, step] of of.steps.entries()) step.expected = results[at];
    }
    expect(results).toEqual(of.steps.map(({ expected }) => expected));
    expect(puts).toEqual(of.puts ?? []);
  });

  afterAll(async () => {
    if (!isWriting) return;
    const { writeFile } = await import("node:fs/promises");
    await writeFile(fileOf(file), written(vectors));
  });
});
