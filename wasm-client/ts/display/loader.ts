/** Reads display files, each once, also for components. */

import { useEffect, useMemo, useState } from "react";

import { preparePainting } from "./canvases.js";
import { useShown } from "./context.js";
import { presentFormat } from "./model/address.js";
import { withClasses } from "./model/classes.js";
import { parseDisplay, type DisplayFile, type FileKind } from "./model/file.js";
import { parserOf } from "./model/inspect.js";
import { DisplayError } from "./model/xml.js";

/** Files that are kept; a display that embeds more reads them again from the browser's cache. */
const MAX_FILES = 200;

/** The text at an address, unless the browser has the present one. */
export async function fetchText(address: string, timeoutMs = 30_000): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs);
  const answer = await fetch(address, { cache: "no-cache", signal });
  if (!answer.ok) throw new Error(`HTTP status ${String(answer.status)}`);
  return await answer.text();
}

export interface FileLoader {
  /** Reads and parses a file once. A failed read is tried again. @throws DisplayError */
  readonly load: (address: string, kind?: FileKind) => Promise<DisplayFile>;
  /** Calls `changed` when a file has changed, until the returned function is called. */
  readonly listen: (address: string, changed: () => void) => () => void;
  /** These files have other contents now. */
  readonly refresh: (addresses: readonly string[]) => void;
}

/** Whether there is a file at an address; `undefined`: it isn't known. */
export type Exists = (address: string) => boolean | undefined;

export function createLoader(
  read: (address: string) => Promise<string> = fetchText,
  exists: Exists = () => undefined,
): FileLoader {
  const files = new Map<string, Promise<DisplayFile>>();
  const listeners = new Map<string, Set<() => void>>();
  const parsed = async (
    address: string,
    kind: FileKind | undefined,
    named: string,
  ): Promise<DisplayFile> => {
    let text: string;
    let parse;
    try {
      // BOY's file is read if there is no file in today's format.
      const isOlder = named !== address;
      const isFirst = !isOlder || exists(address) !== false;
      const first = read(isFirst ? address : named);
      text = await (isOlder && isFirst ? first.catch(() => read(named)) : first);
      parse = await parserOf(text);
    } catch (error) {
      files.delete(address);
      const why = error instanceof Error ? error.message : String(error);
      throw new DisplayError("UNREADABLE", `${named} can't be read: ${why}`);
    }
    const prepared = preparePainting(text);
    const file = parseDisplay(text, named, kind, parse);
    await prepared;
    return file;
  };
  return {
    load: async (named, kind) => {
      const address = presentFormat(named);
      const known = files.get(address) ?? parsed(address, kind, named);
      files.delete(address);
      files.set(address, known);
      const [oldest] = files.keys();
      if (files.size > MAX_FILES && oldest !== undefined) files.delete(oldest);
      return await known;
    },
    listen: (named, changed) => {
      const address = presentFormat(named);
      const all = listeners.get(address) ?? new Set();
      listeners.set(address, all.add(changed));
      return () => {
        all.delete(changed);
        if (all.size === 0 && listeners.get(address) === all) listeners.delete(address);
      };
    },
    refresh: (changed) => {
      const addresses = changed.map(presentFormat);
      // All are forgotten before the first is read: one may be part of another.
      for (const address of addresses) files.delete(address);
      for (const address of addresses) {
        for (const tell of [...(listeners.get(address) ?? [])]) tell();
      }
    },
  };
}

/** A file, why it can't be shown, or neither while it is read. */
export interface FileState {
  readonly file?: DisplayFile | undefined;
  readonly problem?: string | undefined;
}

/** A file with the classes of its widgets. One that has changed is read again; until it can be read, the former one is shown. */
export function useFile(address: string | undefined, kind?: FileKind): FileState {
  const { listen, load, palette } = useShown();
  const [state, setState] = useState<FileState & { readonly of: string }>();
  useEffect(() => {
    if (address === undefined) return;
    let wanted = 0;
    const read = (): void => {
      wanted += 1;
      const own = wanted;
      load(address, kind).then(
        (file) => {
          if (wanted === own) setState({ of: address, file });
        },
        (error: unknown) => {
          const problem = error instanceof Error ? error.message : String(error);
          if (wanted !== own) return;
          setState((before) => ({
            of: address,
            file: before?.of === address ? before.file : undefined,
            problem,
          }));
        },
      );
    };
    read();
    const stop = listen(address, read);
    return () => {
      wanted = -1;
      stop();
    };
  }, [address, kind, listen, load]);
  const { classes } = palette;
  return useMemo(() => {
    // What was read for another address isn't shown for this one.
    if (state === undefined || state.of !== address) return {};
    const { file, problem } = state;
    const isPlain = file === undefined || classes === undefined || kind === "databrowser";
    return { file: isPlain ? file : withClasses(file, classes), problem };
  }, [state, address, classes, kind]);
}
