/** The fields of a PV's record, by its type. Fields that are links lead to their PVs. */

import { useEffect, useState, type ReactNode } from "react";
import { t, type PvClient, type PvValue } from "pvwire";
import { useClient } from "pvwire/react";

import { recordOf } from "./pasted";
import { elsewhere, hrefOf, type Route } from "./route";
import { dateText, zoneText } from "./times";

const COMMON =
  "DESC RTYP SCAN PINI PHAS EVNT PRIO DTYP ASG DISP DISA SDIS DISV DISS FLNK TSE TSEL STAT SEVR AMSG UDF PACT LCNT TPRO";

const ANALOG = "EGU PREC HOPR LOPR HIHI HIGH LOW LOLO HHSV HSV LSV LLSV HYST ADEL MDEL";
const WHOLE = "EGU HOPR LOPR HIHI HIGH LOW LOLO HHSV HSV LSV LLSV HYST ADEL MDEL";
const BINARY = "ZNAM ONAM ZSV OSV COSV";
const CHOICES = ["ZR", "ON", "TW", "TH", "FR", "FV", "SX", "SV", "EI", "NI", "TE", "EL"]
  .concat(["TV", "TT", "FT", "FF"])
  .flatMap((state) => [`${state}ST`, `${state}VL`, `${state}SV`])
  .join(" ");
const INPUT = "INP SIMM SIML SIOL SIMS";
const OUTPUT = "OUT OMSL DOL IVOA IVOV SIMM SIML SIOL SIMS";
const LETTERS = "ABCDEFGHIJKLMNOPQRSTU".split("");
const DIGITS = "0123456789ABCDEF".split("");
const CALC = `CALC ${LETTERS.map((letter) => `INP${letter} ${letter}`).join(" ")}`;

/** The fields that each type of record has besides those of all; those that an older EPICS lacks are left out. */
const OF_TYPE: Readonly<Record<string, string>> = {
  ai: `${INPUT} ${ANALOG} LINR EGUF EGUL ASLO AOFF SMOO RVAL ROFF`,
  ao: `${OUTPUT} ${ANALOG} DRVH DRVL LINR EGUF EGUL ASLO AOFF OROC OIF RVAL RBV`,
  bi: `${INPUT} ${BINARY} RVAL`,
  bo: `${OUTPUT} ${BINARY} HIGH RVAL RBV`,
  calc: `${CALC} ${ANALOG}`,
  calcout: `${CALC} OUT OCAL OOPT DOPT ODLY OEVT ${ANALOG}`,
  longin: `${INPUT} ${WHOLE}`,
  longout: `${OUTPUT} ${WHOLE} DRVH DRVL`,
  int64in: `${INPUT} ${WHOLE}`,
  int64out: `${OUTPUT} ${WHOLE} DRVH DRVL`,
  mbbi: `${INPUT} ${CHOICES} UNSV COSV RVAL`,
  mbbo: `${OUTPUT} ${CHOICES} UNSV COSV RVAL RBV`,
  stringin: INPUT,
  stringout: OUTPUT,
  waveform: "INP FTVL NELM NORD EGU PREC HOPR LOPR SIMM SIML SIOL SIMS",
  aai: "INP FTVL NELM NORD EGU PREC HOPR LOPR",
  aao: "OUT FTVL NELM NORD EGU PREC HOPR LOPR",
  lsi: "INP SIZV LEN SIMM SIML SIOL SIMS",
  lso: "OUT OMSL DOL IVOA IVOV SIZV LEN SIMM SIML SIOL SIMS",
  event: INPUT,
  compress: "INP ALG NSAM N NUSE EGU PREC HOPR LOPR",
  sub: `INAM SNAM ${LETTERS.map((letter) => `INP${letter} ${letter}`).join(" ")} ${ANALOG}`,
  aSub: `INAM SNAM SUBL EFLG BRSV ${LETTERS.map((letter) => `INP${letter} OUT${letter}`).join(" ")}`,
  fanout: `SELM SELN SELL OFFS SHFT ${DIGITS.map((digit) => `LNK${digit}`).join(" ")}`,
  dfanout: `SELM SELN SELL OMSL DOL ${LETTERS.map((letter) => `OUT${letter}`).join(" ")} ${ANALOG}`,
  seq: `SELM SELN SELL OFFS SHFT ${DIGITS.map((digit) => `DLY${digit} DOL${digit} LNK${digit}`).join(" ")}`,
};

const VALUE = "{ value { string(units: true) } }";
const TIMEOUT_MS = 3000;

interface FieldData {
  readonly value: Pick<PvValue, "string"> | null;
}

