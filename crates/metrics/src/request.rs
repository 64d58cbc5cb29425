//! What a scraper asks for, and the answer to it.

use crate::textfile::prometheus_text;

/// The most bytes of a request. Scrapers send a few hundred.
pub(crate) const LONGEST: usize = 8192;

/// The type of OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The type of the older format.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What to do with the bytes that came so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for more.
    Read,
    /// Send this, and close.
    Send(Vec<u8>),
}

/// The answer to `request`, of which `metrics` are the answer to /metrics.
pub(crate) fn answer(request: &[u8], metrics: &str) -> Next {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(status) if status.is_partial() && request.len() < LONGEST => return Next::Read,
        Ok(status) if status.is_complete() => {}
        _ => return Next::Send(response("400 Bad Request", PLAIN, "bad request\n", true)),
    }
    let accepts = parsed.headers.iter().any(|header| {
        let value = String::from_utf8_lossy(header.value);
        header.name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text")
    });
    let path = parsed.path.unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let with_body = parsed.method != Some("HEAD");
    Next::Send(match (parsed.method, path) {
        (Some("GET" | "HEAD"), "/metrics") if accepts => {
            response("200 OK", OPENMETRICS, metrics, with_body)
        }
        (Some("GET" | "HEAD"), "/metrics") => {
            response("200 OK", PLAIN, &prometheus_text(metrics), with_body)
        }
        (Some("GET" | "HEAD"), _) => {
            response("404 Not Found", PLAIN, "only /metrics is here\n", with_body)
        }
        _ => response("405 Method Not Allowed", PLAIN, "only GET\n", true),
    })
}

fn response(status: &str, media: &str, body: &str, with_body: bool) -> Vec<u8> {
    let length = body.len();
    let body = if with_body { body } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(request: &str) -> String {
        match answer(request.as_bytes(), "a 1\n# EOF\n") {
            Next::Send(bytes) => String::from_utf8(bytes).unwrap(),
            Next::Read => panic!("{request}"),
        }
    }

    #[test]
    fn a_scraper_gets_the_format_that_it_asks_for() {
        let open = sent(
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*\r\n\r\n",
        );
        assert!(open.starts_with("HTTP/1.1 200 OK\r\n") && open.ends_with("# EOF\n"));
        let plain = sent("GET /metrics?x=1 HTTP/1.0\r\n\r\n");
        assert!(plain.contains("version=0.0.4") && plain.ends_with("\r\n\r\na 1\n"));
        assert!(sent("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(sent("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(sent("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(sent("\x01\r\n\r\n").starts_with("HTTP/1.1 400 "));
        assert_eq!(answer(b"GET /metr", ""), Next::Read);
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer_before_they_fill_memory(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let mut long = bytes;
            long.resize(LONGEST, b'a');
            prop_assert!(answer(&long, "") != Next::Read);
        }
    }
}
