/** A formula over a real PV and a local one, of the PVs with the address's `prefix`. */

import { createRoot } from "react-dom/client";
import { PvProvider, usePv } from "pvwire/react";

const prefix = new URLSearchParams(window.location.search).get("prefix") ?? "";

function Formula({ id, name }: { id: string; name: string }) {
  const pv = usePv(name);
  return (
    <output
      id={id}
      data-severity={pv?.status.severity}
      data-state={pv?.connection.state}
      data-since={pv?.connection.since}
    >
      {pv?.value?.string ?? pv?.connection.reason}
    </output>
  );
}

createRoot(document.getElementById("root") as HTMLElement).render(
  <PvProvider url="/ws">
    <Formula id="double" name={`=\`${prefix}:RF:VOLTAGE:SET\` * \`loc://factor(2)\``} />
    <Formula id="wrong" name="=1 + foo(2)" />
  </PvProvider>,
);
