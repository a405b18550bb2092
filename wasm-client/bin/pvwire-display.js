#!/usr/bin/env node
/** `pvwire-display check DIR`: which displays of a folder would be shown whole, what not and why. */

import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import process from "node:process";

import { checkFolder, checkReport } from "../dist/display/check.js";

const USAGE = `Usage: pvwire-display check [--strict] [--json] DIR

Reads all displays (.bob, .opi) below DIR and prints which would be shown whole, what not and why.

  --strict  exit with 1 if a display isn't shown whole or can't be read
  --json    print one object for each display
`;

/** The exit status for a wrong call, as the relay has it. */
const WRONG_USE = 64;

function isFile(file) {
  try {
    return statSync(file).isFile();
  } catch {
    // A link that leads nowhere.
    return false;
  }
}

/** Paths of all files below a folder, relative to it and with slashes, without hidden ones. */
function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((file) => file.split(path.sep).join("/"))
    .filter((file) => !/(?:^|\/)\./.test(file))
    .filter((file) => isFile(path.join(folder, file)))
    .sort();
}

function check(folder, { isJson, isStrict }) {
  const displays = checkFolder(filesBelow(folder), (file) =>
    readFileSync(path.join(folder, file), "utf8"),
  );
  if (isJson) for (const display of displays) process.stdout.write(`${JSON.stringify(display)}\n`);
  else process.stdout.write(checkReport(displays));
  return isStrict && displays.some(({ isWhole }) => !isWhole) ? 1 : 0;
}

function run(args) {
  const flags = args.filter((each) => each.startsWith("--"));
  const [command, folder, more] = args.filter((each) => !each.startsWith("--"));
  const isHelp = flags.includes("--help");
  const isKnown = flags.every((flag) => ["--strict", "--json", "--help"].includes(flag));
  if (isHelp || !isKnown || command !== "check" || folder === undefined || more !== undefined) {
    (isHelp ? process.stdout : process.stderr).write(USAGE);
    return isHelp ? 0 : WRONG_USE;
  }
  try {
    return check(folder, {
      isJson: flags.includes("--json"),
      isStrict: flags.includes("--strict"),
    });
  } catch (error) {
    process.stderr.write(`pvwire-display: ${folder} can't be read: ${error.message}\n`);
    return WRONG_USE;
  }
}

process.exitCode = run(process.argv.slice(2));
