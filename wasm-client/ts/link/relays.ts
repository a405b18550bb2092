/** The relays that a client may use, in the order in which it tries them. */

import type { ClientOptions } from "../types.js";

type Address = string | URL;

export class Relays {
  #options: ClientOptions;
  #random: () => number;
  /** The relays that are tried next, last first. */
  #left: string[] = [];
  #url = "";
  #count = 1;

  constructor(options: ClientOptions, random: () => number) {
    this.#options = options;
    this.#random = random;
  }

  /** The relay of the current attempt. */
  get url(): string {
    return this.#url;
  }

  /** The number of relays in the list that was last read. */
  get count(): number {
    return this.#count;
  }

  /**
   * The relay of the next attempt. Each is tried once before the list begins again. Its order is
   * random, so that the clients of a relay that ends spread over the others.
   * @throws Error when an address is invalid or the list is empty; the promise rejects for the same.
   */
  next(): string | Promise<string> {
    if (this.#left.length === 0) {
      const { url, urls = [url] } = this.#options;
      if (typeof urls === "function") {
        return Promise.resolve()
          .then(urls)
          .then((addresses) => this.#begin(addresses));
      }
      return this.#begin(urls as readonly Address[]);
    }
    return (this.#url = this.#left.pop() as string);
  }

  #begin(addresses: readonly Address[]): string {
    const base = typeof location === "object" ? location.href : undefined;
    const rest = addresses.map((address) => socketUrl(address, base));
    if (rest.length === 0) throw new Error("the list of relays is empty");
    const order: string[] = [];
    while (rest.length > 0) {
      order.push(...rest.splice(Math.floor(this.#random() * rest.length), 1));
    }
    this.#count = order.length;
    // The relay that was just lost is tried last.
    if (order.at(-1) === this.#url) order.unshift(order.pop() as string);
    this.#left = order;
    return (this.#url = order.pop() as string);
  }
}

/** The relay's address as a WebSocket URL. The default path is `/ws`. */
export function socketUrl(url: Address, base: string | undefined): string {
  let full: URL;
  try {
    full = new URL(url, base);
  } catch (error) {
    throw new Error(`${String(url)} isn't a relay's address: ${String(error)}`, { cause: error });
  }
  full.protocol = full.protocol.replace("http", "ws");
  if (full.pathname === "/") full.pathname = "/ws";
  full.hash = "";
  return full.href;
}
