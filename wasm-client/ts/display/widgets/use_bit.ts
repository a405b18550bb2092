/** One bit of a PV: whether it is set, and writing it without changing the others. */

import { useEffect, useLayoutEffect, useRef } from "react";

import { useClient } from "../../react/index.js";
import type { PutResult, Readable } from "../../types.js";
import { useShown } from "../context.js";
import { useDialogs } from "../dialogs.js";
import {
  FIELDS,
  useSetter,
  useWidgetPv,
  type WidgetData,
  type WidgetPv,
} from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import type { BoxProps } from "./Box.js";
import { isConfirmed } from "./choices.js";

export interface Bit extends WidgetPv {
  /** `undefined` while it isn't known. */
  readonly isOn: boolean | undefined;
  readonly why: string | undefined;
  /** The props of the widget's box. */
  readonly box: BoxProps;
  /** Writes the bit; the other bits stay. */
  readonly set: (isOn: boolean) => void;
  /** Writes the bit, and after `release` its opposite. */
  readonly press: (isOn: boolean) => void;
  readonly release: () => void;
}

/** A release that is refused because the PV has changed is written again, this often at most. */
const MAX_RELEASES = 5;
const UPDATE_MS = 2000;

/** Resolves at the next update, or after a while. */
function nextUpdate(pv: Readable<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      window.clearTimeout(timer);
      stop();
      resolve();
    };
    const timer = window.setTimeout(end, UPDATE_MS);
    const stop = pv.subscribe(end);
  });
}

export function useBit(widget: WidgetProps): Bit {
  const { name, problem, props } = widget;
  const of = useWidgetPv(name);
  const client = useClient();
  const { outcome, whyDisabled, write } = useSetter(name);
  const { confirm } = useDialogs();
  const { report } = useShown();
  const { pv, value } = of;
  const bit = props.integer("bit");
  const integer = value?.bigint ?? wholeOf(value?.number);
  const isOn = integer === undefined ? undefined : bitOf(integer, bit);
  const why =
    problem ??
    whyDisabled(props.flag("enabled"), pv) ??
    (integer === undefined ? "The value has no bits" : undefined);

  /** Writes the bit into the newest value. */
  const put = async (on: boolean, undoes = false): Promise<PutResult | undefined> => {
    if (name === undefined) return undefined;
    const now = client.pv<WidgetData>(name, FIELDS).getSnapshot();
    const before = now?.value?.bigint ?? wholeOf(now?.value?.number);
    if (before === undefined) return undefined;
    const type = now?.display?.type;
    const mask = 1n << BigInt(Math.max(0, bit));
    const next = bit < 0 ? BigInt(on) : on ? before | mask : before & ~mask;
    const isSafe = Number.isSafeInteger(Number(next));
    // Another client may have changed the other bits since the value that is shown.
    const isWhole = bit < 0 || type === "Enum" || type === "Boolean";
    return await write(isSafe ? Number(next) : next, { onlyIfUnchanged: !isWhole, undoes });
  };
  // A question takes time: what is written then depends on what is known then.
  const latest = useRef({ put, why });
  useLayoutEffect(() => {
    latest.current = { put, why };
  });
  const set = async (on: boolean): Promise<PutResult | undefined> => {
    if (why !== undefined || !(await isConfirmed(props, confirm, on))) return undefined;
    return latest.current.why === undefined ? await latest.current.put(on) : undefined;
  };

  const pressing = useRef<{ readonly on: boolean; readonly pressed: Promise<boolean> }>(undefined);
  /** Presses and releases, one after the other. */
  const queue = useRef<Promise<unknown>>(Promise.resolve());
  const press = (on: boolean): void => {
    if (pressing.current !== undefined) return;
    const pressed = queue.current.then(async () => {
      const result = await set(on);
      return result !== undefined && (result.ok || result.error.mayBeWritten);
    });
    queue.current = pressed.catch(() => undefined);
    pressing.current = { on, pressed };
  };
  // Without a question and also if it is disabled since: what is pressed must not stay so.
  const releaseNow = async (on: boolean): Promise<void> => {
    if (name === undefined) return;
    const readable = client.pv<WidgetData>(name, FIELDS);
    // The widget may have gone.
    const stop = readable.subscribe(() => undefined);
    try {
      for (let count = 0; count < MAX_RELEASES; count += 1) {
        const seen = readable.getSnapshot();
        const result = await latest.current.put(on, true);
        if (result === undefined) {
          report({ pv: name, kind: "refused", text: "Not released: the value isn't known" });
        }
        if (result === undefined || result.ok || !isMoved(result.error)) return;
        if (readable.getSnapshot() === seen) await nextUpdate(readable);
      }
    } finally {
      stop();
    }
  };
  const release = (): void => {
    const { current } = pressing;
    if (current === undefined) return;
    pressing.current = undefined;
    queue.current = current.pressed
      .then((isPressed) => (isPressed ? releaseNow(!current.on) : undefined))
      .catch(() => undefined);
  };
  const lastRelease = useRef(release);
  useLayoutEffect(() => {
    lastRelease.current = release;
  });
  // A widget that goes while it is held is released.
  useEffect(
    () => () => {
      lastRelease.current();
    },
    [],
  );
  const setting = useRef<boolean>(undefined);
  /** A second click writes the same again, because the value doesn't yet show the first one. */
  const setOnce = async (on: boolean): Promise<void> => {
    if (setting.current === on) return;
    setting.current = on;
    await set(on).finally(() => {
      if (setting.current === on) setting.current = undefined;
    });
  };
  const box = { ...widget, condition: of.condition, problem: why, outcome };
  return { ...of, isOn, why, box, set: (on) => void setOnce(on), press, release };
}

/** Refused because the PV has an update that this page has not shown. */
const isMoved = ({ code, mayBeWritten }: { code: string; mayBeWritten: boolean }): boolean =>
  !mayBeWritten && (code === "MOVED" || code === "NOT_CONNECTED");

export function wholeOf(number: number | null | undefined): bigint | undefined {
  return number != null && Number.isFinite(number) ? BigInt(Math.trunc(number)) : undefined;
}

/** Whether a bit is set; a negative one: whether any is. */
export function bitOf(integer: bigint, bit: number): boolean {
  return bit < 0 ? integer !== 0n : ((integer >> BigInt(Math.min(63, bit))) & 1n) === 1n;
}
