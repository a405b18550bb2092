/** All fields of a structure, as a tree. */

import { useState, type ReactNode } from "react";
import { t, type PvField, type PvStructure } from "pvwire";
import { usePv, usePvs } from "pvwire/react";

/** The fields of large structures, such as images, change often and are read by people slowly. */
const OPTIONS = { rateHz: 2, maxLength: 100 } as const;
const MAX_ELEMENTS = 100;

interface PvTreeProps {
  readonly name: string;
  /** The value is the whole structure, and not one of its fields. */
  readonly isWhole: boolean;
}

export default function PvTree({ isWhole, name }: PvTreeProps): ReactNode {
  if (isWhole) return <Whole name={name} />;
  const plain = name.replace(/^pva:\/\//, "");
  return plain.includes("://") ? null : <Parts id={`pva://${plain}`} />;
}

/** The fields of the normative types that have a value, as EPICS names them. */
const PARTS = ["value", "alarm", "timeStamp", "display", "control", "valueAlarm", "descriptor"];

interface PartData {
  readonly value: { readonly string: string; readonly structure: PvStructure | null } | null;
}

/** The structure around a value. Its parts are read as fields, while they are shown. */
function Parts({ id }: { readonly id: string }) {
  const [isOpen, setOpen] = useState(false);
  const names = isOpen ? PARTS.map((part) => `${id}/${part}`) : [];
  const pvs = usePvs<PartData>(names, "{ value { string structure } }", OPTIONS);
  const fields = PARTS.flatMap((part, at) => {
    const value = pvs[at]?.value;
    return value == null ? [] : [[part, value.structure ?? value.string] as const];
  });
  return (
    <details
      className="panel pv-tree"
      onToggle={({ currentTarget }) => {
        setOpen(currentTarget.open);
      }}
    >
      <summary>{t`Structure of pvAccess`}</summary>
      {fields.length === 0 ? (
        <p className="note">{t`No structure yet.`}</p>
      ) : (
        <Fields fields={fields} />
      )}
    </details>
  );
}

function Whole({ name }: { readonly name: string }) {
  const pv = usePv<{ readonly value: { readonly structure: PvStructure | null } | null }>(
    name,
    "{ value { structure } }",
    OPTIONS,
  );
  const structure = pv?.value?.structure;
  return (
    <section className="panel pv-tree" aria-labelledby="pv-tree">
      <h2 id="pv-tree">{t`Fields`}</h2>
      {structure == null ? (
        <p className="note">{t`No structure yet.`}</p>
      ) : (
        <Fields fields={Object.entries(structure)} />
      )}
    </section>
  );
}

function Fields({ fields }: { readonly fields: readonly (readonly [string, PvField])[] }) {
  return (
    <ul className="tree">
      {fields.map(([title, field]) => {
        const inside = insideOf(field);
        return (
          <li key={title}>
            {inside === undefined ? (
              <>
                <span className="field">{title}</span> <span>{textOf(field)}</span>
              </>
            ) : (
              <details open={inside.length <= 12}>
                <summary>{title}</summary>
                <Fields fields={inside} />
                {Array.isArray(field) && field.length > inside.length && (
                  <p className="note">
                    {t`The first ${inside.length} of ${field.length} elements.`}
                  </p>
                )}
              </details>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function insideOf(field: PvField): (readonly [string, PvField])[] | undefined {
  if (typeof field !== "object" || field === null || ArrayBuffer.isView(field)) return undefined;
  if (!Array.isArray(field)) return Object.entries(field as PvStructure);
  const elements = field as readonly PvField[];
  if (!elements.some((element) => typeof element === "object" && element !== null))
    return undefined;
  return elements.slice(0, MAX_ELEMENTS).map((element, at) => [String(at), element] as const);
}

function textOf(field: PvField): string {
  if (field === null) return "–";
  if (typeof field !== "object") return String(field);
  const elements = [...(field as ArrayLike<unknown> & Iterable<unknown>)];
  const shown = elements.slice(0, MAX_ELEMENTS).map(String).join(", ");
  const rest = elements.length > MAX_ELEMENTS ? ", …" : "";
  return t`${shown + rest} (${elements.length} elements)`;
}
