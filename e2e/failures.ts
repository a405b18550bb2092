/** Repeats, at the end of a run's output, why tests failed and what their programs wrote last. */

import { readFileSync } from "node:fs";
import path from "node:path";

import type { Reporter, TestCase, TestResult } from "@playwright/test/reporter";

/** A run in which everything fails is explained by a few tests. */
const MAX_FAILURES = 8;
/** The error, its locator, what was expected and received. */
const ERROR_LINES = 5;
const PROGRAM_LINES = 6;
const LINE_CHARS = 200;

const COLOURS = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, "g");

/** What tells why, in what Playwright says of an error. */
const DECISIVE = /^(\w*Error\b|Locator:|Expected\b|Received\b|Timeout:|Test timeout|\S)/;

export default class Failures implements Reporter {
  readonly #failures: string[] = [];

  printsToStdio(): boolean {
    return true;
  }

  onTestEnd(test: TestCase, result: TestResult): void {
    if (
      result.status === test.expectedStatus ||
      ["interrupted", "skipped"].includes(result.status)
    ) {
      return;
    }
    const { file, line } = test.location;
    const [, project = ""] = test.titlePath();
    const place = `${path.relative(process.cwd(), file)}:${String(line)}`;
    this.#failures.push(
      [
        `  ${String(this.#failures.length + 1)}) [${project}] › ${place} › ${test.title}`,
        ...errorOf(result).map((text) => `    ${text}`),
        ...programsOf(result).map((text) => `    ${text}`),
      ].join("\n"),
    );
  }

  onEnd(): void {
    if (this.#failures.length === 0) return;
    const shown = this.#failures.slice(0, MAX_FAILURES);
    console.log(`\nWhy, and what the programs wrote last:\n\n${shown.join("\n\n")}\n`);
    const others = this.#failures.length - shown.length;
    if (others > 0) console.log(`  … and ${String(others)} more, above\n`);
  }
}

function errorOf({ errors, status }: TestResult): string[] {
  const lines = errors.flatMap(({ message = "" }) => lastLines(message, Infinity));
  const decisive = lines.filter((line) => DECISIVE.test(line));
  return decisive.length === 0 ? [status] : decisive.slice(0, ERROR_LINES);
}

function programsOf({ attachments }: TestResult): string[] {
  return attachments.flatMap(({ contentType, name, path: file }) => {
    if (file === undefined || contentType !== "text/plain") return [];
    const lines = lastLines(readFileSync(file, "utf8"), PROGRAM_LINES);
    return lines.map((line) => `${name}: ${line}`);
  });
}

/** Without colours and empty lines. */
function lastLines(text: string, count: number): string[] {
  const lines = text.replaceAll(COLOURS, "").split("\n");
  const written = lines.filter((line) => line.trim() !== "");
  return written.slice(-count).map((line) => line.slice(0, LINE_CHARS));
}
