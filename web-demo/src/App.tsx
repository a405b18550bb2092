/** The pages, from top to bottom. */

import { lazy, Suspense, type ReactNode } from "react";
import type { PvClient } from "pvwire";

import { Beamline } from "./Beamline";
import { ConnectionBanner } from "./ConnectionBanner";
import { Fleet } from "./Fleet";
import { Header } from "./Header";
import { Health } from "./Health";
import { MachineStatus } from "./MachineStatus";
import { usePage } from "./pages";
import { ThousandPvs } from "./ThousandPvs";
import { Wall } from "./Wall";

/** Contains GraphiQL, which is larger than the rest of the demo: loaded when the page is opened. */
const Console = lazy(async () => await import("./Console"));

export interface AppProps {
  readonly client: PvClient;
  readonly prefix: string;
}

export function App({ client, prefix }: AppProps): ReactNode {
  const page = usePage();
  return (
    <>
      <Header prefix={prefix} page={page} />
      <ConnectionBanner />
      {import.meta.env.VITE_HAS_CONTROL && <Fleet />}
      <main>
        {page.id === "machine" && (
          <>
            <MachineStatus prefix={prefix} />
            <ThousandPvs client={client} prefix={prefix} />
          </>
        )}
        {page.id === "beamline" && <Beamline prefix={prefix} />}
        {page.id === "wall" && <Wall client={client} />}
        {page.id === "console" && (
          <Suspense fallback={<p role="status">Loading the console…</p>}>
            <Console client={client} prefix={prefix} />
          </Suspense>
        )}
        {page.id === "health" && <Health client={client} prefix={prefix} />}
      </main>
    </>
  );
}
