/** When to tell the relay what was processed, and when to ask whether it is still there? */

import type { Clock, Timer } from "./clock.js";

export interface HeartbeatOptions {
  clock: Clock;
  pingIntervalMs: number;
  pingTimeoutMs: number;
  sendAck: () => void;
  sendPing: () => void;
  /** Nothing came for `pingTimeoutMs` after a ping. */
  onSilence: () => void;
}

export class Heartbeat {
  #options: HeartbeatOptions;
  #ackIntervalMs = 250;
  #lastAck = -Infinity;
  #ackTimer: Timer | undefined;
  #pingTimer: Timer | undefined;
  #pingSentAt: number | undefined;
  #heardAt: number | undefined;
  /** There and back at the last ping. */
  roundTripMs: number | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** The connection is open. */
  start(ackIntervalMs: number): void {
    this.stop();
    this.#ackIntervalMs = ackIntervalMs;
    this.#ping();
  }

  /** The connection is gone. */
  stop(): void {
    const { clock } = this.#options;
    clock.clearTimeout(this.#ackTimer);
    clock.clearTimeout(this.#pingTimer);
    this.#ackTimer = undefined;
    this.#pingTimer = undefined;
    this.#pingSentAt = undefined;
    this.#lastAck = -Infinity;
    this.roundTripMs = undefined;
  }

  /** A message came, whatever it was. */
  heard(): void {
    this.#heardAt = this.#options.clock.now();
  }

  /** How long ago the last message came; NaN when none has. */
  get silenceMs(): number {
    return this.#heardAt === undefined ? NaN : this.#options.clock.now() - this.#heardAt;
  }

  /** A frame that moves the tick was processed. */
  processed(): void {
    const { clock } = this.#options;
    const wait = this.#lastAck + this.#ackIntervalMs - clock.now();
    if (wait <= 0) {
      this.#ack();
    } else {
      this.#ackTimer ??= clock.setTimeout(() => {
        this.#ack();
      }, wait);
    }
  }

  /** A ping was answered. */
  ponged(): void {
    if (this.#pingSentAt === undefined) return;
    this.roundTripMs = this.#options.clock.now() - this.#pingSentAt;
    this.#pingSentAt = undefined;
  }

  #ack(): void {
    const { clock, sendAck } = this.#options;
    clock.clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#lastAck = clock.now();
    sendAck();
  }

  #ping(): void {
    const { clock, onSilence, pingIntervalMs, pingTimeoutMs, sendPing } = this.#options;
    const now = clock.now();
    const sentAt = this.#pingSentAt;
    // When something came but no answer yet, that waits behind data on its way: the relay is there.
    if (sentAt === undefined || (this.#heardAt ?? 0) > sentAt) {
      this.#pingSentAt = now;
      sendPing();
    } else if (now - sentAt >= pingTimeoutMs) {
      onSilence();
      return;
    }
    const left = (this.#pingSentAt ?? now) + pingTimeoutMs - now;
    this.#pingTimer = clock.setTimeout(
      () => {
        this.#ping();
      },
      Math.min(pingIntervalMs, Math.max(left, 0)),
    );
  }
}
