/** The network between pages and a relay, which a test can cut or stall. */

import { createServer, connect, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export class LinkProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(relayPort: number) {
    this.#server = createServer((near) => {
      this.#keep(near);
      if (this.#isCut) {
        near.destroy();
        return;
      }
      const far = this.#keep(connect(relayPort, "127.0.0.1"));
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        from.pipe(to);
        from.on("close", () => to.destroy());
      }
    });
  }

  static async start(relayPort: number): Promise<LinkProxy> {
    const proxy = new LinkProxy(relayPort);
    await new Promise<void>((done) => proxy.#server.listen(0, "127.0.0.1", done));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends all connections, and refuses new ones until it is restored. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Passes no bytes on until it is restored; both ends keep their connections. */
  stall(): void {
    for (const socket of this.#sockets) socket.pause();
  }

  restore(): void {
    this.#isCut = false;
    for (const socket of this.#sockets) socket.resume();
  }

  end(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    return socket.on("error", () => undefined).setNoDelay();
  }
}
