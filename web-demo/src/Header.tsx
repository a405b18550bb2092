/** The header of every page: navigation, the state of the relay and of all PVs, and the tools. */

import { useState, type ReactNode } from "react";
import { useConnection, usePvSummary } from "pvwire/react";
import { formatClock, formatCount } from "pvwire/widgets";

import { BreakThings } from "./BreakThings";
import { PAGES, type PageSpec } from "./pages";
import { Rates } from "./Rates";
import { relayText } from "./ConnectionBanner";
import { ThemeChoice } from "./theme";

export interface HeaderProps {
  readonly prefix: string;
  readonly page: PageSpec;
}

export function Header({ prefix, page }: HeaderProps): ReactNode {
  const connection = useConnection();
  const [isOpen, setIsOpen] = useState(false);
  return (
    <header className="page-header">
      <title>
        {connection.state === "open"
          ? `${prefix} · ${page.title}`
          : `${relayText(connection)} · ${prefix}`}
      </title>
      <div className="page-header-top">
        <h1>
          {page.title} <span className="prefix">{prefix}</span>
        </h1>
        <nav className="pages" aria-label="Pages">
          {PAGES.map(({ id, title }) => (
            <a key={id} href={`#/${id}`} aria-current={id === page.id ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <PageStatus />
        <button
          type="button"
          className="tools-button"
          aria-expanded={isOpen}
          aria-controls="tools"
          onClick={() => {
            setIsOpen(!isOpen);
          }}
        >
          Tools
        </button>
      </div>
      <section id="tools" className="tools" aria-label="Tools" hidden={!isOpen}>
        <Rates />
        {import.meta.env.VITE_HAS_CONTROL && <BreakThings />}
        <ThemeChoice />
      </section>
    </header>
  );
}

/** The connection to the relay, followed by the state of all PVs of the page. */
function PageStatus() {
  const connection = useConnection();
  const { pvs, severities, states, unresponsive } = usePvSummary();
  const isOpen = connection.state === "open";
  const troubles: readonly (readonly [kind: string, count: number, words: string])[] = [
    ["gone", states.disconnected, "disconnected"],
    ["gone", unresponsive, "without response"],
    ["gone", states.notFound, "not found"],
    ["gone", states.refused, "refused"],
    ["invalid", severities.INVALID, "invalid"],
    ["major", severities.MAJOR, "major"],
    ["minor", severities.MINOR, "minor"],
  ];
  const present = troubles.filter(([, count]) => isOpen && count > 0);
  // After the relay is back, PVs keep their old values until it has sent new ones.
  const awaited = states.connecting + states.relayLost;
  const isWell = isOpen && present.length === 0 && awaited === 0;
  return (
    <div className="page-status">
      <p
        className="connection"
        role="status"
        data-connection={connection.state}
        data-well={isWell}
        title={`Since ${formatClock(connection.sinceMs)}${
          connection.relayVersion === undefined ? "" : `, relay ${connection.relayVersion}`
        }`}
      >
        <span className="connection-dot" aria-hidden="true" />
        <strong>{relayText(connection)}</strong>
      </p>
      <ul className="troubles" aria-label="PVs of this page">
        {isOpen && pvs > 0 && present.length === 0 && (
          <li data-trouble="none">
            {awaited > 0
              ? `${formatCount(awaited)} of ${formatCount(pvs)} PVs connecting`
              : `${formatCount(pvs)} ${pvs === 1 ? "PV" : "PVs"}, no alarm`}
          </li>
        )}
        {present.map(([kind, count, words]) => (
          <li key={words} data-trouble={kind}>
            <strong>{formatCount(count)}</strong> {words}
          </li>
        ))}
      </ul>
    </div>
  );
}
