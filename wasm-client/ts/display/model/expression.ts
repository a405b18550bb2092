/**
 * The expressions of rules, compiled once to functions. Operators bind as Phoebus's do: it runs
 * rules as Python, so that `&` binds closer than `==`, and `!` looser.
 */

/** Integers are `bigint`, so that bits and division are exact. */
export type ExpressionValue = number | bigint | string | boolean;

/** The value of a variable such as `pv0` or `pvStr1`. @throws Error without a value now */
export type Variables = (name: string) => ExpressionValue;

/** @throws Error when the expression can't be evaluated with these values. */
export type Compiled = (variables: Variables) => ExpressionValue;

const MAX_TOKENS = 2000;
const MAX_DEPTH = 64;

const TOKEN =
  /\s*(?:(0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_$][\w$.]*)|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(<<|>>|===|!==|==|!=|<>|<=|>=|&&|\|\||\*\*|\/\/|[-+*/%&|^~!<>=?:(),.[\]]))/y;

interface Token {
  readonly kind: "number" | "name" | "text" | "sign" | "end";
  readonly text: string;
}

/** @throws Error that says what isn't understood. */
export function compile(text: string): Compiled {
  const parser = new Parser(tokensOf(text));
  return parser.all();
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  const trimmed = text.trimEnd();
  while (TOKEN.lastIndex < trimmed.length) {
    const at = TOKEN.lastIndex;
    const found = TOKEN.exec(trimmed);
    if (found === null) throw new Error(`"${trimmed.slice(at, at + 20)}" isn't understood`);
    const [, number, name, double, single, sign] = found;
    const quoted = double ?? single;
    if (number !== undefined) tokens.push({ kind: "number", text: number });
    else if (name !== undefined) tokens.push({ kind: "name", text: name });
    else if (quoted !== undefined) tokens.push({ kind: "text", text: unescaped(quoted) });
    else tokens.push({ kind: "sign", text: sign ?? "" });
    if (tokens.length > MAX_TOKENS) throw new Error("the expression is too long");
  }
  tokens.push({ kind: "end", text: "the end" });
  return tokens;
}

const unescaped = (text: string): string =>
  text.replace(/\\(.)/g, (_, sign: string) => ({ n: "\n", t: "\t" })[sign] ?? sign);

/** Two-sided operators from the loosest on, below `and`, `or`, `not` and comparisons. */
const LEVELS: readonly (readonly string[])[] = [
  ["|"],
  ["^"],
  ["&"],
  ["<<", ">>"],
  ["+", "-"],
  ["*", "/", "%", "//"],
];

/** Signs that are a comparison, by the one that they are evaluated as. */
const COMPARISONS: Readonly<Record<string, string>> = {
  "==": "==",
  "===": "==",
  "=": "==",
  "!=": "!=",
  "!==": "!=",
  "<>": "!=",
  "<": "<",
  ">": ">",
  "<=": "<=",
  ">=": ">=",
};

class Parser {
  #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  all(): Compiled {
    const whole = this.#conditional();
    if (this.#next.kind !== "end") throw new Error(`"${this.#next.text}" isn't expected`);
    return whole;
  }

