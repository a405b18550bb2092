/** What stands on the page, from top to bottom? */

import type { ReactNode } from "react";
import type { PvClient } from "pvwire";

import { ConnectionBanner } from "./ConnectionBanner";
import { Header } from "./Header";
import { MachineStatus } from "./MachineStatus";
import { SetPoints } from "./SetPoints";
import { ThousandPvs } from "./ThousandPvs";

export interface AppProps {
  readonly client: PvClient;
  readonly prefix: string;
}

export function App({ client, prefix }: AppProps): ReactNode {
  return (
    <>
      <Header prefix={prefix} />
      <ConnectionBanner />
      <main>
        <MachineStatus prefix={prefix} />
        <SetPoints prefix={prefix} />
        <ThousandPvs client={client} prefix={prefix} />
      </main>
    </>
  );
}
