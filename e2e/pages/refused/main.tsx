/** Two widgets of the relay at the address's `relay`, whatever answers there. */

import { createRoot } from "react-dom/client";
import { PvProvider } from "pvwire/react";
import { Readback, SetPoint } from "pvwire/widgets";
import "pvwire/widgets.css";

const relay = new URLSearchParams(window.location.search).get("relay") ?? "/ws";

createRoot(document.getElementById("root") as HTMLElement).render(
  <PvProvider url={relay}>
    <Readback name="sim://counter(rate_hz=5)" label="Value" />
    <SetPoint name="sim://counter(rate_hz=5)" label="Set point" />
  </PvProvider>,
);
