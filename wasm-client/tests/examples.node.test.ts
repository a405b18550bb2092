/**
 * Each example in the documentation compiles as a file, and every name that an application can import has a comment,
 * as has every member of it. The programs of `examples/` run against a real relay.
 */

import { readFile } from "node:fs/promises";
import path from "node:path";

import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";

import { Child } from "../../testbed/ts/child.js";
import { privateEpicsNetwork, type EpicsNetwork } from "../../testbed/ts/epics.js";
import { PYTHON, ROOT } from "../../testbed/ts/paths.js";
import { Relay } from "../../testbed/ts/relay.js";

const PACKAGE = path.resolve(import.meta.dirname, "..");

const ENTRIES = [
  "display",
  "elements",
  "graphql",
  "latency",
  "react",
  "testing",
  "widgets",
  "worker",
  "adapters/cs-web-lib",
];

/** The document's blocks of TypeScript. */
async function examplesOf(document: string): Promise<Map<string, string>> {
  const text = await readFile(path.join(PACKAGE, "..", document), "utf8");
  // Vite's own configuration is the packaging tests' matter: they run it.
  const blocks = [...text.matchAll(/^```tsx?\n([^]*?)^```$/gm)].filter(
    ([, code = ""]) => !code.includes('from "vite"'),
  );
  // Beside the package's own sources, so that React and its types are found.
  const name = (at: number): string =>
    path.join(PACKAGE, `tests/${path.basename(document)}.${String(at)}.tsx`);
  return new Map(blocks.map(([, code = ""], at) => [name(at), code]));
}

function errors(files: ReadonlyMap<string, string>): string[] {
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    noUncheckedIndexedAccess: true,
    jsx: ts.JsxEmit.ReactJSX,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: [],
    paths: {
      pvwire: [path.join(PACKAGE, "ts/index.ts")],
      ...Object.fromEntries(
        ENTRIES.map((entry) => [`pvwire/${entry}`, [path.join(PACKAGE, `ts/${entry}/index.ts`)]]),
      ),
    },
  };
  const host = ts.createCompilerHost(options);
  const fileExists = host.fileExists.bind(host);
  const getSourceFile = host.getSourceFile.bind(host);
  host.fileExists = (file) => files.has(file) || fileExists(file);
  host.getSourceFile = (file, version, ...more) => {
    const text = files.get(file);
    return text === undefined
      ? getSourceFile(file, version, ...more)
      : ts.createSourceFile(file, text, version, true);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  return ts.getPreEmitDiagnostics(program).map((diagnostic) => {
    const { file, start = 0 } = diagnostic;
    const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n");
    const at = file?.getLineAndCharacterOfPosition(start).line ?? 0;
    return `${file?.fileName ?? ""}: ${file?.text.split("\n")[at] ?? ""}: ${text}`;
  });
}

const DOCUMENTS = [
  "README.md",
  "wasm-client/README.md",
  "docs/how-to/displays.md",
  "docs/how-to/react.md",
  "docs/how-to/widgets.md",
  "docs/how-to/worker.md",
];

it("do, and one that is wrong doesn't", { timeout: 120_000 }, async () => {
  const examples = await Promise.all(DOCUMENTS.map(examplesOf));
  for (const found of examples) expect(found.size).toBeGreaterThan(0);
  const wrong = `import { usePv } from "pvwire/react";
    export const A = () => <b>{usePv("A", "{ value { string } }")?.value?.nothing}</b>;`;
  const files = new Map(examples.flatMap((found) => [...found]));
  files.set(path.join(PACKAGE, "tests/wrong.tsx"), wrong);
  const found = errors(files);
  expect(found.filter((error) => !error.includes("'nothing' does not exist"))).toEqual([]);
  expect(found).toHaveLength(1);
});

const TS = path.resolve(import.meta.dirname, "../ts");

const SOURCES = [
  "index.ts",
  "adapters/cs-web-lib/index.ts",
  "display/index.ts",
  "elements/index.ts",
  "graphql/index.ts",
  "latency/index.ts",
  "missed/index.ts",
  "plots/index.ts",
  "react/index.ts",
  "testing/index.ts",
  "widgets/index.ts",
  "worker/index.ts",
].map((entry) => path.join(TS, entry));

const isPrivate = ({ declarations = [] }: ts.Symbol): boolean =>
  declarations.some(
    (each) =>
      (ts.getCombinedModifierFlags(each) &
        (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) !==
        0 || ts.isPrivateIdentifier((each as ts.NamedDeclaration).name ?? each),
  );

const isOfPackage = ({ declarations = [] }: ts.Symbol): boolean =>
  declarations.some((each) => each.getSourceFile().fileName.startsWith(TS));

/** The package's own members of a class or an interface. */
function membersOf(checker: ts.TypeChecker, symbol: ts.Symbol): readonly ts.Symbol[] {
  if ((symbol.flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Interface)) === 0) return [];
  const own = checker.getDeclaredTypeOfSymbol(symbol).getProperties();
  return own.filter((member) => isOfPackage(member) && !isPrivate(member));
}

/** Names of properties without a comment in types that are written out where a member is declared. */
function bareWithin(member: ts.Symbol): readonly string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    // The parameters of a function are named in its own comment.
    if (ts.isFunctionTypeNode(node)) return;
    if (ts.isPropertySignature(node) && ts.isTypeLiteralNode(node.parent)) {
      if (ts.getJSDocCommentsAndTags(node).length === 0) found.push(node.name.getText());
    }
    ts.forEachChild(node, visit);
  };
  for (const declaration of member.declarations ?? []) {
    if (ts.isPropertySignature(declaration) && declaration.type) visit(declaration.type);
  }
  return found;
}

