//! Who is asking: API keys in the `Authorization` header, and what we signed ourselves.

pub mod session_token;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use crate::api::uploads;
use crate::auth::session_token::SessionClaims;
use crate::clock;
use crate::dashboard::checkout;
use crate::http::RequestContext;
use crate::http::response::{ApiError, Result};
use crate::ids::AccountId;
use crate::routes::Signed;
use crate::storage::Signature;
use crate::store::{Account, Store};

/// The longest secret that is looked up.
const LONGEST: usize = 256;

/// The account whose key the request carries.
///
/// # Errors
/// 401 without a key, or with one that is unknown or revoked.
pub async fn account(store: &Store, headers: &HeaderMap) -> Result<Account> {
    let secret = bearer(headers)?;
    match store.account_by_secret(secret).await? {
        Some(account) => Ok(account),
        None => Err(ApiError::unauthorized("This API key is unknown or revoked.")),
    }
}

/// The account that a URL was signed for. None if the signature is not ours, or cannot be looked at now: the handler
/// says which.
pub async fn signer(what: Signed, call: &RequestContext) -> Option<AccountId> {
    match what {
        Signed::Upload => match uploads::signed(call).await {
            Ok(Some((upload, Signature::Valid))) => Some(upload.account),
            _ => None,
        },
        Signed::Session => {
            SessionClaims::redeem(&call.query("token")?, &call.app.secret, clock::now_ms()).map(|grant| grant.account)
        }
        Signed::Checkout => checkout::signed(call).ok().map(|(_, account)| account),
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        return Err(ApiError::unauthorized("Send your API key in the header `Authorization: Bearer svc_...`."));
    };
    let secret = header.to_str().ok().and_then(|header| {
        let (scheme, secret) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
    });
    match secret {
        Some(secret) if secret.starts_with("svc_") && secret.len() <= LONGEST => Ok(secret),
        _ => Err(ApiError::unauthorized("The `Authorization` header must read `Bearer` and an API key, `svc_...`.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_key_is_one() {
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        for good in ["Bearer svc_a", "bearer  svc_a ", "BEARER svc_a"] {
            assert_eq!(bearer(&with(good)).unwrap(), "svc_a");
        }
        for bad in ["svc_a", "Basic svc_a", "Bearer", "Bearer a", &format!("Bearer svc_{}", "a".repeat(300))] {
            assert_eq!(bearer(&with(bad)).unwrap_err().status, 401, "{bad:.30}");
        }
        assert_eq!(bearer(&HeaderMap::new()).unwrap_err().status, 401);
    }
}
