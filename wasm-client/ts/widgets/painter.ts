/** Paints images by WebGL, or by the processor where WebGL isn't available. */

import { createGlPainter, type Painter } from "./gl.js";
import { paint } from "./pixels.js";

/**
 * Creates the painter of a canvas; `onFailed` is called if WebGL fails: another canvas is then
 * needed.
 */
export function createPainter(
  canvas: HTMLCanvasElement,
  byProcessor: boolean,
  onFailed: () => void,
): Painter | undefined {
  const painter = byProcessor ? undefined : createGlPainter(canvas, { onFailed });
  return painter ?? createPlainPainter(canvas);
}

function createPlainPainter(canvas: HTMLCanvasElement): Painter | undefined {
  const context = canvas.getContext("2d");
  if (context === null) return undefined;
  let pixels: ImageData | undefined;
  return {
    paint: (picture, range, map) => {
      const { height, width } = picture;
      if (canvas.width !== width || canvas.height !== height) {
        Object.assign(canvas, { width, height });
      }
      if (pixels?.width !== width || pixels.height !== height) {
        pixels = context.createImageData(width, height);
      }
      paint(picture, range, map, pixels.data);
      context.putImageData(pixels, 0, 0);
    },
    end: () => undefined,
  };
}