it("has a comment for every name that can be imported", () => {
  const program = ts.createProgram(SOURCES, {
    jsx: ts.JsxEmit.ReactJSX,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    noCheck: true,
    target: ts.ScriptTarget.ES2022,
    types: [],
  });
  const checker = program.getTypeChecker();
  const bare = new Set<string>();
  const check = (symbol: ts.Symbol, name: string): void => {
    const comment = symbol.getDocumentationComment(checker);
    if (comment.length + symbol.getJsDocTags(checker).length === 0) bare.add(name);
  };
  for (const entry of SOURCES) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(entry) as ts.SourceFile);
    for (const exported of checker.getExportsOfModule(module as ts.Symbol)) {
      const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
      const symbol = isAlias ? checker.getAliasedSymbol(exported) : exported;
      if (!isOfPackage(symbol)) continue;
      check(symbol, symbol.name);
      for (const member of membersOf(checker, symbol)) {
        check(member, `${symbol.name}.${member.name}`);
        for (const name of bareWithin(member)) bare.add(`${symbol.name}.${member.name}.${name}`);
      }
    }
  }

  expect([...bare].sort()).toEqual([]);
});

describe("the program", () => {
  const COUNTER = "sim://counter(rate_hz=5)";

  let network: EpicsNetwork;
  let relay: Relay;

  beforeAll(async () => {
    network = await privateEpicsNetwork();
    relay = await Relay.start(network, ["--enable-put", "--allow-put=*"]);
  });

  afterAll(async () => {
    await relay.kill();
  });

  function run(command: string, program: string, ...args: readonly string[]): Child {
    const file = path.join(ROOT, "examples", program);
    return Child.start({ what: program, command, args: [file, ...args], env: network.env });
  }

  it("node: follows a PV and a formula, and says that the relay is lost", async () => {
    const url = `ws://127.0.0.1:${String(relay.port)}/ws`;
    const formula = `=\`${COUNTER}\` * 2`;
    const child = run(process.execPath, "node/follow.mjs", url, COUNTER, formula);
    await child.waitForOutput(/^sim:\S+ \d+ NO_ALARM$/m);
    await child.waitForOutput(/^=.* \* 2 \d*[02468] NO_ALARM$/m);
    await relay.kill();
    await child.waitForOutput(/^sim:\S+ \d+ \(relayLost since /m);
    await relay.restart();
    await child.end();
  });

  it("python-http: gets, follows, and says why a put is refused", async () => {
    const url = `http://127.0.0.1:${String(relay.port)}`;
    const get = run(PYTHON, "python-http/pv.py", url, "get", COUNTER);
    await get.waitForOutput(/^\d+ NO_ALARM$/m);
    await get.end();
    const follow = run(PYTHON, "python-http/pv.py", url, "follow", COUNTER);
    await follow.waitForOutput(/^(\d+) NO_ALARM\n(?!\1 )\d+ NO_ALARM$/m);
    await follow.end();
    const put = run(PYTHON, "python-http/pv.py", url, "put", COUNTER, "1");
    await put.waitForOutput(/^4\d\d: .+/m);
    await put.end();
  });

  /** Follows a PV as Grafana's data source does: one socket, no Origin, `value` is a number. */
  async function firstValue(url: string, name: string): Promise<unknown> {
    const socket = new WebSocket(url);
    try {
      return await new Promise((resolve, reject) => {
        socket.on("error", reject);
        socket.on("open", () => {
          socket.send(JSON.stringify({ type: "subscribe", pvs: [name] }));
        });
        socket.on("message", (message: Buffer) => {
          const { value } = JSON.parse(message.toString()) as { value?: unknown };
          if (value !== undefined) resolve(value);
        });
      });
    } finally {
      socket.close();
    }
  }

  it("grafana: the dashboard's PVs have values at the address of its data source", async () => {
    const folder = path.join(ROOT, "examples/grafana");
    const source = await readFile(`${folder}/provisioning/datasources/pvwire.yaml`, "utf8");
    const [, type] = /^ {4}type: (\S+)$/m.exec(source) ?? [];
    const [, uid] = /^ {4}uid: (\S+)$/m.exec(source) ?? [];
    const [, uri = ""] = /^ {6}liveUpdateURI: (\S+)$/m.exec(source) ?? [];
    const { panels } = JSON.parse(await readFile(`${folder}/dashboards/ring.json`, "utf8")) as {
      panels: { datasource: object; targets: { target: string; live: boolean }[] }[];
    };
    const targets = panels.flatMap((panel) => panel.targets);
    expect(targets.length).toBeGreaterThan(1);
    for (const { datasource } of panels) expect(datasource).toEqual({ type, uid });
    const database = path.join(ROOT, "web-demo/ioc/demo.db");
    const own = await privateEpicsNetwork();
    const ioc = Child.start({
      what: "softIOC",
      command: PYTHON,
      args: ["-m", "epicscorelibs.ioc", "-m", "P=DEMO", "-d", database],
      env: own.env,
    });
    await ioc.waitForOutput(/complete/);
    const served = await Relay.start(own, ["--pvws"]);
    try {
      const url = uri.replace(":8080/", `:${String(served.port)}/`);
      for (const { live, target } of targets) {
        expect(live).toBe(true);
        expect(await firstValue(url, target), target).toBeTypeOf("number");
      }
    } finally {
      await served.kill();
      await ioc.kill();
    }
  });
});
