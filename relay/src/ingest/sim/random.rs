//! Random numbers that depend on a seed and a number alone.

use std::f64::consts::TAU;

/// A number of the standard normal distribution.
pub(super) fn normal(seed: u64, number: u64) -> f64 {
    // Box–Muller transform of two uniform numbers; the first is never 0, which has no logarithm.
    let first = scramble(scramble(seed).wrapping_add(number));
    let uniform = |bits: u64| ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-2.0 * uniform(first).ln()).sqrt() * (TAU * uniform(scramble(first))).cos()
}

/// A number from 0 to below 1, all equally likely.
pub(super) fn uniform(seed: u64, number: u64) -> f64 {
    let bits = scramble(scramble(seed).wrapping_add(number));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// One step of the SplitMix64 generator: consecutive numbers give unrelated ones.
pub(super) fn scramble(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
