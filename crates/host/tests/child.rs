//! Work in a child process. It is one test, since the caller must have only one thread.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed helper fails the test"
)]

use std::io::Write;

use hugetext_host::{ChildError, in_child};
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn a_child_hands_back_its_result_and_keeps_its_end_to_itself() {
    let long = "x".repeat(1 << 20);
    assert_eq!(in_child(|| long.clone()).unwrap(), long);
    let aborted: Result<(), _> = in_child(|| std::process::abort());
    let error = aborted.unwrap_err();
    assert!(error.to_string().contains("SIGABRT"), "{error}");
    let panicked: Result<(), _> = in_child(|| panic!("on purpose"));
    assert!(matches!(panicked, Err(ChildError::Ended)));
    let mut file = tempfile::tempfile().unwrap();
    let limited = in_child(|| {
        let limit = Rlimit {
            current: Some(10),
            maximum: Some(10),
        };
        setrlimit(Resource::Fsize, limit).unwrap();
        file.write_all(&[0; 100]).is_err()
    });
    assert!(limited.unwrap(), "an error instead of SIGXFSZ");
    file.write_all(&[0; 100]).unwrap();
}
