//! Names of simulated PVs and their arguments.

use pvwire_relay::ingest::sim;

pub(crate) const SEEDS: &[&str] = &[
    "sim://sine(10,amplitude=1,offset=0,rate_hz=10)",
    "sim://ramp(period_s=10,low=0,high=100)",
    "sim://noise(0,1,10,seed=7)",
    "sim://counter(rate_hz=1,start=0,step=1)",
    "sim://waveform(size=100,waves=2)",
    "sim://image(width=64,height=48)",
    "sim://enum(Off|On,rate_hz=1)",
    "sim://string(texts=red|green)",
    "ssim://sine(-5,5,10,1,80,90)",
    "ssim://sinewave(1,10,50,1,-5,5)",
    "ssim://rampwave(10,1,0,100,1)",
    "psim://sine(-5, 5, 10, 1)",
    "psim://ramp(0,10,-1,0.1)",
    "psim://intermittent(1,7)",
    "psim://sawtooth(1,10,50,0.1,-1,1)",
    "psim://gaussianWave(1,100,100,0.1)",
    "psim://noisewave(-5,5,100,1)",
    "psim://strings(10,0.1)",
    "psim://flipflop(29.929)",
    "sys://time",
    "psim://const<VEnum>(1,\"A\",\"B\")",
];

pub(crate) const WORDS: &[&str] = &[
    "(",
    ")",
    ",",
    "=",
    "|",
    "-",
    ".",
    "0",
    "1",
    "9",
    "e",
    "e-320",
    "e15",
    "1e-9",
    "0.001",
    "1e6",
    "inf",
    "nan",
    "step=",
    "size=",
    "min_value=",
    "max_value=",
    "period_s=",
    "rate_hz=",
    "width=",
    "é",
];

/// A name of a simulated PV: what can be read makes values at any time.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((scheme, name)) = text.split_once("://") else {
        return;
    };
    let moments = [
        (0, 0),
        (-1, 1),
        (1_700_000_000_000_000_000, 12_345),
        (i64::MIN, u64::MAX),
    ];
    match sim::try_name(scheme, name, &moments, 10_000) {
        Ok(made) => assert!(made == 0 || made == moments.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
