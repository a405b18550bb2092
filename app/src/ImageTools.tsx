/** An image with axes, a cursor, the row and column through it, a region, and its colours. What is chosen is in the link. */

import {
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
} from "react";
import { t, type PvConnection } from "pvwire";
import { usePv } from "pvwire/react";
import { ImageView } from "pvwire/widgets";

import {
  cropped,
  elementsAt,
  innerRange,
  numbersOf,
  profile,
  ticksOf,
  within,
  type Picture,
  type Point,
  type Region,
} from "./image_parts";
import { blurOnEnter, setTo, type Route } from "./route";

/** The numbers beside the image are renewed at most this often; the image itself with each update. */
const NUMBERS_EVERY_MS = 200;

/** A shorter drag moves the cursor. */
const SHORTEST_DRAG = 4;

const MAPS = ["grey", "viridis", "heat"] as const;

/** The newest image, for the numbers beside it. */
class Newest {
  #newest: Picture | undefined;
  #shown: Picture | undefined;
  #isWaiting = false;
  readonly #listeners = new Set<() => void>();

  take(picture: Picture): void {
    this.#newest = picture;
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    setTimeout(() => {
      this.#isWaiting = false;
      this.#shown = this.#newest;
      for (const listener of this.#listeners) listener();
    }, NUMBERS_EVERY_MS);
  }

  /** Of an image that may no longer be read nothing is shown. */
  forget(): void {
    this.#newest = undefined;
    this.#shown = undefined;
    for (const listener of this.#listeners) listener();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  readonly getSnapshot = (): Picture | undefined => this.#shown;
}

const numbersIn = (text: string | undefined): number[] =>
  (text ?? "").split(",").filter(Boolean).map(Number);

function regionIn(text: string | undefined): Region | undefined {
  const [x = NaN, y = NaN, width = NaN, height = NaN] = numbersIn(text).map(Math.round);
  return width > 0 && height > 0 && x >= 0 && y >= 0 ? { x, y, width, height } : undefined;
}

function pointIn(text: string | undefined): Point | undefined {
  const [x = NaN, y = NaN] = numbersIn(text).map(Math.round);
  return x >= 0 && y >= 0 ? { x, y } : undefined;
}

const short = (value: number): string => String(Number(value.toPrecision(5)));

interface ImageToolsProps {
  readonly name: string;
  readonly route: Route;
  /** Columns of a plain array. */
  readonly width?: number;
}

const SELECTION = "{ connection { connected readable } }";

export default function ImageTools({ name, route, width }: ImageToolsProps): ReactNode {
  const { at, map, range: chosen = "", region: regionText } = route.settings;
  const [newest] = useState(() => new Newest());
  const picture = useSyncExternalStore(newest.subscribe, newest.getSnapshot);
  const pv = usePv<{ readonly connection: Pick<PvConnection, "connected" | "readable"> }>(
    name,
    SELECTION,
  );
  const isRefused = pv?.connection.connected === true && !pv.connection.readable;
  useEffect(() => {
    if (isRefused) newest.forget();
  }, [isRefused, newest]);
  const wanted = useMemo(() => regionIn(regionText), [regionText]);
  const prepare = useCallback(
    (read: Picture): Picture => {
      newest.take(read);
      const region = wanted && within(wanted, read);
      return region === undefined ? read : cropped(read, region);
    },
    [newest, wanted],
  );
  const whole = picture && { x: 0, y: 0, width: picture.width, height: picture.height };
  const region = (wanted && picture && within(wanted, picture)) ?? whole;
  const cursor = pointIn(at);
  const range = useRange(chosen, picture);
  const colourMap = MAPS.find((key) => key === map) ?? "grey";
  return (
    <div className="image-tools">
      <Choices route={route} isMono={picture?.order === "mono"} range={range} picture={picture} />
      <ImagePlace region={region} cursor={cursor} route={route}>
        <ImageView
          name={name}
          colourMap={colourMap}
          prepare={prepare}
          {...(range !== undefined && { range })}
          {...(width !== undefined && { width })}
        />
      </ImagePlace>
      {picture !== undefined && region !== undefined && (
        <Readings picture={picture} region={region} cursor={cursor} isPart={region !== whole} />
      )}
    </div>
  );
}

/** The values that are shown darkest and brightest; `undefined`: those of each image. */
function useRange(chosen: string, picture: Picture | undefined): [number, number] | undefined {
  const isInner = chosen === "inner" && picture?.order === "mono";
  const inner = useMemo(() => (isInner ? innerRange(picture) : undefined), [isInner, picture]);
  const [low = NaN, high = NaN] = numbersIn(chosen);
  return inner ?? (low < high ? [low, high] : undefined);
}

interface ChoicesProps {
  readonly route: Route;
  readonly isMono: boolean;
  readonly picture: Picture | undefined;
  readonly range: readonly [number, number] | undefined;
}

function Choices({ isMono, picture, range, route }: ChoicesProps) {
  const { map = "grey", range: chosen = "", region = "" } = route.settings;
  const isFixed = chosen !== "" && chosen !== "inner";
  const [low = 0, high = 1] = isFixed ? numbersIn(chosen) : [];
  const limit = (label: string, value: number, at: number) => (
    <label className="pair">
      {label}
      <input
        key={value}
        type="number"
        step="any"
        defaultValue={value}
        onBlur={({ currentTarget }) => {
          const ends = [low, high];
          ends[at] = currentTarget.valueAsNumber;
          if (!ends.some(Number.isNaN)) setTo(route, { range: ends.join(",") });
        }}
        onKeyDown={blurOnEnter}
      />
    </label>
  );
  return (
    <div className="choices">
      {isMono && (
        <>
          <label className="pair">
            {t`Colours`}
            <select
              value={map}
              onChange={({ currentTarget: { value } }) => {
                setTo(route, { map: value === "grey" ? "" : value });
              }}
            >
              {MAPS.map((key, at) => (
                <option key={key} value={key}>
                  {[t`Grey`, t`Viridis`, t`Heat`][at]}
                </option>
              ))}
            </select>
          </label>
          <label className="pair">
            {t`Scale`}
            <select
              value={isFixed ? "fixed" : chosen}
              onChange={({ currentTarget: { value } }) => {
                const numbers = picture && numbersOf(picture);
                const ends = range ?? [numbers?.low ?? 0, numbers?.high ?? 1];
                setTo(route, { range: value === "fixed" ? ends.join(",") : value });
              }}
            >
              <option value="">{t`lowest to highest`}</option>
              <option value="inner">{t`without the outer hundredths`}</option>
              <option value="fixed">{t`fixed`}</option>
            </select>
          </label>
          {isFixed && limit(t`from`, low, 0)}
          {isFixed && limit(t`to`, high, 1)}
          {isFixed && low >= high && <span className="note">{t`The range is empty.`}</span>}
        </>
      )}
      {region !== "" && (
        <button
          type="button"
          onClick={() => {
            setTo(route, { region: "" });
          }}
        >
          {t`Whole image`}
        </button>
      )}
    </div>
  );
}

/** Where the pixels are in the window, beside the image's own element. */
interface Place {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** The place of the pixels in the canvas, which keeps their ratio. */
function placeIn(host: HTMLElement, columns: number, rows: number): Place | undefined {
  const canvas = host.querySelector("canvas");
  if (canvas === null || canvas.hidden) return undefined;
  const [outer, inner] = [host.getBoundingClientRect(), canvas.getBoundingClientRect()];
  const scale = Math.min(inner.width / columns, inner.height / rows);
  const [width, height] = [columns * scale, rows * scale];
  const left = inner.left - outer.left + (inner.width - width) / 2;
  const top = inner.top - outer.top + (inner.height - height) / 2;
  return { left, top, width, height };
}

const MOVES: Readonly<Record<string, Point>> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
};

interface ImagePlaceProps {
  readonly region: Region | undefined;
  readonly cursor: Point | undefined;
  readonly route: Route;
  readonly children: ReactNode;
}

function ImagePlace({ children, cursor, region, route }: ImagePlaceProps) {
  const host = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState<Place>();
  const { height, width, x: left, y: top } = region ?? { x: 0, y: 0, width: 0, height: 0 };
  useEffect(() => {
    const { current } = host;
    if (current === null || width === 0) return;
    const measure = (): void => {
      setPlace(placeIn(current, width, height));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    const canvas = current.querySelector("canvas");
    if (canvas !== null) observer.observe(canvas);
    return () => {
      observer.disconnect();
    };
  }, [width, height]);

  const [dragged, setDragged] = useState<{ readonly from: Point; readonly to: Point }>();
  const pixelOf = ({ clientX, clientY, currentTarget }: PointerEvent<HTMLElement>): Point => {
    const box = currentTarget.getBoundingClientRect();
    const clamp = (share: number, size: number): number =>
      Math.min(size - 1, Math.max(0, Math.floor(share * size)));
    return {
      x: left + clamp((clientX - box.left) / box.width, width),
      y: top + clamp((clientY - box.top) / box.height, height),
    };
  };
  const showAt = ({ x, y }: Point): void => {
    setTo(route, { at: `${String(x)},${String(y)}` });
  };
  const end = (shortest: number): void => {
    if (dragged === undefined) return;
    setDragged(undefined);
    const chosen = regionOf(dragged.from, dragged.to);
    if (Math.min(chosen.width, chosen.height) < shortest) showAt(dragged.to);
    else setTo(route, { region: Object.values(chosen).join(",") });
  };
  /** The cursor moves by arrows; a region is from where R was pressed to where it is pressed again. */
  const press = (event: KeyboardEvent): void => {
    const { altKey, ctrlKey, key, metaKey, shiftKey } = event;
    if (altKey || ctrlKey || metaKey) return;
    const step = MOVES[key];
    const from = cursor ?? { x: left + Math.floor(width / 2), y: top + Math.floor(height / 2) };
    if (step !== undefined) {
      const size = shiftKey ? 10 : 1;
      const [x, y] = [from.x + size * step.x, from.y + size * step.y];
      const to = {
        x: Math.min(left + width - 1, Math.max(left, x)),
        y: Math.min(top + height - 1, Math.max(top, y)),
      };
      if (dragged !== undefined) setDragged({ ...dragged, to });
      showAt(to);
    } else if (key === "r" || key === "R") {
      if (dragged === undefined) setDragged({ from, to: from });
      else end(1);
    } else if (key === "Escape" && dragged !== undefined) setDragged(undefined);
    else return;
    event.preventDefault();
  };
  const share = (pixel: number, from: number, size: number): string =>
    `${String((100 * (pixel - from)) / size)}%`;
  const box = dragged && regionOf(dragged.from, dragged.to);
  const isInside = (at: Point): boolean =>
    at.x >= left && at.x < left + width && at.y >= top && at.y < top + height;
  return (
    <div className="image-place" ref={host}>
      {children}
      {place !== undefined && (
        <div
          className="image-overlay"
          style={{
            left: `${String(place.left)}px`,
            top: `${String(place.top)}px`,
            width: `${String(place.width)}px`,
            height: `${String(place.height)}px`,
          }}
          role="application"
          aria-label={t`Pixels: click or use the arrow keys for the cursor; drag for a region, or press R at two of its corners`}
          tabIndex={0}
          onKeyDown={press}
          onPointerDown={(event) => {
            if (event.button !== 0) return;
            event.currentTarget.setPointerCapture(event.pointerId);
            const from = pixelOf(event);
            setDragged({ from, to: from });
          }}
          onPointerMove={(event) => {
            if (dragged !== undefined) setDragged({ ...dragged, to: pixelOf(event) });
          }}
          onPointerUp={() => {
            end(SHORTEST_DRAG);
          }}
          onPointerCancel={() => {
            setDragged(undefined);
          }}
        >
          {ticksOf(left, width).map((tick) => (
            <span key={`x${String(tick)}`} data-axis="x" style={{ left: share(tick, left, width) }}>
              {tick}
            </span>
          ))}
          {ticksOf(top, height).map((tick) => (
            <span key={`y${String(tick)}`} data-axis="y" style={{ top: share(tick, top, height) }}>
              {tick}
            </span>
          ))}
          {cursor !== undefined && isInside(cursor) && (
            <>
              <i data-line="x" style={{ left: share(cursor.x + 0.5, left, width) }} />
              <i data-line="y" style={{ top: share(cursor.y + 0.5, top, height) }} />
            </>
          )}
          {box !== undefined && (
            <i
              data-line="box"
              style={{
                left: share(box.x, left, width),
                top: share(box.y, top, height),
                width: share(box.width, 0, width),
                height: share(box.height, 0, height),
              }}
            />
          )}
        </div>
      )}
    </div>
  );
}

function regionOf(one: Point, other: Point): Region {
  const [x, y] = [Math.min(one.x, other.x), Math.min(one.y, other.y)];
  return { x, y, width: Math.abs(one.x - other.x) + 1, height: Math.abs(one.y - other.y) + 1 };
}

interface ReadingsProps {
  readonly picture: Picture;
  readonly region: Region;
  readonly cursor: Point | undefined;
  /** The region isn't the whole image. */
  readonly isPart: boolean;
}

function Readings({ cursor, isPart, picture, region }: ReadingsProps) {
  const at = cursor && within({ ...cursor, width: 1, height: 1 }, picture);
  const { height, width, x, y } = region;
  const numbers = isPart ? numbersOf(cropped(picture, region)) : undefined;
  return (
    <>
      <p className="note" data-part="pixel">
        {at === undefined
          ? t`Click a pixel for its value, its row and its column; drag for a region, or press R at two of its corners.`
          : t`Column ${String(at.x)}, row ${String(at.y)}: ${pixelText(picture, at)}`}
      </p>
      {numbers !== undefined && (
        <p className="note" data-part="region">
          {t`Region of ${width} × ${height} pixels from column ${x}, row ${y}: ${short(numbers.low)} to ${short(numbers.high)}, mean ${short(numbers.mean)}`}
        </p>
      )}
      {at !== undefined && (
        <div className="image-profiles">
          <Profile
            title={t`Row ${String(at.y)}`}
            from={x}
            numbers={profile(picture, region, at, true)}
          />
          <Profile
            title={t`Column ${String(at.x)}`}
            from={y}
            numbers={profile(picture, region, at, false)}
          />
        </div>
      )}
    </>
  );
}

function pixelText(picture: Picture, at: Point): string {
  const [first = 0, green, blue] = elementsAt(picture, at);
  if (green === undefined) return String(first);
  return t`red ${String(first)}, green ${String(green)}, blue ${String(blue)}`;
}

/** Points of a curve: of more, the lowest and the highest of each bin are drawn. */
const BINS = 300;

function Profile(props: {
  readonly title: string;
  readonly from: number;
  readonly numbers: readonly number[];
}) {
  const { from, numbers, title } = props;
  const size = Math.max(1, Math.ceil(numbers.length / BINS));
  // Where no pixel is a number, the curve has a gap.
  const curves: [at: number, value: number][][] = [[]];
  let [low, high] = [Infinity, -Infinity];
  for (let at = 0; at < numbers.length; at += size) {
    const bin = numbers.slice(at, at + size).filter(Number.isFinite);
    if (bin.length === 0) {
      curves.push([]);
      continue;
    }
    const [lowest, highest] = [Math.min(...bin), Math.max(...bin)];
    curves.at(-1)?.push([at, lowest]);
    if (highest > lowest) curves.at(-1)?.push([at, highest]);
    low = Math.min(low, lowest);
    high = Math.max(high, highest);
  }
  const span = high > low ? high - low : 1;
  const pointOf = ([at, value]: readonly [at: number, value: number]): string =>
    `${short((100 * at) / Math.max(1, numbers.length - 1))},${short(100 - (100 * (value - low)) / span)}`;
  const range = low <= high ? t`${short(low)} to ${short(high)}` : t`no numbers`;
  const to = from + numbers.length - 1;
  return (
    <figure>
      <figcaption>{`${title}: ${range}`}</figcaption>
      <svg
        viewBox="0 -2 100 104"
        preserveAspectRatio="none"
        role="img"
        aria-label={t`${title}, pixels ${String(from)} to ${String(to)}: ${range}`}
      >
        {curves.map((curve, at) => (
          <polyline
            key={at}
            points={curve.map(pointOf).join(" ")}
            vectorEffect="non-scaling-stroke"
          />
        ))}
      </svg>
      <p className="note">
        <span>{from}</span>
        <span>{to}</span>
      </p>
    </figure>
  );
}
