//! The configuration of the running kernel, where it can be read.

use std::fs::{self, File};
use std::io::{self, Read};

use flate2::read::GzDecoder;

/// Whether the kernel of this release was built with `option`, such as `CONFIG_PROC_FS`, as y. The
/// answer is no if the configuration cannot be read. Distributions keep it in /boot or with the
/// modules, and the kernel itself offers it with CONFIG_IKCONFIG_PROC, in containers too.
pub(crate) fn built_in(option: &str, release: &str) -> bool {
    fs::read_to_string(format!("/boot/config-{release}"))
        .or_else(|_| fs::read_to_string(format!("/lib/modules/{release}/config")))
        .or_else(|_| inflated("/proc/config.gz"))
        .is_ok_and(|config| says_yes(&config, option))
}

fn inflated(path: &str) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
    Ok(text)
}

fn says_yes(config: &str, option: &str) -> bool {
    config
        .lines()
        .any(|line| line.strip_prefix(option) == Some("=y"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_its_whole_name_and_y() {
        let config = "CONFIG_A_B=y\n# CONFIG_C is not set\nCONFIG_D=m\nCONFIG_E=y\n";
        let yes = |option| says_yes(config, option);
        assert!(yes("CONFIG_A_B") && yes("CONFIG_E"));
        assert!(!yes("CONFIG_A") && !yes("CONFIG_C") && !yes("CONFIG_D") && !yes("B"));
    }

    #[test]
    fn reads_how_the_running_kernel_was_built() {
        let release = rustix::system::uname();
        let release = release.release().to_string_lossy();
        if ![
            "/proc/config.gz".to_owned(),
            format!("/boot/config-{release}"),
        ]
        .iter()
        .any(|path| fs::exists(path).unwrap())
        {
            println!("skipped: this kernel's configuration cannot be read");
            return;
        }
        assert!(built_in("CONFIG_MMU", &release));
        assert!(!built_in("CONFIG_NO_SUCH_OPTION", &release));
    }
}