interface Field {
  readonly name: string;
  readonly pv: string;
  /** `undefined`: it could not be read. */
  readonly text: string | undefined;
  /** Why it could not be read. */
  readonly error: (Error & { readonly code?: string }) | undefined;
}

interface Read {
  readonly atMs: number;
  readonly fields: readonly Field[];
  /** Fields that the record has, and that could not be read. */
  readonly failed: readonly Field[];
}

/** The code for a field that a record doesn't have: a version of EPICS may lack some. */
const NO_FIELD = "NO_SUCH_FIELD";

async function readFields(client: PvClient, record: string): Promise<Read> {
  const read = async (names: readonly string[]): Promise<Field[]> => {
    const pvs = names.map((name) => `${record}.${name}`);
    const options = { selection: VALUE, timeoutMs: TIMEOUT_MS };
    const results = await client.get<FieldData>(pvs, options);
    return names.map((name, at) => {
      const result = results[at];
      const text = result?.ok === true ? result.data.value?.string : undefined;
      const error = result?.ok === false ? result.error : undefined;
      return { name, pv: pvs[at] ?? "", text, error };
    });
  };
  // Formulas, simulated PVs and those of the page.
  const none: Read = { atMs: Date.now(), fields: [], failed: [] };
  if (/^(?:=|(?!ca:|pva:)[a-z]+:\/\/)/.test(record)) return none;
  const [type] = await read(["RTYP"]);
  if (type?.error !== undefined && type.error.code !== NO_FIELD) throw type.error;
  if (type?.text === undefined) return none;
  const all = await read(
    [...COMMON.split(" "), ...(OF_TYPE[type.text] ?? "").split(" ")].filter(Boolean),
  );
  return {
    atMs: Date.now(),
    fields: all.filter(({ text }) => text !== undefined),
    failed: all.filter(({ error }) => error !== undefined && error.code !== NO_FIELD),
  };
}

/** The PV to which the text of a link leads. */
function targetOf({ name, text = "" }: Field): string | undefined {
  const isLink =
    /^(?:INP[A-U]?|OUT[A-U]?|DOL[\dA-F]?|FLNK|SDIS|TSEL|SIOL|SIML|SELL|SUBL|LNK[\dA-F])$/.test(
      name,
    );
  const [first = ""] = text.split(" ");
  const isName = isLink && /[A-Za-z]/.test(first) && !/^[@{["]/.test(first);
  return isName && !/^[-+]?\d/.test(first) ? first : undefined;
}

interface PvFieldsProps {
  readonly name: string;
  readonly route: Route;
}

export default function PvFields({ name, route }: PvFieldsProps): ReactNode {
  const client = useClient();
  const record = recordOf(name);
  const [found, setFound] = useState<Read | string>();
  const [count, setCount] = useState(0);
  useEffect(() => {
    let isLeft = false;
    const show = (read: Read | string): void => {
      if (!isLeft) setFound(read);
    };
    readFields(client, record).then(show, (error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      show(t`${record}.RTYP can't be read: ${why}`);
    });
    return () => {
      isLeft = true;
    };
  }, [client, record, count]);
  if (found === undefined) return <p className="note">{t`Reading…`}</p>;
  const again = (
    <button
      type="button"
      onClick={() => {
        setCount(count + 1);
      }}
    >
      {t`Read again`}
    </button>
  );
  if (typeof found === "string") {
    return (
      <>
        {again}
        <p className="note">{found}</p>
      </>
    );
  }
  const { atMs, failed, fields } = found;
  if (fields.length === 0 && failed.length === 0) {
    return <p className="note">{t`${record} has no field RTYP: it is no record of an IOC.`}</p>;
  }
  const isUtc = route.settings.utc === "1";
  const [first] = failed;
  return (
    <>
      <div className="choices">
        {again}
        <span className="note" role="status">
          {t`As they were at ${dateText(atMs, isUtc)}, ${zoneText(isUtc)}. They are read once.`}
        </span>
      </div>
      {first !== undefined && (
        <p className="note" role="status">
          {t`Not read: ${failed.map(({ name }) => `.${name}`).join(" ")} (${first.error?.message ?? ""}).`}
        </p>
      )}
      <dl className="facts record-fields">
        {fields.map((field) => {
          const target = targetOf(field);
          const to = (pv: string): string =>
            hrefOf(elsewhere(route, { page: "pv", name: pv, names: [] }));
          return (
            <div key={field.name}>
              <dt>
                <a href={to(field.pv)}>.{field.name}</a>
              </dt>
              <dd>{target === undefined ? field.text : <a href={to(target)}>{field.text}</a>}</dd>
            </div>
          );
        })}
      </dl>
    </>
  );
}
