//! The text formats of metrics: OpenMetrics, and the older format of Prometheus.
//!
//! They differ in more than their name: the older format has no units and no final line, and it describes a
//! counter by the name of its samples, with `_total`. A parser of one of them loses help and types in the other.

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

impl TextFormat {
    /// The content type of an HTTP answer.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The format that a client prefers, by the values of its `Accept` headers; OpenMetrics if it prefers none.
    /// Browsers accept `text/html` and would download OpenMetrics, so they get plain text.
    #[must_use]
    pub fn preferred<'a>(accepted: impl Iterator<Item = &'a str>) -> Self {
        let (mut open_metrics, mut plain) = (0.0, 0.0);
        for range in accepted.flat_map(|list| list.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok());
            let of_format = match media_type.as_str() {
                "application/openmetrics-text" => &mut open_metrics,
                text if text.starts_with("text/") => &mut plain,
                _ => continue,
            };
            *of_format = f64::max(*of_format, quality.unwrap_or(1.0));
        }
        if plain > open_metrics {
            Self::Prometheus
        } else {
            Self::OpenMetrics
        }
    }

    /// Writes metrics, which come as OpenMetrics text, in this format.
    pub(super) fn of_open_metrics(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => prometheus(&text),
        }
    }
}

/// The same metrics in the text format of Prometheus.
fn prometheus(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut help = None;
    for line in text.split_inclusive('\n') {
        if line.starts_with("# UNIT ") || line == "# EOF\n" {
            continue;
        }
        if let Some(described) = line.strip_prefix("# HELP ") {
            // Written with the type, which follows.
            help = described.split_once(' ');
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|of_type| of_type.split_once(' '))
        {
            let end = if kind == "counter\n" { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                written.extend(["# HELP ", name, end, " ", help]);
            }
            written.extend(["# TYPE ", name, end, " ", kind]);
        } else {
            written.push_str(line);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_the_names_of_their_samples_in_plain_text() {
        let open_metrics = "# HELP a_seconds Time.\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\na_seconds 1.5\n\
                            # HELP b Number.\n# TYPE b counter\nb_total{code=\"403\"} 2\n# EOF\n";
        let plain = "# HELP a_seconds Time.\n# TYPE a_seconds gauge\na_seconds 1.5\n\
                     # HELP b_total Number.\n# TYPE b_total counter\nb_total{code=\"403\"} 2\n";
        let write = |format: TextFormat| format.of_open_metrics(open_metrics.to_owned());
        assert_eq!(write(TextFormat::Prometheus), plain);
        assert_eq!(write(TextFormat::OpenMetrics), open_metrics);
    }

    #[test]
    fn client_gets_the_format_that_it_prefers() {
        use TextFormat::{OpenMetrics, Prometheus};
        for (accepted, format) in [
            (&[][..], OpenMetrics),
            (&["*/*"], OpenMetrics),
            (
                &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
                Prometheus,
            ),
            (
                &[
                    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                ],
                OpenMetrics,
            ),
            (
                &["application/openmetrics-text; version=1.0.0; q=0.2, text/plain;q=0.9"],
                Prometheus,
            ),
            (
                &["application/openmetrics-text;q=0, text/plain"],
                Prometheus,
            ),
            (&["text/plain", "application/openmetrics-text"], OpenMetrics),
            (&["Text/Plain;version=0.0.4;q=1,*/*;q=0.1"], Prometheus),
        ] {
            let found = TextFormat::preferred(accepted.iter().copied());
            assert_eq!(found, format, "{accepted:?}");
        }
    }
}
