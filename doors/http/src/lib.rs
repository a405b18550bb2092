//! Plain HTTP for scripts: one PV by `GET` and `PUT`.
//!
//! This crate has no I/O and no clock. The relay owns the connections and the PVs.

#![forbid(unsafe_code)]

pub mod event;
mod image;
mod json;
mod put;
mod route;

pub use pvwire_core::select::execute::{Program, Sample, Snapshot, Value, value as select};
pub use pvwire_core::select::{EVERYTHING, SelectionError, program as selection};

pub use image::{Image, ImageError};
pub use json::{push_json, push_text};
pub use put::{PutBody, PutBodyError, put_answer, put_body};
pub use route::{Form, PREFIX, Route, RouteError, route};
