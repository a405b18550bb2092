//! Decodes the requests of a client.

use bytes::Bytes;
use flatbuffers::VerifierOptions;

use super::{DecodeError, apparent_bytes, check_header};
use crate::field;
use crate::generated::request as rq;
use crate::limits::{
    MAX_ARGUMENTS, MAX_DEPTH, MAX_NAMES, MAX_PUTS, MAX_QUESTION_BYTES, MAX_REQUEST_BYTES,
    MAX_SERVICE_BYTES,
};
use crate::types::{
    Array, Expected, Filter, PutRequest, PutValue, PvId, Request, RequestBody, ValueType,
};

/// Maximum number of tables: the root, the body, a filter, and two for each argument or put with its
/// value. The rest are vectors of strings and numbers.
const MAX_REQUEST_TABLES: usize = 4 + 2 * MAX_ARGUMENTS;

type Strings<'a> = flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<&'a str>>;

fn verified(bytes: &[u8]) -> Result<rq::Request<'_>, DecodeError> {
    check_header(bytes, MAX_REQUEST_BYTES, rq::REQUEST_IDENTIFIER)?;
    let options = VerifierOptions {
        max_depth: MAX_DEPTH,
        max_tables: MAX_REQUEST_TABLES,
        max_apparent_size: apparent_bytes(bytes),
        ignore_missing_null_terminator: true,
    };
    rq::root_as_request_with_opts(&options, bytes)
        .map_err(|error| DecodeError::Damaged(error.to_string()))
}

/// Checks and reads a client's request.
///
/// # Errors
/// When the bytes are not a complete request of a known kind.
pub fn request(bytes: &[u8]) -> Result<Request, DecodeError> {
    let root = verified(bytes)?;
    let body = if let Some(body) = root.body_as_subscribe() {
        RequestBody::Subscribe {
            names: names(body.names())?,
            filter: body.filter().map_or_else(Filter::default, filter),
        }
    } else if let Some(body) = root.body_as_unsubscribe() {
        let list = body.ids();
        within("ids", list.map_or(0, |ids| ids.len()), MAX_NAMES)?;
        RequestBody::Unsubscribe { ids: ids(list) }
    } else if let Some(body) = root.body_as_get() {
        RequestBody::Get {
            names: names(body.names())?,
            timeout_ms: body.timeout_ms(),
            description: body.description(),
        }
    } else if let Some(body) = root.body_as_ack() {
        RequestBody::Ack { tick: body.tick() }
    } else if let Some(body) = root.body_as_ping() {
        RequestBody::Ping {
            client_time_ns: body.client_time_ns(),
        }
    } else if let Some(body) = root.body_as_put() {
        RequestBody::Put(put(body)?)
    } else if let Some(body) = root.body_as_put_many() {
        RequestBody::PutMany {
            puts: puts(body.puts())?,
            all_permitted: body.all_permitted(),
        }
    } else if let Some(body) = root.body_as_put_within() {
        RequestBody::PutWithin {
            puts: puts(body.puts())?,
            all_permitted: body.all_permitted(),
        }
    } else if let Some(body) = root.body_as_rpc() {
        rpc(body)?
    } else if let Some(body) = root.body_as_pace() {
        RequestBody::Pace {
            interval_ms: body.interval_ms(),
        }
    } else if let Some(body) = root.body_as_authenticate() {
        RequestBody::Authenticate {
            token: body.token().unwrap_or_default().to_owned(),
        }
    } else if let Some(body) = root.body_as_describe() {
        let list = body.ids();
        within("ids", list.map_or(0, |ids| ids.len()), MAX_NAMES)?;
        RequestBody::Describe { ids: ids(list) }
    } else if let Some(body) = root.body_as_ask() {
        let service = body.service().unwrap_or_default();
        within(
            "bytes of a service's name",
            service.len(),
            MAX_SERVICE_BYTES,
        )?;
        let question = body.body().map_or(&[][..], |body| body.bytes());
        within("bytes of a question", question.len(), MAX_QUESTION_BYTES)?;
        RequestBody::Ask {
            service: service.to_owned(),
            body: question.to_vec(),
        }
    } else if let Some(body) = root.body_as_cancel() {
        RequestBody::Cancel {
            request: body.request(),
        }
    } else {
        return Err(DecodeError::Missing("request body"));
    };
    Ok(Request {
        id: root.id(),
        body,
    })
}

/// Id of a request of an unknown kind, for the reply that refuses it.
///
/// # Errors
/// When the bytes are not a complete request.
pub fn request_id(bytes: &[u8]) -> Result<u32, DecodeError> {
    let root = verified(bytes)?;
    Ok(root.id())
}

