/** Writes a result. */

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release } from "node:os";
import path from "node:path";

import { PYTHON, ROOT } from "../../testbed/ts/paths";

export type Round = Readonly<Record<string, number>>;

/** One setting of a scenario. */
export interface Point {
  readonly label: string;
  readonly rounds: readonly Round[];
}

export interface Scenario {
  readonly name: string;
  readonly question: string;
  readonly about: string;
  /** What each figure is, and its unit. */
  readonly labels: Readonly<Record<string, readonly [label: string, unit: string]>>;
  readonly settings: Readonly<Record<string, number | string>>;
  /** A figure more of one point: another of its figures, divided round by round by that of a second point. */
  readonly ratio?: {
    readonly name: string;
    readonly figure: string;
    readonly of: string;
    readonly per: string;
  };
}

interface Summary {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

/** Keeps results and says whether the goals are met. */
const RESULTS = path.join(ROOT, "bench/relay/results.py");
const GOALS = path.join(ROOT, "bench/relay/goals.py");

/** Every round as it was measured; not in the repository. */
const ROUNDS = path.join(ROOT, ".local/bench");

/** Writes the result as JSON and as a section with a table, and returns the section. */
export function report(
  scenario: Scenario,
  measured: readonly Point[],
  circumstances: Readonly<Record<string, string | number>>,
  keep: boolean,
): string {
  const { about, labels, name, question, settings } = scenario;
  const points = withRatio(measured, scenario.ratio);
  const summed = points.map((point) => ({ ...point, figures: summary(point.rounds) }));
  const origins = Object.entries(circumstances)
    .map(([key, value]) => `${key} ${String(value)}`)
    .join(", ");
  const lines = [
    `## ${name}`,
    "",
    question,
    "",
    `${about} n = ${String(points[0]?.rounds.length ?? 0)} rounds.`,
    `${capital(origins)}.`,
    "",
    ...(summed.length === 1
      ? onePoint(summed[0]?.figures ?? {}, labels)
      : manyPoints(summed, labels)),
  ];
  const text = `${lines.join("\n")}\n`;
  if (keep) {
    const head = { scenario: name, question, settings, ...circumstances };
    const kept = summed.map(({ label, rounds, figures }) => ({ label, n: rounds.length, figures }));
    const input = JSON.stringify({ result: { ...head, points: kept }, section: text });
    execFileSync(PYTHON, [RESULTS, "keep", "browser"], { input });
    mkdirSync(ROUNDS, { recursive: true });
    const all = `${JSON.stringify({ ...head, points: summed }, null, 1)}\n`;
    writeFileSync(path.join(ROUNDS, `${name}.json`), all);
  }
  return text;
}

/** Writes which goals are met and returns the table. */
export const reportGoals = (): string => execFileSync(PYTHON, [GOALS], { encoding: "utf8" });

/** Machine, commit and moment of a result. */
export function origin(): Record<string, string> {
  const git = (...words: string[]): string =>
    execFileSync("git", words, { cwd: ROOT, encoding: "utf8" }).trim();
  const changed = git(
    "status",
    "--porcelain",
    "--untracked-files=no",
    "--",
    ".",
    ":!bench/results",
  );
  return {
    commit: git("rev-parse", "--short", "HEAD") + (changed === "" ? "" : " with changes"),
    date: `${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC`,
    machine: `${String(cpus().length)} cores ${cpus()[0]?.model ?? ""}, Linux ${release()}`,
  };
}

export const load = (): number => Math.round((loadavg()[0] ?? 0) * 10) / 10;

function summary(rounds: readonly Round[]): Record<string, Summary> {
  return Object.fromEntries(
    Object.keys(rounds[0] ?? {}).map((key) => [
      key,
      middle(rounds.map((round) => round[key] ?? NaN)),
    ]),
  );
}

function middle(values: readonly number[]): Summary {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number): number => sorted[index] ?? NaN;
  const half = (sorted.length - 1) / 2;
  return {
    min: at(0),
    median: (at(Math.floor(half)) + at(Math.ceil(half))) / 2,
    max: at(sorted.length - 1),
  };
}

function withRatio(points: readonly Point[], ratio: Scenario["ratio"]): readonly Point[] {
  if (ratio === undefined) return points;
  const { figure, name, of, per } = ratio;
  const divisors = points.find(({ label }) => label === per)?.rounds ?? [];
  return points.map((point) => {
    if (point.label !== of) return point;
    const rounds = point.rounds.map((round, at) => ({
      ...round,
      [name]: (round[figure] ?? NaN) / (divisors[at]?.[figure] ?? NaN),
    }));
    return { ...point, rounds };
  });
}

/** Three digits, or all that stand before the point. */
const figure = (value: number): string =>
  Math.abs(value) >= 999.5
    ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(3)));

function onePoint(
  figures: Readonly<Record<string, Summary>>,
  labels: Scenario["labels"],
): string[] {
  const rows = Object.entries(labels).flatMap(([key, [label, unit]]) => {
    const of = figures[key];
    if (of === undefined) return [];
    return [`| ${label} | ${unit} | ${[of.min, of.median, of.max].map(figure).join(" | ")} |`];
  });
  return ["| Figure | Unit | Min | Median | Max |", "|---|---|---:|---:|---:|", ...rows];
}

function manyPoints(
  points: readonly {
    readonly label: string;
    readonly figures: Readonly<Record<string, Summary>>;
  }[],
  labels: Scenario["labels"],
): string[] {
  const heads = Object.values(labels).map(([label, unit]) => `${label}${unit && ` (${unit})`}`);
  const rows = points.map(({ figures, label }) => {
    const cells = Object.keys(labels).map((key) => {
      const of = figures[key];
      if (of === undefined) return "–";
      return `${figure(of.median)} (${figure(of.min)}–${figure(of.max)})`;
    });
    return `| ${label} | ${cells.join(" | ")} |`;
  });
  return [
    "Median of the rounds, and from which to which they went.",
    "",
    `| | ${heads.join(" | ")} |`,
    `|---|${heads.map(() => "---:|").join("")}`,
    ...rows,
  ];
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
