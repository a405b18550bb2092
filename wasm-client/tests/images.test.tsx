/** What ImageView, meters and colour bars paint: sizes, colours and codecs of NTNDArrays, and ranges of numbers. */

import { describe, expect, it, vi } from "vitest";

import { decodeImage, decodeLz4 } from "../ts/widgets/codec.js";
import { ImageView, Meter } from "../ts/widgets/index.js";
import { createGlPainter } from "../ts/widgets/painter.js";
import { paint, type Picture, pictureOf, rangeOf } from "../ts/widgets/pixels.js";
import images from "./images.json";
import {
  eachWithWidgetPage,
  image,
  page,
  part,
  relay,
  show,
  until,
  widget,
} from "./widget_page.js";

eachWithWidgetPage();

/** An image of 96 × 40 pixels of 16 bits: rows that repeat, a constant, noise; packed by lz4_flex. */
const lz4Image = (() => {
  const packed = Uint8Array.from(atob(images.lz4), (character) => character.charCodeAt(0));
  const pixels = new Uint16Array(96 * 40);
  let seed = 1;
  for (let at = 0; at < pixels.length; at += 1) {
    const [x, y] = [at % 96, Math.floor(at / 96)];
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    pixels[at] = y < 30 ? x * 300 + Math.floor(y / 10) * 1000 : y < 38 ? 7 : seed >>> 16;
  }
  return { packed, bytes: new Uint8Array(pixels.buffer), size: pixels.byteLength };
})();

describe("an image of one colour a pixel", () => {
  it("has a colour bar that says what is darkest and brightest", async () => {
    show(<ImageView name="CAMERA" colourMap="heat" />);
    const bar = (): HTMLElement | null => page.querySelector(".pvwire-colour-bar");
    await until(() => {
      expect(bar()?.getAttribute("aria-label")).toBe("Colours from 0 to 255");
    });
    expect(bar()?.textContent).toBe("2550");
    show(<ImageView name="CAMERA" colourMap="heat" range={[1, 4]} />);
    await until(() => {
      expect(bar()?.getAttribute("aria-label")).toBe("Colours from 1 to 4");
    });
  });
});

