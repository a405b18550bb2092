import { useState, type ReactNode } from "react";

import { PvProvider, useConnection, usePut, usePv } from "pvwire/react";

const SELECTION =
  "{ value { string(units: true) } status { severity } connection { state since unresponsive } }";

/** A value is current only while its PV is connected and its server answers. */
function Value({ name }: { name: string }): ReactNode {
  const pv = usePv(name, SELECTION);
  if (pv === undefined) return <output>…</output>;
  const { connection, status, value } = pv;
  const text = value?.string ?? "–";
  if (connection.state !== "connected") {
    return <output>{`${text} (${connection.state} since ${connection.since ?? ""})`}</output>;
  }
  return (
    <output>{`${text} ${connection.unresponsive ? "(no response)" : (status.severity ?? "")}`}</output>
  );
}

/** Writes a PV and shows what came of it. */
function Setter({ name }: { name: string }): ReactNode {
  const { put, state, reason } = usePut(name);
  const [text, setText] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void put(Number(text));
      }}
    >
      <input
        aria-label={`New value of ${name}`}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
        }}
      />
      <button disabled={state === "pending" || text === ""}>Set</button>
      {state === "done" && <span>written</span>}
      {state === "failed" && <span role="alert">{reason}</span>}
    </form>
  );
}

/** Says when the page has no relay. */
function Relay(): ReactNode {
  const { state } = useConnection();
  return state === "open" ? null : <p role="alert">{`The relay: ${state}`}</p>;
}

export default function App(): ReactNode {
  return (
    <PvProvider url="/ws">
      <h1>My screen</h1>
      <Relay />
      <p>
        Beam current: <Value name="DEMO:RING:CURRENT" />
      </p>
      <p>
        In ampere: <Value name="=`DEMO:RING:CURRENT` / 1000" />
      </p>
      <p>
        RF voltage: <Value name="DEMO:RF:VOLTAGE:SET" />
      </p>
      <Setter name="DEMO:RF:VOLTAGE:SET" />
    </PvProvider>
  );
}
