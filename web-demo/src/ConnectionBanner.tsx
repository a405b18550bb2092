/** The banner that appears while the relay can't be reached or doesn't answer. */

import { useEffect, useState, type ReactNode } from "react";
import type { ConnectionSnapshot } from "pvwire";
import { useClient, useConnection } from "pvwire/react";

import { formatClock, formatOneDigit } from "pvwire/widgets";

const COUNTDOWN_STEP_MS = 100;

/** The state of the connection to the relay, in words. */
const STATE_TEXT = {
  connecting: "Connecting",
  open: "Relay connected",
  lost: "Relay lost",
  closed: "Connection closed",
} as const;

/** A relay that never answered isn't lost. */
export function relayText({ relayInstance, silentSinceMs, state }: ConnectionSnapshot): string {
  if (silentSinceMs !== undefined) return "No response";
  const isAway = state === "lost" || state === "closed";
  return isAway && relayInstance === undefined ? "Not connected to a relay" : STATE_TEXT[state];
}

export function ConnectionBanner(): ReactNode {
  const connection = useConnection();
  const client = useClient();
  if (connection.silentSinceMs !== undefined) {
    return (
      <section className="banner" data-banner="silent">
        {/* Screen readers don't read the seconds: they would never stop. */}
        <p>
          <strong role="alert">No response from the relay</strong>{" "}
          <span aria-hidden="true">
            for <Elapsed key={connection.silentSinceMs} sinceMs={connection.silentSinceMs} />.
          </span>{" "}
          Values below may be old.
        </p>
      </section>
    );
  }
  if (connection.state !== "lost" && connection.state !== "closed") {
    return null;
  }
  // What never was isn't lost, and there are no values that could be old.
  const wasOpen = connection.relayInstance !== undefined;
  return (
    <section className="banner" role="alert" data-banner={connection.state}>
      <p>
        <strong>
          {relayText(connection)} since {formatClock(connection.sinceMs)}.
        </strong>{" "}
        {wasOpen && "All values below are old. "}
        {connection.reason !== undefined && `${sentence(connection.reason)} `}
        {connection.state === "closed" && "Connecting again would not help."}
      </p>
      {connection.state === "lost" && (
        <p className="banner-retry">
          {/* Not read by screen readers: a countdown in an alert would never stop. */}
          <span aria-hidden="true">
            {connection.retryInMs === undefined ? (
              "Trying now…"
            ) : (
              <>
                Attempt {connection.attempt + 1} in{" "}
                <Countdown key={connection.attempt} fromMs={connection.retryInMs} />
              </>
            )}
          </span>{" "}
          <button
            type="button"
            onClick={() => {
              client.retryNow();
            }}
          >
            Try now
          </button>
        </p>
      )}
    </section>
  );
}

function sentence(reason: string): string {
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`;
}

function Elapsed({ sinceMs }: { readonly sinceMs: number }) {
  const [nowMs, setNowMs] = useState(() => Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => {
      setNowMs(Date.now());
    }, 1000);
    return () => {
      window.clearInterval(timer);
    };
  }, []);
  return <>{Math.round((nowMs - sinceMs) / 1000)} s</>;
}

function Countdown({ fromMs }: { readonly fromMs: number }) {
  const [leftMs, setLeftMs] = useState(fromMs);
  useEffect(() => {
    const end = performance.now() + fromMs;
    const timer = window.setInterval(() => {
      setLeftMs(Math.max(0, end - performance.now()));
    }, COUNTDOWN_STEP_MS);
    return () => {
      window.clearInterval(timer);
    };
  }, [fromMs]);
  return <>{formatOneDigit(leftMs / 1000)} s</>;
}
