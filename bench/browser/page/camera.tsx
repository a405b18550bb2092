/** A large camera in the `ImageView` widget: is what is shown always the newest frame, and how old is it? */

import { createRoot } from "react-dom/client";
import { createClient } from "pvwire";
import { PvProvider } from "pvwire/react";
import { ImageView } from "pvwire/widgets";
import "pvwire/widgets.css";

interface NumberedFrame {
  readonly value: { readonly structure: { readonly uniqueId?: unknown } | null } | null;
  readonly time: { readonly seconds: number } | null;
}

/** What happened since the page began; ages are of the frames shown since the last call. */
export interface CameraTotals {
  /** The number of the newest frame that arrived. */
  readonly newest: number;
  readonly arrived: number;
  /** That the relay left out because the page was behind. */
  readonly leftOut: number;
  readonly shown: number;
  /** Shown although a newer one was there, again, or with other pixels than the camera's. */
  readonly wrong: number;
  /** From the camera's time stamp until it is painted. */
  readonly agesMs: readonly number[];
}

/** The camera's pixels tell a frame's number, modulo this. */
const NUMBERS = 255;

/** Shows it; the returned function tells what happened so far. */
export function showCamera(url: string, name: string): () => CameraTotals {
  const client = createClient({ url });
  const pv = client.pv<NumberedFrame>(name, "{ value { structure } time { seconds } }");
  pv.subscribe(() => undefined);
  let [shown, wrong, last, agesMs] = [0, 0, -1, [] as number[]];
  const numberOf = (): number => Number(pv.getSnapshot()?.value?.structure?.uniqueId ?? NaN);
  onPainted((grey) => {
    const [number, time] = [numberOf(), pv.getSnapshot()?.time];
    shown += 1;
    if (!(number > last) || (grey !== undefined && grey !== number % NUMBERS)) wrong += 1;
    last = number;
    if (time != null) agesMs.push(Date.now() - time.seconds * 1000);
  });
  createRoot(document.getElementById("root") as HTMLElement).render(
    <PvProvider client={client}>
      <ImageView name={name} label="Camera" />
    </PvProvider>,
  );
  return () => {
    const ages = agesMs;
    agesMs = [];
    const { skipped = 0, updatesReceived = 0 } = client.inspect(name) ?? {};
    const newest = numberOf();
    return { newest, arrived: updatesReceived, leftOut: skipped, shown, wrong, agesMs: ages };
  };
}

/** Calls with the grey of the first pixel whenever a picture is painted; the graphics card reports none. */
function onPainted(painted: (grey: number | undefined) => void): void {
  const plain = CanvasRenderingContext2D.prototype;
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its own `this`
  const put = plain.putImageData;
  plain.putImageData = function (this: CanvasRenderingContext2D, pixels: ImageData) {
    Reflect.apply(put, this, [pixels, 0, 0]);
    painted(pixels.data[0]);
  };
  const card = WebGL2RenderingContext.prototype;
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its own `this`
  const draw = card.drawArrays;
  card.drawArrays = function (this: WebGL2RenderingContext, ...rest) {
    draw.apply(this, rest);
    painted(undefined);
  };
}
