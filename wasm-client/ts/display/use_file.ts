/** The file of an address, as a component sees it. */

import { useEffect, useMemo, useState } from "react";

import { useShown } from "./context.js";
import { withClasses } from "./model/classes.js";
import type { DisplayFile, FileKind } from "./model/file.js";

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
