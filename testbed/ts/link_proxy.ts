/** The network between pages and a relay, which a test can cut or stall: for all connections, or for large values alone. */

import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export class LinkProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;
  #relayPort: number;

  private constructor(relayPort: number) {
    this.#relayPort = relayPort;
    this.#server = createServer((near) => {
      this.#keep(near);
      if (this.#isCut) {
        near.destroy();
        return;
      }
      const far = this.#keep(connect(this.#relayPort, "127.0.0.1"));
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

  /** New connections lead to the relay at this port, or to the same one as before. */
  restore(relayPort = this.#relayPort): void {
    this.#relayPort = relayPort;
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

/** What happens to the stream. */
export type StreamFault = "stall" | "trickle" | "buffer" | "refuse" | "cut";

/** Whether the fault is one of a stream that is in use already. */
export const IN_USE: Readonly<Record<StreamFault, boolean>> = {
  stall: true,
  trickle: true,
  cut: true,
  buffer: false,
  refuse: false,
};

/** Bytes of the stream that pass before the fault: several large values. */
const GOOD_BYTES = 3_000_000;

export class StreamProxy {
  /** Streams that were requested. */
  streams = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(relayPort: number, fault: StreamFault) {
    this.#server = createServer((near) => {
      this.#keep(near);
      near.once("data", (first) => {
        const isStream = first.toString("latin1").startsWith("GET /ws/large");
        if (isStream) this.streams += 1;
        if (isStream && fault === "refuse") {
          near.end("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
          return;
        }
        const far = this.#keep(connect(relayPort, "127.0.0.1"));
        far.write(first);
        near.pipe(far);
        if (isStream) disturb(fault, far, near);
        else far.pipe(near);
      });
    });
  }

  static async start(relayPort: number, fault: StreamFault): Promise<StreamProxy> {
    const proxy = new StreamProxy(relayPort, fault);
    await new Promise<void>((done) => proxy.#server.listen(0, "127.0.0.1", done));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  end(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    return socket.on("error", () => undefined).setNoDelay();
  }
}

function disturb(fault: StreamFault, far: Socket, near: Socket): void {
  let passed = 0;
  far.on("data", (data: Uint8Array) => {
    if (fault === "buffer") return;
    passed += data.length;
    if (passed < GOOD_BYTES) {
      near.write(data);
      return;
    }
    if (fault === "cut") near.destroy();
    far.pause();
    if (fault !== "trickle") return;
    near.write(data.subarray(0, 100));
    setTimeout(() => far.resume(), 100);
  });
}
