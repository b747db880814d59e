//! Visitors of the dashboard: their cookies, their sign-in, and the token that their forms carry.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::header::{COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::Authenticator;
use crate::http::response::{ApiError, Result};
use crate::ids::random;
use crate::store::SignIn;

/// The header that carries the token of requests that a script sends.
pub const FORM_TOKEN: HeaderName = HeaderName::from_static("x-form-token");

/// How long a browser keeps the cookie of a sign-in, in seconds. The store ends it at the same time.
const SIGN_IN_SECONDS: u32 = 14 * 24 * 3600;

/// A value of a cookie is no longer.
const MAX_COOKIE_BYTES: usize = 100;

/// The cookies of the dashboard, which is at this URL.
#[derive(Clone, Debug)]
pub struct Cookies {
    /// The dashboard is reached over HTTPS alone.
    secure: bool,
    /// The scheme, host and port of the dashboard.
    origin: String,
}

/// A visitor, who may have signed in.
pub struct Visitor {
    /// None before the sign-in.
    pub sign_in: Option<SignIn>,
    /// The token of this visitor's forms.
    pub form_token: String,
    /// The secret in the cookie of a sign-in, hashed.
    pub secret_hash: String,
    /// The cookie that the next response sets, for a visitor without one.
    pub new_cookie: Option<HeaderValue>,
}

/// A new secret of 256 random bits.
pub fn new_secret() -> String {
    BASE64URL_NOPAD.encode(&random::<32>())
}

/// The hash by which the store keeps a secret. It has 256 random bits, so a slow hash would add no protection.
pub fn hash_of(secret: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(secret.as_bytes()))
}

impl Cookies {
    pub fn new(dashboard: &Url) -> Self {
        Self { secure: dashboard.scheme() == "https", origin: dashboard.origin().ascii_serialization() }
    }

    /// A browser takes a cookie with this prefix from its own host alone, and over HTTPS.
    fn name(&self, purpose: &str) -> String {
        format!("{}auricle_{purpose}", if self.secure { "__Host-" } else { "" })
    }

    fn set(&self, purpose: &str, value: &str, age_s: Option<u32>) -> HeaderValue {
        let age = age_s.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie = format!("{}={value}; Path=/; HttpOnly; SameSite=Lax{age}{secure}", self.name(purpose));
        HeaderValue::from_str(&cookie).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// The cookie of a sign-in.
    pub fn of_sign_in(&self, secret: &str) -> HeaderValue {
        self.set("session", secret, Some(SIGN_IN_SECONDS))
    }

    /// Takes the cookie of a sign-in away.
    pub fn without_sign_in(&self) -> HeaderValue {
        self.set("session", "", Some(0))
    }

    /// The value of a cookie that the request carries.
    fn value(&self, headers: &HeaderMap, purpose: &str) -> Option<String> {
        let name = self.name(purpose);
        let lists = headers.get_all(COOKIE).iter().filter_map(|list| list.to_str().ok());
        let mut pairs = lists.flat_map(|list| list.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(key, value)| *key == name && !value.is_empty())?;
        (value.len() <= MAX_COOKIE_BYTES).then(|| value.to_owned())
    }

    /// Checks that a request comes from a page of the dashboard, as far as the browser tells.
    ///
    /// # Errors
    /// 403 for another origin.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<()> {
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let same_host = !host.is_empty() && origin.split_once("://").is_some_and(|(_, from)| from == host);
        if origin == self.origin || same_host { Ok(()) } else { Err(ApiError::forged()) }
    }
}

impl Visitor {
    /// The sign-in.
    ///
    /// # Errors
    /// 401 before it.
    pub fn signed_in(&self) -> Result<&SignIn> {
        self.sign_in.as_ref().ok_or_else(|| ApiError::unauthorized("Sign in first."))
    }
}

/// Checks the token that a form or a script has sent against the visitor's.
///
/// # Errors
/// 403 for another token.
pub fn check_token(sent: &str, own: &str) -> Result<()> {
    // Hashes are compared, so the time tells nothing of the token.
    if Sha256::digest(sent.as_bytes()) == Sha256::digest(own.as_bytes()) { Ok(()) } else { Err(ApiError::forged()) }
}

impl Authenticator {
    /// The visitor whose cookies these are.
    ///
    /// # Errors
    /// If the store could not be read.
    pub async fn visitor(&self, headers: &HeaderMap) -> Result<Visitor> {
        if let Some(secret) = self.cookies.value(headers, "session") {
            let secret_hash = hash_of(&secret);
            if let Some(sign_in) = self.store.sign_in(&secret_hash).await? {
                let form_token = self.form_token(&secret);
                return Ok(Visitor { sign_in: Some(sign_in), form_token, secret_hash, new_cookie: None });
            }
        }
        let known = self.cookies.value(headers, "visitor");
        let secret = known.clone().unwrap_or_else(new_secret);
        Ok(Visitor {
            sign_in: None,
            form_token: self.form_token(&secret),
            secret_hash: String::new(),
            new_cookie: known.is_none().then(|| self.cookies.set("visitor", &secret, None)),
        })
    }

    /// The token of the forms that are sent with a cookie of this value.
    fn form_token(&self, secret: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(self.signing_key.as_bytes())
            .unwrap_or_else(|_| unreachable!("keys have any length"));
        BASE64URL_NOPAD.encode(&mac.chain_update(format!("form\n{secret}")).finalize().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Cookies {
        Cookies::new(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_cookie_belongs_to_https_where_the_dashboard_has_it() {
        let plain = at("http://127.0.0.1:8082").of_sign_in("s");
        assert!(!plain.to_str().unwrap().contains("Secure"));
        let cookies = at("https://console.example.com");
        let secure = cookies.of_sign_in("s").to_str().unwrap().to_owned();
        for part in ["__Host-auricle_session=s;", "; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/"] {
            assert!(secure.contains(part), "{secure}");
        }
        let sent = |text: &str| HeaderMap::from_iter([(COOKIE, text.parse().unwrap())]);
        assert_eq!(cookies.value(&sent("a=b; __Host-auricle_session=s"), "session").as_deref(), Some("s"));
        assert_eq!(cookies.value(&sent("auricle_session=s"), "session"), None);
        assert_eq!(cookies.value(&sent(&format!("__Host-auricle_session={}", "s".repeat(101))), "session"), None);
    }

    #[test]
    fn a_request_of_another_origin_is_refused() {
        let check = |origin: &str, host: &str| {
            let headers = HeaderMap::from_iter([(ORIGIN, origin.parse().unwrap()), (HOST, host.parse().unwrap())]);
            at("https://console.example.com").check_origin(&headers).is_ok()
        };
        assert!(check("https://console.example.com", "10.0.0.1:8082"));
        assert!(check("http://127.0.0.1:8082", "127.0.0.1:8082"));
        for origin in ["null", "https://evil.example", "https://console.example.com.evil.example", ""] {
            assert!(!check(origin, "127.0.0.1:8082"), "{origin}");
        }
        assert!(at("http://a").check_origin(&HeaderMap::new()).is_ok());
    }
}
