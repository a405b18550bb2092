/** cs-web-lib's own widgets, with their PVs from a relay. */

import { PV, Input, Readback, RelativePosition, store } from "@diamondlightsource/cs-web-lib";
import { createRoot } from "react-dom/client";
import { Provider } from "react-redux";
import { BrowserRouter } from "react-router-dom";
import { createClient } from "pvwire";
import { connectCsWebLib } from "pvwire/adapters/cs-web-lib";

const parameters = new URLSearchParams(location.search);
const prefix = parameters.get("prefix") ?? "";

connectCsWebLib(store(), createClient({ url: parameters.get("relay") ?? "" }));

const position = new RelativePosition("0", "0", "300px", "30px");
const of = (name: string) => ({ position, pvMetadataList: [{ pvName: PV.parse(name, "ca") }] });

createRoot(document.getElementById("root") as HTMLElement).render(
  <BrowserRouter>
    <Provider store={store()}>
      <h1>cs-web-lib on pvwire</h1>
      <section aria-label="counter">
        <Readback {...of("sim://counter(rate_hz=5)")} />
      </section>
      <section aria-label="readback">
        <Readback {...of(`${prefix}:SET`)} precisionFromPv showUnits />
      </section>
      <section aria-label="set point">
        <Input {...of(`${prefix}:SET`)} precisionFromPv />
      </section>
      <section aria-label="nobody's">
        <Readback {...of(`${prefix}:NONE`)} />
      </section>
    </Provider>
  </BrowserRouter>,
);
