/** Widgets that show structures of a real server, of the PVs with the address's `prefix`. */

import { createRoot } from "react-dom/client";
import { PvProvider } from "pvwire/react";
import { ImageView, TableView } from "pvwire/widgets";
import "pvwire/widgets.css";
import "../page.css";

const prefix = new URLSearchParams(window.location.search).get("prefix") ?? "";

createRoot(document.getElementById("root") as HTMLElement).render(
  <PvProvider url="/ws">
    <main>
      <h1 className="pvwire-visually-hidden">Structures</h1>
      <ImageView name={`pva://${prefix}:CAMERA`} label="Camera" range={[0, 40000]} />
      <TableView name={`pva://${prefix}:TABLE`} label="Magnets" />
    </main>
  </PvProvider>,
);
