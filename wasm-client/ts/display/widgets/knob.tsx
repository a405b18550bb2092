/** The knob: a dial that is turned by the pointer and by keys. */

import { useLayoutEffect, useRef, useState, type PointerEvent, type ReactNode } from "react";

import { useShown } from "../context.js";
import { useDialogs } from "../dialogs.js";
import { ARROWS } from "../keys.js";
import { useSetter, useWidgetPv } from "../use_widget_pv.js";
import type { WidgetProps } from "../widget.js";
import { asksBefore, isConfirmed } from "./choices.js";
import { DialView, TURN_DEGREES } from "./dials.js";
import { rangeOf } from "./bar_scale.js";

// Loaded with the first of them.
export { Clock, Dial, DigitalClock } from "./dials.js";

/** A turn in progress: relative to where it began, so that a press alone changes nothing. */
interface Turning {
  readonly pointer: number;
  /** Angle of the pointer at the last move, in degrees clockwise. */
  readonly angle: number;
  /** The number, not rounded. */
  readonly number: number;
  /** The number that is to be written; `undefined`: none. */
  readonly to: number | undefined;
}

const NEWEST = { checkLimits: true, coalesce: true } as const;

/** Writes once it is released, or while it is turned if the display wants that and asks nothing. */
export function Knob(of: WidgetProps): ReactNode {
  const { name, problem, props } = of;
  const { pv, value } = useWidgetPv(name);
  const { outcome, whyDisabled, write } = useSetter(name);
  const { confirm } = useDialogs();
  const { report } = useShown();
  // Several moves may come before a render.
  const turning = useRef<Turning>(undefined);
  const [target, setTarget] = useState<number>();
  const why = problem ?? whyDisabled(props.flag("enabled"), pv);
  // What keeps it from being written may have come up during the question.
  const latest = useRef(why);
  useLayoutEffect(() => {
    latest.current = why;
  });
  const [low, high] = rangeOf(props, pv?.display);
  const [least, most] = rangeOf(props, pv?.display, "controlRange");
  const present = value?.number ?? undefined;
  const isLate = props.flag("write_on_release") || asksBefore(props);
  const isWhole = /^U?Int/.test(pv?.display?.type ?? "");
  // A thousandth of the dial is finer than a hand turns it.
  const step = Math.max(10 ** Math.floor(Math.log10((high - low) / 1000)), isWhole ? 1 : 0);
  const within = (number: number): number =>
    Math.max(least, Math.min(most, Number((Math.round(number / step) * step).toPrecision(12))));
  const put = async (to: number): Promise<void> => {
    setTarget(to);
    if (await isConfirmed(props, confirm)) {
      if (latest.current === undefined) await write(to, NEWEST);
      else report({ pv: name ?? "", kind: "refused", text: `Refused: ${latest.current}` });
    }
    // The value of the PV alone is shown again, also if it took another one.
    setTarget((now) => (now === to ? undefined : now));
  };
  const angleOf = ({ clientX, clientY, currentTarget }: PointerEvent): number => {
    const { height, left, top, width } = currentTarget.getBoundingClientRect();
    return (Math.atan2(clientY - top - height / 2, clientX - left - width / 2) * 180) / Math.PI;
  };
  const begin = (event: PointerEvent): void => {
    if (why !== undefined || present === undefined || event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    const { pointerId: pointer } = event;
    turning.current = { pointer, angle: angleOf(event), number: present, to: undefined };
  };
  const turn = (event: PointerEvent): void => {
    const before = turning.current;
    if (before?.pointer !== event.pointerId) return;
    const angle = angleOf(event);
    // The shorter way around.
    const turned = ((angle - before.angle + 540) % 360) - 180;
    const number = before.number + (turned / TURN_DEGREES) * (high - low);
    const onDial = Math.max(low, Math.min(high, number));
    const rounded = within(onDial);
    const to = rounded === present ? undefined : rounded;
    turning.current = { ...before, angle, number: onDial, to };
    if (isLate) setTarget(to);
    else if (to !== undefined && to !== before.to) void put(to);
  };
  const end = (event: PointerEvent): void => {
    if (turning.current?.pointer !== event.pointerId) return;
    const { to } = turning.current;
    turning.current = undefined;
    if (!isLate) return;
    if (event.type === "pointerup" && to !== undefined) void put(to);
    else setTarget(undefined);
  };
  return (
    <DialView
      of={of}
      problem={why}
      outcome={outcome}
      target={target}
      control={{
        role: "slider",
        tabIndex: why === undefined ? 0 : -1,
        "aria-label": name ?? props.text("name"),
        "aria-valuemin": least,
        "aria-valuemax": most,
        "aria-valuenow": present,
        "aria-disabled": why !== undefined,
        onPointerDown: begin,
        onPointerMove: turn,
        onPointerUp: end,
        onPointerCancel: end,
        onKeyDown: (event) => {
          const sign = ARROWS[event.key];
          const from = target ?? present;
          if (sign === undefined || why !== undefined || from === undefined) return;
          event.preventDefault();
          const to = within(from + (sign * (high - low)) / 100);
          // From outside the limits nothing moves the other way.
          if (sign * (to - from) > 0) void put(to);
        },
      }}
    />
  );
}