/// Where the number of a request is in its message: 4 bytes, little-endian. Equal requests differ there alone. `None` if
/// the number is 0.
#[must_use]
pub fn position_of_request_id(message: &[u8]) -> Option<usize> {
    field::position(message, rq::Request::VT_ID)
}

fn filter(filter: rq::Filter<'_>) -> Filter {
    Filter {
        min_interval_ms: filter.min_interval_ms(),
        // -0 is no deadband, as 0 is.
        deadband: filter.deadband() + 0.0,
        every: filter.every(),
        stride: filter.stride(),
        max_length: filter.max_length(),
        points: filter.points(),
        float32: filter.float32(),
        average: filter.average(),
    }
}

type Puts<'a> = flatbuffers::Vector<'a, flatbuffers::ForwardsUOffset<rq::Put<'a>>>;

fn puts(list: Option<Puts<'_>>) -> Result<Vec<PutRequest>, DecodeError> {
    within("puts", list.map_or(0, |list| list.len()), MAX_PUTS)?;
    (list.into_iter().flat_map(|list| list.iter()))
        .map(put)
        .collect()
}

fn rpc(body: rq::Rpc<'_>) -> Result<RequestBody, DecodeError> {
    let list = body.arguments();
    within(
        "arguments",
        list.map_or(0, |list| list.len()),
        MAX_ARGUMENTS,
    )?;
    let argument = |argument: rq::Argument<'_>| {
        let value = argument
            .value()
            .ok_or(DecodeError::Missing("value of an argument"))?;
        let name = argument.name().unwrap_or_default().to_owned();
        Ok((name, put_value(value)?))
    };
    Ok(RequestBody::Rpc {
        name: body.name().unwrap_or_default().to_owned(),
        arguments: (list.into_iter().flat_map(|list| list.iter()))
            .map(argument)
            .collect::<Result<_, DecodeError>>()?,
        timeout_ms: body.timeout_ms(),
    })
}

fn put(put: rq::Put<'_>) -> Result<PutRequest, DecodeError> {
    let expected = Expected {
        sequence: put.expected_sequence(),
        epoch: put.expected_epoch(),
    };
    Ok(PutRequest {
        name: put.name().unwrap_or_default().to_owned(),
        value: put_value(put.value().ok_or(DecodeError::Missing("value to put"))?)?,
        wait: put.wait(),
        timeout_ms: put.timeout_ms(),
        expected: (expected.sequence != 0 || expected.epoch != 0).then_some(expected),
    })
}

fn put_value(value: rq::PutValue<'_>) -> Result<PutValue, DecodeError> {
    let value_type = ValueType::from_number(value.type_());
    let count = value.count() as usize;
    let mismatch = |column| DecodeError::ColumnMismatch {
        column,
        rows: count,
    };
    if value_type == ValueType::String {
        let mut texts = value.text().map(to_strings).unwrap_or_default();
        if texts.len() != count || (!value.array() && count != 1) {
            return Err(mismatch("text"));
        }
        return Ok(if value.array() {
            PutValue::TextArray(texts)
        } else {
            PutValue::Text(texts.remove(0))
        });
    }
    let Some(bytes) = value_type.element_bytes() else {
        return Err(DecodeError::Missing("type of the value to put"));
    };
    let words = value.data().map_or(&[][..], |words| words.bytes());
    let length = count.checked_mul(bytes).ok_or_else(|| mismatch("data"))?;
    if length.div_ceil(8) * 8 != words.len() || (!value.array() && count != 1) {
        return Err(mismatch("data"));
    }
    if value.array() {
        return Ok(PutValue::Array(Array {
            value_type,
            count: value.count(),
            data: Bytes::copy_from_slice(&words[..length]),
        }));
    }
    let word = u64::from_le_bytes(words.try_into().map_err(|_| mismatch("data"))?);
    Ok(match value_type {
        ValueType::Int64 => PutValue::Int64(word as i64),
        ValueType::UInt64 => PutValue::UInt64(word),
        ValueType::Float64 => PutValue::Number(f64::from_bits(word)),
        _ => return Err(DecodeError::Missing("type of a scalar to put")),
    })
}

fn to_strings(list: Strings<'_>) -> Vec<String> {
    list.iter().map(str::to_owned).collect()
}

fn ids(list: Option<flatbuffers::Vector<'_, u32>>) -> Vec<PvId> {
    list.into_iter()
        .flat_map(|ids| ids.iter())
        .map(PvId)
        .collect()
}

fn within(what: &'static str, count: usize, limit: usize) -> Result<(), DecodeError> {
    if count > limit {
        return Err(DecodeError::TooMany { what, count, limit });
    }
    Ok(())
}

fn names(list: Option<Strings<'_>>) -> Result<Vec<String>, DecodeError> {
    within("names", list.map_or(0, |names| names.len()), MAX_NAMES)?;
    Ok(list.map(to_strings).unwrap_or_default())
}
