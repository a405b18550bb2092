/** Every name that an application can import has a comment, and so has every member of it. */

import path from "node:path";

import ts from "typescript";
import { expect, it } from "vitest";

const TS = path.resolve(import.meta.dirname, "../ts");

const ENTRIES = [
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
  const program = ts.createProgram(ENTRIES, {
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
  for (const entry of ENTRIES) {
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
