/** What does somebody at a beamline work with? Set points, plots, and a camera. */

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

const CAMERA_WIDTH = 320;

/** Made by the relay, so that no camera is needed. */
const CAMERA = `sim://image(width=${String(CAMERA_WIDTH)},height=240,rate_hz=10)`;

const ORBIT = "sim://waveform(size=2000,waves=5,rate_hz=10)";

export function Beamline({ prefix }: { readonly prefix: string }): ReactNode {
  const pv = (name: string): string => `${prefix}:${name}`;
  return (
    <div className="machine">
      <section className="panel" aria-label="Set points">
        <h2>Set points</h2>
        <SetPoint name={pv("RF:VOLTAGE:SET")} label="RF voltage" />
        <SetPoint name={pv("MAG:CORR4:SET")} label="Corrector 4 current" control="slider" />
        <EnumChoice name={pv("FB:ORBIT:SET")} label="Orbit feedback" />
        <Meter name={pv("RF:VOLTAGE")} label="RF voltage" />
        <Meter name={pv("MAG:DIPOLE:TEMP")} label="Dipole 7 temperature" />
        <Led name={pv("VAC:VALVE")} label="Sector 3 gate valve" />
        <ByteMonitor name={pv("RING:INJECTIONS")} label="Injections, in binary" />
      </section>
      <section className="panel" aria-label="Plots">
        <h2>Plots</h2>
        <StripChart name={pv("RING:CURRENT")} label="Stored beam current" />
        <StripChart name={pv("RF:VOLTAGE")} label="RF voltage" height={140} />
        <WaveformPlot name={ORBIT} label="Orbit" />
      </section>
      <section className="panel" aria-label="Camera">
        <h2>Camera</h2>
        <ImageView name={CAMERA} label="Screen 1" width={CAMERA_WIDTH} colourMap="viridis" />
      </section>
    </div>
  );
}
