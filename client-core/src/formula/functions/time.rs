//! The function `timestamp`.

use super::Call;
use crate::formula::MAX_TEXT_BYTES;
use crate::formula::error::Fault;
use crate::formula::value::Value;

/// The format of Phoebus if none is given.
const FORMAT: &str = "yyyy-MM-dd HH:mm:ss.SSS";

const DAY_SECONDS: i64 = 24 * 3600;

/// The time stamp of the first argument, in local time, in the format of the second one.
pub(super) fn stamp(call: &mut Call<'_>) -> Result<Value, Fault> {
    let stamp = call
        .arguments
        .first()
        .map(|one| one.time)
        .unwrap_or_default();
    let format = match call.value(1) {
        Value::Text(format) if call.arguments.len() > 1 => format,
        _ if call.arguments.len() > 1 => return Err(call.wrong(1, "a text")),
        _ => FORMAT,
    };
    if format.len() > MAX_TEXT_BYTES {
        return Err(Fault::Text {
            limit: MAX_TEXT_BYTES,
        });
    }
    let local = stamp
        .seconds
        .saturating_add(i64::from(call.context.utc_offset_seconds));
    let (year, month, day) = date(local.div_euclid(DAY_SECONDS));
    let second = local.rem_euclid(DAY_SECONDS);
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter == '\'' {
            literal(&mut rest, &mut text);
            continue;
        }
        let mut width = 1;
        while letter.is_ascii_alphabetic() && rest.next_if_eq(&letter).is_some() {
            width += 1;
        }
        // Wider than any number, and a text of limited length.
        let digits = width.min(20);
        match letter {
            'y' | 'u' if width == 2 => text.push_str(&format!("{:02}", year.rem_euclid(100))),
            'y' | 'u' => text.push_str(&format!("{year:0digits$}")),
            'M' => text.push_str(&format!("{month:0digits$}")),
            'd' => text.push_str(&format!("{day:0digits$}")),
            'H' => text.push_str(&format!("{:0digits$}", second / 3600)),
            'm' => text.push_str(&format!("{:0digits$}", second / 60 % 60)),
            's' => text.push_str(&format!("{:0digits$}", second % 60)),
            'S' => {
                let all = format!("{:09}", stamp.nanoseconds);
                text.extend(all.chars().take(digits));
            }
            other if other.is_ascii_alphabetic() => return Err(Fault::TimeFormat(other)),
            other => text.push(other),
        }
    }
    Ok(Value::Text(text.into()))
}

/// Text between single quotes; two quotes stand for one.
fn literal(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, text: &mut String) {
    if rest.next_if_eq(&'\'').is_some() {
        text.push('\'');
        return;
    }
    while let Some(next) = rest.next() {
        if next == '\'' && rest.next_if_eq(&'\'').is_none() {
            return;
        }
        text.push(next);
    }
}

/// Year, month and day of a number of days past 1970-01-01, in the Gregorian calendar.
fn date(days: i64) -> (i64, i64, i64) {
    // Counted in years from March on, so that a leap day is the last day of a year.
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}
