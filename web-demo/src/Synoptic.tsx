/**
 * The storage ring with the beam current in its centre, surrounded by the subsystems that keep the
 * beam.
 */

import type { ReactNode } from "react";
import type { PvDisplay, PvValue } from "pvwire";
import { usePv } from "pvwire/react";
import { CONDITION_FIELDS, StateIcon, useCondition, type ConditionData } from "pvwire/widgets";

interface StationSpec {
  readonly pv: string;
  readonly label: string;
  readonly notation?: "exponent";
}

/** From top to bottom; each is next to the point of the ring that its line leads to. */
const LEFT: readonly StationSpec[] = [
  { pv: "RF:VOLTAGE", label: "RF voltage" },
  { pv: "CRYO:TEMP", label: "Cavity temperature" },
  { pv: "CRYO:LEVEL", label: "Helium level" },
  { pv: "MAG:DIPOLE:TEMP", label: "Dipole 7" },
];
const RIGHT: readonly StationSpec[] = [
  { pv: "ID:GAP", label: "Undulator gap" },
  { pv: "FE:SHUTTER", label: "Front-end shutter" },
  { pv: "VAC:VALVE", label: "Sector 3 gate valve" },
  { pv: "VAC:PRESSURE", label: "Sector 3 pressure", notation: "exponent" },
];

const SIZE = 400;
const MIDDLE = SIZE / 2;
const RADIUS = 158;
const ROWS = LEFT.length;
const MAGNETS = 16;

const SELECTION = `{
  value { string number }
  display { units precision }
  ${CONDITION_FIELDS}
}`;

interface StationData extends ConditionData {
  readonly value: Pick<PvValue, "string" | "number"> | null;
  readonly display: Pick<PvDisplay, "units" | "precision"> | null;
}

export function Synoptic({ prefix }: { readonly prefix: string }): ReactNode {
  return (
    <section className="panel synoptic" aria-label="Storage ring">
      <h2>Storage ring</h2>
      <div className="synoptic-stage">
        <Stations prefix={prefix} stations={LEFT} side="left" />
        <div className="ring">
          <Ring prefix={prefix} />
          <Beam prefix={prefix} />
        </div>
        <Stations prefix={prefix} stations={RIGHT} side="right" />
      </div>
      <OperatorLine prefix={prefix} />
    </section>
  );
}

/** Where the line of a row meets the ring. */
function placeOf(row: number, side: "left" | "right"): { x: number; y: number } {
  const y = ((row + 0.5) * SIZE) / ROWS;
  const across = Math.sqrt(Math.max(0, RADIUS ** 2 - (y - MIDDLE) ** 2));
  return { x: side === "left" ? MIDDLE - across : MIDDLE + across, y };
}

function Ring({ prefix }: { readonly prefix: string }) {
  return (
    <svg viewBox={`0 0 ${String(SIZE)} ${String(SIZE)}`} aria-hidden="true">
      {(["left", "right"] as const).map((side) =>
        LEFT.map((_, row) => {
          const { x, y } = placeOf(row, side);
          // Drawn up to the card, which covers the rest.
          return (
            <line
              key={`${side}${String(row)}`}
              className="leader"
              x1={x}
              y1={y}
              x2={side === "left" ? -SIZE : 2 * SIZE}
              y2={y}
            />
          );
        }),
      )}
      <circle className="pipe" cx={MIDDLE} cy={MIDDLE} r={RADIUS} />
      {Array.from({ length: MAGNETS }, (_, at) => (
        <rect
          key={at}
          className="magnet"
          x={MIDDLE - 11}
          y={MIDDLE - RADIUS - 8}
          width="22"
          height="16"
          rx="2"
          transform={`rotate(${String(((at + 0.5) * 360) / MAGNETS)} ${String(MIDDLE)} ${String(MIDDLE)})`}
        />
      ))}
      <BeamLine name={`${prefix}:RING:CURRENT`} />
      {LEFT.map(({ pv }, row) => (
        <Mark key={pv} name={`${prefix}:${pv}`} {...placeOf(row, "left")} />
      ))}
      {RIGHT.map(({ pv }, row) => (
        <Mark key={pv} name={`${prefix}:${pv}`} {...placeOf(row, "right")} />
      ))}
    </svg>
  );
}

/** Drawn while a beam is known to be present. */
function BeamLine({ name }: { readonly name: string }) {
  const pv = usePv<{
    readonly value: Pick<PvValue, "number"> | null;
    readonly connection: { readonly connected: boolean; readonly unresponsive: boolean };
  }>(name, "{ value { number } connection { connected unresponsive } }");
  const isPresent = pv?.connection.connected === true && !pv.connection.unresponsive;
  const isThere = isPresent && (pv.value?.number ?? 0) > 1;
  return isThere && <circle className="beam" cx={MIDDLE} cy={MIDDLE} r={RADIUS} />;
}

