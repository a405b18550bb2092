/** A live PV, a formula over it and a large array: what each bundler's build has to show. */

/* global URLSearchParams, document, location */

const COUNTER = "sim://counter(rate_hz=5)";
const ELEMENTS = 100_000;

export const url = new URLSearchParams(location.search).get("relay");

export function show(client) {
  const write = (id, text) => (document.getElementById(id).textContent = text ?? "");

  const count = client.pv(COUNTER, "{ value { string } }");
  count.subscribe(() => write("count", count.getSnapshot()?.value?.string));

  const double = client.pv(`=\`${COUNTER}\` * 2`, "{ value { string } }");
  double.subscribe(() => write("formula", double.getSnapshot()?.value?.string));

  const wave = client.pv(`sim://waveform(size=${ELEMENTS},rate_hz=4)`, "{ value { array } }");
  wave.subscribe(() => {
    const array = wave.getSnapshot()?.value?.array;
    const isRight = array?.every((value) => Math.abs(value) <= 1);
    write("large", isRight ? `${array.length} elements` : undefined);
  });
}
