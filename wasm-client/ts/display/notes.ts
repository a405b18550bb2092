/** What turns out not to be shown while a display is on the page, such as files that can't be read. */

import { useCallback, useMemo, useState } from "react";

import { counted, type DisplayNote } from "./model/inspect.js";

type Note = Omit<DisplayNote, "count">;

export interface RuntimeNotes {
  readonly list: readonly DisplayNote[];
  /** Adds one; the returned function takes it back. */
  readonly add: (note: Note) => () => void;
}

export function useRuntimeNotes(): RuntimeNotes {
  const [notes, setNotes] = useState<readonly Note[]>([]);
  const add = useCallback((note: Note) => {
    // A separate object, so that an equal one of another widget stays.
    const own = { ...note };
    setNotes((before) => [...before, own]);
    return () => {
      setNotes((before) => before.filter((each) => each !== own));
    };
  }, []);
  const list = useMemo(() => counted(notes), [notes]);
  return { list, add };
}
