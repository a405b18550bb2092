/** A live PV in React, with types, as an app made by Vite has it. */

import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { createClient, type PvValue } from "pvwire";
import { createGraphqlClient } from "pvwire/graphql";
import { PvProvider, usePv } from "pvwire/react";
import { Readback, StripChart } from "pvwire/widgets";
import "pvwire/widgets.css";
import { socketIn } from "pvwire/worker";

const COUNTER = "sim://counter(rate_hz=5)";

interface Count {
  readonly value: Pick<PvValue, "string"> | null;
}

function Counter() {
  const pv = usePv<Count>(COUNTER, "{ value { string } }");
  return <output>{pv?.value?.string}</output>;
}

function Others() {
  const double = usePv(`=\`${COUNTER}\` * 2`, "{ value { string } }");
  const large = usePv("sim://waveform(size=100000,rate_hz=4)", "{ value { array } }");
  const count = large?.value?.array?.length;
  return (
    <>
      <p id="formula">{double?.value?.string}</p>
      <p id="large">{count !== undefined && `${String(count)} elements`}</p>
    </>
  );
}

const graphql = createGraphqlClient(
  createClient({ url: import.meta.env.VITE_RELAY as string, webSocket: socketIn("shared") }),
);

function Graphql() {
  const [float, setFloat] = useState<number>();
  useEffect(() => {
    const query = `subscription { subscribeChannel(id: "${COUNTER}") { value { float } } }`;
    return graphql.subscribe<{ subscribeChannel: { value: { float: number } | null } }>(
      { query },
      {
        next: ({ data }) => {
          setFloat((before) => data?.subscribeChannel.value?.float ?? before);
        },
        error: console.error,
        complete: () => undefined,
      },
    );
  }, []);
  return <span id="graphql">{float}</span>;
}

createRoot(document.getElementById("root") as HTMLElement).render(
  <PvProvider url={import.meta.env.VITE_RELAY as string}>
    <Counter />
    <Others />
    <Readback name={COUNTER} />
    <StripChart name={COUNTER} />
    <Graphql />
  </PvProvider>,
);
