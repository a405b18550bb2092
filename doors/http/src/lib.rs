//! Plain HTTP for scripts: one PV by `GET` and `PUT`.
//!
//! This crate has no I/O and no clock. The relay owns the connections, and makes each request a client of its own:
//! [`Talk`] is that client's side of the protocol.

#![forbid(unsafe_code)]

pub mod event;
mod image;
mod json;
mod put;
mod route;
mod talk;

pub use pvwire_core::engine::ReceiveError;
pub use pvwire_core::engine::{NoAnswer, Node};
pub use pvwire_core::select::execute::{Program, Value};
pub use pvwire_core::select::{EVERYTHING, SelectionError, program as selection};

pub use image::{Image, ImageError};
pub use json::{element_count, push_json, push_text};
pub use put::{PutBody, PutBodyError, put_answer, put_body};
pub use route::{Form, PREFIX, Route, RouteError, route};
pub use talk::{Standing, Talk};
