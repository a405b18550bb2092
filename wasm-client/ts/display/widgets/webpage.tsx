/** A web page in a display. */

import type { ReactNode } from "react";

import { webPage } from "../model/address.js";
import type { WidgetProps } from "../widget.js";
import { Box } from "./Box.js";

export function WebBrowser({ props, widget }: WidgetProps): ReactNode {
  const url = props.text("url");
  const address = webPage(url);
  const isForeign = address !== undefined && new URL(address).origin !== location.origin;
  return (
    <Box widget={widget} props={props}>
      {address === undefined || !isForeign ? (
        // A page of this site could act as the operator in this page's name.
        <span className="pvwire-display-unknown">{`${url}: only pages of other sites are shown`}</span>
      ) : (
        <iframe
          className="pvwire-display-frame"
          src={address}
          title={address}
          sandbox="allow-scripts allow-same-origin allow-forms"
          referrerPolicy="no-referrer"
        />
      )}
    </Box>
  );
}
