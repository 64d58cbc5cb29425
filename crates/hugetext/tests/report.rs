//! Reports as a user makes them.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn hugetext(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hugetext"))
        .args(arguments)
        .output()
        .unwrap()
}

/// What `hugetext bench --json NAME` printed once; hugetext-bench is not there wherever these tests run.
fn results(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report");
    tests.join(name).with_extension("json")
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_report_stands_alone_and_shows_every_subject() {
    let directory = tempfile::tempdir().unwrap();
    // The name would break the markup of the page if it were not escaped.
    let program = directory.path().join("<b>&\"program");
    fs::copy(env!("CARGO_BIN_EXE_hugetext"), &program).unwrap();
    let results = results("mprotect");
    let page = directory.path().join("report.html");
    let own = std::process::id().to_string();
    let subjects = [path(&program), &own, "--bench", path(&results)];
    let written = hugetext(&[&["report", "-o", path(&page)][..], &subjects].concat());
    assert_eq!(
        written.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&written.stderr)
    );
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("&lt;b&gt;&amp;&quot;program") && !text.contains("<b>&"));
    assert!(text.contains(&format!("Process {own}")) && text.contains("mprotect: "));
    for foreign in ["http:", "https:", "<script", "<link", "<img", "url("] {
        assert!(!text.contains(foreign), "{foreign}");
    }
    assert!(text.trim_end().ends_with("</html>"));
}

#[test]
fn a_process_is_recorded_and_drawn_again_later() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("own.json");
    let own = std::process::id().to_string();
    let title = ["--title", "<this> test"];
    let recorded = hugetext(&[&["report", "-o", path(&record), &own][..], &title].concat());
    assert!(recorded.status.success(), "{recorded:?}");
    let drawing = directory.path().join("own.svg");
    let drawn = hugetext(&["report", "-o", path(&drawing), "--record", path(&record)]);
    assert!(drawn.status.success(), "{drawn:?}");
    let text = fs::read_to_string(&drawing).unwrap();
    assert!(text.contains("&lt;this&gt; test") && text.contains("page-table entries map"));
    assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
}

#[test]
fn the_figure_and_the_sessions_of_the_readme_are_the_recorded_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (figures, records) = (root.join("docs/figures"), root.join("lab/records/figures"));
    let directory = tempfile::tempdir().unwrap();
    let drawing = directory.path().join("rustc.svg");
    let (before, after) = (records.join("before.json"), records.join("after.json"));
    let records = ["--record", path(&before), "--record", path(&after)];
    let drawn = hugetext(&[&["report", "-o", path(&drawing)][..], &records].concat());
    assert!(drawn.status.success(), "{drawn:?}");
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    assert_eq!(
        text(&drawing),
        text(&figures.join("rustc.svg")),
        "run make -C lab figures"
    );
    let readme = text(&root.join("README.md"));
    for session in ["first.txt", "session.txt"] {
        assert!(readme.contains(&text(&figures.join(session))), "{session}");
    }
}

#[test]
fn modelled_misses_are_plotted_too() {
    let directory = tempfile::tempdir().unwrap();
    let (results, page) = (results("tlb"), directory.path().join("page"));
    let written = hugetext(&["report", "-o", path(&page), "--bench", path(&results)]);
    assert_eq!(written.status.code(), Some(0));
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("zen4, L1 misses per 1000 instructions"));
    assert!(text.contains("64k-folios"));
}

#[test]
fn what_cannot_be_read_is_said_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    let results = directory.path().join("results.json");
    fs::write(&results, "{}").unwrap();
    for (arguments, said) in [
        (&["--bench", path(&results)][..], "not a result"),
        (&["--bench", "/nonexistent"], "/nonexistent"),
        (&["/nonexistent"], "/nonexistent"),
        (&["4194304"], "no such process"),
        (&[], "nothing to report"),
    ] {
        let output = hugetext(&[&["report", "-o", path(&page)][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(said) && text.lines().count() == 1, "{text}");
    }
    let drawing = directory.path().join("drawing.svg");
    for (arguments, said) in [
        (&["--record", path(&results)][..], "not a record"),
        (&["/bin/true"], "a drawing shows processes only"),
        (
            &["--bench", path(&results)],
            "cannot show benchmark results",
        ),
    ] {
        let output = hugetext(&[&["report", "-o", path(&drawing)][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(said) && text.lines().count() == 1, "{text}");
    }
    let output = hugetext(&["report", "-o", "/nonexistent/report.html", "/bin/true"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_page_goes_through_links_and_to_standard_output_but_over_no_device() {
    let directory = tempfile::tempdir().unwrap();
    let (link, target, pipe) = (
        directory.path().join("link"),
        directory.path().join("target"),
        directory.path().join("pipe"),
    );
    std::os::unix::fs::symlink("target", &link).unwrap();
    let own = env!("CARGO_BIN_EXE_hugetext");
    let report = |to: &str| hugetext(&["report", "-o", to, own]);
    assert!(report(path(&link)).status.success());
    assert!(link.is_symlink() && target.is_file());

    let piped = report("-");
    assert!(piped.status.success());
    let page = String::from_utf8(piped.stdout).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    let both = hugetext(&["--json", "report", "-o", "-", own]);
    assert_eq!(both.status.code(), Some(2));

    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let refused = report(path(&pipe));
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("not a regular file"), "{text}");
    assert!(!fs::metadata(&pipe).unwrap().is_file());
}
