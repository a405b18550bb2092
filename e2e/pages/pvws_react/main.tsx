/**
 * A page as pvinfo's: react-use-websocket carries PVWS's messages, and all components share its socket.
 *
 * Like pvinfo, it takes an update without a value for a lost PV, and counts those.
 */

import { useState, type ReactElement } from "react";
import { createRoot } from "react-dom/client";
import library, { ReadyState } from "react-use-websocket";

interface Update {
  readonly type: string;
  readonly pv: string;
  readonly value?: number | string;
  readonly text?: string;
  readonly b64dbl?: string;
  readonly severity?: string;
  readonly units?: string;
  readonly readonly?: boolean;
}

/** Vite gives the default export of a CommonJS module to modules as Node does: as a field of it. */
const useWebSocket =
  "default" in library ? (library as unknown as { default: typeof library }).default : library;

/** The text that the server must return unchanged. */
const HEALTH = JSON.stringify({ type: "echo", body: "Hello, PVWS!" });

const parameters = new URLSearchParams(location.search);
const server = parameters.get("server") ?? "";
const names = parameters.getAll("pv");

function Pv({ name }: { readonly name: string }): ReactElement {
  const [shown, setShown] = useState<Partial<Update>>({});
  const [valueless, setValueless] = useState(0);
  const { sendJsonMessage, readyState } = useWebSocket(`ws://${server}/pvws/pv`, {
    share: true,
    shouldReconnect: () => true,
    retryOnError: true,
    reconnectInterval: 200,
    reconnectAttempts: 1000,
    heartbeat: { message: HEALTH, returnMessage: HEALTH, interval: 500, timeout: 20_000 },
    onOpen: () => {
      sendJsonMessage({ type: "subscribe", pvs: [name] });
    },
    onMessage: ({ data }: MessageEvent<string>) => {
      const update = JSON.parse(data) as Update;
      if (update.type !== "update" || update.pv !== name) return;
      const hasValue = [update.value, update.text, update.b64dbl].some(
        (part) => part !== undefined,
      );
      if (!hasValue) setValueless((before) => before + 1);
      setShown((before) => ({ ...before, ...update }));
    },
  });
  return (
    <tr aria-label={name} data-open={readyState === ReadyState.OPEN} data-valueless={valueless}>
      <td>{shown.b64dbl ?? shown.text ?? shown.value}</td>
      <td>{shown.units}</td>
      <td>{shown.severity}</td>
      <td>{shown.readonly === false ? "writable" : "read-only"}</td>
      <td>
        <button
          onClick={() => {
            sendJsonMessage({ type: "write", pv: name, value: 4.5 });
          }}
        >
          Write
        </button>
      </td>
    </tr>
  );
}

createRoot(document.getElementById("root") as HTMLElement).render(
  <table>
    <tbody>
      {names.map((name) => (
        <Pv key={name} name={name} />
      ))}
    </tbody>
  </table>,
);
