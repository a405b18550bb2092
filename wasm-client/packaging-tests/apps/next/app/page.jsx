/** A page that the server renders, with a part that lives in the browser. */

import { Readback } from "pvwire/widgets";
import "pvwire/widgets.css";

import { Counter } from "./counter";

export default function Page() {
  return (
    <main>
      <h1>A counter</h1>
      <Counter />
      <Readback name="sim://counter(rate_hz=5)" label="Counter" />
    </main>
  );
}
