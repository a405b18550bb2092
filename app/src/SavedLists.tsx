/** Lists with titles, each to be opened or removed. */

import type { ReactNode } from "react";

import { pvsIn } from "./groups";
import type { Lists } from "./stored";

export function SavedLists({
  label,
  lists,
  onOpen,
  onRemove,
}: {
  readonly label: string;
  readonly lists: Lists;
  readonly onOpen: (names: readonly string[]) => void;
  readonly onRemove: (title: string) => void;
}): ReactNode {
  const entries = Object.entries(lists);
  if (entries.length === 0) return null;
  return (
    <>
      <p className="note">{label}</p>
      <ul className="links" aria-label={label}>
        {entries.map(([title, names]) => (
          <li key={title}>
            <button
              type="button"
              onClick={() => {
                onOpen(names);
              }}
            >
              {title} ({pvsIn(names).length})
            </button>{" "}
            <button
              type="button"
              aria-label={`Remove the list ${title}`}
              onClick={() => {
                onRemove(title);
              }}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
