/** Says that the relay can't be reached or doesn't answer, and that values are old. */

import type { ReactNode } from "react";
import { t } from "pvwire";
import { useClient, useConnection } from "pvwire/react";

import { dateText } from "./times";

export function ConnectionBanner({ isUtc }: { readonly isUtc: boolean }): ReactNode {
  const connection = useConnection();
  const client = useClient();
  const { reason, relayInstance, silentSinceMs, sinceMs, state } = connection;
  if (silentSinceMs !== undefined) {
    return (
      <p className="banner" role="alert">
        <strong>{t`No response from the relay since ${dateText(silentSinceMs, isUtc)}.`}</strong>{" "}
        {t`Values below may be old.`}
      </p>
    );
  }
  if (state !== "lost" && state !== "closed") return null;
  return (
    <div className="banner" role="alert">
      <p>
        <strong>
          {relayInstance === undefined
            ? t`Not connected to a relay since ${dateText(sinceMs, isUtc)}.`
            : t`Relay lost since ${dateText(sinceMs, isUtc)}.`}
        </strong>{" "}
        {relayInstance !== undefined && `${t`All values below are old.`} `}
        {reason !== undefined && `${reason.charAt(0).toUpperCase()}${reason.slice(1)}. `}
        {state === "closed" && t`Connecting again would not help: reload the page later.`}
      </p>
      {state === "lost" && (
        <button
          type="button"
          onClick={() => {
            client.retryNow();
          }}
        >
          {t`Try now`}
        </button>
      )}
    </div>
  );
}
