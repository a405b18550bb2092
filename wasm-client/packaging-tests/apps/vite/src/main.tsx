/** A live PV in React, with types, as an app made by Vite has it. */

import { createRoot } from "react-dom/client";
import type { PvValue } from "pvwire";
import { PvProvider, usePv } from "pvwire/react";

interface Count {
  readonly value: Pick<PvValue, "string"> | null;
}

function Counter() {
  const pv = usePv<Count>("sim://counter(rate_hz=5)", "{ value { string } }");
  return <output>{pv?.value?.string}</output>;
}

createRoot(document.getElementById("root") as HTMLElement).render(
  <PvProvider url={import.meta.env.VITE_RELAY as string}>
    <Counter />
  </PvProvider>,
);
