/** The result of a selection has the type that its text says. */

import { expectTypeOf, it } from "vitest";

import type { PvData, PvStructure, Severity } from "../ts/index.js";
import type { Selected, usePv } from "../ts/react/index.js";

it("has fields, objects that may be missing, and arguments", () => {
  expectTypeOf<
    Selected<"{ value { string(units: true) number } status { severity } }">
  >().toEqualTypeOf<{
    readonly value: { readonly string: string; readonly number: number | null } | null;
    readonly status: { readonly severity: Severity | null };
  }>();
});

it("has ranges, lists and structures however it is laid out", () => {
  expectTypeOf<
    Selected<`{
      display { units, choices warningRange { min max } }
      value{structure}
      connection { state connected }
    }`>["display"]
  >().toEqualTypeOf<{
    readonly units: string;
    readonly choices: readonly string[] | null;
    readonly warningRange: { readonly min: number | null; readonly max: number | null } | null;
  } | null>();
  expectTypeOf<NonNullable<Selected<"{ value{structure} }">["value"]>>().toEqualTypeOf<{
    readonly structure: PvStructure | null;
  }>();
});

it("has aliases under their own names", () => {
  expectTypeOf<
    Selected<"{ value { shown: string(units: true) plain : string } __typename }">
  >().toEqualTypeOf<{
    readonly value: { readonly shown: string; readonly plain: string } | null;
    readonly __typename: string;
  }>();
});

it("is PvData for a dynamic text, unknown for an unsupported one", () => {
  expectTypeOf<Selected<string>>().toEqualTypeOf<PvData>();
  expectTypeOf<Selected<"{ ...Mine }">>().toEqualTypeOf<unknown>();
  expectTypeOf<Selected<"{ value { nonsense } }">>().toEqualTypeOf<{
    readonly value: { readonly nonsense: unknown } | null;
  }>();
});

it("is what the hooks give, unless they are told", () => {
  const use = (hook: typeof usePv): void => {
    expectTypeOf(hook("A")).toEqualTypeOf<PvData | undefined>();
    expectTypeOf(hook("A", "{ id }")).toEqualTypeOf<{ readonly id: string } | undefined>();
    expectTypeOf(hook<{ own: 1 }>("A", "{ id }")).toEqualTypeOf<{ own: 1 } | undefined>();
  };
  expectTypeOf(use).toBeFunction();
});
