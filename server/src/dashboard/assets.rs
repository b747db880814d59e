//! Style and script of the pages, within the program. Their addresses hold a hash of their content, so browsers keep them for good.

use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, HeaderValue, VARY};
use sha2::{Digest as _, Sha256};

use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, bytes};

/// A file of the pages.
struct Asset {
    /// `/assets/NAME-HASH.EXTENSION`
    path: String,
    content_type: &'static str,
    plain: Bytes,
    /// The same, compressed.
    gzip: Bytes,
}

/// All files.
pub struct Assets {
    style: Asset,
    script: Asset,
    /// Sends the microphone's samples to the script.
    microphone: Asset,
    icon: Asset,
}

/// The one script, which is written in parts.
const SCRIPT: &str = concat!(
    include_str!("assets/page.js"),
    include_str!("assets/library.js"),
    include_str!("assets/upload.js"),
    include_str!("assets/transcript.js"),
    include_str!("assets/edit.js"),
    include_str!("assets/actions.js"),
    include_str!("assets/capture.js"),
    include_str!("assets/live.js"),
    include_str!("assets/agent_code.js"),
    include_str!("assets/agent.js"),
    include_str!("assets/reference.js"),
    include_str!("assets/operator.js"),
);

static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: asset("style", "css", "text/css; charset=utf-8", include_str!("assets/style.css")),
    script: asset("script", "js", "text/javascript; charset=utf-8", SCRIPT),
    microphone: asset("microphone", "js", "text/javascript; charset=utf-8", include_str!("assets/microphone.js")),
    icon: asset("icon", "svg", "image/svg+xml", include_str!("assets/icon.svg")),
});

fn asset(name: &str, extension: &str, content_type: &'static str, text: &'static str) -> Asset {
    let hash = HEXLOWER.encode(&Sha256::digest(text.as_bytes())[..8]);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let gzip = gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish()).unwrap_or_default();
    Asset {
        path: format!("/assets/{name}-{hash}.{extension}"),
        content_type,
        plain: Bytes::from_static(text.as_bytes()),
        gzip: gzip.into(),
    }
}

impl Assets {
    pub fn get() -> &'static Self {
        &ASSETS
    }

    pub fn style(&self) -> &str {
        &self.style.path
    }

    pub fn script(&self) -> &str {
        &self.script.path
    }

    pub fn microphone(&self) -> &str {
        &self.microphone.path
    }

    pub fn icon(&self) -> &str {
        &self.icon.path
    }
}

/// `GET /assets/{name}`
pub async fn get(request: RequestContext) -> Result<Response> {
    let path = format!("/assets/{}", request.param("name"));
    let all = [&ASSETS.style, &ASSETS.script, &ASSETS.microphone, &ASSETS.icon];
    let Some(asset) = all.into_iter().find(|asset| asset.path == path) else {
        return Err(ApiError::not_found("There is no such file."));
    };
    let compressed = request.accepts_gzip();
    let body = if compressed { &asset.gzip } else { &asset.plain };
    let mut response = bytes(asset.content_type, body.clone());
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_script_together_is_small() {
        let bytes = ASSETS.script.gzip.len() + ASSETS.microphone.gzip.len();
        assert!((1..=60 << 10).contains(&bytes), "{bytes}");
    }

    #[test]
    fn no_script_writes_html() {
        for name in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!SCRIPT.contains(name), "{name}");
        }
    }
}
