/** Is the page connected, to what, and how much arrives? */

import type { ReactNode } from "react";
import { useConnection, useStats } from "pvwire/react";

import { formatClock, formatCount, formatOneDigit } from "pvwire/widgets";
import { PAGES, type PageSpec } from "./pages";
import { ThemeChoice } from "./ThemeChoice";

const STATE_TEXT = {
  connecting: "Connecting",
  open: "Connected",
  lost: "Relay lost",
  closed: "Closed",
} as const;

export interface HeaderProps {
  readonly prefix: string;
  readonly page: PageSpec;
}

export function Header({ prefix, page }: HeaderProps): ReactNode {
  const connection = useConnection();
  return (
    <header className="page-header">
      <title>
        {connection.state === "open"
          ? `${prefix} · ${page.title}`
          : `${STATE_TEXT[connection.state]} · ${prefix}`}
      </title>
      <div className="page-header-top">
        <h1>
          {page.title} <span className="prefix">{prefix}</span>
        </h1>
        <p className="connection" role="status" data-connection={connection.state}>
          <span className="connection-dot" aria-hidden="true" />
          <strong>{STATE_TEXT[connection.state]}</strong>
          <span className="connection-detail">
            since {formatClock(connection.sinceMs)}
            {connection.relayVersion !== undefined && ` · relay ${connection.relayVersion}`}
          </span>
        </p>
        <ThemeChoice />
      </div>
      <nav className="pages" aria-label="Pages">
        {PAGES.map(({ id, title }) => (
          <a key={id} href={`#/${id}`} aria-current={id === page.id ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <Rates />
    </header>
  );
}

/** Everything that the client measures; a number other than 0 under gaps or skipped stands out. */
function Rates() {
  const stats = useStats();
  const isOpen = useConnection().state === "open";
  // What was measured in the last second is no rate of a connection that is gone.
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
