/**
 * Random sequences of values, labels, names, connections, write access, typed text, choices and outcomes, against a plain
 * model of what an operator may see, and of what may be sent.
 */

import { describe, expect, it } from "vitest";

import { EnumChoice, SetPoint } from "../ts/widgets/index.js";
import { randomNumbers } from "./random.js";
import { eachWithHeldPuts, ends, page, part, relay, show, until } from "./widget_page.js";

const NAMES = ["S", "T", "U"] as const;

type Name = (typeof NAMES)[number];

eachWithHeldPuts();

/** Sets a field's text as a browser does when a user types it. */
function type(field: HTMLInputElement, text: string): void {
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(field, text);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

describe("set points of numbers", () => {
  it.each([1, 2, 3, 4])(
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
      for (let step = 0; step < 25; step += 1) {
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

const LABELS = ["On", "Off", "", "0", "1", "Auto"] as const;
const MOST_BUTTONS = 4;
const OUTCOMES = ["refused", "changed", "done"] as const;

type Outcome = (typeof OUTCOMES)[number];

const OUTCOME_TEXTS = {
  done: /^Written \d/,
  refused: "Refused: jammed",
  changed: /^Written, but the PV now holds \d+$/,
} as const;

interface ModelPv {
  value: number;
  labels: readonly string[];
  isConnected: boolean;
  isWritable: boolean;
}

interface Choice {
  readonly index: number;
  readonly text: string;
}

const buttons = (): HTMLButtonElement[] => [
  ...page.querySelectorAll<HTMLButtonElement>(".pvwire-choice-buttons button"),
];
const select = (): HTMLSelectElement | null => page.querySelector("select");
const textsOf = (elements: Iterable<Element>): (string | null)[] =>
  [...elements].map((element) => element.textContent);

function press(key: string): void {
  select()?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}

function click(type: "submit" | "reset"): void {
  page.querySelector<HTMLButtonElement>(`button[type="${type}"]`)?.click();
}

/** Chooses an option as a browser does when a user chooses it. */
function choose(list: HTMLSelectElement, option: number): void {
  list.selectedIndex = option;
  list.dispatchEvent(new Event("change", { bubbles: true }));
}

/** A label that no other choice has and that is no number is sent itself. */
function sentAs(labels: readonly string[], index: number): string | number {
  const label = labels[index] ?? "";
  const isOwn = labels.filter((other) => other === label).length === 1;
  return isOwn && label !== "" && Number.isNaN(Number(label)) ? label : index;
}

/** The text of a choice. */
function textOf(labels: readonly string[], index: number): string {
  const label = labels[index] ?? "";
  return label === "" ? String(index) : label;
}

/** One operator's set point, and all that has been sent. */
class Model {
  readonly pvs: Record<Name, ModelPv>;
  readonly puts: { name: Name; value: string | number }[] = [];
  /** The index of each put's choice. */
  readonly indexes: number[] = [];
  shown: Name = "S";
  typed: Choice | undefined;
  sending: (Choice & { readonly isTyped: boolean }) | undefined;
  outcome: string | RegExp = "";

  constructor(makePv: () => ModelPv) {
    this.pvs = { S: makePv(), T: makePv(), U: makePv() };
  }

  get pv(): ModelPv {
    return this.pvs[this.shown];
  }

  get isEnabled(): boolean {
    return this.pv.isConnected && this.pv.isWritable;
  }

  get current(): Choice {
    const { labels, value } = this.pv;
    return { index: value, text: textOf(labels, value) };
  }

  get isUnsent(): boolean {
    const { current, typed } = this;
    return typed !== undefined && (typed.index !== current.index || typed.text !== current.text);
  }

  show(name: Name): void {
    if (name === this.shown) return;
    this.shown = name;
    this.typed = undefined;
    this.sending = undefined;
    this.outcome = "";
  }

  type(choice: Choice): void {
    if (this.sending !== undefined || !this.isEnabled) return;
    this.typed = choice;
    this.outcome = "";
  }

  takeBack(): void {
    if (this.typed === undefined) return;
    this.typed = undefined;
    this.outcome = "";
  }

  /** Sends a choice with the label that the operator saw, or refuses it. */
  send(choice: Choice | undefined, isTyped: boolean): void {
    if (choice === undefined || this.sending !== undefined || !this.isEnabled) return;
    const { index, text } = choice;
    const { labels } = this.pv;
    if (index >= labels.length) {
      this.outcome = `Refused: the choice ${text} no longer exists; nothing was sent`;
    } else if (textOf(labels, index) !== text) {
      this.outcome = `Refused: the choice ${text} is ${textOf(labels, index)} now; nothing was sent`;
    } else {
      this.puts.push({ name: this.shown, value: sentAs(labels, index) });
      this.indexes.push(index);
      this.sending = { index, text, isTyped };
      this.typed = undefined;
    }
  }

  /** Ends the put of the choice that is being sent. */
  end(outcome: Outcome): void {
    if (this.sending === undefined) return;
    const { isTyped, ...choice } = this.sending;
    this.sending = undefined;
    this.outcome = OUTCOME_TEXTS[outcome];
    if (outcome === "refused" && isTyped) this.typed = choice;
  }
}

/** Compares what is shown with the model. */
function compare(model: Model, hasField: boolean, trace: string): void {
  const { current, isEnabled, isUnsent, pv, sending, typed } = model;
  const { labels } = pv;
  const texts = labels.map((_, index) => textOf(labels, index));
  expect(relay.puts, trace).toEqual(model.puts);
  const outcome = sending === undefined ? model.outcome : "Sending…";
  if (typeof outcome === "string") expect(part("outcome"), trace).toBe(outcome);
  else expect(part("outcome"), trace).toMatch(outcome);
  expect(part("hint").includes("Not sent"), trace).toBe(isUnsent);
  const list = select();
  expect(list !== null, `${trace}: a list`).toBe(
    labels.length > MOST_BUTTONS || typed !== undefined,
  );
  const hasEntryButtons = page.querySelector('button[type="reset"]') !== null;
  expect(hasEntryButtons, `${trace}: Send and Undo`).toBe(typed !== undefined);
  if (list !== null) {
    const { index, text } = typed ?? sending ?? current;
    const isGone = texts[index] !== text;
    expect(textsOf(list.options), trace).toEqual(isGone ? [text, ...texts] : texts);
    expect(list.selectedIndex, `${trace}: the option`).toBe(isGone ? 0 : index);
    expect(list.disabled, trace).toBe(!isEnabled);
  } else if (labels.length === 0 && hasField && sending === undefined) {
    expect(page.querySelector("input")?.value, trace).toBe(current.text);
  } else {
    const isUnlabelled = current.index >= labels.length;
    const states = buttons().map((button) => ({
      text: button.textContent,
      isPressed: button.getAttribute("aria-pressed") === "true",
      isSending: button.getAttribute("data-sending") === "true",
      isDisabled: button.disabled,
    }));
    expect(states, trace).toEqual(
      [...texts, ...(isUnlabelled ? [current.text] : [])].map((text, index) => ({
        text,
        isPressed: index === current.index || index === texts.length,
        isSending: index === sending?.index && index < texts.length,
        isDisabled: !isEnabled || index === texts.length,
      })),
    );
  }
}

describe("set points of choices", () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    "send the choice whose label was shown, and nothing else: seed %i",
    async (seed) => {
      const random = randomNumbers(seed);
      const below = (end: number): number => Math.floor(random() * end);
      const randomName = (): Name => NAMES[below(NAMES.length)] as Name;
      const randomLabels = (): string[] =>
        Array.from({ length: below(8) }, () => LABELS[below(LABELS.length)] as string);
      // Some values have no label.
      const randomValue = (labels: readonly string[]): number => below(labels.length + 1);
      const model = new Model(() => {
        const labels = randomLabels();
        return { value: randomValue(labels), labels, isConnected: true, isWritable: true };
      });
      for (const name of NAMES) {
        const { labels, value } = model.pvs[name];
        relay.set(name, { value, choices: labels, type: "Enum" });
      }
      // Without labels a set point is a field of numbers.
      const hasField = seed % 2 === 0;
      const Widget = hasField ? SetPoint : EnumChoice;
      const showWidget = (): void => {
        show(<Widget name={model.shown} />);
      };
      const agrees = async (step: string): Promise<void> => {
        const trace = `seed ${String(seed)}, ${step}, ${JSON.stringify(model)}`;
        await until(() => {
          compare(model, hasField, trace);
        });
      };
      const setLabels = (name: Name): void => {
        const pv = model.pvs[name];
        pv.labels = randomLabels();
        pv.isConnected = true;
        relay.set(name, { choices: pv.labels });
      };
      /** Clicks a button or sends the list's choice, perhaps after labels that aren't shown yet. */
      const act = (before: () => void): void => {
        const isEnabled =
          select() === null ? buttons()[0]?.disabled === false : !select()?.disabled;
        const list = select();
        const index = below(buttons().length);
        const button = buttons()[index];
        before();
        // The controls are as before, although the PV may be connected again.
        if (!isEnabled) {
          if (list !== null) press("Enter");
          button?.click();
        } else if (list !== null) {
          if (below(2) === 0) press("Enter");
          else click("submit");
          model.send(model.typed, true);
        } else if (button?.disabled === false) {
          button.click();
          model.send({ index, text: button.textContent }, false);
        }
      };
      showWidget();
      await agrees("start");
      for (let step = 0; step < 60; step += 1) {
        // A put must not wait until it times out.
        const kind = ends.length > 0 && below(3) === 0 ? 8 : below(12);
        switch (kind) {
          case 0:
            model.show(randomName());
            showWidget();
            break;
          case 1:
          case 2:
            act(() => undefined);
            break;
          case 3:
            act(() => {
              setLabels(model.shown);
            });
            break;
          case 4:
            setLabels(randomName());
            break;
          case 5: {
            const name = randomName();
            const pv = model.pvs[name];
            pv.value = randomValue(pv.labels);
            pv.isConnected = true;
            relay.set(name, { value: pv.value });
            break;
          }
          case 6: {
            const name = randomName();
            const pv = model.pvs[name];
            pv.isConnected = below(3) > 0;
            relay.set(name, { state: pv.isConnected ? "connected" : "disconnected" });
            break;
          }
          case 7: {
            const name = randomName();
            const pv = model.pvs[name];
            pv.isWritable = below(3) > 0;
            pv.isConnected = true;
            // The IOC gives no write access, or the relay permits no puts.
            const isOfIoc = below(2) === 0;
            relay.set(name, {
              mutable: pv.isWritable || !isOfIoc,
              puts: pv.isWritable || isOfIoc,
            });
            break;
          }
          case 8: {
            const first = model.puts.length - ends.length;
            for (const [nth, end] of ends.splice(0).entries()) {
              const put = model.puts[first + nth] as (typeof model.puts)[number];
              const pv = model.pvs[put.name];
              const outcome = OUTCOMES[below(3)] as Outcome;
              if (outcome === "refused") end("jammed");
              else {
                pv.value =
                  outcome === "changed"
                    ? randomValue(pv.labels)
                    : (model.indexes[first + nth] as number);
                pv.isConnected = true;
                end(outcome === "changed" ? { readback: pv.value } : undefined);
              }
              // Puts of PVs that were shown before have no effect on what is shown.
              if (first + nth === model.puts.length - 1) model.end(outcome);
            }
            break;
          }
          case 9:
            if (below(2) === 0) click("reset");
            else if (select()?.disabled === false) press("Escape");
            else break;
            model.takeBack();
            break;
          default: {
            const list = select();
            if (list === null || list.disabled) break;
            const option = below(list.options.length);
            const index = option - (list.options.length - model.pv.labels.length);
            if (option === list.selectedIndex) break;
            choose(list, option);
            model.type({ index, text: textOf(model.pv.labels, index) });
          }
        }
        await agrees(`step ${String(step)}, ${String(kind)}`);
      }
    },
  );
});
