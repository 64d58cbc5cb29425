//! Object stores by their URLs. What a store needs to know else is in the environment.

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreScheme};

use crate::credentials::Variables;
#[cfg(feature = "http")]
use crate::credentials::of_process;

/// An object store.
#[derive(Debug)]
pub(crate) struct Store {
    /// Where objects are put.
    pub(crate) store: Box<dyn ObjectStore>,
    /// What it takes from the environment.
    pub(crate) variables: &'static Variables,
    /// Whether the environment has credentials for it.
    pub(crate) has_credentials: bool,
}

/// What helps who named another place.
const KNOWN: &str = "give s3://, gs://, az:// or a directory";

/// The store that a URL names, and the prefix of its keys there.
pub(crate) fn open(text: &str) -> Result<(Store, Key), String> {
    #[cfg(feature = "http")]
    // A second try finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = url::Url::parse(text).map_err(|error| format!("{error}; {KNOWN}"))?;
    let parsed = ObjectStoreScheme::parse(&url);
    let (scheme, prefix) = parsed.map_err(|error| format!("{error}; {KNOWN}"))?;
    let store = match scheme {
        ObjectStoreScheme::AmazonS3 => s3(text),
        ObjectStoreScheme::GoogleCloudStorage => gcs(text),
        ObjectStoreScheme::MicrosoftAzure => azure(text),
        _ => Err(format!("no object store; {KNOWN}")),
    };
    Ok((store?, prefix))
}

/// How often and how long a store is tried that is away: a run of a timer must end.
#[cfg(feature = "http")]
fn retry() -> object_store::RetryConfig {
    object_store::RetryConfig {
        max_retries: 3,
        retry_timeout: std::time::Duration::from_secs(30),
        ..object_store::RetryConfig::default()
    }
}

/// A store that `build` makes of the environment.
#[cfg(feature = "http")]
fn opened<S: ObjectStore>(
    variables: &'static Variables,
    build: impl FnOnce() -> Result<S, object_store::Error>,
) -> Result<Store, String> {
    let wrong = |problem: String| format!("{problem}; set {}", variables.words);
    if let Some(problem) = variables.problem_of_files(&of_process) {
        return Err(wrong(problem));
    }
    let store = build().map_err(|error| wrong(error.to_string()))?;
    Ok(Store {
        store: Box::new(store),
        variables,
        has_credentials: variables.are_set(&of_process),
    })
}

#[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
fn missing(feature: &str) -> Result<Store, String> {
    Err(format!(
        "this program was built without that store; build it with --features {feature}"
    ))
}

#[cfg(feature = "s3")]
fn s3(url: &str) -> Result<Store, String> {
    let builder = object_store::aws::AmazonS3Builder::from_env();
    opened(&crate::credentials::S3, || {
        builder.with_url(url).with_retry(retry()).build()
    })
}

#[cfg(not(feature = "s3"))]
fn s3(_: &str) -> Result<Store, String> {
    missing("s3")
}

#[cfg(feature = "gcs")]
fn gcs(url: &str) -> Result<Store, String> {
    let builder = object_store::gcp::GoogleCloudStorageBuilder::from_env();
    opened(&crate::credentials::GCS, || {
        builder.with_url(url).with_retry(retry()).build()
    })
}

#[cfg(not(feature = "gcs"))]
fn gcs(_: &str) -> Result<Store, String> {
    missing("gcs")
}

#[cfg(feature = "azure")]
fn azure(url: &str) -> Result<Store, String> {
    let builder = object_store::azure::MicrosoftAzureBuilder::from_env();
    opened(&crate::credentials::AZURE, || {
        builder.with_url(url).with_retry(retry()).build()
    })
}

#[cfg(not(feature = "azure"))]
fn azure(_: &str) -> Result<Store, String> {
    missing("azure")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_url_is_known() {
        for (url, prefix) in [
            ("s3://bucket/a/b", "a/b"),
            ("s3a://bucket/a", "a"),
            ("https://s3.eu-north-1.amazonaws.com/bucket/a", "a"),
            ("https://bucket.s3.eu-north-1.amazonaws.com/a", "a"),
            ("gs://bucket/a/b", "a/b"),
            ("az://container/a", "a"),
            ("abfss://container@account.dfs.core.windows.net/a", "a"),
            ("https://account.blob.core.windows.net/container/a", "a"),
        ] {
            // Whatever else is missing, as a feature or an account, the form is not.
            match open(url) {
                Ok((_, found)) => assert_eq!(found.as_ref(), prefix, "{url}"),
                Err(problem) => assert!(
                    problem.contains("--features") || problem.contains("; set "),
                    "{url}: {problem}"
                ),
            }
        }
        for url in ["ftp://host/a", "https://host/a", "memory:///a"] {
            assert!(open(url).is_err(), "{url}");
        }
    }
}