/** A station's place in the ring: a dot if it is normal, otherwise the shape of its state. */
function Mark({ name, x, y }: { readonly name: string; readonly x: number; readonly y: number }) {
  const { isStale, severity, state } = useCondition(
    usePv<ConditionData>(name, `{ value { number } ${CONDITION_FIELDS} }`),
  );
  const isWell = severity === "NO_ALARM";
  return (
    <g className="mark pvwire-state" data-severity={severity}>
      <circle cx={x} cy={y} r={isWell ? 5 : 12} />
      {!isWell && (
        <svg x={x - 8} y={y - 8} width="16" height="16">
          <StateIcon state={state} severity={severity} isStale={isStale} />
        </svg>
      )}
    </g>
  );
}

/** The main figure: the beam current, and the most important other values. */
function Beam({ prefix }: { readonly prefix: string }) {
  const name = `${prefix}:RING:CURRENT`;
  const pv = usePv<StationData>(name, SELECTION);
  const { isStale, severity, state, text } = useCondition(pv);
  return (
    <div className="hero pvwire-state" role="group" aria-label="Beam" data-severity={severity}>
      <p className="hero-label">Stored beam current</p>
      <p className="hero-value">
        {pv?.value?.string ?? "–"}
        <span className="hero-unit"> {pv?.display?.units}</span>
      </p>
      <p className="hero-condition" title={text}>
        {severity !== "NO_ALARM" && (
          <>
            <StateIcon state={state} severity={severity} isStale={isStale} />
            <span>{shortOf(text)}</span>
          </>
        )}
      </p>
      <dl>
        <Fact label="Lifetime" name={`${prefix}:RING:LIFETIME`} />
        <Fact label="Mode" name={`${prefix}:RING:MODE`} />
      </dl>
    </div>
  );
}

function Fact({ label, name }: { readonly label: string; readonly name: string }) {
  const pv = usePv<StationData>(name, SELECTION);
  const { isStale, severity, state, text } = useCondition(pv);
  return (
    <div className="fact pvwire-state" data-severity={severity}>
      <dt>{label}</dt>
      <dd title={severity === "NO_ALARM" ? undefined : text}>
        {severity !== "NO_ALARM" && (
          <>
            <StateIcon state={state} severity={severity} isStale={isStale} />
            <span className="visually-hidden">{text}: </span>
          </>
        )}
        {pv?.value?.string ?? "–"} {pv?.display?.units}
      </dd>
    </div>
  );
}

interface StationsProps {
  readonly prefix: string;
  readonly stations: readonly StationSpec[];
  readonly side: "left" | "right";
}

function Stations({ prefix, side, stations }: StationsProps) {
  return (
    <div className={`stations ${side}`}>
      {stations.map(({ pv, ...spec }) => (
        <Station key={pv} name={`${prefix}:${pv}`} {...spec} />
      ))}
    </div>
  );
}

function Station({ label, name, notation }: Omit<StationSpec, "pv"> & { readonly name: string }) {
  const pv = usePv<StationData>(name, SELECTION);
  const { isStale, severity, state, text } = useCondition(pv);
  const number = pv?.value?.number;
  const value =
    notation === "exponent" && number != null && Number.isFinite(number)
      ? number.toExponential(pv?.display?.precision ?? 1)
      : (pv?.value?.string ?? "–");
  return (
    <div className="station pvwire-state" role="group" aria-label={label} data-severity={severity}>
      <p className="station-label">{label}</p>
      <p className="station-value">
        {value} <span className="pvwire-unit">{pv?.display?.units}</span>
      </p>
      <p className="station-condition" title={text}>
        {severity !== "NO_ALARM" && (
          <>
            <StateIcon state={state} severity={severity} isStale={isStale} />
            <span>{shortOf(text)}</span>
          </>
        )}
      </p>
    </div>
  );
}

/**
 * A card has one line for it: the icon shows why the value is outdated, the alarm list says it in
 * words.
 */
function shortOf(text: string): string {
  const [, since] = /(?:old|No response) since (.*)/.exec(text) ?? [];
  return since === undefined ? text : `Old since ${since}`;
}

/** The message of the control room. */
function OperatorLine({ prefix }: { readonly prefix: string }) {
  const pv = usePv<StationData>(`${prefix}:OP:MESSAGE`, SELECTION);
  const { isStale, severity, state, text } = useCondition(pv);
  return (
    <p className="operator-line pvwire-state" data-severity={severity}>
      <span className="operator-label">Message</span>
      <span className="operator-text">{pv?.value?.string ?? "–"}</span>
      {severity !== "NO_ALARM" && (
        <span className="operator-condition" title={text}>
          <StateIcon state={state} severity={severity} isStale={isStale} /> {shortOf(text)}
        </span>
      )}
    </p>
  );
}
