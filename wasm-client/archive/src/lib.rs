//! The JavaScript interface of archived samples. It is a separate WebAssembly module, so that pages without an
//! archiver don't load it.

#![deny(unsafe_code)]

use pvwire_archiver::{Decoder, Limits, Rows, Summary};
use wasm_bindgen::prelude::wasm_bindgen;

/// A small allocator: the standard library's is three times as large.
#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// Stands for the end of a gap that has none.
const NO_END: i64 = i64::MIN;

/// One answer of an archiver, as it arrives, and its rows.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Answer {
    decoder: Decoder,
    rows: Rows,
    summary: Summary,
}

#[wasm_bindgen]
impl Answer {
    /// Nothing has arrived. Samples are wanted from `from_ns` to `to_ns`, in nanoseconds past 1970; with `wants_bins`
    /// the request was for statistics.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(from_ns: i64, to_ns: i64, wants_bins: bool) -> Self {
        Self {
            decoder: Decoder::new(Limits::default()),
            rows: Rows::new((from_ns, to_ns), wants_bins),
            summary: Summary::default(),
        }
    }

    /// The next bytes of the answer.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.decoder.push(rest);
            rest = &rest[taken..];
            if !rest.is_empty() {
                self.take();
            }
        }
    }

    fn take(&mut self) {
        while let Some(piece) = self.decoder.take() {
            self.rows.add(&piece);
        }
    }

    /// The answer has ended. Returns whether it ended with a whole line.
    pub fn finish(&mut self) -> bool {
        self.summary = self.decoder.finish();
        self.take();
        self.rows.finish();
        !self.summary.is_cut
    }

    /// Lines that could not be read, which were skipped.
    #[must_use]
    pub fn damaged(&self) -> f64 {
        (self.summary.damaged_lines + self.summary.long_lines) as f64
    }

    /// Times of the rows.
    #[must_use]
    pub fn times(&self) -> Vec<i64> {
        self.rows.time_ns.clone()
    }

    /// Their numbers.
    #[must_use]
    pub fn numbers(&self) -> Vec<f64> {
        self.rows.numbers.clone()
    }

    /// Their alarm severities.
    #[must_use]
    pub fn severities(&self) -> Vec<u8> {
        self.rows.severities.clone()
    }

    /// Their alarm statuses.
    #[must_use]
    pub fn statuses(&self) -> Vec<u16> {
        self.rows.statuses.clone()
    }

    /// Rows whose values are texts.
    #[must_use]
    pub fn text_rows(&self) -> Vec<u32> {
        self.rows.texts.iter().map(|(row, _)| *row).collect()
    }

    /// Their texts.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let texts = self.rows.texts.iter();
        texts.map(|(_, text)| text.clone()).collect()
    }

    /// Of each gap: 1 if the PV was disconnected and 0 if it was not archived, its begin, and its end.
    #[must_use]
    pub fn gaps(&self) -> Vec<i64> {
        let gaps = self.rows.gaps.iter();
        gaps.flat_map(|gap| {
            let end = gap.to_ns.unwrap_or(NO_END);
            [i64::from(gap.is_disconnected), gap.from_ns, end]
        })
        .collect()
    }

    /// Of each bin: its number of rows, and of the samples that they stand for. Empty if every sample has a row.
    #[must_use]
    pub fn bins(&self) -> Vec<u32> {
        let bins = self.rows.bins.iter().filter(|_| self.rows.is_thinned);
        bins.flat_map(|bin| [bin.rows, bin.samples]).collect()
    }

    /// Whether the first row is the value that held at the begin.
    #[must_use]
    pub fn has_held(&self) -> bool {
        self.rows.has_held
    }
}
