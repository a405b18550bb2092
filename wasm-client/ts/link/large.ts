/** Fetches the large values of a page in a worker, or in the page if workers aren't available. */

import type { Clock } from "../clock.js";
import { LargeStream, readHere, type LargeSocket, type Reader } from "./large_stream.js";
import type { LargeRecord } from "./records.js";

/** The large values of a connection that the page holds. */
export const largeStream = (
  socket: LargeSocket,
  apply: (data: ArrayBuffer, head: number) => void,
  clock: Clock,
): LargeStream => new LargeStream(socket, apply, readInWorker, clock);

const readInWorker: Reader = (url, onRecord, onLost) => {
  let worker: Worker;
  try {
    worker = new Worker(new URL("./large_worker.js", import.meta.url), { type: "module" });
  } catch {
    return readHere(url, onRecord, onLost);
  }
  let isRead = false;
  let stop = (): void => {
    worker.terminate();
  };
  worker.onmessage = ({ data }: MessageEvent<LargeRecord | string>) => {
    isRead = true;
    if (typeof data === "string") onLost(data);
    else onRecord(data);
  };
  worker.onerror = () => {
    worker.terminate();
    // If workers are forbidden or their file isn't found, the page fetches the values itself.
    if (isRead) onLost("the worker failed");
    else stop = readHere(url, onRecord, onLost);
  };
  worker.postMessage(url);
  return () => {
    stop();
  };
};
