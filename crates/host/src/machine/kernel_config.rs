//! The configuration of the running kernel, where it can be read.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use flate2::read::GzDecoder;

/// Whether the kernel of this release was built with `option`, such as `CONFIG_PROC_FS`, as y. The
/// answer is no if the configuration cannot be read. Distributions keep it in /boot or with the
/// modules, and the kernel itself offers it with CONFIG_IKCONFIG_PROC, in containers too.
pub(crate) fn built_in(option: &str, release: &str) -> bool {
    configuration(release).is_ok_and(|config| says_yes(config, option))
}

fn configuration(release: &str) -> io::Result<Box<dyn BufRead>> {
    let plain = File::open(format!("/boot/config-{release}"))
        .or_else(|_| File::open(format!("/lib/modules/{release}/config")));
    Ok(match plain {
        Ok(file) => Box::new(BufReader::new(file)),
        Err(_) => Box::new(BufReader::new(GzDecoder::new(File::open(
            "/proc/config.gz",
        )?))),
    })
}

/// Reads up to the line of the option only, since every command asks at its start, and the whole
/// configuration takes longer to inflate than many a program runs.
fn says_yes(config: impl BufRead, option: &str) -> bool {
    let mut lines = config.lines().map_while(Result::ok);
    let said = lines.find_map(|line| match line.strip_prefix("# ") {
        Some(unset) => (unset.strip_suffix(" is not set") == Some(option)).then_some(false),
        None => {
            let value = line.strip_prefix(option)?.strip_prefix('=')?;
            Some(value == "y")
        }
    });
    said == Some(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

    use super::*;

    #[test]
    fn an_option_is_its_whole_name_and_y() {
        let config = "CONFIG_A_B=y\n# CONFIG_C is not set\nCONFIG_D=m\nCONFIG_E=y\n";
        let yes = |option| says_yes(config.as_bytes(), option);
        assert!(yes("CONFIG_A_B") && yes("CONFIG_E"));
        assert!(!yes("CONFIG_A") && !yes("CONFIG_C") && !yes("CONFIG_D") && !yes("B"));
    }

    #[test]
    fn reading_ends_at_the_option_whether_it_is_set_or_not() {
        for option in ["CONFIG_A", "CONFIG_B"] {
            let mut config = BufReader::with_capacity(
                16,
                "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_D=y\n".as_bytes(),
            );
            assert_eq!(says_yes(&mut config, option), option == "CONFIG_A");
            let mut rest = String::new();
            config.read_to_string(&mut rest).unwrap();
            assert!(rest.contains("CONFIG_D=y"), "{rest}");
        }
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
