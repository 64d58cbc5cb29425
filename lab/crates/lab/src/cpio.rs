//! Writes the archive format of an initramfs: "newc" (Documentation/driver-api/early-userspace/
//! buffer-format.rst).

use std::io::{self, Write};

/// S_IFREG, S_IFDIR and S_IFLNK with the usual rights.
const FILE: u32 = 0o100_755;
const DIRECTORY: u32 = 0o040_755;
const LINK: u32 = 0o120_777;

/// An archive being written. A directory must come before its entries.
pub(crate) struct Archive<W: Write> {
    to: W,
    written: u64,
    inode: u32,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(to: W) -> Self {
        Archive {
            to,
            written: 0,
            inode: 0,
        }
    }

    /// A regular file. Every file is executable, which does no harm.
    pub(crate) fn file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.entry(path, FILE, bytes)
    }

    pub(crate) fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY, &[])
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, LINK, target.as_bytes())
    }

    /// Ends the archive. Another one may follow it in the same file.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let path = path.trim_start_matches('/');
        self.inode += 1;
        let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let links = if mode == DIRECTORY { 2 } else { 1 };
        let name = path.len() as u32 + 1;
        let header = [self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name, 0];
        let mut head = String::from("070701");
        for field in header {
            head.push_str(&format!("{field:08x}"));
        }
        head.push_str(path);
        head.push('\0');
        self.put(head.as_bytes())?;
        self.put(bytes)
    }

    /// Writes and pads to the next multiple of four.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)?;
        self.written += bytes.len() as u64;
        let pad = self.written.next_multiple_of(4) - self.written;
        self.written += pad;
        self.to.write_all(&[0; 4][..pad as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn cpio_reads_what_was_written() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("/a").unwrap();
        archive.file("/a/odd", b"12345").unwrap();
        archive.link("/a/link", "odd").unwrap();
        let bytes = archive.finish().unwrap();
        let child = Command::new("cpio")
            .args(["-it", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            println!("skipped: no cpio on this machine");
            return;
        };
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"a\na/odd\na/link\n");
    }
}
