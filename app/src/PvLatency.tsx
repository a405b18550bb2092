/** How long updates of a PV take from the IOC's time stamp until they are painted here. */

import { useMemo, useSyncExternalStore, type ReactNode } from "react";
import { t } from "pvwire";
import { measureLatency, percentile } from "pvwire/latency";
import { useClient } from "pvwire/react";

export default function PvLatency({ name }: { readonly name: string }): ReactNode {
  const client = useClient();
  const latency = useMemo(() => measureLatency(client, [name]), [client, name]);
  const { clock, fromTheFuture, stampToPaint } = useSyncExternalStore(
    latency.subscribe,
    latency.getSnapshot,
  );
  if (clock === undefined) return t`Comparing the clocks…`;
  const future =
    fromTheFuture === 1
      ? t`1 update with a time stamp of the future: the IOC's clock isn't the relay's`
      : t`${fromTheFuture} updates with a time stamp of the future: the IOC's clock isn't the relay's`;
  if (stampToPaint.count === 0) return fromTheFuture === 0 ? t`Waiting for an update…` : future;
  const within = (percent: number): string => {
    const ms = percentile(stampToPaint, percent);
    return ms === undefined || ms === Infinity ? t`more than 5 s` : t`at most ${String(ms)} ms`;
  };
  return [
    t`half of ${stampToPaint.count} updates: ${within(50)}; 99 %: ${within(99)} from the IOC's time stamp to this screen`,
    ...(fromTheFuture === 0 ? [] : [future]),
  ].join("; ");
}
