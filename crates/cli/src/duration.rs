//! Durations as people write them: `500ms`, `30s`, `15m`, `24h`, `30d`, `FOREVER`.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// The units, longest first, in milliseconds.
const UNITS: [(&str, u128); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration. Months and years have no fixed length and are refused; a day is 24 hours.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let fix = "write a number with a unit, such as 500ms, 30s, 15m, 24h or 30d";
    let span: Span =
        text.trim().parse().map_err(|_not_a_span: jiff::Error| format!("is no duration; {fix}"))?;
    if span.get_years() != 0 || span.get_months() != 0 {
        return Err("months and years have no fixed length; write days, such as 30d".to_owned());
    }
    let signed = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|error| format!("is out of range ({error}); {fix}"))?;
    Duration::try_from(signed).map_err(|_negative| format!("is negative; {fix}"))
}

/// How long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    For(Duration),
    Forever,
}

/// Reads a duration or `FOREVER`, in whichever case.
pub(crate) fn parse_retention(text: &str) -> Result<Retention, String> {
    if text.trim().eq_ignore_ascii_case("forever") {
        return Ok(Retention::Forever);
    }
    parse(text).map(Retention::For).map_err(|problem| format!("{problem}, or FOREVER"))
}

/// Writes a duration in the largest unit that says it exactly.
pub(crate) fn format(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    let exact = UNITS.iter().find(|(_, length)| millis.is_multiple_of(*length));
    exact.map_or_else(
        || format!("{millis}ms"),
        |(unit, length)| format!("{}{unit}", millis / length),
    )
}

/// Writes about how long something takes, for people: two units at most.
pub(crate) fn about(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    if millis < 60_000 {
        return format!("{:.1}s", duration.as_secs_f64());
    }
    let place = UNITS.iter().position(|(_, length)| millis >= *length).unwrap_or(0);
    let (unit, length) = UNITS[place];
    let (smaller, shorter) = UNITS[(place + 1).min(UNITS.len() - 1)];
    let rest = millis % length / shorter;
    if rest == 0 {
        format!("{}{unit}", millis / length)
    } else {
        format!("{}{unit} {rest}{smaller}", millis / length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("15m", 900_000),
            ("36h", 129_600_000),
            ("30d", 2_592_000_000),
            ("1500ms", 1_500),
            ("0s", 0),
        ] {
            let duration = parse(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
            assert_eq!(format(duration), text);
        }
        assert_eq!(format(parse("24h").unwrap()), "1d");
        assert_eq!(parse("1h 30m").unwrap(), Duration::from_secs(5_400));
        assert_eq!(parse("1w").unwrap(), Duration::from_secs(7 * 86_400));
    }

    #[test]
    fn what_has_no_fixed_length_is_refused() {
        for text in ["", "30", "1mo", "2 years", "1y", "-5s", "soon", "99999999999d"] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains("30d"), "{text}: {problem}");
        }
    }

    #[test]
    fn forever_is_a_retention() {
        assert_eq!(parse_retention("FOREVER"), Ok(Retention::Forever));
        assert_eq!(parse_retention("forever"), Ok(Retention::Forever));
        assert!(parse_retention("ever").unwrap_err().ends_with("or FOREVER"));
    }

    #[test]
    fn people_read_two_units() {
        for (millis, text) in [
            (7, "7ms"),
            (29_940, "29.9s"),
            (90_000, "1m 30s"),
            (3_600_000, "1h"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(about(Duration::from_millis(millis)), text);
        }
    }
}
