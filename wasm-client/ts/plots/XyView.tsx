/** The picture of a plot against a PV: a part of it is chosen by the mouse, the wheel and the keys. */

import { useEffect, useRef, useState, type ReactNode } from "react";

import { Canvas } from "./Canvas.js";
import type { Drawing, Placed } from "./draw.js";
import type { Range } from "../widgets/scale.js";
import { t } from "../texts.js";
import { partsBetween, type Place, type XyPlaced } from "./xy_zoom.js";

interface XyViewProps {
  readonly width: number;
  readonly height: number;
  readonly label: string;
  readonly drawing: Drawing;
  readonly placed: XyPlaced | undefined;
  /** Called after each drawing; the same function each time. */
  readonly onDrawn: (placed: Placed | undefined) => void;
  /** Shows a part of the picture, counted from the left and from the bottom; less than 0 and more than 1 is outside. */
  readonly zoom: (x: Range, y: Range) => void;
  /** Shows all curves. */
  readonly showAll: () => void;
  /** The cursor is at a place, or nowhere. */
  readonly point: (place: Place | undefined) => void;
  /** Moves the cursor to the point before or after. */
  readonly step: (by: 1 | -1) => void;
}

/** A part of the picture after a key. */
const KEYS: Readonly<Record<string, readonly [x: Range, y: Range]>> = {
  ArrowLeft: [
    [-0.25, 0.75],
    [0, 1],
  ],
  ArrowRight: [
    [0.25, 1.25],
    [0, 1],
  ],
  ArrowUp: [
    [0, 1],
    [0.25, 1.25],
  ],
  ArrowDown: [
    [0, 1],
    [-0.25, 0.75],
  ],
  "+": [
    [0.25, 0.75],
    [0.25, 0.75],
  ],
  "-": [
    [-0.5, 1.5],
    [-0.5, 1.5],
  ],
};

/** A turn of the wheel makes the part so much larger. */
const WHEEL = 1.5;

/** A part that is larger or smaller about one of its places. */
const about = (place: number, factor: number): Range => [
  place - place * factor,
  place + (1 - place) * factor,
];

export function XyView(props: XyViewProps): ReactNode {
  const { drawing, height, label, onDrawn, placed, point, width, zoom } = props;
  const host = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<readonly [from: Place, to: Place]>();
  const placeOf = ({ clientX, clientY }: { clientX: number; clientY: number }): Place => {
    const { left = 0, top = 0 } = host.current?.getBoundingClientRect() ?? {};
    return { x: clientX - left, y: clientY - top };
  };
  useWheel(host, props);
  const shown = drag && placed && boxOf(placed, ...drag);
  return (
    <div
      ref={host}
      className="pvwire-xy-view"
      role="group"
      aria-label={t`Curves: keys + and - zoom, arrows move, with Shift they go from point to point, 0 shows all`}
      tabIndex={0}
      style={{ width, height }}
      onPointerDown={(event) => {
        // A finger scrolls the page.
        if (event.pointerType === "touch" || event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag([placeOf(event), placeOf(event)]);
      }}
      onPointerMove={(event) => {
        if (drag !== undefined) setDrag([drag[0], placeOf(event)]);
        else point(placeOf(event));
      }}
      onPointerUp={(event) => {
        const parts = drag && placed && partsBetween(placed, drag[0], placeOf(event));
        setDrag(undefined);
        if (parts === undefined) point(placeOf(event));
        else zoom(parts.x, parts.y);
      }}
      onPointerCancel={() => {
        setDrag(undefined);
      }}
      onPointerLeave={({ pointerType }) => {
        // The place that a finger has touched stays.
        if (pointerType !== "touch") point(undefined);
      }}
      onDoubleClick={() => {
        props.showAll();
      }}
      onKeyDown={(event) => {
        const { altKey, ctrlKey, key, metaKey, shiftKey } = event;
        if (altKey || ctrlKey || metaKey) return;
        const parts = KEYS[key];
        if (shiftKey && (key === "ArrowLeft" || key === "ArrowRight")) {
          props.step(key === "ArrowLeft" ? -1 : 1);
        } else if (key === "0") props.showAll();
        else if (parts !== undefined) zoom(...parts);
        else return;
        event.preventDefault();
      }}
    >
      <Canvas {...{ drawing, height, label, onDrawn, width }} />
      {shown !== undefined && <div className="pvwire-xy-box" style={shown} />}
    </div>
  );
}

/** The rectangle that a drag chooses. */
function boxOf(placed: XyPlaced, from: Place, to: Place): Record<string, number> | undefined {
  const parts = partsBetween(placed, from, to);
  if (parts === undefined) return undefined;
  const { bottom, left, right, top } = placed.room;
  const { x, y } = parts;
  return {
    left: left + x[0] * (right - left),
    top: bottom - y[1] * (bottom - top),
    width: (x[1] - x[0]) * (right - left),
    height: (y[1] - y[0]) * (bottom - top),
  };
}

/** The wheel zooms with Ctrl and moves with Shift; without a key it scrolls the page. */
function useWheel(host: { readonly current: HTMLDivElement | null }, props: XyViewProps): void {
  const latest = useRef(props);
  useEffect(() => {
    latest.current = props;
  });
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const turn = (event: WheelEvent): void => {
      const { placed, zoom } = latest.current;
      if ((!event.ctrlKey && !event.shiftKey) || placed === undefined) return;
      event.preventDefault();
      const by = Math.sign(event.deltaY === 0 ? event.deltaX : event.deltaY);
      const { left, top } = element.getBoundingClientRect();
      const { room } = placed;
      const across = (event.clientX - left - room.left) / (room.right - room.left);
      const up = (room.bottom - event.clientY + top) / (room.bottom - room.top);
      const factor = by > 0 ? WHEEL : 1 / WHEEL;
      if (event.ctrlKey) zoom(about(across, factor), about(up, factor));
      else zoom([by * 0.1, 1 + by * 0.1], [0, 1]);
    };
    element.addEventListener("wheel", turn, { passive: false });
    return () => {
      element.removeEventListener("wheel", turn);
    };
  }, [host]);
}
