/** 5,000 readbacks at 10 Hz on a canvas, painted only where they are visible. */

import { useEffect, useRef, useState, type ReactNode } from "react";
import type { Pv, PvClient, PvConnection, PvStatus, PvValue } from "pvwire";
import { formatCount } from "pvwire/widgets";

import { CELL, CellRoom, columnsIn, WALL_NAMES } from "./WallCell";

const READBACKS = WALL_NAMES.length;

const SELECTION = "{ value { string } status { severity } connection { connected unresponsive } }";

const COUNTED = "{ status { severity } connection { connected unresponsive } }";

/** The result of SELECTION. */
interface CellData {
  readonly value: Pick<PvValue, "string"> | null;
  readonly status: Pick<PvStatus, "severity">;
  readonly connection: Pick<PvConnection, "connected" | "unresponsive">;
}

const LOOKS = ["NO_ALARM", "MINOR", "MAJOR", "INVALID", "GONE"] as const;
type Look = (typeof LOOKS)[number];

export function Wall({ client }: { readonly client: PvClient }): ReactNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const palette = useRef<HTMLSpanElement>(null);
  const [summary, setSummary] = useState("Connecting…");
  useEffect(() => {
    if (canvas.current === null || palette.current === null) return;
    return paintWall(client, canvas.current, palette.current, setSummary);
  }, [client]);
  return (
    <section className="panel" aria-label="5,000 readbacks at 10 Hz">
      <h2>5,000 readbacks at 10 Hz</h2>
      <p className="summary" data-summary="wall">
        {summary}
      </p>
      {/* A canvas can't use style sheets: these elements define its colours. */}
      <span ref={palette} hidden>
        {LOOKS.map((look) => (
          <i key={look} className="cell" data-severity={look} />
        ))}
      </span>
      <div className="wall">
        <CellRoom>
          <canvas ref={canvas} role="img" aria-label={`5,000 readbacks. ${summary}`} />
        </CellRoom>
      </div>
    </section>
  );
}

function paintWall(
  client: PvClient,
  canvas: HTMLCanvasElement,
  palette: HTMLElement,
  onSummary: (text: string) => void,
): () => void {
  const pvs: Pv<CellData>[] = WALL_NAMES.map((name) => client.pv<CellData>(name, SELECTION));
  const painted = new Array<CellData | undefined>(READBACKS);
  const context = canvas.getContext("2d");
  if (context === null) return () => undefined;
  let columns = 1;
  let colours = coloursOf(palette);
  let paints = 0;

  const room = canvas.parentElement ?? canvas;
  let scrolled = 0;

  const layOut = (): void => {
    const width = room.clientWidth;
    columns = columnsIn(width);
    const rows = Math.ceil(READBACKS / columns);
    room.style.height = `${String(rows * CELL.height)}px`;
    // No larger than the window: a browser copies the whole canvas for each frame.
    const height = Math.min(rows * CELL.height, window.innerHeight);
    resize(context, width, height);
    painted.fill(undefined);
    paint();
  };

  let paintsPerSecond = 0;

  const summarize = (): void => {
    onSummary(summaryOf(pvs, paintsPerSecond));
  };

  /** Visible cells whose PV changed, or all visible cells after scrolling. */
  const paint = (): void => {
    const now = Math.max(0, canvas.getBoundingClientRect().top - room.getBoundingClientRect().top);
    if (now !== scrolled) {
      scrolled = now;
      painted.fill(undefined);
      context.clearRect(0, 0, canvas.width, canvas.height);
    }
    const first = Math.floor(scrolled / CELL.height);
    const last = Math.ceil((scrolled + canvas.clientHeight) / CELL.height);
    for (let at = first * columns; at < Math.min(READBACKS, last * columns); at += 1) {
      const data = pvs[at]?.getSnapshot();
      if (data === undefined || data === painted[at]) continue;
      painted[at] = data;
      const x = (at % columns) * CELL.width;
      const y = Math.floor(at / columns) * CELL.height - scrolled;
      paintCell(context, data, colours[lookOf(data)], x, y);
    }
    paints += 1;
  };

  // One listener for all of them is called once per frame.
  const ends = pvs.map((pv) => pv.subscribe(paint));
  // Counted in the same flush as the header's counts: two counts on a page must agree.
  const counted = WALL_NAMES.map((name) => client.pv(name, COUNTED));
  ends.push(...counted.map((pv) => pv.subscribe(summarize)));
  const observer = new ResizeObserver(layOut);
  observer.observe(room);
  window.addEventListener("scroll", paint, { passive: true });
  const timer = window.setInterval(() => {
    paintsPerSecond = paints;
    paints = 0;
    summarize();
    const before = JSON.stringify(colours);
    colours = coloursOf(palette);
    if (JSON.stringify(colours) !== before) painted.fill(undefined);
  }, 1000);
  return () => {
    window.clearInterval(timer);
    window.removeEventListener("scroll", paint);
    observer.disconnect();
    for (const end of ends) end();
  };
}

function resize(context: CanvasRenderingContext2D, width: number, height: number): void {
  const { canvas } = context;
  const scale = window.devicePixelRatio;
  Object.assign(canvas, { width: width * scale, height: height * scale });
  Object.assign(canvas.style, { width: `${String(width)}px`, height: `${String(height)}px` });
  context.scale(scale, scale);
  context.font = "11px ui-monospace, monospace";
  context.textAlign = "right";
  context.textBaseline = "middle";
}

function paintCell(
  context: CanvasRenderingContext2D,
  data: CellData,
  { ground, ink }: ReturnType<typeof coloursOf>[Look],
  x: number,
  y: number,
): void {
  // A system colour may be translucent, as the selection often is in forced colours.
  context.clearRect(x, y, CELL.width - 2, CELL.height - 2);
  context.fillStyle = ground;
  context.fillRect(x, y, CELL.width - 2, CELL.height - 2);
  context.fillStyle = ink;
  context.fillText(data.value?.string ?? "–", x + CELL.width - 6, y + CELL.height / 2 - 1);
}

function summaryOf(pvs: readonly Pv<CellData>[], paintsPerSecond: number): string {
  const now = pvs.map((pv) => pv.getSnapshot());
  const looks = now.map((data) => (data === undefined ? "GONE" : lookOf(data)));
  const count = (wanted: Look): string =>
    formatCount(looks.filter((look) => look === wanted).length);
  const there = formatCount(looks.filter((look) => look !== "GONE").length);
  return `${there} of ${formatCount(READBACKS)} connected · ${count("MINOR")} minor, ${count("MAJOR")} major alarms · ${formatCount(paintsPerSecond)} paints/s`;
}

function lookOf({ connection, status }: CellData): Look {
  return connection.connected && !connection.unresponsive ? (status.severity ?? "GONE") : "GONE";
}

type Colours = Readonly<Record<Look, { readonly ground: string; readonly ink: string }>>;

function coloursOf(palette: HTMLElement): Colours {
  const entries = LOOKS.map((look, at) => {
    const style = getComputedStyle(palette.children[at] ?? palette);
    return [look, { ground: style.backgroundColor, ink: style.color }];
  });
  return Object.fromEntries(entries) as Colours;
}
