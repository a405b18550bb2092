/** The shape of each condition; each is different, so that colour isn't needed. */

import { memo, type ReactNode } from "react";
import type { PvConnectionState, Severity } from "../types.js";

/** The properties of `StateIcon`. */
export interface StateIconProps {
  /** The connection's state. */
  readonly state: PvConnectionState;
  /** Present only while connected. */
  readonly severity: Severity | undefined;
  /** Connected, but without an update for a long time. */
  readonly isStale?: boolean;
}

/** Memoized, because it changes less often than the value next to it. */
export const StateIcon = memo(function StateIcon(props: StateIconProps): ReactNode {
  const { isStale = false, severity, state } = props;
  return (
    <svg className="pvwire-state-icon" viewBox="0 0 16 16" aria-hidden="true">
      {isStale ? (
        <path d="M4 2h8l-4 6 4 6H4l4-6Z" className="line" />
      ) : severity === undefined ? (
        <StateShape state={state} />
      ) : (
        <SeverityShape severity={severity} />
      )}
    </svg>
  );
});

function SeverityShape({ severity }: { readonly severity: Severity }) {
  switch (severity) {
    case "NO_ALARM":
      return <circle cx="8" cy="8" r="3.5" className="filled" />;
    case "MINOR":
      return <path d="M8 2 15 14H1Z" className="filled" />;
    case "MAJOR":
      return <path d="M5 1h6l4 4v6l-4 4H5l-4-4V5Z" className="filled" />;
    case "INVALID":
      return <path d="M3 3 13 13M13 3 3 13" className="line thick" />;
  }
}

function StateShape({ state }: { readonly state: PvConnectionState }) {
  switch (state) {
    case "connected":
    case "connecting":
      return <circle cx="8" cy="8" r="5.5" className="line dotted" />;
    case "notFound":
      return (
        <>
          <path d="M5 6a3 3 0 1 1 4.2 2.7C8.3 9.2 8 9.6 8 10.5" className="line" />
          <circle cx="8" cy="13.5" r="1" className="filled" />
        </>
      );
    case "disconnected":
      return (
        <>
          <circle cx="8" cy="8" r="6" className="line" />
          <path d="M4 12 12 4" className="line" />
        </>
      );
    case "relayLost":
      return (
        <>
          <rect x="2" y="2" width="12" height="12" className="line" />
          <path d="M2 14 14 2" className="line" />
        </>
      );
    case "refused":
      return <path d="M3 8h10" className="line thick" />;
  }
}
