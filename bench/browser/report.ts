/** Writes a result and says which goals it meets. */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release } from "node:os";
import path from "node:path";

export type Round = Readonly<Record<string, number>>;

/** One setting of a scenario. */
export interface Point {
  readonly label: string;
  readonly rounds: readonly Round[];
}

export interface Goal {
  readonly id: string;
  readonly figure: string;
  readonly bound: "at most" | "at least";
  readonly goal: number;
}

export interface Scenario {
  readonly name: string;
  readonly question: string;
  readonly about: string;
  /** What each figure is, and its unit. */
  readonly labels: Readonly<Record<string, readonly [label: string, unit: string]>>;
  /** Of the first point. */
  readonly goals: readonly Goal[];
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

export interface Judged extends Goal {
  readonly what: string;
  readonly unit: string;
  readonly measured: number;
  readonly met: boolean;
}

const ROOT = path.resolve(import.meta.dirname, "../..");
const RESULTS = path.join(ROOT, "bench/results");

/** Every round as it was measured; not in the repository. */
const ROUNDS = path.join(ROOT, ".local/bench");

/** Writes the result as JSON and as a table, which it gives too, with how the goals are met. */
export function report(
  scenario: Scenario,
  measured: readonly Point[],
  circumstances: Readonly<Record<string, string | number>>,
  keep: boolean,
): { readonly text: string; readonly goals: readonly Judged[] } {
  const { about, labels, name, question, settings } = scenario;
  const points = withRatio(measured, scenario.ratio);
  const summed = points.map((point) => ({ ...point, figures: summary(point.rounds) }));
  const goals = scenario.goals.map((goal) => judged(goal, labels, summed[0]?.figures ?? {}));
  const told = Object.entries(circumstances)
    .map(([key, value]) => `${key} ${String(value)}`)
    .join(", ");
  const lines = [
    `# ${name}`,
    "",
    question,
    "",
    `${about} n = ${String(points[0]?.rounds.length ?? 0)} rounds.`,
    `${capital(told)}.`,
    ...goals.map(goalLine),
    "",
    ...(summed.length === 1
      ? onePoint(summed[0]?.figures ?? {}, labels)
      : manyPoints(summed, labels)),
  ];
  const text = `${lines.join("\n")}\n`;
  if (keep) {
    const head = { scenario: name, question, settings, ...circumstances, goals };
    const kept = summed.map(({ label, rounds, figures }) => ({ label, n: rounds.length, figures }));
    write(RESULTS, `${name}.json`, `${JSON.stringify({ ...head, points: kept }, null, 1)}\n`);
    write(ROUNDS, `${name}.json`, `${JSON.stringify({ ...head, points: summed }, null, 1)}\n`);
    write(RESULTS, `${name}.md`, text);
  }
  return { text, goals };
}

/** Keeps what was measured for the goals beside what earlier runs measured for others. */
export function reportGoals(goals: readonly Judged[]): void {
  const file = path.join(RESULTS, "browser.json");
  const earlier = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Judged[]) : [];
  const others = earlier.filter(({ id }) => !goals.some((goal) => goal.id === id));
  const kept = [...others, ...goals].map(({ goal, id, measured, met, unit }) =>
    JSON.stringify({ id, goal, measured, unit, met }),
  );
  write(RESULTS, "browser.json", `[\n${kept.join(",\n")}\n]\n`);
}

export const goalLine = ({ bound, goal, measured, met, unit, what }: Judged): string =>
  `Goal: ${what} ${bound} ${withUnit(String(goal), unit)}; ${met ? "met" : "not met"} by a median of` +
  ` ${withUnit(figure(measured), unit)}.`;

const withUnit = (value: string, unit: string): string =>
  unit === "" ? value : `${value} ${unit}`;

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

function write(folder: string, file: string, text: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, file), text);
}

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
  const at = (place: number): number => sorted[place] ?? NaN;
  const half = (sorted.length - 1) / 2;
  return {
    min: at(0),
    median: (at(Math.floor(half)) + at(Math.ceil(half))) / 2,
    max: at(sorted.length - 1),
  };
}

function judged(
  goal: Goal,
  labels: Scenario["labels"],
  figures: Readonly<Record<string, Summary>>,
): Judged {
  const [what, unit] = labels[goal.figure] ?? [goal.figure, ""];
  const measured = figures[goal.figure]?.median ?? NaN;
  const met = goal.bound === "at most" ? measured <= goal.goal : measured >= goal.goal;
  return { ...goal, what, unit, measured, met };
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