describe("ImageView", () => {
  it("shows an NTNDArray in its size and colours", async () => {
    show(<ImageView name="CAMERA" />);
    const pixels = (): Uint8ClampedArray | undefined => {
      const canvas = page.querySelector("canvas") as HTMLCanvasElement;
      // A copy, whatever it was painted by.
      const copy = document.createElement("canvas");
      Object.assign(copy, { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d");
      context?.drawImage(canvas, 0, 0);
      return context?.getImageData(0, 0, canvas.width, canvas.height).data;
    };
    await until(() => {
      expect(page.querySelector("canvas")?.width).toBe(3);
      expect(pixels()?.[4 * 5]).toBe(255);
    });
    expect(part("value")).toBe("3 × 2");
    relay.set("CAMERA", { value: image([2, 1], "ushortValue", Uint16Array.of(1000, 3000)) });
    await until(() => {
      expect([...(pixels() ?? [])]).toEqual([0, 0, 0, 255, 255, 255, 255, 255]);
    });
  });

  it("decodes JPEG and lz4, and says which codec it doesn't know", async () => {
    const encoded = (
      name: string,
      bytes: Uint8Array,
      sizes: readonly number[],
      uncompressedSize: number,
      parameters: number,
    ) => ({
      // A server may send more than the encoded bytes.
      value: { selected: "ubyteValue", value: Uint8Array.from([...bytes, 9, 9, 9]) },
      codec: { name, parameters },
      compressedSize: BigInt(bytes.length),
      uncompressedSize: BigInt(uncompressedSize),
      dimension: sizes.map((size) => ({ size, offset: 0 })),
      attribute: [],
    });
    const pixelsOf = (): Uint8ClampedArray | undefined => {
      const canvas = page.querySelector("canvas") as HTMLCanvasElement;
      const copy = document.createElement("canvas");
      Object.assign(copy, { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d");
      context?.drawImage(canvas, 0, 0);
      return context?.getImageData(0, 0, canvas.width, canvas.height).data;
    };
    const drawn = new OffscreenCanvas(32, 16);
    const context = drawn.getContext("2d") as OffscreenCanvasRenderingContext2D;
    context.fillStyle = "rgb(250, 20, 20)";
    context.fillRect(0, 0, 16, 16);
    context.fillStyle = "rgb(20, 20, 250)";
    context.fillRect(16, 0, 16, 16);
    const jpeg = await drawn.convertToBlob({ type: "image/jpeg", quality: 1 });
    const bytes = new Uint8Array(await jpeg.arrayBuffer());
    // areaDetector says 3 × 32 × 16 of unsigned bytes.
    relay.set("CAMERA", { value: encoded("jpeg", bytes, [3, 32, 16], 1536, 5) });
    show(<ImageView name="CAMERA" />);
    await until(() => {
      expect(part("value")).toBe("32 × 16");
      const pixels = pixelsOf() ?? new Uint8ClampedArray();
      const [left, right] = [pixels.slice(0, 3), pixels.slice(4 * 31, 4 * 31 + 3)];
      expect(Math.abs((left[0] ?? 0) - 250)).toBeLessThan(20);
      expect(Math.abs((right[2] ?? 0) - 250)).toBeLessThan(20);
    });
    expect(page.querySelector(".pvwire-nothing")).toBeNull();

    // By ScalarType and by NDDataType: both are unsigned 16 bits.
    for (const parameters of [6, 3]) {
      const packed = encoded("lz4", lz4Image.packed, [96, 40], lz4Image.size, parameters);
      relay.set("CAMERA", { value: packed });
      await until(() => {
        expect(part("value")).toBe("96 × 40");
      });
      relay.set("CAMERA", { value: image([3, 2], "ubyteValue", new Uint8Array(6)) });
      await until(() => {
        expect(part("value")).toBe("3 × 2");
      });
    }

    relay.set("CAMERA", { value: encoded("zfp", bytes, [32, 16], 512, 5) });
    await until(() => {
      expect(page.querySelector(".pvwire-nothing")?.textContent).toBe(
        "Codec zfp isn't supported: choose jpeg, lz4, bslz4, blosc or none in the detector's codec plugin",
      );
    });
    expect(page.querySelector("canvas")?.hidden).toBe(true);
    relay.set("CAMERA", { value: encoded("jpeg", Uint8Array.of(1, 2, 3), [3, 32, 16], 1536, 5) });
    await until(() => {
      expect(page.querySelector(".pvwire-nothing")?.textContent).toContain("can't be read as one");
    });
  });

  it("decodes lz4 exactly and refuses damaged input", async () => {
    const { packed, size } = lz4Image;
    expect(decodeLz4(packed, size)).toEqual(lz4Image.bytes);
    for (let length = 0; length < packed.length; length += 7) {
      expect(() => decodeLz4(packed.subarray(0, length), size)).toThrow("damaged");
    }
    expect(() => decodeLz4(packed, size - 1)).toThrow("damaged");
    expect(() => decodeLz4(packed, size + 1)).toThrow("damaged");
    const structure = {
      value: { selected: "ubyteValue", value: packed },
      codec: { name: "lz4", parameters: 6 },
      uncompressedSize: BigInt(size),
      dimension: [{ size: 96 }, { size: 40 }],
    };
    const picture = await decodeImage(structure);
    expect(picture).toMatchObject({ width: 96, height: 40, order: "mono" });
    expect(picture.elements).toEqual(new Uint16Array(lz4Image.bytes.buffer));
  });

  it("has the same colours by graphics card and by processor", () => {
    const canvas = document.createElement("canvas");
    const options = { allowSoftware: true, onFailed: vi.fn() };
    const painter = createGlPainter(canvas, options);
    const context = canvas.getContext("webgl2");
    const [width, height] = [16, 4];
    const mono = { width, height, order: "mono" } as const;
    const ramp = (step: number): number[] => Array.from({ length: 64 }, (_, at) => at * step);
    const pictures: Picture[] = [
      { ...mono, elements: Uint8Array.from(ramp(4)) },
      { ...mono, elements: Uint16Array.from(ramp(1000)) },
      { ...mono, elements: Float64Array.from(ramp(0.1)) },
      {
        width,
        height,
        order: "rgb1",
        elements: Uint8Array.from([...ramp(1), ...ramp(2), ...ramp(4)]),
      },
    ];
    for (const map of ["grey", "viridis", "heat"] as const) {
      for (const picture of pictures) {
        const range = rangeOf(picture.elements);
        const expected = new Uint8ClampedArray(4 * width * height);
        paint(picture, range, map, expected);
        painter?.paint(picture, range, map);
        const found = new Uint8Array(expected.length);
        context?.readPixels(0, 0, width, height, context.RGBA, context.UNSIGNED_BYTE, found);
        // The card counts rows from below; what lies between two of the map's levels may round.
        const differing = [...found].filter((_, at) => {
          const [row, column] = [Math.floor(at / (4 * width)), at % (4 * width)];
          const other = expected[4 * width * (height - 1 - row) + column] ?? NaN;
          return !(Math.abs((found[at] ?? NaN) - other) <= 8);
        });
        expect(differing).toEqual([]);
      }
    }
    const huge = { ...mono, width: 1 << 20, height: 1, elements: new Uint8Array(1 << 20) };
    expect(options.onFailed).not.toHaveBeenCalled();
    painter?.paint(huge, [0, 1], "grey");
    expect(options.onFailed, "larger than any card takes").toHaveBeenCalledOnce();
    painter?.end();
  });

  it("knows every order of colours", () => {
    const [red, green] = [
      [9, 0, 0],
      [0, 8, 0],
    ] as const;
    const orders = {
      rgb1: [
        [3, 2, 1],
        [...red, ...green],
      ],
      rgb2: [
        [2, 3, 1],
        [9, 0, 0, 8, 0, 0],
      ],
      rgb3: [
        [2, 1, 3],
        [9, 0, 0, 8, 0, 0],
      ],
    } as const;
    for (const [order, [sizes, elements]] of Object.entries(orders)) {
      const picture = pictureOf(
        image(sizes, "ubyteValue", Uint8Array.from(elements)),
        null,
        undefined,
      );
      expect(picture).toMatchObject({ width: 2, height: 1, order });
      const rgba = new Uint8ClampedArray(8);
      if (picture !== undefined) paint(picture, [0, 255], "grey", rgba);
      expect([...rgba]).toEqual([...red, 255, ...green, 255]);
    }
    expect(pictureOf(null, Uint8Array.of(1, 2, 3, 4), 2)).toMatchObject({ width: 2, height: 2 });
    expect(pictureOf(null, Uint8Array.of(1), undefined)).toBeUndefined();
    expect(rangeOf(Int16Array.of(3, -5, 2))).toEqual([-5, 3]);
  });

  it("gives images of cameras the colours of their numbers", () => {
    const levels = [7, 0, 255, 128, 20, 200];
    const cameras = [
      Uint8Array.from(levels),
      Uint16Array.from(levels),
      Uint16Array.from(levels, (level) => 257 * level),
    ];
    for (const elements of cameras) {
      const painted = [elements, Float64Array.from(elements)].map((elements) => {
        const rgba = new Uint8ClampedArray(24);
        const picture: Picture = { width: 6, height: 1, order: "mono", elements };
        paint(picture, [10, rangeOf(elements)[1]], "viridis", rgba);
        return [...rgba];
      });
      expect(painted[0]).toEqual(painted[1]);
      expect(rangeOf(elements)).toEqual([0, Math.max(...elements)]);
    }
    expect(rangeOf(new Uint16Array())).toEqual([0, 1]);
  });
});

eachWithWidgetPage();

describe("a meter", () => {
  const LIMITS = {
    displayRange: { min: 0, max: 100 },
    warningRange: { min: 10, max: 80 },
    alarmRange: { min: 5, max: 120 },
  };

  it("paints the range that the value is in, and not that at the other end", async () => {
    relay.set("M", { ...LIMITS, value: 50, units: "bar" });
    show(<Meter name="M" />);
    const painted = (): string[] => {
      const line = getComputedStyle(widget().querySelector(".pvwire-widget-body") as Element);
      return [...page.querySelectorAll<HTMLElement>(".pvwire-gauge-band")]
        .filter((band) => getComputedStyle(band).backgroundColor === line.borderTopColor)
        .filter((band) => band.getBoundingClientRect().width > 1)
        .map((band) => `${band.dataset.side ?? ""} ${band.className.split("-").at(-1) ?? ""}`);
    };
    for (const [value, severity, wanted] of [
      [50, "NO_ALARM", []],
      [90, "MINOR", ["high warning"]],
      [110, "MINOR", ["high warning"]],
      [150, "MAJOR", ["high alarm"]],
      [3, "MAJOR", ["low alarm"]],
      [-20, "MAJOR", ["low alarm"]],
      [50, "MAJOR", []],
    ] as const) {
      relay.set("M", { value, severity });
      await until(() => {
        expect(part("value")).toContain(String(value));
        expect(painted(), String(value)).toEqual(wanted);
      });
    }
    relay.set("M", { value: 150 });
    await until(() => {
      expect(page.querySelector(".pvwire-scale-ends")?.textContent).toBe("0100 bar ▸");
    });
  });
});

describe("a colour bar", () => {
  it("has the numbers themselves at its ends", async () => {
    relay.set("DEEP", { value: image([2, 1], "ushortValue", Uint16Array.of(12345, 65535)) });
    show(<ImageView name="DEEP" />);
    await until(() => {
      expect(page.querySelector(".pvwire-colour-bar")?.textContent).toBe("6553512345");
    });
  });
});
