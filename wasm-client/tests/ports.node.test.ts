/** The tests' ports, which processes of several languages share. */

import { readdir, readFile, readlink } from "node:fs/promises";
import path from "node:path";

import { expect, it } from "vitest";

import { Child } from "../../testbed/ts/child.js";
import { PYTHON, ROOT } from "../../testbed/ts/paths.js";
import { freePort } from "../../testbed/ts/ports.js";

/** More than a block has. */
const COUNT = 150;
/** Ports of a block; the first of them is its guard. */
const BLOCK = 64;

const claimInPython = (): Child =>
  Child.start({
    what: "ports.py",
    command: PYTHON,
    args: [path.join(ROOT, "testbed/python/ports.py"), String(COUNT)],
    env: {},
  });

it("programs that claim ports at once share none", async () => {
  const others = [claimInPython(), claimInPython(), claimInPython()];
  const ours = await Promise.all(Array.from({ length: COUNT }, freePort));
  const all = new Set(ours);
  for (const other of others) {
    const output = await other.waitForOutput(new RegExp(`(\\d+\\n){${String(COUNT)}}`));
    for (const port of output[0].trim().split("\n")) all.add(Number(port));
  }
  await Promise.all(others.map((other) => other.kill()));
  expect(all.size).toBe((1 + others.length) * COUNT);
  expect([...all].filter((port) => port % BLOCK === 0)).toEqual([]);
});

it("a child process doesn't inherit the guard of a block", async () => {
  const port = await freePort();
  const guard = port - (port % BLOCK);
  const address = `0100007F:${guard.toString(16).toUpperCase().padStart(4, "0")}`;
  const lines = (await readFile("/proc/self/net/tcp", "utf8")).split("\n");
  const columns = lines.map((line) => line.trim().split(/\s+/));
  const LISTENS = "0A";
  const inode = columns.find((each) => each[1] === address && each[3] === LISTENS)?.[9];
  expect(inode, `nothing listens at ${String(guard)}`).toBeDefined();
  const holds = async (pid: number | "self"): Promise<boolean> => {
    const folder = `/proc/${String(pid)}/fd`;
    const open = await Promise.all(
      (await readdir(folder)).map((fd) => readlink(path.join(folder, fd)).catch(() => "closed")),
    );
    return open.includes(`socket:[${String(inode)}]`);
  };
  const child = Child.start({ what: "cat", command: "cat", args: [], env: {} });
  child.writeLine("runs");
  await child.waitForOutput(/runs/);
  expect([await holds("self"), await holds(child.pid)]).toEqual([true, false]);
  await child.kill();
});