  get #next(): Token {
    return this.#tokens[this.#at] ?? { kind: "end", text: "the end" };
  }

  #take(...texts: string[]): string | undefined {
    const { kind, text } = this.#next;
    if ((kind !== "sign" && kind !== "name") || !texts.includes(text)) return undefined;
    this.#at += 1;
    return text;
  }

  #expect(text: string): void {
    if (this.#take(text) === undefined) {
      throw new Error(`"${text}" is expected, not "${this.#next.text}"`);
    }
  }

  /** `a ? b : c`, and `b if a else c`. */
  #conditional(): Compiled {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw new Error("the expression has too many brackets");
    const first = this.#or();
    let all = first;
    if (this.#take("?") !== undefined) {
      const yes = this.#conditional();
      this.#expect(":");
      const no = this.#conditional();
      all = (values) => (isTrue(first(values)) ? yes(values) : no(values));
    } else if (this.#take("if") !== undefined) {
      const test = this.#or();
      this.#expect("else");
      const no = this.#conditional();
      all = (values) => (isTrue(test(values)) ? first(values) : no(values));
    }
    this.#depth -= 1;
    return all;
  }

  #or(): Compiled {
    let left = this.#and();
    while (this.#take("||", "or") !== undefined) {
      const [before, right] = [left, this.#and()];
      left = (values) => {
        const value = before(values);
        return isTrue(value) ? value : right(values);
      };
    }
    return left;
  }

  #and(): Compiled {
    let left = this.#not();
    while (this.#take("&&", "and") !== undefined) {
      const [before, right] = [left, this.#not()];
      left = (values) => {
        const value = before(values);
        return isTrue(value) ? right(values) : value;
      };
    }
    return left;
  }

  #not(): Compiled {
    let isNegated = false;
    let isBoolean = false;
    while (this.#take("!", "not") !== undefined) {
      isNegated = !isNegated;
      isBoolean = true;
    }
    const inner = this.#comparison();
    return isBoolean ? (values) => isTrue(inner(values)) !== isNegated : inner;
  }

  #comparison(): Compiled {
    const operands = [this.#binary(0)];
    const signs: string[] = [];
    const isIn = this.#in();
    if (isIn !== undefined) return this.#membership(operands[0] as Compiled, isIn);
    for (;;) {
      const sign = this.#take(...Object.keys(COMPARISONS));
      if (sign === undefined) break;
      signs.push(COMPARISONS[sign] ?? sign);
      operands.push(this.#binary(0));
    }
    const [only] = operands as [Compiled];
    if (signs.length === 0) return only;
    // `1 < pv0 < 3` compares twice.
    return (values) => {
      let left = only(values);
      return signs.every((sign, at) => {
        const right = (operands[at + 1] as Compiled)(values);
        const holds = compare(sign, left, right);
        left = right;
        return holds;
      });
    };
  }

  /** Whether `in` (true) or `not in` (false) follows. */
  #in(): boolean | undefined {
    if (this.#take("in") !== undefined) return true;
    if (this.#next.text !== "not" || this.#tokens[this.#at + 1]?.text !== "in") return undefined;
    this.#at += 2;
    return false;
  }

  /** `"x" in pvStr0`, and `pv0 in (1, 2)`. */
  #membership(value: Compiled, isIn: boolean): Compiled {
    const items = this.#take("[") === undefined ? this.#tuple() : this.#list("]");
    if (items !== undefined) {
      return (values) => {
        const own = value(values);
        return items.some((item) => compare("==", own, item(values))) === isIn;
      };
    }
    const whole = this.#binary(0);
    return (values) => textOf(whole(values)).includes(textOf(value(values))) === isIn;
  }

  /** Values between commas, until the closing bracket. */
  #list(close: string): Compiled[] {
    const items: Compiled[] = [];
    while (this.#take(close) === undefined) {
      if (items.length > 0) this.#expect(",");
      if (items.length > 0 && this.#take(close) !== undefined) break;
      items.push(this.#conditional());
    }
    return items;
  }

  #binary(level: number): Compiled {
    const signs = LEVELS[level];
    if (signs === undefined) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const sign = this.#take(...signs);
      if (sign === undefined) return left;
      const before = left;
      const inputs = sign === "%" ? this.#tuple() : undefined;
      if (inputs !== undefined) {
        left = (values) =>
          filled(
            textOf(before(values)),
            inputs.map((input) => input(values)),
          );
        continue;
      }
      const right = this.#binary(level + 1);
      left = (values) => calculate(sign, before(values), right(values));
    }
  }

  /** Several values in brackets, or none; `undefined` before anything else. */
  #tuple(): Compiled[] | undefined {
    const open = this.#at;
    if (this.#take("(") !== undefined) {
      const items = this.#list(")");
      const isTuple = items.length !== 1 || this.#tokens[this.#at - 2]?.text === ",";
      if (isTuple) return items;
    }
    this.#at = open;
    return undefined;
  }

  #unary(): Compiled {
    const sign = this.#take("-", "+", "~", "!");
    if (sign === undefined) return this.#power();
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw new Error("the expression has too many signs");
    const inner = this.#unary();
    this.#depth -= 1;
    if (sign === "!") return (values) => !isTrue(inner(values));
    if (sign === "~") return (values) => ~integer(inner(values));
    return (values) => {
      const value = numeric(inner(values));
      return sign === "-" ? -value : value;
    };
  }

  #power(): Compiled {
    const base = this.#postfix(this.#primary());
    if (this.#take("**") === undefined) return base;
    const exponent = this.#unary();
    return (values) => Number(numeric(base(values))) ** Number(numeric(exponent(values)));
  }

  /** Methods of a text, and one of its characters. */
  #postfix(start: Compiled): Compiled {
    let of = start;
    for (;;) {
      const before = of;
      if (this.#take(".") !== undefined) {
        const { kind, text } = this.#next;
        if (kind !== "name") throw new Error(`"${text}" isn't the name of a method`);
        this.#at += 1;
        of = this.#method(before, text);
      } else if (this.#take("[") !== undefined) {
        const index = this.#conditional();
        this.#expect("]");
        of = (values) => {
          const character = textOf(before(values)).at(Number(integer(index(values))));
          if (character === undefined) throw new Error("the text is shorter");
          return character;
        };
      } else return of;
    }
  }

  #method(of: Compiled, name: string): Compiled {
    const method = METHODS.get(name.toLowerCase());
    if (method === undefined) throw new Error(`the method "${name}" isn't known`);
    if (name === "length" && this.#next.text !== "(") return (values) => method(textOf(of(values)));
    this.#expect("(");
    const inputs = this.#list(")");
    return (values) => method(textOf(of(values)), ...inputs.map((input) => input(values)));
  }

  #primary(): Compiled {
    const { kind, text } = this.#next;
    if (this.#take("(") !== undefined) {
      const inner = this.#conditional();
      this.#expect(")");
      return inner;
    }
    this.#at += 1;
    if (kind === "text") return () => text;
    if (kind === "number") {
      const isInteger = /^(?:0[xX].*|\d+)$/.test(text);
      const value = isInteger ? BigInt(text) : Number(text);
      return () => value;
    }
    if (kind !== "name") throw new Error(`"${text}" isn't expected`);
    return this.#name(text);
  }

  #name(text: string): Compiled {
    if (/^true$/i.test(text)) return () => true;
    if (/^(?:false|none|null)$/i.test(text)) return () => false;
    const [, variable, method] = /^(pv(?:Int|Str|Sev|LegacySev)?\d+)\.(.+)$/.exec(text) ?? [];
    if (variable !== undefined && method !== undefined) {
      return this.#method((values) => values(variable), method);
    }
    if (this.#take("(") === undefined) {
      if (!/^pv(?:Int|Str|Sev|LegacySev)?\d+$/.test(text)) {
        const constant = CONSTANTS.get(text.toLowerCase());
        if (constant === undefined) throw new Error(`"${text}" isn't known`);
        return () => constant;
      }
      return (values) => values(text);
    }
    const inputs = this.#list(")");
    const property = /^widget\.(?:getPropertyValue|getName)$/.exec(text)?.[0];
    if (property !== undefined) {
      return (values) =>
        values(`widget.${property.endsWith("Name") ? "name" : String(inputs[0]?.(values))}`);
    }
    const called = FUNCTIONS.get(text.replace(/^math\./i, "").toLowerCase());
    if (called === undefined) throw new Error(`the function "${text}" isn't known`);
    return (values) => called(...inputs.map((input) => input(values)));
  }
}

