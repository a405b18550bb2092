/** Numbers as the axes and the list of a plot have them: as wide as needed, and distinct. */

/** Labels with more digits than this have an exponent if that is shorter. */
const PLAIN_DIGITS = 8;

/** Beyond this size not all integers are doubles. */
const LARGEST_PLAIN = 1e15;
const LEAST_PLAIN = 1e-4;

const exponentOf = (number: number): number => {
  const [, exponent = "0"] = number.toExponential().split("e");
  return Number(exponent);
};

/** Decimals of a step between ticks; below 0 for a step of tens or more. */
function decimalsOf(step: number): number {
  const [mantissa = "", exponent = "0"] = Number(step.toPrecision(12)).toExponential().split("e");
  return Math.max(0, mantissa.length - 2) - Number(exponent);
}

/** The labels of ticks, which are multiples of a step: all its digits are shown. */
export function tickTexts(ticks: readonly (number | null)[], step: number): string[] {
  const decimals = decimalsOf(step);
  const textsOf = (textOf: (number: number) => string): string[] =>
    ticks.map((tick) => (tick === null ? "" : tick === 0 ? "0" : textOf(tick)));
  const longest = (texts: readonly string[]): number =>
    Math.max(0, ...texts.map((text) => text.length));
  const plain = textsOf((tick) => tick.toFixed(Math.min(100, Math.max(0, decimals))));
  const scientific = textsOf((tick) =>
    tick.toExponential(Math.min(16, Math.max(0, exponentOf(tick) + decimals))),
  );
  const isLong = longest(plain) > PLAIN_DIGITS && longest(scientific) < longest(plain);
  return isLong ? scientific : plain;
}

/** A label of a logarithmic axis. */
export function logText(tick: number): string {
  const number = Number(tick.toPrecision(7));
  return number >= 1e7 || number < LEAST_PLAIN ? number.toExponential() : String(number);
}

/** A number with the digits that it takes to tell it from others within `spread`, at least seven. */
export function numberText(number: number, spread = 0): string {
  if (number === 0) return "0";
  const size = Math.abs(number);
  const isPlain = size < LARGEST_PLAIN && size >= LEAST_PLAIN;
  if (isPlain && Number.isInteger(number)) return String(number);
  const whole = isPlain ? exponentOf(size) + 1 : 0;
  const needed = spread > 0 ? Math.ceil(Math.log10(size / spread)) + 4 : 0;
  const rounded = Number(number.toPrecision(Math.min(17, Math.max(7, whole, needed))));
  return isPlain ? String(rounded) : rounded.toExponential();
}
