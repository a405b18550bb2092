/** Images packed by real encoders are decoded exactly; damaged ones are refused. */

import { describe, expect, it } from "vitest";

import type { PvStructure } from "../ts/index.js";
import { decodeImage } from "../ts/widgets/codec.js";
import images from "./images.json";

const { height, width } = images;

type Packed = (typeof images.images)[number];

const ARRAYS = { 8: Uint8Array, 16: Uint16Array, 32: Uint32Array } as const;

/** By pvData's ScalarType. */
const TYPES = { 8: 5, 16: 6, 32: 7 } as const;

const bitsOf = ({ bits }: Packed): keyof typeof ARRAYS => bits as keyof typeof ARRAYS;

const bytesOf = ({ bytes }: Packed): Uint8Array =>
  Uint8Array.from(atob(bytes), (character) => character.charCodeAt(0));

/** As images.json says that they are. */
const PIXELS = Array.from({ length: width * height }, (_, n) => {
  const [x, y] = [n % width, Math.floor(n / width)];
  return (x >> 3) * 3 + (y >> 2) * 5 + (n % 97 === 0 ? 200 : 0);
});

function structureOf(packed: Packed, bytes = bytesOf(packed)): PvStructure {
  return {
    value: { selected: "ubyteValue", value: Uint8Array.from([...bytes, 9, 9, 9]) },
    codec: { name: packed.codec, parameters: TYPES[bitsOf(packed)] },
    compressedSize: BigInt(bytes.length),
    uncompressedSize: BigInt((width * height * packed.bits) / 8),
    dimension: [{ size: width }, { size: height }],
    attribute: [],
  };
}

describe.each(images.images.map((packed) => [packed.codec, packed.how, packed] as const))(
  "%s, %s",
  (codec, _, packed) => {
    it("gives the pixels that were packed", async () => {
      const picture = await decodeImage(structureOf(packed));
      expect(picture).toMatchObject({ width, height, order: "mono" });
      expect(picture.elements).toBeInstanceOf(ARRAYS[bitsOf(packed)]);
      expect(Array.from(picture.elements as Uint8Array)).toEqual(
        PIXELS.map((pixel) => pixel % 2 ** packed.bits),
      );
    });

    it("is refused when its bytes are cut or claim too much", async () => {
      const bytes = bytesOf(packed);
      const damaged = `The image's ${codec} bytes are damaged`;
      for (const length of [0, 3, 13, bytes.length - 1]) {
        const cut = structureOf(packed, bytes.subarray(0, length));
        // Of no bytes it doesn't say how many they are.
        await expect(decodeImage(cut)).rejects.toThrow(length === 0 ? /./ : damaged);
      }
      const claims = (uncompressedSize: bigint): PvStructure => ({
        ...structureOf(packed),
        uncompressedSize,
      });
      await expect(decodeImage(claims(2n ** 40n))).rejects.toThrow("too many to decode");
      await expect(decodeImage(claims(2n ** 28n))).rejects.toThrow(damaged);
    });
  },
);
