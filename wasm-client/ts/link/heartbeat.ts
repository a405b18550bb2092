/** Acknowledges frames, pings a quiet relay, and notices one that doesn't answer. */

import type { Clock, Timer } from "../clock.js";

/** After this time without a message the relay is pinged, while the page is visible. */
const QUIET_MS = 2000;

/** After this time without a message, and without an answer, the relay is reported as silent. */
const NO_NEWS_MS = 3000;

/** A peer that got a ping within this time is not reported as silent. */
const ANSWER_MS = 500;

/** Time to answer for a connection that was open before the page or the machine was suspended. */
const WOKEN_TIMEOUT_MS = 3000;

/** A timer that is late by more than this was suspended with the page or the machine. */
const LATE_MS = 2000;

export interface HeartbeatOptions {
  clock: Clock;
  pingIntervalMs: number;
  pingTimeoutMs: number;
  /** Whether the page is visible. */
  isWatched: () => boolean;
  sendAck: () => void;
  sendPing: () => void;
  /** The relay became silent, or answers again. */
  onSilent: (isSilent: boolean) => void;
  /** Nothing arrived for `pingTimeoutMs` after a ping. */
  onSilence: () => void;
}

export class Heartbeat {
  #options: HeartbeatOptions;
  #ackIntervalMs = 250;
  #lastAck = -Infinity;
  #ackTimer: Timer | undefined;
  #timer: Timer | undefined;
  #dueAt = 0;
  #askedAt = 0;
  /** The last ping has not been answered yet. */
  #isOpen = false;
  #timeoutMs = 0;
  #heardAt: number | undefined;
  #isSilent = false;
  #isWoken = false;
  /** Round trip of the last ping. */
  roundTripMs: number | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** The connection is open. */
  start(ackIntervalMs: number): void {
    this.stop();
    this.#ackIntervalMs = ackIntervalMs;
    this.#ask(this.#options.pingTimeoutMs);
  }

  /** The connection was lost. */
  stop(): void {
    const { clock } = this.#options;
    clock.clearTimeout(this.#ackTimer);
    clock.clearTimeout(this.#timer);
    this.#ackTimer = undefined;
    this.#timer = undefined;
    this.#isOpen = false;
    this.#lastAck = -Infinity;
    this.roundTripMs = undefined;
    this.#say(false);
  }

  /** A message of any kind arrived. */
  received(): void {
    this.#heardAt = this.#options.clock.now();
    this.#isWoken = false;
    if (this.#isSilent) this.#say(false);
  }

  /** Time since the last message; NaN before the first. */
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
    if (!this.#isOpen) return;
    this.roundTripMs = this.#options.clock.now() - this.#askedAt;
    this.#isOpen = false;
    this.#lookLater();
  }

  /** The page was resumed, or the network returned: an open connection must answer soon. */
  woken(): void {
    const isAsked = this.#isUnanswered && this.#timeoutMs === WOKEN_TIMEOUT_MS;
    if (this.#timer !== undefined && !isAsked) this.#ask(WOKEN_TIMEOUT_MS);
  }

  #ack(): void {
    const { clock, sendAck } = this.#options;
    clock.clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#lastAck = clock.now();
    sendAck();
  }

  /**
   * Nothing at all has arrived since the last ping. Other messages may be queued before the answer.
   */
  get #isUnanswered(): boolean {
    return this.#isOpen && (this.#heardAt ?? 0) <= this.#askedAt;
  }

  #ask(timeoutMs: number): void {
    const { clock, sendPing } = this.#options;
    this.#askedAt = clock.now();
    this.#isOpen = true;
    this.#timeoutMs = timeoutMs;
    sendPing();
    this.#lookLater();
  }

  #look(): void {
    const { clock, onSilence, pingTimeoutMs } = this.#options;
    const now = clock.now();
    if (now - this.#dueAt >= LATE_MS && !this.#isWoken) {
      // Messages that arrived meanwhile may be queued after this timer.
      this.#isWoken = true;
      this.#ask(WOKEN_TIMEOUT_MS);
      return;
    }
    if (!this.#isUnanswered) {
      if (now >= this.#nextAskAt) {
        this.#ask(pingTimeoutMs);
        return;
      }
    } else if (now - this.#askedAt >= this.#timeoutMs) {
      onSilence();
      return;
    } else if (now >= this.#noNewsAt) {
      this.#say(true);
    }
    this.#lookLater();
  }

  get #nextAskAt(): number {
    const { isWatched, pingIntervalMs } = this.#options;
    const quietAt = isWatched() ? (this.#heardAt ?? 0) + QUIET_MS : Infinity;
    return Math.min(this.#askedAt + pingIntervalMs, quietAt);
  }

  get #noNewsAt(): number {
    return Math.max((this.#heardAt ?? 0) + NO_NEWS_MS, this.#askedAt + ANSWER_MS);
  }

  #lookLater(): void {
    const { clock } = this.#options;
    const dueAt = this.#isUnanswered
      ? Math.min(this.#askedAt + this.#timeoutMs, this.#isSilent ? Infinity : this.#noNewsAt)
      : this.#nextAskAt;
    const now = clock.now();
    this.#dueAt = Math.max(dueAt, now);
    clock.clearTimeout(this.#timer);
    this.#timer = clock.setTimeout(() => {
      this.#look();
    }, this.#dueAt - now);
  }

  #say(isSilent: boolean): void {
    if (this.#isSilent === isSilent) return;
    this.#isSilent = isSilent;
    this.#options.onSilent(isSilent);
  }
}