type Called = (...inputs: ExpressionValue[]) => ExpressionValue;

const ofNumbers =
  (work: (...numbers: number[]) => number): Called =>
  (...inputs) =>
    work(...inputs.map((input) => Number(numeric(input))));

const CONSTANTS: ReadonlyMap<string, number> = new Map([
  ["math.pi", Math.PI],
  ["math.e", Math.E],
]);

const FUNCTIONS: ReadonlyMap<string, Called> = new Map(
  Object.entries<Called>({
    abs: (value = 0) => {
      const number = numeric(value);
      return number < 0 ? -number : number;
    },
    ceil: ofNumbers(Math.ceil),
    cos: ofNumbers(Math.cos),
    exp: ofNumbers(Math.exp),
    float: ofNumbers((number) => number),
    floor: ofNumbers(Math.floor),
    int: (value = 0) => (typeof value === "string" ? BigInt(value.trim()) : truncated(value)),
    len: (value = "") => BigInt(String(value).length),
    log: ofNumbers(Math.log),
    log10: ofNumbers(Math.log10),
    long: (value = 0) => truncated(value),
    max: ofNumbers(Math.max),
    min: ofNumbers(Math.min),
    pow: ofNumbers(Math.pow),
    round: ofNumbers((number, digits = 0) => Number(number.toFixed(Math.max(0, digits)))),
    sin: ofNumbers(Math.sin),
    sqrt: ofNumbers(Math.sqrt),
    str: (value = "") => stringOf(value),
    tan: ofNumbers(Math.tan),
  }),
);

