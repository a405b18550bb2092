/** The beamline's page: set points, plots and a camera. */

import type { ReactNode } from "react";
import {
  ByteMonitor,
  EnumChoice,
  ImageView,
  Led,
  Meter,
  SetPoint,
  StripChart,
  WaveformPlot,
} from "pvwire/widgets";

import { useWide, useWindowHeight } from "./pages";

const CAMERA_WIDTH = 320;

/** Simulated by the relay, so that no camera is needed. */
const CAMERA = `sim://camera(width=${String(CAMERA_WIDTH)},height=240,rate_hz=10)`;

const ORBIT = "sim://waveform(size=2000,waves=5,rate_hz=10)";

/** What the header, the labels and frames of three plots take, and the least height of a plot. */
const OTHER_PIXELS = 310;
const LEAST_PIXELS = 200;

/** The heights of the plots, which fill the window of a large screen. */
function usePlotHeights(): { readonly tall: number; readonly low: number } {
  const isWide = useWide();
  const third = Math.floor((useWindowHeight() - OTHER_PIXELS) / 3);
  const height = Math.max(LEAST_PIXELS, third);
  return isWide ? { tall: height, low: height } : { tall: 160, low: 140 };
}

export function Beamline({ prefix }: { readonly prefix: string }): ReactNode {
  const heights = usePlotHeights();
  const pv = (name: string): string => `${prefix}:${name}`;
  return (
    <div className="beamline">
      <section className="panel beamline-camera" aria-label="Camera">
        <h2>Camera</h2>
        <ImageView
          name={CAMERA}
          label="Screen 1"
          width={CAMERA_WIDTH}
          range={[0, 255]}
          colourMap="viridis"
        />
      </section>
      <section className="panel beamline-plots" aria-label="Plots">
        <h2>Plots</h2>
        <StripChart name={pv("RING:CURRENT")} label="Stored beam current" height={heights.tall} />
        <StripChart name={pv("RF:VOLTAGE")} label="RF voltage" height={heights.low} />
        <WaveformPlot name={ORBIT} label="Orbit" height={heights.tall} />
      </section>
      <section className="panel beamline-set" aria-label="Set points">
        <h2>Set points</h2>
        <SetPoint name={pv("RF:VOLTAGE:SET")} label="RF voltage" />
        <SetPoint name={pv("MAG:CORR4:SET")} label="Corrector 4 current" control="slider" />
        <EnumChoice name={pv("FB:ORBIT:SET")} label="Orbit feedback" />
      </section>
      <section className="panel beamline-state" aria-label="State">
        <h2>State</h2>
        <Led name={pv("VAC:VALVE")} label="Sector 3 gate valve" />
        <Led name={pv("FE:SHUTTER")} label="Front-end shutter" />
        <Meter name={pv("RF:VOLTAGE")} label="RF voltage" />
        <Meter name={pv("MAG:DIPOLE:TEMP")} label="Dipole 7 temperature" />
        <ByteMonitor name={pv("RING:INJECTIONS")} label="Injections, in binary" />
      </section>
    </div>
  );
}
