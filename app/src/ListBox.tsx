/** The list of PVs of a page: its text, saved lists, and what names match a pattern. */

import { useState, type ReactNode } from "react";
import { useClient } from "pvwire/react";

import { namesIn } from "./pasted";
import { go, type Route } from "./route";
import { rememberList, removeList, savedLists, saveList } from "./stored";

/** Maximum number of names that a pattern brings. */
const MAX_MATCHES = 1000;

interface ListBoxProps {
  readonly route: Route;
  readonly names: readonly string[];
}

export function ListBox({ names, route }: ListBoxProps): ReactNode {
  const client = useClient();
  const [text, setText] = useState(names.join("\n"));
  const [said, setSaid] = useState("");
  const [lists, setLists] = useState(savedLists);

  const show = async (): Promise<void> => {
    const found: string[] = [];
    for (const each of namesIn(text)) {
      if (!/[*?]/.test(each) || each.includes("://")) found.push(each);
      else {
        const matches = await client.names(each, { limit: MAX_MATCHES });
        found.push(...matches.names.map(({ name }) => name));
        if (matches.next !== undefined) {
          setSaid(`${each}: only the first ${String(MAX_MATCHES)} names are in the list.`);
        }
      }
    }
    const unique = [...new Set(found)];
    rememberList(unique);
    setText(unique.join("\n"));
    go({ ...route, names: unique });
  };

  return (
    <details className="panel list-box" open={names.length === 0}>
      <summary>{names.length === 0 ? "Which PVs?" : "Change the list"}</summary>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setSaid("");
          show().catch((error: unknown) => {
            setSaid(error instanceof Error ? error.message : String(error));
          });
        }}
      >
        <label>
          <span>
            Names, in any form: one in a line, a mail, <code>caget</code> lines, or a pattern with{" "}
            <code>*</code>
          </span>
          <textarea
            rows={8}
            spellCheck={false}
            value={text}
            onChange={({ target }) => {
              setText(target.value);
            }}
          />
        </label>
        <div className="choices">
          <button type="submit">Show these PVs</button>
          <button
            type="button"
            disabled={names.length === 0}
            onClick={() => {
              const title = window.prompt("Name of this list in this browser")?.trim() ?? "";
              if (title === "") return;
              setSaid(
                saveList(title, names) ? `Saved as ${title}.` : "This browser stores nothing.",
              );
              setLists(savedLists());
            }}
          >
            Save in this browser
          </button>
          <span className="note" role="status">
            {said}
          </span>
        </div>
      </form>
      {Object.keys(lists).length > 0 && (
        <ul className="links" aria-label="Saved lists">
          {Object.entries(lists).map(([title, saved]) => (
            <li key={title}>
              <button
                type="button"
                onClick={() => {
                  rememberList(saved);
                  setText(saved.join("\n"));
                  go({ ...route, names: saved });
                }}
              >
                {title} ({saved.length})
              </button>{" "}
              <button
                type="button"
                aria-label={`Remove the list ${title}`}
                onClick={() => {
                  removeList(title);
                  setLists(savedLists());
                }}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}
