/** The bits of a PV, shown by shape and text in addition to colour. */

import type { ReactNode } from "react";

import { usePv } from "../react/index.js";
import type { PvDisplay, PvValue } from "../types.js";
import { t } from "../texts.js";
import { CONDITION_FIELDS, useCondition, type ConditionData } from "./condition.js";
import { Frame } from "./Frame.js";
import { perPv } from "./per_pv.js";

const SELECTION = `{
  value { string number bigint }
  display { description choices }
  ${CONDITION_FIELDS}
}`;

interface BitsData extends ConditionData {
  readonly value: Pick<PvValue, "string" | "number" | "bigint"> | null;
  readonly display: Pick<PvDisplay, "description" | "choices"> | null;
}

/** The properties of `Led`. */
export interface LedProps {
  /** The PV. */
  readonly name: string;
  /** @default the PV's name */
  readonly label?: string;
  /** Index of the bit of an integer, 0 the lowest. @default on if the value isn't 0 */
  readonly bit?: number;
  /** Without an update for this time the value is shown as stale. @default never */
  readonly staleAfterMs?: number;
}

/** One lamp. */
export const Led = perPv(function Led({
  name,
  label = name,
  bit,
  staleAfterMs,
}: LedProps): ReactNode {
  const pv = usePv<BitsData>(name, SELECTION);
  const condition = useCondition(pv, staleAfterMs, name);
  const isOn = bitOf(pv, bit);
  const word = wordOf(isOn);
  // An enum has a label for the value.
  const text = bit === undefined && pv?.display?.choices != null ? pv.value?.string : undefined;
  return (
    <Frame
      kind="led"
      name={name}
      label={label}
      condition={condition}
      summary={text ?? word}
      description={pv?.display?.description}
    >
      <Lamp isOn={isOn} />
    </Frame>
  );
});

/** The properties of `ByteMonitor`. */
export interface ByteMonitorProps extends Omit<LedProps, "bit"> {
  /** Number of bits. @default 8 */
  readonly bits?: number;
  /** Index of the first bit, 0 the lowest. @default 0 */
  readonly firstBit?: number;
  /** Names of the bits, the lowest first. @default their numbers */
  readonly labels?: readonly string[];
}

/** Several bits of an integer, the lowest first. */
export const ByteMonitor = perPv(function ByteMonitor(props: ByteMonitorProps): ReactNode {
  const { bits = 8, firstBit = 0, label = props.name, labels = [], name, staleAfterMs } = props;
  const pv = usePv<BitsData>(name, SELECTION);
  const condition = useCondition(pv, staleAfterMs, name);
  return (
    <Frame
      kind="bytes"
      name={name}
      label={label}
      condition={condition}
      summary={pv?.value?.string ?? "–"}
      description={pv?.display?.description}
    >
      <ul className="pvwire-bits">
        {Array.from({ length: bits }, (_, index) => {
          const isOn = bitOf(pv, firstBit + index);
          return (
            <li key={index}>
              <Lamp isOn={isOn} />
              <span>{labels[index] ?? t`Bit ${String(firstBit + index)}`}</span>
              <span className="pvwire-visually-hidden">{` ${wordOf(isOn).toLowerCase()}`}</span>
            </li>
          );
        })}
      </ul>
    </Frame>
  );
});

/** Filled with a tick if on, an empty ring if off, dotted if unknown. */
function Lamp({ isOn }: { readonly isOn: boolean | undefined }) {
  return (
    <svg className="pvwire-lamp" viewBox="0 0 16 16" aria-hidden="true" data-on={isOn ?? "unknown"}>
      <circle cx="8" cy="8" r="6" />
      {isOn === true && <path d="M5 8.2 7.2 10.5 11 5.8" />}
    </svg>
  );
}

function wordOf(isOn: boolean | undefined): string {
  if (isOn === undefined) return "Unknown";
  return isOn ? t`On` : t`Off`;
}

function bitOf(pv: BitsData | undefined, bit: number | undefined): boolean | undefined {
  const { bigint, number } = pv?.value ?? {};
  const integer = bigint ?? (Number.isSafeInteger(number) ? BigInt(number as number) : undefined);
  if (integer === undefined) return undefined;
  return bit === undefined ? integer !== 0n : ((integer >> BigInt(bit)) & 1n) === 1n;
}
