/** The relays that a client may use, in the order in which it tries them. */

import type { ClientOptions } from "../types.js";

type Address = string | URL;

/** How many addresses of a relay's list are used. */
const MOST_TOLD = 64;

export class Relays {
  /** The number of relays that are tried in turn. */
  count = 1;
  #options: ClientOptions;
  #random: () => number;
  /** The relays that are tried next, last first. */
  #left: string[] = [];
  /** The addresses that the application gave last, and those that a relay has named. */
  #given: string[] = [];
  #announced: string[] = [];
  #url = "";

  constructor(options: ClientOptions, random: () => number) {
    this.#options = options;
    this.#random = random;
  }

  /** The relay of the current attempt. */
  get url(): string {
    return this.#url;
  }

  /**
   * A relay has named relays that serve the same PVs. They are used besides the application's; the
   * list stays until another one comes. What isn't a WebSocket's address, an address without TLS
   * after one with TLS, and a host that must not get the token is left out.
   */
  learn(addresses: readonly string[]): void {
    const scheme = this.#url.startsWith("wss:") ? /^wss:\/\/./ : /^wss?:\/\/./;
    const announced = addresses
      .slice(0, MOST_TOLD)
      .filter((address) => scheme.test(address) && this.#mayUse(address));
    if (announced.length === 0) return;
    this.#announced = announced;
    this.#order();
  }

  /**
   * The relay of the next attempt. Each is tried once before the list begins again. Its order is
   * random, so that the clients of a relay that ends spread over the others.
   * @throws Error when an address is invalid or the list is empty; the promise rejects for the same.
   */
  next(): string | Promise<string> {
    if (this.#left.length > 0) return this.#take();
    const { url, urls = [url] } = this.#options;
    if (typeof urls !== "function") return this.#begin(urls as readonly Address[]);
    return Promise.resolve()
      .then(urls)
      .then((addresses) => this.#begin(addresses));
  }

  /** A client with a token gives it to the application's hosts alone. */
  #mayUse(address: string): boolean {
    const { token, tokenHosts = [] } = this.#options;
    if (!token) return true;
    const host = hostOf(address);
    return (
      this.#given.some((given) => hostOf(given) === host) ||
      tokenHosts.some((allowed) =>
        allowed.startsWith("*.") ? host.endsWith(allowed.slice(1)) : host === allowed,
      )
    );
  }

  #begin(addresses: readonly Address[]): string {
    const base = typeof location === "object" ? location.href : undefined;
    const given = addresses.map((address) => socketUrl(address, base));
    if (given.length === 0) throw new Error("the list of relays is empty");
    this.#given = given;
    this.#order();
    return this.#take();
  }

  /** Begins the list again, in a random order. The relay that was used last is tried last. */
  #order(): void {
    const all = new Set([...this.#given, ...this.#announced]);
    this.count = all.size;
    const order = all.delete(this.#url) ? [this.#url] : [];
    const rest = [...all];
    while (rest.length > 0) {
      order.push(...rest.splice(Math.floor(this.#random() * rest.length), 1));
    }
    this.#left = order;
  }

  #take(): string {
    return (this.#url = this.#left.pop() as string);
  }
}

function hostOf(address: string): string {
  try {
    return new URL(address).hostname;
  } catch {
    // No address has this host.
    return "-";
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
