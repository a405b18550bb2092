/**
 * Random sequences of values, names, typed text and outcomes, against a plain
 * model of what an operator may see, and of what may be sent.
 */

import { describe, expect, it } from "vitest";

import { SetPoint } from "../ts/widgets/index.js";
import { randomNumbers } from "./random.js";
import { eachWithHeldPuts, ends, page, part, relay, show, until } from "./widget_page.js";

const SEEDS = [1, 2, 3, 4];
const STEPS = 25;
const NAMES = ["S", "T", "U"] as const;

type Name = (typeof NAMES)[number];

eachWithHeldPuts();

/** Sets a field's text as a browser does when a user types it. */
function type(field: HTMLInputElement, text: string): void {
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(field, text);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

describe("set points of numbers", () => {
  it.each(SEEDS)(
    "send what was typed for the PV that is shown, and nothing else: seed %i",
    async (seed) => {
      const random = randomNumbers(seed);
      const below = (end: number): number => Math.floor(random() * end);
      const values: Record<Name, number> = { S: 1, T: 2, U: 3 };
      for (const name of NAMES) relay.set(name, { value: values[name], precision: 0 });
      /** What may have been sent, and what was typed and not sent. */
      const expected: { name: Name; value: string }[] = [];
      let shown: Name = "S";
      let typed: string | undefined;
      let isSending = false;
      show(<SetPoint name={shown} />);
      const field = (): HTMLInputElement => page.querySelector("input") as HTMLInputElement;
      const agrees = async (): Promise<void> => {
        await until(() => {
          const trace = `seed ${String(seed)}, ${shown}`;
          expect(relay.puts, trace).toEqual(expected);
          if (isSending) expect(part("outcome"), trace).toBe("Sending…");
          else {
            expect(field().value, trace).toBe(typed ?? String(values[shown]));
            expect(part("outcome"), trace).not.toBe("Sending…");
            const isUnsent = typed !== undefined && typed !== String(values[shown]);
            expect(part("hint").includes("Not sent"), trace).toBe(isUnsent);
          }
        });
      };
      await agrees();
      for (let step = 0; step < STEPS; step += 1) {
        // A put must not wait until it times out.
        switch (ends.length > 0 && below(2) === 0 ? 4 : below(6)) {
          case 0: {
            const next = NAMES[below(3)] as Name;
            if (next !== shown) {
              typed = undefined;
              isSending = false;
            }
            shown = next;
            show(<SetPoint name={shown} />);
            break;
          }
          case 1:
            if (isSending) break;
            typed = String(below(1000));
            type(field(), typed);
            break;
          case 2:
            field().form?.requestSubmit();
            if (typed === undefined || isSending) break;
            expected.push({ name: shown, value: typed });
            isSending = true;
            break;
          case 3: {
            const name = NAMES[below(3)] as Name;
            // A put of this PV would end with another value.
            if (isSending && name === shown) break;
            values[name] = below(1000);
            relay.set(name, { value: values[name] });
            break;
          }
          case 4: {
            await until(() => {
              expect(relay.puts).toHaveLength(expected.length);
            });
            const at = expected.length - ends.length;
            for (const [nth, end] of ends.splice(0).entries()) {
              const put = expected[at + nth] as { name: Name; value: string };
              const isRefused = below(2) === 0;
              end(isRefused ? "jammed" : undefined);
              if (!isRefused) values[put.name] = Number(put.value);
              const isOwn = isSending && nth === expected.length - at - 1;
              if (!isOwn) continue;
              isSending = false;
              if (!isRefused) typed = undefined;
            }
            break;
          }
          default:
            field().form?.reset();
            if (!isSending) typed = undefined;
        }
        await agrees();
      }
    },
  );
});
