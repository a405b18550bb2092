/** The relay's displays, as the pages of this app see them. */

import { useEffect, useState } from "react";
import { createScreens, type ScreenFile } from "pvwire/display";

// Behind a proxy the relay may be at a path.
export const screens = createScreens(
  new URL("screens/", window.location.href.replace(/[?#].*$/s, "")),
);

const REFUSED: readonly (readonly [end: string, text: string])[] = [
  ["401", "The relay shows displays after a login."],
  ["403", "The relay doesn't show displays to you."],
  ["404", "This relay serves no displays. Its operator adds a folder by --screens DIR."],
];

interface ScreenList {
  readonly files?: readonly ScreenFile[];
  /** Why there is no list. */
  readonly problem?: string;
}

/** The list of files; neither while it is read. */
export function useScreenFiles(): ScreenList {
  const [list, setList] = useState<ScreenList>({});
  useEffect(() => {
    let isWanted = true;
    screens.list().then(
      (files) => {
        if (isWanted) setList({ files });
      },
      (error: unknown) => {
        const why = error instanceof Error ? error.message : String(error);
        const known = REFUSED.find(([end]) => why.endsWith(` ${end}`));
        if (isWanted) setList({ problem: known?.[1] ?? `The list can't be read: ${why}.` });
      },
    );
    return () => {
      isWanted = false;
    };
  }, []);
  return list;
}
