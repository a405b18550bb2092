/** Reads of one client: PVs of the page are answered here, all others by the relay. */

import type { Clock } from "../clock.js";
import { Gets, type PlannedOptions } from "../link/get.js";
import type { Link } from "../link/link.js";
import type { Away } from "../pv/of_page.js";
import { isOfPage } from "../pv/page_pv.js";
import type { Applied } from "../store/core.js";
import type { GetResult } from "../types.js";
import type { Pvs } from "./pvs.js";

export class Reads {
  #gets: Gets;
  #link: Link;
  #pvs: Pvs;

  constructor(clock: Clock, link: Link, pvs: Pvs) {
    this.#gets = new Gets(clock);
    this.#link = link;
    this.#pvs = pvs;
  }

  /** Only when the module is loaded. */
  async get(names: readonly string[], options: PlannedOptions): Promise<GetResult<unknown>[]> {
    this.#update();
    const results = this.#gets.add(
      names.filter((name) => !isOfPage(name)),
      options,
    );
    this.pump();
    const ofPage = names.some(isOfPage) ? await this.#pvs.ofPage.load() : undefined;
    const away = (): Away => this.#gets.away;
    const own = names.map((name) =>
      isOfPage(name) ? ofPage?.get(name, options, away) : undefined,
    );
    const others = (await results).values();
    const all = [];
    for (const each of own) {
      all.push(each === undefined ? (others.next().value as GetResult<unknown>) : await each);
    }
    return all;
  }

  /** Sends as many requests as possible. */
  pump(): void {
    const { wasm } = this.#pvs;
    if (wasm !== undefined && this.#link.isOpen) this.#gets.pump(wasm, this.#link.send);
  }

  /** The connection was lost or closed. */
  lost(): void {
    this.#update();
    this.#gets.lost();
  }

  /** A Get was answered by the message in `data`. */
  answered({ arrays, replyTo }: Applied, data: ArrayBuffer): void {
    this.#gets.answered(this.#pvs.core(), replyTo, arrays, data);
    this.pump();
  }

  /** A request was refused as a whole; returns `false` if it wasn't a Get. */
  refused(request: number, message: string): boolean {
    const isGet = this.#gets.refused(request, message);
    this.pump();
    return isGet;
  }

  /** Whether PVs can be read now, and if not, why. */
  #update(): void {
    const { reason = "", state } = this.#link.connection.getSnapshot();
    if (state === "closed") this.#gets.away = ["CLOSED", reason];
    else if (state === "lost") {
      this.#gets.away = ["RELAY_LOST", `the relay is out of reach (${reason})`];
    }
  }
}
