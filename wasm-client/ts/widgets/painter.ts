/** Paints images by WebGL, or by the processor where WebGL isn't available. */

import { type Colours, coloursOf, paint, type Picture } from "./pixels.js";

/** Paints pictures on a canvas. */
export interface Painter {
  paint: (picture: Picture, range: readonly [number, number], map: Colours) => void;
  end: () => void;
}

/** One triangle that is larger than the canvas. */
const VERTICES = `#version 300 es
void main() {
  gl_Position = vec4(float(gl_VertexID % 2) * 4.0 - 1.0, float(gl_VertexID / 2) * 4.0 - 1.0, 0, 1);
}`;

const PIXELS = `#version 300 es
precision highp float;
precision highp usampler2D;
uniform usampler2D levels;
uniform sampler2D colours;
uniform vec2 lowAndScale;
uniform bool isMono;
out vec4 colour;
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  at.y = textureSize(levels, 0).y - 1 - at.y;
  uvec4 level = texelFetch(levels, at, 0);
  if (isMono) {
    float place = clamp((float(level.r) - lowAndScale.x) * lowAndScale.y, 0.0, 255.0);
    colour = texelFetch(colours, ivec2(int(place), 0), 0);
  } else {
    colour = vec4(level) / 255.0;
  }
}`;

export interface GlOptions {
  /** WebGL failed, or a picture is too large for it: another canvas must be painted without it. */
  onFailed: () => void;
  /** Use WebGL even if it is slower than painting without it. @default false */
  allowSoftware?: boolean;
}

/** Creates a WebGL 2 painter; `undefined` if no WebGL faster than the processor is available. */
export function createGlPainter(
  canvas: HTMLCanvasElement,
  { allowSoftware = false, onFailed }: GlOptions,
): Painter | undefined {
  if (!allowSoftware && !hasCard()) return undefined;
  const gl = canvas.getContext("webgl2", {
    alpha: false,
    antialias: false,
    depth: false,
    failIfMajorPerformanceCaveat: !allowSoftware,
    // Images arrive more slowly than the page is painted, and a user may save one.
    preserveDrawingBuffer: true,
  });
  const program = gl === null ? undefined : programOf(gl);
  if (gl === null || program === undefined) return undefined;
  const most = gl.getParameter(gl.MAX_TEXTURE_SIZE) as number;
  gl.useProgram(program);
  gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
  const place = (name: string): WebGLUniformLocation | null => gl.getUniformLocation(program, name);
  const [isMono, lowAndScale] = [place("isMono"), place("lowAndScale")];
  gl.uniform1i(place("levels"), 0);
  gl.uniform1i(place("colours"), 1);
  const textures = [textureOf(gl, gl.TEXTURE0), textureOf(gl, gl.TEXTURE1)];
  let shown: Colours | undefined;
  const lost = (): void => {
    onFailed();
  };
  canvas.addEventListener("webglcontextlost", lost);
  return {
    paint: (picture, [low, high], map) => {
      const { height, width } = picture;
      if (Math.max(height, width) > most) {
        onFailed();
        return;
      }
      if (canvas.width !== width || canvas.height !== height) {
        Object.assign(canvas, { width, height });
        gl.viewport(0, 0, width, height);
      }
      if (map !== shown) {
        shown = map;
        gl.activeTexture(gl.TEXTURE1);
        const colours = new Uint8Array(coloursOf(map).buffer);
        gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, colours);
      }
      const levels = levelsOf(gl, picture, [low, high], map);
      gl.uniform1i(isMono, Number(levels.isMono));
      gl.uniform2f(lowAndScale, low, high > low ? 255 / (high - low) : 0);
      gl.activeTexture(gl.TEXTURE0);
      const { elements, format, stored, type } = levels;
      gl.texImage2D(gl.TEXTURE_2D, 0, stored, width, height, 0, format, type, elements);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    },
    end: () => {
      canvas.removeEventListener("webglcontextlost", lost);
      for (const texture of textures) gl.deleteTexture(texture);
      gl.deleteProgram(program);
    },
  };
}

let card: boolean | undefined;

/** Tested on another canvas: a canvas that was used with WebGL can't be used otherwise. */
function hasCard(): boolean {
  if (card === undefined) {
    const gl = document.createElement("canvas").getContext("webgl2");
    const names = gl?.getExtension("WEBGL_debug_renderer_info");
    const name = gl?.getParameter(names?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER) as unknown;
    // Not every browser reports these renderers as slow, but they are slow for large images.
    card = gl != null && !/swiftshader|llvmpipe|software|basic render/i.test(String(name));
    gl?.getExtension("WEBGL_lose_context")?.loseContext();
  }
  return card;
}

interface Levels {
  readonly elements: ArrayBufferView;
  readonly isMono: boolean;
  readonly stored: number;
  readonly format: number;
  readonly type: number;
}

/**
 * The usual formats of cameras are uploaded unchanged; for all others the colours are computed
 * here.
 */
function levelsOf(
  gl: WebGL2RenderingContext,
  picture: Picture,
  range: readonly [number, number],
  map: Colours,
): Levels {
  const { elements, height, order, width } = picture;
  const one = { elements, isMono: true, format: gl.RED_INTEGER };
  if (order === "mono" && elements instanceof Uint8Array) {
    return { ...one, elements, stored: gl.R8UI, type: gl.UNSIGNED_BYTE };
  }
  if (order === "mono" && elements instanceof Uint16Array) {
    return { ...one, elements, stored: gl.R16UI, type: gl.UNSIGNED_SHORT };
  }
  const rgba = new Uint8ClampedArray(4 * width * height);
  paint(picture, range, map, rgba);
  return {
    elements: new Uint8Array(rgba.buffer),
    isMono: false,
    stored: gl.RGBA8UI,
    format: gl.RGBA_INTEGER,
    type: gl.UNSIGNED_BYTE,
  };
}

function textureOf(gl: WebGL2RenderingContext, unit: number): WebGLTexture {
  const texture = gl.createTexture();
  gl.activeTexture(unit);
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  return texture;
}

function programOf(gl: WebGL2RenderingContext): WebGLProgram | undefined {
  const program = gl.createProgram();
  for (const [kind, source] of [
    [gl.VERTEX_SHADER, VERTICES],
    [gl.FRAGMENT_SHADER, PIXELS],
  ] as const) {
    const shader = gl.createShader(kind);
    if (shader === null) return undefined;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  return gl.getProgramParameter(program, gl.LINK_STATUS) === true ? program : undefined;
}

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
