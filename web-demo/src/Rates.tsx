/** Statistics of the transport, as measured by the client. */

import type { ReactNode } from "react";
import { useConnection, useStats } from "pvwire/react";
import { formatCount, formatOneDigit } from "pvwire/widgets";

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
