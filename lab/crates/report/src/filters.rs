//! What templates do with figures.

use minijinja::value::ViaDeserialize;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde::Deserialize;

/// A median with the interval that holds it, as the documents of benchmarks have it.
#[derive(Deserialize)]
struct Estimate {
    median: f64,
    low: Option<f64>,
    high: Option<f64>,
}

pub(crate) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("fixed", fixed);
    environment.add_filter("grouped", grouped);
    environment.add_filter("interval", interval);
    environment.add_filter("named", named);
}

/// With so many decimals.
fn fixed(value: f64, decimals: usize) -> String {
    // Python and jq round half to even of the exact binary value, as Rust does.
    format!("{value:.decimals$}")
}

/// `13,087`.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// `0.886 (0.880 to 0.893)`; without the interval if there is none.
fn interval(ViaDeserialize(ratio): ViaDeserialize<Estimate>) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!("{:.3} ({low:.3} to {high:.3})", ratio.median),
        _ => format!("{:.3}", ratio.median),
    }
}

/// The one of a list whose field `name` is this, such as a measure of a comparison.
fn named(list: &Value, name: &str) -> Result<Value, Error> {
    for one in list.try_iter()? {
        if one.get_attr("name")?.as_str() == Some(name) {
            return Ok(one);
        }
    }
    Err(Error::new(
        ErrorKind::InvalidOperation,
        format!("nothing is named '{name}'"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_as_readers_expect() {
        let mut environment = Environment::new();
        add(&mut environment);
        let shown = |template: &str| environment.render_str(template, ()).unwrap();
        assert_eq!(
            shown("{{ 1234567|grouped }} {{ 12|grouped }}"),
            "1,234,567 12"
        );
        assert_eq!(shown("{{ 0.98765|fixed(2) }}"), "0.99");
        let ratio = "{'median': 0.9, 'low': 0.85, 'high': 0.951}";
        assert_eq!(
            shown(&format!("{{{{ {ratio}|interval }}}}")),
            "0.900 (0.850 to 0.951)"
        );
        let list = "[{'name': 'wall', 'unit': 's'}]";
        assert_eq!(
            shown(&format!("{{{{ ({list}|named('wall')).unit }}}}")),
            "s"
        );
        assert!(
            environment
                .render_str(&format!("{{{{ {list}|named('cpu') }}}}"), ())
                .is_err()
        );
    }
}
