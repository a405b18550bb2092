/** The bar above a display: back, forward, tabs, what isn't shown, and the outcomes of puts. */

import { useEffect, useId, useMemo, useState, type ReactNode } from "react";

import type { Report } from "./context.js";
import { fileName } from "./model/address.js";
import type { DisplayNote } from "./model/inspect.js";
import { presentOf, waysOf, type Pages, type Turn } from "./pages.js";

type Way = (() => void) | undefined;

interface DisplayBarProps {
  readonly pages: Pages;
  /** The page's own. */
  readonly ways: { readonly back?: Way; readonly forward?: Way } | undefined;
  readonly title: string;
  readonly inFile: readonly DisplayNote[];
  readonly atRuntime: readonly DisplayNote[];
  readonly reports: readonly Report[];
  readonly onNotes: ((notes: readonly DisplayNote[]) => void) | undefined;
  readonly onTurn: (turn: Turn) => void;
  readonly onReports: (reports: readonly Report[]) => void;
}

export function DisplayBar(props: DisplayBarProps): ReactNode {
  const { atRuntime, inFile, onNotes, onReports, onTurn, pages, reports, title, ways } = props;
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const notes = useMemo(() => [...inFile, ...atRuntime], [inFile, atRuntime]);
  useEffect(() => onNotes?.(notes), [notes, onNotes]);
  const own = waysOf(pages);
  const way = (kind: "back" | "forward"): Way =>
    own[kind]
      ? () => {
          onTurn({ kind });
        }
      : ways?.[kind];
  const count = notes.reduce((sum, note) => sum + note.count, 0);
  return (
    <header className="pvwire-display-bar">
      <Arrow label="Back" sign="◀" way={way("back")} />
      <Arrow label="Forward" sign="▶" way={way("forward")} />
      {pages.tabs.length === 1 ? (
        <strong className="pvwire-display-title">{title}</strong>
      ) : (
        <TabStrip pages={pages} title={title} onTurn={onTurn} />
      )}
      <div role="status" style={{ display: "contents" }}>
        <ul className="pvwire-display-reports">
          {reports.map(({ kind, pv, text }) => (
            <li key={pv} data-outcome={kind}>
              {pv}: {text}
            </li>
          ))}
        </ul>
      </div>
      {reports.length > 0 && (
        <button
          type="button"
          onClick={() => {
            onReports([]);
          }}
        >
          Clear
        </button>
      )}
      {count > 0 && (
        <button
          type="button"
          className="pvwire-display-notes-button"
          aria-expanded={isOpen}
          aria-controls={id}
          onClick={() => {
            setOpen(!isOpen);
          }}
        >
          {`${String(count)} not shown`}
        </button>
      )}
      {count > 0 && isOpen && <Notes id={id} notes={notes} />}
    </header>
  );
}

interface ArrowProps {
  readonly label: string;
  readonly sign: string;
  readonly way: Way;
}

function Arrow({ label, sign, way }: ArrowProps) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      disabled={way === undefined}
      onClick={way}
    >
      {sign}
    </button>
  );
}

interface TabStripProps {
  readonly pages: Pages;
  readonly title: string;
  readonly onTurn: (turn: Turn) => void;
}

function TabStrip({ onTurn, pages, title }: TabStripProps) {
  return (
    <div className="pvwire-display-tabs">
      {pages.tabs.map((_, at) => {
        const page = presentOf({ ...pages, at });
        const label = at === pages.at && title !== "" ? title : fileName(page.file);
        return (
          <span key={page.id} data-selected={at === pages.at || undefined}>
            <button
              type="button"
              aria-pressed={at === pages.at}
              onClick={() => {
                onTurn({ kind: "select", tab: at });
              }}
            >
              {label}
            </button>
            <button
              type="button"
              aria-label={`Close ${label}`}
              onClick={() => {
                onTurn({ kind: "close", tab: at });
              }}
            >
              ×
            </button>
          </span>
        );
      })}
    </div>
  );
}

const KINDS: Readonly<Record<DisplayNote["kind"], string>> = {
  type: "Widgets",
  rule: "Rules",
  script: "Scripts",
  action: "Actions",
  file: "Files",
  pv: "PVs",
  class: "Looks",
  property: "Looks",
};

function Notes({ id, notes }: { readonly id: string; readonly notes: readonly DisplayNote[] }) {
  return (
    <div id={id} className="pvwire-display-notes" role="region" aria-label="Not shown">
      <table>
        <tbody>
          {notes.map(({ count, kind, text }) => (
            <tr key={`${kind} ${text}`}>
              <th scope="row">{KINDS[kind]}</th>
              <td>{text}</td>
              <td>{count} ×</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
