//! Object stores by their URLs. What a store needs to know else is in the environment.

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreScheme};

/// A store, or why there is none.
type Opened = Result<Box<dyn ObjectStore>, String>;

/// What helps who named another place.
const KNOWN: &str = "give s3://, gs://, az:// or a directory";

/// The store that a URL names, and the prefix of its keys there.
pub(crate) fn open(text: &str) -> Result<(Box<dyn ObjectStore>, Key), String> {
    #[cfg(feature = "http")]
    // A second try finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = url::Url::parse(text).map_err(|error| error.to_string())?;
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

#[cfg(feature = "http")]
fn opened<S: ObjectStore>(built: Result<S, object_store::Error>) -> Opened {
    let wrong = |error| format!("{error}; docs/inventory.md says what the environment must hold");
    Ok(Box::new(built.map_err(wrong)?))
}

#[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
fn missing(feature: &str) -> Opened {
    Err(format!(
        "this program was built without that store; build it with --features {feature}"
    ))
}

#[cfg(feature = "s3")]
fn s3(url: &str) -> Opened {
    let builder = object_store::aws::AmazonS3Builder::from_env();
    opened(builder.with_url(url).with_retry(retry()).build())
}

#[cfg(not(feature = "s3"))]
fn s3(_: &str) -> Opened {
    missing("s3")
}

#[cfg(feature = "gcs")]
fn gcs(url: &str) -> Opened {
    let builder = object_store::gcp::GoogleCloudStorageBuilder::from_env();
    opened(builder.with_url(url).with_retry(retry()).build())
}

#[cfg(not(feature = "gcs"))]
fn gcs(_: &str) -> Opened {
    missing("gcs")
}

#[cfg(feature = "azure")]
fn azure(url: &str) -> Opened {
    let builder = object_store::azure::MicrosoftAzureBuilder::from_env();
    opened(builder.with_url(url).with_retry(retry()).build())
}

#[cfg(not(feature = "azure"))]
fn azure(_: &str) -> Opened {
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
                    problem.contains("--features") || problem.contains("environment"),
                    "{url}: {problem}"
                ),
            }
        }
        for url in ["ftp://host/a", "https://host/a", "memory:///a"] {
            assert!(open(url).is_err(), "{url}");
        }
    }
}
