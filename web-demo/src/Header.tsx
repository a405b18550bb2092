/** The header of every page: navigation, the state of the relay and of all PVs, and the tools. */

import { useConnection, usePvSummary, useStats } from "pvwire/react";
import { formatClock, formatCount, formatOneDigit } from "pvwire/widgets";
import { type ReactNode, useState } from "react";

import { BreakThings } from "./BreakThings";
import { relayText } from "./ConnectionBanner";
import { PAGES, type PageSpec } from "./pages";
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

/** Everything that the client measures; a number other than 0 under gaps or skipped stands out. */
export function Rates(): ReactNode {
  const stats = useStats();
  const isOpen = useConnection().state === "open";
  // The last second's measurement is not a rate of a lost connection.
  const rate = (value: number, format: (value: number) => string): string =>
    isOpen ? format(value) : "–";
  const roundTrip = stats.roundTripMs === undefined ? "–" : rate(stats.roundTripMs, formatOneDigit);
  return (
    <dl className="rates" aria-label="Measured rates">
      <Rate
        name="updates"
        label="Updates"
        value={rate(stats.updatesPerSecond, formatCount)}
        unit="/s"
      />
      <Rate
        name="frames"
        label="Frames"
        value={rate(stats.framesPerSecond, formatCount)}
        unit="/s"
      />
      <Rate
        name="bytes"
        label="Received"
        value={rate(stats.bytesPerSecond / 1000, formatOneDigit)}
        unit="kB/s"
      />
      <Rate name="round-trip" label="Round trip" value={roundTrip} unit="ms" />
      <Rate name="subscriptions" label="PVs" value={formatCount(stats.subscriptions)} />
      <Rate
        name="skipped"
        label="Skipped"
        value={formatCount(stats.skippedTotal)}
        notable={stats.skippedTotal > 0}
      />
      <Rate
        name="gaps"
        label="Gaps"
        value={formatCount(stats.gapsTotal)}
        notable={stats.gapsTotal > 0}
      />
      <Rate name="reconnects" label="Reconnects" value={formatCount(stats.reconnectsTotal)} />
    </dl>
  );
}

interface RateProps {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly unit?: string;
  readonly notable?: boolean;
}

function Rate({ name, label, value, unit, notable = false }: RateProps) {
  return (
    <div className="rate" data-rate={name} data-notable={notable}>
      <dt>{label}</dt>
      <dd>
        {value}
        {unit !== undefined && <span className="pvwire-unit"> {unit}</span>}
      </dd>
    </div>
  );
}