type Method = (text: string, ...inputs: ExpressionValue[]) => ExpressionValue;

const count = (text: string, part: string): number =>
  part === "" ? text.length + 1 : text.split(part).length - 1;

/** Methods of texts, in small letters, by their names in Python, Java and JavaScript. */
const METHODS: ReadonlyMap<string, Method> = new Map(
  Object.entries<Method>({
    charat: (text, at = 0n) => text.charAt(Number(integer(at))),
    contains: (text, part = "") => text.includes(textOf(part)),
    count: (text, part = "") => BigInt(count(text, textOf(part))),
    endswith: (text, part = "") => text.endsWith(textOf(part)),
    equals: (text, other = "") => text === other,
    equalsignorecase: (text, other = "") => text.toLowerCase() === textOf(other).toLowerCase(),
    find: (text, part = "") => BigInt(text.indexOf(textOf(part))),
    includes: (text, part = "") => text.includes(textOf(part)),
    indexof: (text, part = "") => BigInt(text.indexOf(textOf(part))),
    isdigit: (text) => /^\d+$/.test(text),
    isempty: (text) => text === "",
    lastindexof: (text, part = "") => BigInt(text.lastIndexOf(textOf(part))),
    length: (text) => BigInt(text.length),
    lower: (text) => text.toLowerCase(),
    replace: (text, part = "", other = "") => text.replaceAll(textOf(part), () => textOf(other)),
    rfind: (text, part = "") => BigInt(text.lastIndexOf(textOf(part))),
    startswith: (text, part = "") => text.startsWith(textOf(part)),
    strip: (text) => text.trim(),
    substring: (text, from = 0n, to = BigInt(text.length)) =>
      text.substring(Number(integer(from)), Number(integer(to))),
    tolowercase: (text) => text.toLowerCase(),
    touppercase: (text) => text.toUpperCase(),
    trim: (text) => text.trim(),
    upper: (text) => text.toUpperCase(),
  }),
);

function textOf(value: ExpressionValue): string {
  if (typeof value !== "string") throw new Error("a number has no methods of a text");
  return value;
}

/** Whether a value counts as true: a number but 0, a text but the empty one. */
export function isTrue(value: ExpressionValue): boolean {
  return typeof value === "number" ? value !== 0 : Boolean(value);
}

function numeric(value: ExpressionValue): number | bigint {
  if (typeof value === "boolean") return value ? 1n : 0n;
  if (typeof value === "string") throw new Error(`"${value}" isn't a number`);
  return value;
}

function truncated(value: ExpressionValue): bigint {
  const number = numeric(value);
  if (typeof number === "bigint") return number;
  if (!Number.isFinite(number)) throw new Error("the number has no integer");
  return BigInt(Math.trunc(number));
}

function integer(value: ExpressionValue): bigint {
  const number = numeric(value);
  if (typeof number === "number" && !Number.isInteger(number)) {
    throw new Error(`${String(number)} isn't an integer`);
  }
  return BigInt(number);
}

function compare(sign: string, left: ExpressionValue, right: ExpressionValue): boolean {
  if ((typeof left === "string") !== (typeof right === "string")) {
    // A text never equals a number.
    if (sign === "==" || sign === "!=") return sign === "!=";
    throw new Error("a text and a number have no order");
  }
  const [one, other] =
    typeof left === "string" || typeof right === "string"
      ? [String(left), String(right)]
      : [numeric(left), numeric(right)];
  switch (sign) {
    case "==":
      return one == other;
    case "!=":
      return one != other;
    case "<":
      return one < other;
    case ">":
      return one > other;
    case "<=":
      return one <= other;
    default:
      return one >= other;
  }
}

/** Shifts beyond this make numbers that no PV has. */
const MAX_SHIFT = 128n;

/** A value as Python's `str` writes it. */
function stringOf(value: ExpressionValue): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return String(value).replace("Infinity", "inf").toLowerCase();
  const text = generalOf(value, 12);
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

const exponentOf = (value: number, digits: number): string =>
  value
    .toExponential(digits)
    .replace(/([-+])(\d)$/, (_, sign: string, digit: string) => `${sign}0${digit}`);

/** The shorter of a decimal number and one with an exponent, without zeros at its end. */
function generalOf(value: number, digits: number): string {
  const [mantissa = "", exponent = "0"] = exponentOf(value, digits - 1).split("e");
  const isPlain = Number(exponent) >= -4 && Number(exponent) < digits;
  const text = isPlain ? value.toFixed(digits - 1 - Number(exponent)) : mantissa;
  const short = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return isPlain ? short : `${short}e${exponent}`;
}

