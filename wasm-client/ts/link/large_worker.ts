/** The worker that fetches large values: the page's thread gets each as a buffer, without a copy. */

import { readRecords } from "./records.js";

onmessage = ({ data: url }: MessageEvent<string>) => {
  readRecords(url, (record) => {
    postMessage(record, { transfer: [record.data] });
  }).catch((error: unknown) => {
    postMessage(error instanceof Error ? error.message : String(error));
  });
};
