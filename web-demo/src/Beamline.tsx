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

import { useWide } from "./wide";

const CAMERA_WIDTH = 320;

/** Simulated by the relay, so that no camera is needed. */
const CAMERA = `sim://camera(width=${String(CAMERA_WIDTH)},height=240,rate_hz=10)`;

const ORBIT = "sim://waveform(size=2000,waves=5,rate_hz=10)";

export function Beamline({ prefix }: { readonly prefix: string }): ReactNode {
  const isWide = useWide();
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
        <StripChart
          name={pv("RING:CURRENT")}
          label="Stored beam current"
          height={isWide ? 220 : 160}
        />
        <StripChart name={pv("RF:VOLTAGE")} label="RF voltage" height={isWide ? 180 : 140} />
        <WaveformPlot name={ORBIT} label="Orbit" height={isWide ? 220 : 160} />
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
