/** GraphiQL for the relay's door of Coniql: queries and mutations by HTTP, subscriptions by WebSocket. */

import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { createGraphiQLFetcher } from "@graphiql/toolkit";
import { GraphiQL } from "graphiql";
import { createClient } from "graphql-ws";
import "graphiql/style.css";

const QUERY = `subscription ($id: ID!) {
  subscribeChannel(id: $id) {
    id
    value { string(units: true) }
    time { datetime }
    status { quality message }
  }
}
`;

const url = new globalThis.URL("graphql", globalThis.location.href).href;
const socketUrl = new globalThis.URL("ws", globalThis.location.href).href.replace(/^http/, "ws");

/** The headers that the user has written, which may have a token. */
let headers = {};

const fetch = createGraphiQLFetcher({
  url,
  wsClient: createClient({
    url: socketUrl,
    lazyCloseTimeout: 1_000,
    connectionParams: () => headers,
  }),
});

function fetcher(parameters, options) {
  headers = options?.headers ?? {};
  return fetch(parameters, options);
}

createRoot(globalThis.document.getElementById("graphiql")).render(
  createElement(GraphiQL, {
    fetcher,
    defaultQuery: QUERY,
    defaultHeaders: "",
    variables: JSON.stringify({ id: "ssim://sine" }, null, 2),
  }),
);
