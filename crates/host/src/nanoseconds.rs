//! Durations in JSON: whole nanoseconds, in fields whose names end in `_ns`.

use std::time::Duration;

use serde::Serializer;

/// A duration as whole nanoseconds. More than 584 years become 584 years.
pub fn whole_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Serializes a duration as [`whole_nanoseconds`].
pub fn nanoseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_nanoseconds(*duration))
}
