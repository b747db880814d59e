//! Forms that a page sends: read within a limit, with the visitor's token.

use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, StatusCode};

use crate::auth::visitor::check_token;
use crate::context::RequestContext;
use crate::http::body;
use crate::http::response::{ApiError, Result};

/// The size limit of a form.
const MAX_FORM_BYTES: usize = 64 << 10;

/// The field of the visitor's token.
const TOKEN: &str = "form_token";

/// The fields of a form that carried the visitor's token.
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the form of a request.
    ///
    /// # Errors
    /// 403 without the visitor's token, 413 for a large one, 415 for another content type.
    pub async fn read(request: RequestContext) -> Result<Self> {
        let is_form = |headers: &HeaderMap| {
            let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
            content_type.split(';').next().unwrap_or_default().trim() == "application/x-www-form-urlencoded"
        };
        if !is_form(request.headers()) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "Send the form as application/x-www-form-urlencoded.",
            ));
        }
        let token = request.visitor()?.form_token.clone();
        let bytes = body::read(request.into_request(), MAX_FORM_BYTES).await?;
        let form = Self(url::form_urlencoded::parse(&bytes).into_owned().collect());
        check_token(form.text(TOKEN), &token)?;
        Ok(form)
    }

    /// The last value of a field without a null character, which PostgreSQL refuses; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        let found = self.0.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.contains('\0')).unwrap_or_default()
    }
}
