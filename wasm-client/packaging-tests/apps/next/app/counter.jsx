"use client";

import { PvProvider, usePv } from "pvwire/react";

/** A client component: rendered by the server without a value first, then live. */
export function Counter({ url }) {
  return (
    <PvProvider url={url}>
      <Count />
    </PvProvider>
  );
}

function Count() {
  const pv = usePv("sim://counter(rate_hz=5)", "{ value { string } }");
  return <output>{pv?.value?.string}</output>;
}
