/** How long the demo's wall of 5,000 readbacks keeps the page busy. */

import { checkArrived, mainThread, performance, type Measurement } from "./measure";
import { RATE_HZ } from "./pvs";

const READBACKS = 5000;

/** What the page has; runs there. */
declare const measurements: NonNullable<Window["measurements"]>;

export const wall: Measurement = {
  name: "browser-wall",
  question: "How busy is a page with 5,000 readbacks?",
  about:
    `The demo's own component, a canvas, on a screen of 1,600 × 1,200: ${READBACKS.toLocaleString("en")}` +
    ` PVs × ${String(RATE_HZ)} Hz arrive, and those that are in view are painted.`,
  settings: { pvs: READBACKS, rate_hz: RATE_HZ },
  labels: {
    frames_per_s: ["screen frames", "/s"],
    main_thread_percent: ["main thread", "%"],
    main_thread_cpu_percent: ["its CPU time", "%"],
    script_percent: ["of it JavaScript", "%"],
    updates_per_s: ["updates that arrived", "/s"],
  },
  points: [
    {
      label: "5,000 readbacks",
      measure: async ({ ms, open, relayUrl, warmUpMs }) =>
        await open(async (page) => {
          const totals = await page.evaluateHandle(
            async (url) => await measurements().showWall(url),
            relayUrl,
          );
          await page.waitForTimeout(warmUpMs);
          const cdp = await page.context().newCDPSession(page);
          const used = await mainThread(page);
          const now = async () => ({
            ...(await performance(cdp)),
            ...(await totals.evaluate((read) => read())),
            cpuSeconds: used() / 1e9,
          });
          const before = await now();
          await page.waitForTimeout(ms);
          const after = await now();
          const seconds = after.Timestamp - before.Timestamp;
          const perSecond = (of: keyof typeof after): number => (after[of] - before[of]) / seconds;
          checkArrived(perSecond("updates"), READBACKS * RATE_HZ);
          return {
            frames_per_s: perSecond("paints"),
            main_thread_percent: 100 * perSecond("TaskDuration"),
            main_thread_cpu_percent: 100 * perSecond("cpuSeconds"),
            script_percent: 100 * perSecond("ScriptDuration"),
            updates_per_s: perSecond("updates"),
          };
        }),
    },
  ],
};
