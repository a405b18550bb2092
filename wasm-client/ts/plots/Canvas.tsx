/** A canvas that is drawn at most once an animation frame, sharp on every screen. */

import { useEffect, useRef, type ReactNode } from "react";

import { draw, type Drawing, type Placed } from "./draw.js";

interface CanvasProps {
  readonly width: number;
  readonly height: number;
  readonly label: string;
  readonly drawing: Drawing;
  /** Called after each drawing; the same function each time. */
  readonly onDrawn?: ((placed: Placed | undefined) => void) | undefined;
}

export function Canvas({ drawing, height, label, onDrawn, width }: CanvasProps): ReactNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const element = canvas.current;
      const context = element?.getContext("2d");
      if (element === null || context == null) return;
      // Browsers draw no canvas beyond this size.
      const scale = Math.min(window.devicePixelRatio || 1, 8000 / Math.max(width, height, 1));
      const [across, down] = [Math.ceil(width * scale), Math.ceil(height * scale)];
      if (element.width !== across) element.width = across;
      if (element.height !== down) element.height = down;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      const placed = draw(context, width, height, drawing);
      onDrawn?.(placed);
    });
    return () => {
      cancelAnimationFrame(frame);
    };
  }, [drawing, width, height, onDrawn]);
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={label}
      style={{ width, height, display: "block" }}
    />
  );
}
