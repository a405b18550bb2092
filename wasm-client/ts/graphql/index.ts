/** pvwire/graphql: GraphQL documents about PVs, answered in the page. */

import type { ClientOptions, PvClient } from "../types.js";
import { RelayGraphqlClient } from "./graphql_client.js";
import type { GraphqlClient } from "./types.js";

export { schemaSdl } from "../../pkg/pvwire_sdl.js";
export type * from "./types.js";

/**
 * A GraphQL client with the interface of graphql-ws's client: Apollo Client's `GraphQLWsLink`,
 * urql's `subscriptionExchange` and Relay's network layer accept it. It uses an existing client of
 * PVs, shared with the rest of the page, or creates one from options.
 *
 * ```ts
 * const client = createGraphqlClient({ url: "ws://localhost:8080/ws" });
 * client.subscribe(
 *   { query: 'subscription { subscribeChannel(id: "TEMP") { value { string(units: true) } } }' },
 *   { next: console.log, error: console.error, complete: () => undefined },
 * );
 * ```
 */
export function createGraphqlClient(of: PvClient | ClientOptions): GraphqlClient {
  return new RelayGraphqlClient(of);
}
