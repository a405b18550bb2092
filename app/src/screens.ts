/** The relay's displays, as the pages of this app see them. */

import { useEffect, useState } from "react";
import { t } from "pvwire";
import { createScreens, type ScreenFile } from "pvwire/display";

// Behind a proxy the relay may be at a path.
export const screens = createScreens(
  new URL("screens/", window.location.href.replace(/[?#].*$/s, "")),
);

function refusalText(why: string): string {
  if (why.endsWith(" 401")) return t`The relay shows displays after a login.`;
  if (why.endsWith(" 403")) return t`The relay doesn't show displays to you.`;
  if (why.endsWith(" 404"))
    return t`This relay serves no displays. Its operator adds a folder by --screens DIR.`;
  return t`The list can't be read: ${why}.`;
}

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
        if (isWanted) setList({ problem: refusalText(why) });
      },
    );
    return () => {
      isWanted = false;
    };
  }, []);
  return list;
}
