/** The frame of every page, made by the server, with the client that all pages share. */

import { PvProvider } from "pvwire/react";

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>
        <PvProvider url={process.env.NEXT_PUBLIC_RELAY}>{children}</PvProvider>
      </body>
    </html>
  );
}
