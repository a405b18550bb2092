/** `JSON.stringify` of values with 64-bit integers, which it refuses: they become their digits. */

/** For `JSON.stringify`. */
export const inJson = (_: string, value: unknown): unknown =>
  typeof value === "bigint" ? String(value) : value;

/** The prototype of objects that may contain 64-bit integers. */
export const WRITABLE = {
  toJSON(): unknown {
    return JSON.parse(JSON.stringify({ ...this }, inJson));
  },
};

/** Makes an object one that may contain 64-bit integers. */
export const writable = <T extends object>(object: T): T =>
  Object.setPrototypeOf(object, WRITABLE) as T;
