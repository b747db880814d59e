//! Recordings from addresses of the command line. The addresses are the user's own, so that private ones are allowed.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use auricle_engine::Error;
use reqwest::Client;
use reqwest::redirect::Policy;
use url::Url;

use crate::cli::out_file::Temporary;
use crate::cli::progress::Bar;
use crate::cli::{Result, runtime};
use crate::outbound::{MAX_REDIRECTS, request_error};

/// The largest recording, in GiB: that of the service.
const MAX_GIB: u64 = 5;
/// Timeout of connecting, and between parts of a response.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Fetches a recording into a temporary file, and shows the progress under `name`.
///
/// # Errors
/// [`Error::Read`] if it cannot be fetched or stored.
pub fn fetch(url: &Url, name: &str, bar: &Bar) -> Result<Temporary> {
    let fetched = runtime()?.block_on(download(url, name, bar));
    bar.clear();
    Ok(fetched.map_err(|reason| Error::Read { path: PathBuf::from(url.as_str()), reason })?)
}

async fn download(url: &Url, name: &str, bar: &Bar) -> Result<Temporary, String> {
    let failed = |error| format!("it cannot be fetched: {}", request_error(error));
    let client = Client::builder()
        .user_agent(concat!("auricle/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::limited(MAX_REDIRECTS))
        .connect_timeout(STALL_TIMEOUT)
        .read_timeout(STALL_TIMEOUT)
        .build()
        .map_err(failed)?;
    let mut response = client.get(url.clone()).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(format!("it cannot be fetched: the server answered {}", response.status()));
    }
    let too_large = || format!("it is larger than {MAX_GIB} GiB");
    let is_too_large = |bytes: u64| bytes > MAX_GIB << 30;
    let length = response.content_length();
    if length.is_some_and(is_too_large) {
        return Err(too_large());
    }
    bar.bytes(name, length);
    let unstored = |error| format!("it cannot be stored: {error}");
    let mut out = Temporary::new().map_err(unstored)?;
    let mut bytes = 0;
    while let Some(part) = response.chunk().await.map_err(failed)? {
        bytes += part.len() as u64;
        if is_too_large(bytes) {
            return Err(too_large());
        }
        out.file().write_all(&part).map_err(unstored)?;
        bar.set_bytes(bytes);
    }
    Ok(out)
}
