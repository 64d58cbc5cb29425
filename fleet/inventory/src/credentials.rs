//! What each object store takes from the environment, and what to set where it is not there.

use std::fs::File;

/// The variables of a kind of store.
#[derive(Debug)]
pub(crate) struct Variables {
    /// What to set, in words.
    pub(crate) words: &'static str,
    /// Any of these says that there are credentials.
    credentials: &'static [&'static str],
    /// Those that hold the path of a file.
    files: &'static [&'static str],
}

/// Those of S3.
#[cfg(feature = "s3")]
pub(crate) const S3: Variables = Variables {
    words: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    credentials: &[
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_SKIP_SIGNATURE",
    ],
    files: &["AWS_WEB_IDENTITY_TOKEN_FILE"],
};

/// Those of Google's.
#[cfg(feature = "gcs")]
pub(crate) const GCS: Variables = Variables {
    words: "GOOGLE_SERVICE_ACCOUNT (the path of a key file) or GOOGLE_BEARER_TOKEN",
    credentials: &[
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_BEARER_TOKEN",
        "GOOGLE_SKIP_SIGNATURE",
    ],
    files: &[
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "SERVICE_ACCOUNT",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ],
};

/// Those of Microsoft's.
#[cfg(feature = "azure")]
pub(crate) const AZURE: Variables = Variables {
    words: "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY",
    credentials: &[
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_MASTER_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_CLIENT_SECRET",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_SKIP_SIGNATURE",
    ],
    files: &["AZURE_FEDERATED_TOKEN_FILE"],
};

/// Looks up a variable. One that is empty counts as missing.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A variable of this process.
pub(crate) fn of_process(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Variables {
    /// Whether the environment has credentials at all. A machine without may have a role in its cloud.
    pub(crate) fn are_set(&self, environment: Environment<'_>) -> bool {
        let mut names = self.credentials.iter();
        names.any(|name| environment(name).is_some())
    }

    /// What is wrong with a file that the environment names.
    pub(crate) fn problem_of_files(&self, environment: Environment<'_>) -> Option<String> {
        let mut files = self.files.iter();
        files.find_map(|name| {
            let path = environment(name)?;
            let error = File::open(&path).err()?;
            // Some put the key itself there, which is never shown.
            Some(if path.trim_start().starts_with('{') {
                format!("{name} holds a key, and takes the path of its file")
            } else {
                format!("{name} names {path}: {error}")
            })
        })
    }
}

#[cfg(all(test, feature = "gcs"))]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_keys_that_is_missing_is_named_with_its_variable_and_a_key_is_not_shown() {
        let set = |value: &'static str| {
            let environment = move |name: &str| {
                (name == "GOOGLE_APPLICATION_CREDENTIALS").then(|| value.to_owned())
            };
            assert!(GCS.are_set(&environment));
            GCS.problem_of_files(&environment)
        };
        let missing = set("/nonexistent/key.json").unwrap();
        assert!(
            missing.starts_with("GOOGLE_APPLICATION_CREDENTIALS names /nonexistent/key.json: "),
            "{missing}"
        );
        let key = set("{\"private_key\": \"secret\"}").unwrap();
        assert!(!key.contains("secret"), "{key}");
        assert_eq!(set("/dev/null"), None);
        assert!(!GCS.are_set(&|_| None));
    }
}
