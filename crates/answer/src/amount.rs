//! Measured values for display.

use hugetext_bench::{Estimate, Interval, Unit, Value};

use crate::table::bytes;

/// `0.886 (0.880 to 0.893)`; without the interval if it is absent or has no width.
pub fn ratio(value: &Value) -> String {
    let Some(Estimate { median, interval }) = value.ratio else {
        return "-".to_owned();
    };
    match interval {
        Some(Interval { low, high }) if low < high => {
            format!("{median:.3} ({low:.3} to {high:.3})")
        }
        _ => format!("{median:.3}"),
    }
}

/// A value with its unit.
pub fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value >= 1.0 => format!("{value:.2} s"),
        Unit::Seconds => format!("{:.2} ms", value * 1e3),
        Unit::Count => format!("{value:.0}"),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::Factor => format!("{value:.2}"),
        Unit::PerThousand => format!("{value:.3}"),
        Unit::Bytes => bytes(value as u64),
    }
}