const FIELD = /%([-+ 0#]*)(\d*)(?:\.(\d*))?[hlL]?(.)/gs;

/** A text with values in place of its fields, as Python's `%` does it. */
function filled(pattern: string, inputs: readonly ExpressionValue[]): string {
  let at = 0;
  const text = pattern.replace(
    FIELD,
    (_, flags: string, width: string, digits: string | undefined, kind: string) => {
      if (kind === "%") return "%";
      const input = inputs[at];
      at += 1;
      if (input === undefined) throw new Error("the text has more fields than values");
      const size = Math.min(200, Number(width));
      const limit = digits === undefined ? undefined : Math.min(50, Number(digits));
      if (kind === "s" || kind === "c") {
        const whole = stringOf(input).slice(0, limit);
        return flags.includes("-") ? whole.padEnd(size) : whole.padStart(size);
      }
      const body = digitsOf(kind, numeric(input), limit, flags.includes("#"));
      const plus = /[+ ]/.exec(flags.includes("+") ? "+" : flags)?.[0] ?? "";
      const sign = body.startsWith("-") ? "-" : plus;
      const rest = body.replace(/^-/, "");
      if (flags.includes("-")) return (sign + rest).padEnd(size);
      return flags.includes("0")
        ? sign + rest.padStart(size - sign.length, "0")
        : (sign + rest).padStart(size);
    },
  );
  if (at < inputs.length) throw new Error("the text has fewer fields than values");
  return text;
}

const BASES: Readonly<Record<string, readonly [base: number, mark: string]>> = {
  x: [16, "0x"],
  o: [8, "0"],
};

function digitsOf(
  kind: string,
  value: number | bigint,
  digits: number | undefined,
  isMarked: boolean,
): string {
  const small = kind.toLowerCase();
  const inCase = (text: string): string => (kind === small ? text : text.toUpperCase());
  if ("diuxo".includes(small)) {
    const whole = truncated(value);
    const [base, mark] = BASES[small] ?? [10, ""];
    const text = (whole < 0n ? -whole : whole).toString(base).padStart(digits ?? 0, "0");
    return inCase(`${whole < 0n ? "-" : ""}${isMarked ? mark : ""}${text}`);
  }
  const number = Number(value);
  if (!"efg".includes(small)) throw new Error(`"%${kind}" isn't a field of a text`);
  if (!Number.isFinite(number)) return inCase(stringOf(number));
  if (small === "f") return Math.abs(number) < 1e21 ? number.toFixed(digits ?? 6) : String(number);
  return inCase(
    small === "e" ? exponentOf(number, digits ?? 6) : generalOf(number, Math.max(1, digits ?? 6)),
  );
}

function calculate(sign: string, left: ExpressionValue, right: ExpressionValue): ExpressionValue {
  if (sign === "%" && typeof left === "string") return filled(left, [right]);
  if (sign === "+" && typeof left === "string" && typeof right === "string") return left + right;
  if ("|&^<<>>".includes(sign)) return bits(sign, integer(left), integer(right));
  const [one, other] = [numeric(left), numeric(right)];
  if ("/%//".includes(sign) && Number(other) === 0) throw new Error("division by 0");
  if (typeof one === "bigint" && typeof other === "bigint") {
    return ofIntegers(sign, one, other);
  }
  const [x, y] = [Number(one), Number(other)];
  switch (sign) {
    case "+":
      return x + y;
    case "-":
      return x - y;
    case "*":
      return x * y;
    case "/":
      return x / y;
    case "//":
      return Math.floor(x / y);
    default:
      return x - y * Math.floor(x / y);
  }
}

function ofIntegers(sign: string, one: bigint, other: bigint): bigint {
  if (sign === "+") return one + other;
  if (sign === "-") return one - other;
  if (sign === "*") return one * other;
  // Rounds down, as the remainder has the divisor's sign.
  const rest = ((one % other) + other) % other;
  return sign === "%" ? rest : (one - rest) / other;
}

function bits(sign: string, one: bigint, other: bigint): bigint {
  if (sign === "|") return one | other;
  if (sign === "&") return one & other;
  if (sign === "^") return one ^ other;
  if (other < 0n || other > MAX_SHIFT) throw new Error("a shift of more than 128 bits");
  return sign === "<<" ? one << other : one >> other;
}
