/** Short tones for alarms, made by the browser: no file is loaded. */

import type { Kind } from "./pv_kind";

/** Frequencies in hertz; the more severe an alarm, the more tones. */
const TONES: Readonly<Record<Kind, readonly number[]>> = {
  MAJOR: [988, 740, 988],
  INVALID: [740, 740, 740],
  gone: [523, 392],
  MINOR: [659],
  searched: [],
  NO_ALARM: [],
};

const TONE_SECONDS = 0.16;
const VOLUME = 0.2;

let context: AudioContext | undefined;

/** Whether tones can't be heard: a browser is silent until the page was clicked. Such a page is heard from the next click. */
export function isSilent(): boolean {
  if (context !== undefined) return context.state !== "running";
  const made = new AudioContext();
  context = made;
  const resume = (): void => {
    void made.resume();
  };
  for (const press of ["pointerdown", "keydown"]) document.addEventListener(press, resume);
  return made.state !== "running";
}

/** Plays the tones of a state. */
export function beep(kind: Kind): void {
  if (isSilent()) void context?.resume();
  if (context === undefined) return;
  const { currentTime, destination } = context;
  const volume = context.createGain();
  volume.gain.value = VOLUME;
  volume.connect(destination);
  TONES[kind].forEach((frequency, at) => {
    if (context === undefined) return;
    const tone = context.createOscillator();
    tone.frequency.value = frequency;
    tone.connect(volume);
    const begin = currentTime + at * 1.25 * TONE_SECONDS;
    tone.start(begin);
    tone.stop(begin + TONE_SECONDS);
  });
}
