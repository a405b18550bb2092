/** The result of a selection has the type that its text says. */

import { expectTypeOf, it } from "vitest";

import type { PvData, PvStructure, Severity } from "../ts/index.js";
import type { Selected, usePv, usePvs, usePvSelector } from "../ts/react/index.js";
import type { Checked } from "../ts/react/selected.js";

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

it("is an error that names the field that is wrong", () => {
  expectTypeOf<Checked<"{ nonsense }">>().toEqualTypeOf<"there is no field nonsense">();
  expectTypeOf<Checked<"{ value { strng } }">>().toEqualTypeOf<"there is no field strng">();
  expectTypeOf<
    Checked<"{ status { severity } shown: value { text plain: strng } time { seconds } }">
  >().toEqualTypeOf<"there is no field strng">();
  expectTypeOf<
    Checked<"{ value { base64Array(length: 1) { base64 } } }">
  >().toEqualTypeOf<"the field base64Array is answered by pvwire/graphql only">();
  expectTypeOf<Checked<"{ value }">>().toEqualTypeOf<"the field value needs fields: value { … }">();
  expectTypeOf<Checked<"{ id { name } }">>().toEqualTypeOf<"the field id has no fields">();
  expectTypeOf<Checked<"{ id __typename }">>().toEqualTypeOf<"{ id __typename }">();
  expectTypeOf<Checked<"{ ...Mine }">>().toEqualTypeOf<"{ ...Mine }">();
  expectTypeOf<
    Checked<"{ value { structure array } }">
  >().toEqualTypeOf<"{ value { structure array } }">();
  expectTypeOf<Checked<string>>().toEqualTypeOf<string>();
});

it("is refused by each hook if it is wrong", () => {
  const use = (one: typeof usePv, many: typeof usePvs, derive: typeof usePvSelector): void => {
    // @ts-expect-error -- there is no such field
    one("A", "{ value { strng } }");
    // @ts-expect-error -- there is no such field
    many(["A"], "{ display { unit } }");
    // @ts-expect-error -- there is no such field
    derive("A", "{ value { strng } }", () => 0);
    // @ts-expect-error -- there is no such field
    derive(["A"], "{ value { strng } }", () => 0);
    one(undefined, "{ value { string } }");
    many(["A", undefined], "{ value { string } }");
    one<{ own: 1 }>("A", "{ ...Mine }");
  };
  expectTypeOf(use).toBeFunction();
});
