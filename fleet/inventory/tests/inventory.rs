//! The program as users run it: images, places, and what is damaged.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Images and a place for rows.
struct Bench {
    directory: TempDir,
}

fn sum(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn layer(files: &[&str]) -> Vec<u8> {
    let program = fs::read("/bin/true").unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    for name in files {
        let content = if name.contains(".wh.") {
            &[][..]
        } else {
            &program
        };
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        builder.append_data(&mut header, name, content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

impl Bench {
    fn new() -> Bench {
        Bench {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a blob below `root`, and returns its reference.
    fn blob(&self, root: &str, bytes: &[u8]) -> serde_json::Value {
        let blobs = self.path(root).join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        fs::write(blobs.join(sum(bytes)), bytes).unwrap();
        serde_json::json!({"digest": format!("sha256:{}", sum(bytes)), "size": bytes.len()})
    }

    /// Two images that share their lower layer.
    fn layout(&self, root: &str) {
        let lower = self.blob(root, &gzip(&layer(&["bin/a", "bin/b"])));
        let upper = self.blob(root, &layer(&["bin/.wh.a", "bin/c", "bin/d"]));
        let image = |layers: &[&serde_json::Value]| {
            let config = self.blob(root, format!("{{\"n\": {}}}", layers.len()).as_bytes());
            let manifest =
                serde_json::json!({"schemaVersion": 2, "config": config, "layers": layers});
            self.blob(root, manifest.to_string().as_bytes())
        };
        let mut manifests = [image(&[&lower]), image(&[&lower, &upper])];
        for (number, manifest) in manifests.iter_mut().enumerate() {
            let name = format!("image:{number}");
            manifest["annotations"] =
                serde_json::json!({"org.opencontainers.image.ref.name": name});
        }
        let index = serde_json::json!({"schemaVersion": 2, "manifests": manifests});
        fs::write(self.path(root).join("index.json"), index.to_string()).unwrap();
    }

    /// The program as a machine of its own, which may have no machine-id.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hugetext-inventory"));
        command
            .args(["--spool", self.path("spool").to_str().unwrap()])
            .args(["--machine", "bench"])
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn images(&self, paths: &[&str]) -> Output {
        let target = self.path("target");
        let mut arguments = vec![
            "--only-images",
            "--host",
            "h",
            "-o",
            target.to_str().unwrap(),
        ];
        let paths: Vec<PathBuf> = paths.iter().map(|path| self.path(path)).collect();
        for path in &paths {
            arguments.extend(["--image", path.to_str().unwrap()]);
        }
        self.run(&arguments)
    }

    /// All files below the target.
    fn written(&self) -> Vec<PathBuf> {
        let entries = walkdir::WalkDir::new(self.path("target"))
            .into_iter()
            .flatten();
        let files = entries.filter(|entry| entry.file_type().is_file());
        files.map(walkdir::DirEntry::into_path).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn archive(from: &Path, to: &Path) {
    let mut builder = tar::Builder::new(fs::File::create(to).unwrap());
    builder.append_dir_all(".", from).unwrap();
    builder.finish().unwrap();
}

#[test]
fn every_form_of_an_image_gives_the_same_rows() {
    let bench = Bench::new();
    bench.layout("layout");
    archive(&bench.path("layout"), &bench.path("layout.tar"));
    bench.layout("root/io.containerd.content.v1.content");
    fs::remove_file(bench.path("root/io.containerd.content.v1.content/index.json")).unwrap();
    // a and b in one image; b, c and d in the other. /bin/true has one segment of text, and one leaf on x86-64.
    let leaves = if cfg!(target_arch = "x86_64") { 1 } else { 2 };
    let rows = format!("{} rows", 5 * leaves);
    for form in ["layout", "layout.tar", "root"] {
        let output = bench.images(&[form]);
        assert!(output.status.success(), "{form}: {}", said(&output));
        assert!(
            printed(&output).starts_with(&rows),
            "{form}: {}",
            printed(&output)
        );
    }
    let files = bench.written();
    assert_eq!(files.len(), 3);
    for file in &files {
        let path = file.to_str().unwrap();
        assert!(
            path.contains("/host=h/") && path.contains("/date=2"),
            "{path}"
        );
        let shown = bench.run(&["--show", path]);
        assert!(printed(&shown).starts_with(&rows), "{}", said(&shown));
    }
}

#[test]
fn an_archive_of_docker_goes_by_the_content_of_its_layers() {
    let bench = Bench::new();
    let content = layer(&["bin/a"]);
    bench.blob("saved", &content);
    let config = serde_json::json!({"rootfs": {"diff_ids": [format!("sha256:{}", sum(&content))]}});
    fs::write(bench.path("saved/config.json"), config.to_string()).unwrap();
    let layer = format!("blobs/sha256/{}", sum(&content));
    let list =
        serde_json::json!([{"Config": "config.json", "RepoTags": ["x:1"], "Layers": [layer]}]);
    fs::write(bench.path("saved/manifest.json"), list.to_string()).unwrap();
    archive(&bench.path("saved"), &bench.path("saved.tar"));
    let output = bench.images(&["saved.tar"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        !printed(&output).starts_with("0 rows"),
        "{}",
        printed(&output)
    );
}

#[test]
fn a_damaged_layer_is_one_line_and_the_other_image_is_written() {
    let bench = Bench::new();
    bench.layout("layout");
    let upper = layer(&["bin/.wh.a", "bin/c", "bin/d"]);
    let path = bench.path("layout/blobs/sha256").join(sum(&upper));
    fs::write(&path, &upper[..upper.len() / 2]).unwrap();
    let output = bench.images(&["layout", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    let lines = said(&output);
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(
        lines.contains(&sum(&upper)) && lines.contains("pull or build"),
        "{lines}"
    );
    assert_eq!(bench.written().len(), 1);
    assert!(!printed(&output).starts_with("0 rows"));
}

#[test]
fn a_file_cut_short_is_one_line() {
    let bench = Bench::new();
    bench.layout("layout");
    assert!(bench.images(&["layout"]).status.success());
    let file = bench.written().pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    for len in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..len]).unwrap();
        let shown = bench.run(&["--show", file.to_str().unwrap()]);
        assert_eq!(shown.status.code(), Some(2), "{len}");
        let lines = said(&shown);
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains(file.to_str().unwrap()), "{lines}");
    }
}

#[test]
fn what_runs_here_is_written_with_its_linker_and_build_id() {
    let bench = Bench::new();
    let target = bench.path("target");
    let output = bench.run(&["-o", target.to_str().unwrap(), "--scan", "/bin/true"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(bench.written().len(), 1);
    // This test and the C library at least.
    let rows: usize = printed(&output).split(' ').next().unwrap().parse().unwrap();
    assert!(rows >= 3, "{}", printed(&output));
}

#[test]
fn a_place_that_is_none_is_told_before_any_work() {
    let bench = Bench::new();
    for (place, says) in [
        ("/proc/nowhere", "/proc/nowhere: "),
        ("ftp://user:secret@host/x", "ftp://host/x: "),
        ("FTP://user:secret@HOST/x?sig=secret", "give s3://"),
        ("https://user:secret@host/x?sig=secret", "give s3://"),
        ("/proc/nowhere", "name a directory that this user may write"),
    ] {
        let output = bench.run(&["-o", place]);
        assert_eq!(output.status.code(), Some(2));
        let lines = said(&output);
        assert!(lines.contains(says) && !lines.contains("secret"), "{lines}");
        assert_eq!(lines.lines().count(), 1, "{lines}");
    }
}

#[test]
fn a_store_without_credentials_names_the_variables_and_the_rows_wait() {
    // Each cloud would give a machine with a role what it needs. Nobody listens at port 9 here.
    let nobody = "http://127.0.0.1:9";
    let stores = [
        (
            cfg!(feature = "s3"),
            "s3://bucket/a",
            "AWS_ACCESS_KEY_ID and ",
        ),
        (
            cfg!(feature = "gcs"),
            "gs://bucket/a",
            "GOOGLE_SERVICE_ACCOUNT ",
        ),
        (
            cfg!(feature = "azure"),
            "az://container/a",
            "AZURE_STORAGE_ACCOUNT_NAME, ",
        ),
    ];
    for (_, place, variables) in stores.iter().filter(|(is_built, ..)| *is_built) {
        let bench = Bench::new();
        let output = bench
            .command(&[
                "-o",
                place,
                "--scan",
                "/bin/true",
                "--run-dir",
                "/nonexistent",
            ])
            .env_clear()
            .env("HOME", bench.path("home"))
            .env("AWS_METADATA_ENDPOINT", nobody)
            .env("GCE_METADATA_HOST", "127.0.0.1:9")
            .env("GCE_METADATA_IP", "127.0.0.1:9")
            .env("AZURE_STORAGE_ACCOUNT_NAME", "account")
            .env("IDENTITY_ENDPOINT", nobody)
            .output()
            .unwrap();
        let line = said(&output);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        let first = format!("{place}: the environment has no credentials for it: ");
        assert!(line.contains(&first), "{line}");
        assert!(line.contains(&format!("set {variables}")), "{line}");
        assert!(
            line.contains(bench.path("spool").to_str().unwrap()),
            "{line}"
        );
    }
}

#[test]
fn rows_for_another_place_are_told_and_wait() {
    let bench = Bench::new();
    bench.layout("layout");
    let first = bench.path("first");
    fs::create_dir(&first).unwrap();
    let write = |to: &Path| {
        let image = bench.path("layout");
        let arguments = ["--only-images", "--host", "h", "--image"];
        let mut command = bench.command(&arguments);
        command.arg(image).arg("-o").arg(to).output().unwrap()
    };
    // Where the day's directory is to lie, a file lies.
    assert!(write(&first).status.success());
    let day = fs::read_dir(&first)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::remove_dir_all(&day).unwrap();
    fs::write(&day, b"").unwrap();
    assert_eq!(write(&first).status.code(), Some(2));
    let other = write(&bench.path("target"));
    assert!(other.status.success(), "{}", said(&other));
    assert_eq!(bench.written().len(), 1);
    let remedy = format!("-o {}", first.canonicalize().unwrap().display());
    assert!(said(&other).contains(&remedy), "{}", said(&other));
    fs::remove_file(&day).unwrap();
    let last = write(&first);
    assert!(
        printed(&last).contains("2 files sent"),
        "{}",
        printed(&last)
    );
    assert_eq!(said(&last), "");
}
