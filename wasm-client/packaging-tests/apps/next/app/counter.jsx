"use client";

import { usePv } from "pvwire/react";

const COUNTER = "sim://counter(rate_hz=5)";
const LARGE = "sim://waveform(size=100000,rate_hz=4)";

/** A client component: rendered by the server without a value first, then live. */
export function Counter() {
  const count = usePv(COUNTER, "{ value { string } }");
  const double = usePv(`=\`${COUNTER}\` * 2`, "{ value { string } }");
  const large = usePv(LARGE, "{ value { array } }");
  return (
    <>
      <output>{count?.value?.string}</output>
      <p id="formula">{double?.value?.string}</p>
      <p id="large">{large?.value != null && `${large.value.array.length} elements`}</p>
    </>
  );
}
