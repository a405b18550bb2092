/** A client of PVWS for pages. Load base64.js first. */

/* global WebSocket, clearInterval, clearTimeout, setInterval, setTimeout, toByteArray */
/* exported PVWS */

"use strict";

/**
 * A connection that is made again whenever it is lost.
 *
 * `connect_cb` is called with true for each new connection and with false when it is lost. Subscriptions don't
 * outlast a connection, so subscribe in `connect_cb`. `message_cb` is called with each message; for an update, with
 * everything that is known of the PV. Requests without a connection are ignored.
 */
class PVWS {
  /** Array types by the key of their base64 text. Elements are little-endian, as on every platform of browsers. */
  static #ARRAYS = {
    b64byt: Int8Array,
    b64srt: Int16Array,
    b64int: Int32Array,
    b64flt: Float32Array,
    b64dbl: Float64Array,
  };

  #socket;
  #reconnect;
  #idleCheck;
  #isIdle = true;

  constructor(url, connect_cb, message_cb) {
    this.url = url;
    this.connect_cb = connect_cb;
    this.message_cb = message_cb;
    /** What is known of each PV: its updates, merged. */
    this.values = Object.create(null);
  }

  /** Connects, and connects again until `close` is called. */
  open() {
    this.close();
    const socket = new WebSocket(this.url);
    this.#socket = socket;
    socket.onopen = () => {
      this.values = Object.create(null);
      this.#idleCheck = setInterval(() => this.#checkIdle(), this.idle_check_ms);
      this.connect_cb(true);
    };
    socket.onmessage = ({ data }) => {
      this.#isIdle = false;
      this.#take(JSON.parse(data));
    };
    socket.onclose = () => {
      clearInterval(this.#idleCheck);
      // `connect_cb` may call `close`.
      this.#reconnect = setTimeout(() => this.open(), this.reconnect_ms);
      this.connect_cb(false);
    };
  }

  /** Disconnects. */
  close() {
    clearTimeout(this.#reconnect);
    clearInterval(this.#idleCheck);
    const socket = this.#socket;
    this.#socket = undefined;
    if (socket === undefined) return;
    const wasOpen = socket.readyState === WebSocket.OPEN;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    if (wasOpen) this.connect_cb(false);
  }

  /** Subscribes one PV or a list of PVs. */
  subscribe(pvs) {
    this.#send({ type: "subscribe", pvs: [pvs].flat() });
  }

  /** Ends the subscription of one PV or of a list of PVs. */
  clear(pvs) {
    const names = [pvs].flat();
    this.#send({ type: "clear", pvs: names });
    for (const name of names) delete this.values[name];
  }

  /** Requests a message with the names of all subscribed PVs. */
  list() {
    this.#send({ type: "list" });
  }

  /** Writes a number or text to a subscribed PV. */
  write(pv, value) {
    this.#send({ type: "write", pv, value });
  }

  /** Makes the server send a WebSocket ping. */
  ping() {
    this.#send({ type: "ping" });
  }

  #send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  /** Keeps proxies from closing a connection on which nothing changes. */
  #checkIdle() {
    if (this.#isIdle) this.ping();
    this.#isIdle = true;
  }

  #take(message) {
    if (message.type !== "update") return this.message_cb(message);
    for (const [key, Elements] of Object.entries(PVWS.#ARRAYS)) {
      if (message[key] === undefined) continue;
      message.value = Array.from(new Elements(toByteArray(message[key]).buffer));
      delete message[key];
    }
    const known = Object.assign(this.values[message.pv] ?? {}, message);
    this.values[message.pv] = known;
    this.message_cb(known);
  }
}

/** Pause before a new attempt to connect, in milliseconds. */
PVWS.prototype.reconnect_ms = 10000;

/** Interval between checks for connections without messages, in milliseconds. */
PVWS.prototype.idle_check_ms = 30000;
