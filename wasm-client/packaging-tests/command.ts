/** Runs a command to its end, or a server until it is stopped, and leaves no process. */

import { spawn, type ChildProcess } from "node:child_process";

import { DEADLINE_MS } from "../../testbed/ts/deadline";

/** Enough of the output of a program to explain why it failed. */
const MAX_OUTPUT_CHARS = 16 * 1024;

/** What npm reports when the registry does not answer. */
const UNREACHABLE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|E50[234])\b/;

/** A registry that is slow or fails once costs time, not the test. */
const PATIENT_NPM = { npm_config_fetch_retries: "5", npm_config_fetch_timeout: "120000" };

/** Commands start others: they are ended as a group. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) killGroup(child);
});

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

export interface CommandOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

interface Started {
  readonly child: ChildProcess;
  /** How it ended. */
  readonly ended: Promise<string>;
  readonly output: () => string;
}

function start(words: readonly string[], { cwd, env }: CommandOptions): Started {
  const [command = "", ...args] = words;
  const child = spawn(command, args, {
    cwd,
    env: { ...PATIENT_NPM, ...process.env, ...env },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-MAX_OUTPUT_CHARS);
    });
  }
  const ended = new Promise<string>((resolve) => {
    const end = (how: string): void => {
      running.delete(child);
      resolve(how);
    };
    child.once("error", (error) => {
      end(error.message);
    });
    child.once("close", (code, signal) => {
      end(signal ?? `exit code ${String(code)}`);
    });
  });
  return { child, ended, output: () => output };
}

/** Runs a command to its end and gives what it wrote; throws that when it fails. */
export async function run(words: readonly string[], options: CommandOptions): Promise<string> {
  const { ended, output } = start(words, options);
  const how = await ended;
  if (how === "exit code 0") return output();
  const npm = words[0] === "npm" && UNREACHABLE.test(output());
  const why = npm ? "the npm registry can't be reached and npm's cache lacks something: " : "";
  throw new Error(`${why}\`${words.join(" ")}\` in ${options.cwd}: ${how}\n${output()}`);
}

/** Runs a server for as long as `work` takes, from when `url` answers until then. */
export async function serving<T>(
  words: readonly string[],
  url: string,
  options: CommandOptions,
  work: () => Promise<T>,
): Promise<T> {
  const server = start(words, options);
  let how: string | undefined;
  void server.ended.then((end) => (how = end));
  const failed = (why: string): Error =>
    new Error(`\`${words.join(" ")}\` in ${options.cwd} ${why}\n${server.output()}`);
  const deadline = Date.now() + 4 * DEADLINE_MS;
  try {
    while (!(await answers(url))) {
      if (how !== undefined) throw failed(`ended (${how}) before it served ${url}`);
      if (Date.now() > deadline) throw failed(`does not serve ${url}`);
    }
    return await work();
  } finally {
    killGroup(server.child);
    await server.ended;
  }
}

/** Whether a page is there; asks again no sooner than after 100 ms. */
async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return false;
  }
}
