/** What the widgets of a display share: the display they are on, and their scope of macros. */

import { createContext, useContext, useEffect } from "react";

import type { DisplayFile, FileKind } from "./model/file.js";
import type { DisplayNote } from "./model/inspect.js";
import { innerMacros, type Lookup, type Macros, type MacroSpecs } from "./model/macros.js";
import type { Palette } from "./model/palette.js";

/** Where a display opens: in place of the present one, beside it, or in a window. */
export type Target = "replace" | "tab" | "window";

/** A request to open a display. */
export interface OpenRequest {
  /** The address of the file. */
  readonly file: string;
  /** Macros of the scope that opens it, and those of the action. */
  readonly macros: Readonly<Record<string, string>>;
  /** Where. */
  readonly target: Target;
}

/** The outcome of a put, for the display's status line. */
export interface Report {
  readonly pv: string;
  readonly kind: "sending" | "written" | "changed" | "refused" | "unknown";
  readonly text: string;
}

/** A display on the page. Its functions don't change. */
export interface Shown {
  readonly palette: Palette;
  /** `$(DID)`: unique on the page. */
  readonly id: string;
  /** Reads and parses a file once. @throws DisplayError */
  readonly load: (address: string, kind?: FileKind) => Promise<DisplayFile>;
  /** Calls `changed` when a file has changed, until the returned function is called. */
  readonly listen: (address: string, changed: () => void) => () => void;
  readonly root: string;
  /** Nothing is written. */
  readonly readOnly: boolean;
  readonly open: (request: OpenRequest) => void;
  /** Closes the present display: goes back to the one before it, or closes its tab or window. */
  readonly close: () => void;
  /** Adds to the list of what isn't shown; the returned function takes it back. */
  readonly note: (note: Omit<DisplayNote, "count">) => () => void;
  readonly report: (report: Report) => void;
}

export const ShownContext = createContext<Shown | undefined>(undefined);

export function useShown(): Shown {
  const shown = useContext(ShownContext);
  if (shown === undefined) throw new Error("a widget of a display needs a <Display> around it");
  return shown;
}

/** Has a text in the list of what isn't shown, unless it is `undefined`. */
export function useNote(kind: DisplayNote["kind"], text: string | undefined): void {
  const { note } = useShown();
  useEffect(() => (text === undefined ? undefined : note({ kind, text })), [note, kind, text]);
}

/** The macros, and the file, that widgets are in. */
export interface Scope {
  readonly file: DisplayFile;
  readonly macros: Macros;
  readonly lookup: Lookup;
  /** Number of displays around this one. */
  readonly depth: number;
}

export const ScopeContext = createContext<Scope | undefined>(undefined);

export function useScope(): Scope {
  const scope = useContext(ScopeContext);
  if (scope === undefined) throw new Error("a widget of a display needs a <Display> around it");
  return scope;
}

/** The scope inside a display. */
export function displayScope(
  file: DisplayFile,
  outer: Macros,
  fixed: { readonly id: string; readonly name: string },
  depth: number,
): Scope {
  return scopeWith(file, innerMacros(outer, file.macros), fixed, depth);
}

function scopeWith(
  file: DisplayFile,
  macros: Macros,
  { id, name }: { readonly id: string; readonly name: string },
  depth: number,
): Scope {
  const lookup = (key: string): string | undefined =>
    key === "DID" ? id : key === "DNAME" ? name : macros.get(key);
  return { file, macros, lookup, depth };
}

/** The scope inside a widget that defines macros. */
export function innerScope(scope: Scope, specs: MacroSpecs): Scope {
  if (specs.length === 0) return scope;
  const fixed = { id: scope.lookup("DID") ?? "", name: scope.lookup("DNAME") ?? "" };
  return scopeWith(scope.file, innerMacros(scope.macros, specs), fixed, scope.depth);
}

/** How many pixels of the page one of the display is; `undefined` where it may be more than one number. */
export const ScaleContext = createContext<number | undefined>(undefined);
