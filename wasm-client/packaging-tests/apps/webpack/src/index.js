/** A live PV without a framework, bundled by webpack. */

/* global document, process */

import { createClient } from "pvwire";

const client = createClient({ url: process.env.RELAY });
const count = client.pv("sim://counter(rate_hz=5)", "{ value { string } }");
const output = document.querySelector("output");
count.subscribe(() => {
  output.textContent = count.getSnapshot()?.value?.string ?? "";
});
