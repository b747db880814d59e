//! Authentication and authorisation: API keys, signed URLs, session tokens, credit.

mod id_token;
pub mod openid;
pub mod session_token;
pub mod visitor;

use std::sync::Arc;

use data_encoding::BASE64;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, SEC_WEBSOCKET_PROTOCOL};
use hyper::{HeaderMap, Uri};

use crate::billing::{PaymentProvider, way_out};
use crate::clock;
use crate::config::BillingProvider;
use crate::http::query;
use crate::http::rate_limits::Client;
use crate::http::response::{ApiError, Result};
use crate::ids::AccountId;
use crate::storage::{Storage, UploadSignature};
use crate::store::{Account, Allowance, Store, Upload};
use session_token::{AgentClaims, CallClaims, Claims as _, Payer, SecretClaims, SessionClaims, StreamClaims};
use visitor::{Cookies, Visitor};

/// The longest secret that is looked up, in bytes.
const MAX_SECRET_BYTES: usize = 256;

/// The beginning of a subprotocol's name that is a credential, as OpenAI's clients send it.
const SECRET_SUBPROTOCOL: &str = "openai-insecure-api-key.";

/// The credential that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An API key.
    ApiKey,
    /// An API key in the `Authorization` header as clients of other programs send it: after `Bearer` or `Token`, by itself, or as the password
    /// of an address `http://key:svc_...@host`.
    AnyApiKey,
    /// An API key in the `Authorization` header, or a client secret there or in a subprotocol of the WebSocket.
    KeyOrSecret,
    /// A URL or token that the service signed for an account. Its requests count for that account.
    Signed(SignedFor),
    /// A page of the dashboard that anyone may open. A form that is sent to it carries the visitor's token.
    Visitor,
    /// A page of the dashboard for people who have signed in. Others are sent to the sign-in.
    SignedIn,
    /// A request of such a page's script. One that may change something carries the visitor's token in a header.
    Script,
    /// Nothing.
    Open,
}

/// The purpose of a signed URL or token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedFor {
    Upload,
    Session,
    Agent,
    /// A telephone call, whose path has the token.
    Call,
    /// A session of `/v3/ws`, whose header may have an API key instead.
    Stream,
    Checkout,
}

/// The sender of a request, as its credential shows. Signed credentials are verified here once; handlers read the result.
pub enum Identity {
    Anonymous,
    Account(Account),
    /// None if the upload does not exist.
    Upload(Result<Option<UploadUrl>>),
    /// None if the token is missing, expired or not signed by the service.
    Session(Option<SessionClaims>),
    /// As of a session.
    Agent(Option<AgentClaims>),
    /// As of a session.
    Call(Option<CallClaims>),
    /// The claims of a valid temporary token, or those that an API key stands for.
    Stream(Result<StreamClaims>),
    /// The claims of a valid client secret.
    Secret(SecretClaims),
    Checkout(Result<Checkout>),
    Visitor(Visitor),
}

/// An upload that a URL names, with the check of the URL's signature.
pub struct UploadUrl {
    pub upload: Upload,
    pub signature: UploadSignature,
}

/// A valid checkout page of the local payment provider.
pub struct Checkout {
    pub account: AccountId,
    /// The signed text that names the checkout.
    pub session: String,
}

impl Identity {
    /// The client that a request counts for: the account of a valid credential, else the client's address.
    pub fn client(&self, address: Client) -> Client {
        match self {
            Self::Account(account) => Client::Account(account.id.clone()),
            Self::Upload(Ok(Some(UploadUrl { upload, signature: UploadSignature::Valid }))) => {
                Client::Signed(upload.account.clone())
            }
            Self::Session(Some(claims)) => Client::Signed(claims.payer.account.clone()),
            Self::Agent(Some(claims)) => Client::Signed(claims.payer.account.clone()),
            Self::Call(Some(claims)) => Client::Signed(claims.session.payer.account.clone()),
            Self::Stream(Ok(claims)) => Client::Signed(claims.payer.account.clone()),
            Self::Secret(claims) => Client::Signed(claims.payer.account.clone()),
            Self::Checkout(Ok(checkout)) => Client::Signed(checkout.account.clone()),
            Self::Visitor(Visitor { sign_in: Some(sign_in), .. }) => Client::Signed(sign_in.account.id.clone()),
            Self::Visitor(_) => address,
            Self::Anonymous
            | Self::Upload(_)
            | Self::Session(None)
            | Self::Agent(None)
            | Self::Call(None)
            | Self::Stream(Err(_))
            | Self::Checkout(Err(_)) => address,
        }
    }
}

/// Verifies credentials.
pub struct Authenticator {
    pub store: Store,
    pub storage: Storage,
    pub payments: Arc<PaymentProvider>,
    /// The key that session tokens and the tokens of forms are signed with.
    pub signing_key: Arc<str>,
    pub cookies: Cookies,
}

impl Authenticator {
    /// The account of the API key in the `Authorization` header.
    ///
    /// # Errors
    /// 401 for a missing, unknown or revoked key.
    pub async fn account(&self, headers: &HeaderMap) -> Result<Account> {
        self.account_of(api_key(headers)?).await
    }

    async fn account_of(&self, key: &str) -> Result<Account> {
        match self.store.account_by_secret(key).await? {
            Some(account) => {
                if let Some(key) = &account.key {
                    self.store.note_key_use(key);
                }
                Ok(account)
            }
            None => Err(ApiError::unauthorized("This API key is unknown or revoked.")),
        }
    }

    /// The sender of a request whose route takes an API key or, with [`Access::KeyOrSecret`], a client secret as well.
    ///
    /// # Errors
    /// 401 for a missing, unknown, revoked or expired credential, and for an API key in a subprotocol: pages that people open have no
    /// API key.
    pub async fn sender(&self, access: Access, headers: &HeaderMap) -> Result<Identity> {
        if access == Access::AnyApiKey {
            return self.account_of(&any_api_key(headers)?).await.map(Identity::Account);
        }
        let credential = match (access, subprotocol_secret(headers)) {
            (Access::KeyOrSecret, Some(secret)) if !headers.contains_key(AUTHORIZATION) => secret,
            (Access::KeyOrSecret, _) => bearer(headers)?,
            _ => return self.account(headers).await.map(Identity::Account),
        };
        if credential.starts_with(SecretClaims::PREFIX) {
            return SecretClaims::verify(credential, &self.signing_key, clock::now_ms())
                .map(Identity::Secret)
                .ok_or_else(|| ApiError::unauthorized("This client secret is wrong or has expired."));
        }
        if !headers.contains_key(AUTHORIZATION) {
            let message =
                "A subprotocol takes a client secret alone, `ek_...`: POST /v1/realtime/client_secrets makes one.";
            return Err(ApiError::unauthorized(message));
        }
        self.account_of(api_key(headers)?).await.map(Identity::Account)
    }

    /// Verifies what a URL was signed for, by its path's parameters too.
    pub async fn verify(
        &self,
        signed_for: SignedFor,
        uri: &Uri,
        headers: &HeaderMap,
        param: impl Fn(&str) -> String,
    ) -> Identity {
        match signed_for {
            SignedFor::Upload => Identity::Upload(self.upload_url(uri, headers, param("upload_id")).await),
            SignedFor::Session => {
                let verify = |token: String| SessionClaims::verify(&token, &self.signing_key, clock::now_ms());
                Identity::Session(query::value(uri, "token").and_then(verify))
            }
            SignedFor::Agent => {
                let verify = |token: String| AgentClaims::verify(&token, &self.signing_key, clock::now_ms());
                Identity::Agent(query::value(uri, "token").and_then(verify))
            }
            SignedFor::Call => {
                Identity::Call(CallClaims::verify(&param("call_token"), &self.signing_key, clock::now_ms()))
            }
            SignedFor::Stream => Identity::Stream(self.stream_claims(uri, headers).await),
            SignedFor::Checkout => Identity::Checkout(self.checkout(uri)),
        }
    }

    /// The claims of a token in the query or the header, or of an API key in the header.
    async fn stream_claims(&self, uri: &Uri, headers: &HeaderMap) -> Result<StreamClaims> {
        let in_header = any_credential(headers);
        let token = query::value(uri, "token").or(in_header.clone()).unwrap_or_default();
        if let Some(claims) = StreamClaims::verify(&token, &self.signing_key, clock::now_ms()) {
            return Ok(claims);
        }
        let unknown = || ApiError::unauthorized("The API key or the token is missing, wrong or expired.");
        let key = in_header.filter(|key| is_api_key(key)).ok_or_else(unknown)?;
        let account = self.account_of(&key).await?;
        let key = account.key.ok_or_else(unknown)?;
        let payer = Payer { account: account.id, key, estimated_cents: 0, model: String::new() };
        Ok(StreamClaims { payer, max_session_duration_sec: None, expires_at: clock::now_ms() })
    }

    async fn upload_url(&self, uri: &Uri, headers: &HeaderMap, upload_id: String) -> Result<Option<UploadUrl>> {
        let Some(upload) = self.store.upload(&upload_id.into()).await? else { return Ok(None) };
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let expires = query::value(uri, "expires").unwrap_or_default();
        let signature = query::value(uri, "signature").unwrap_or_default();
        let signature = self.storage.verify(&upload, content_type, &expires, &signature);
        Ok(Some(UploadUrl { upload, signature }))
    }

    fn checkout(&self, uri: &Uri) -> Result<Checkout> {
        let PaymentProvider::Local(local) = &*self.payments else {
            return Err(ApiError::not_found("The payment provider serves this page."));
        };
        let session = query::value(uri, "session").unwrap_or_default();
        match local.verify(&session) {
            Some(account) => Ok(Checkout { account, session }),
            None => Err(ApiError::not_found("This checkout is unknown or has expired; ask for a new one.")),
        }
    }
}

/// Checks that an account may begin work of an estimated cost.
///
/// # Errors
/// 402 if the credit does not cover it and there is no subscription.
pub fn require_credit(allowance: Allowance, estimate_cents: i64, provider: BillingProvider) -> Result<()> {
    if allowance.allows(estimate_cents) {
        return Ok(());
    }
    Err(ApiError::billing_required(no_credit(allowance, estimate_cents, provider)))
}

/// Says why the credit does not cover a cost, and what to do.
pub fn no_credit(allowance: Allowance, estimate_cents: i64, provider: BillingProvider) -> String {
    let Allowance { balance, reserved, .. } = allowance;
    let why = match (balance, reserved) {
        (..=0, _) => "The free credit is used up.".into(),
        (_, ..=0) => format!("This would cost {estimate_cents} cents, and {balance} cents of credit remain."),
        _ => format!(
            "This would cost {estimate_cents} cents. Of the {balance} cents of credit that remain, work in progress has reserved {reserved}."
        ),
    };
    format!("{why} {}", way_out(provider))
}

/// The credential of the `Authorization` header.
fn bearer(headers: &HeaderMap) -> Result<&str> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        return Err(ApiError::unauthorized("Send your API key in the header `Authorization: Bearer svc_...`."));
    };
    let secret = header.to_str().ok().and_then(|header| {
        let (scheme, secret) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
    });
    secret.ok_or_else(no_api_key)
}

/// The API key of the `Authorization` header.
fn api_key(headers: &HeaderMap) -> Result<&str> {
    let secret = bearer(headers)?;
    if is_api_key(secret) { Ok(secret) } else { Err(no_api_key()) }
}

fn is_api_key(secret: &str) -> bool {
    secret.starts_with("svc_") && secret.len() <= MAX_SECRET_BYTES
}

/// The credential of the `Authorization` header, whatever its scheme.
fn any_credential(headers: &HeaderMap) -> Option<String> {
    let header = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()).unwrap_or_default();
    let (scheme, secret) = header.trim().split_once(' ').unwrap_or(("", header.trim()));
    match scheme.to_ascii_lowercase().as_str() {
        "" | "bearer" | "token" => Some(secret.trim().to_owned()),
        "basic" => BASE64.decode(secret.trim().as_bytes()).ok().and_then(|pair| {
            let pair = String::from_utf8(pair).ok()?;
            let (user, password) = pair.split_once(':').unwrap_or(("", &pair));
            Some(if password.is_empty() { user } else { password }.to_owned())
        }),
        _ => None,
    }
}

/// The API key of the `Authorization` header, whatever its scheme.
fn any_api_key(headers: &HeaderMap) -> Result<String> {
    any_credential(headers).filter(|secret| is_api_key(secret)).ok_or_else(|| {
        ApiError::unauthorized(
            "Send your API key: `Authorization: Bearer svc_...`, or in the address, `http://key:svc_...@host`.",
        )
    })
}

fn no_api_key() -> ApiError {
    ApiError::unauthorized("The `Authorization` header must read `Bearer` and an API key, `svc_...`.")
}

/// The credential that a page, which cannot set headers of a WebSocket, names among its subprotocols.
fn subprotocol_secret(headers: &HeaderMap) -> Option<&str> {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    offered.flat_map(|value| value.split(',')).find_map(|name| name.trim().strip_prefix(SECRET_SUBPROTOCOL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_way_out_of_its_provider() {
        let allowance = Allowance { balance: 0, reserved: 0, subscribed: false };
        let message = |provider| require_credit(allowance, 1, provider).unwrap_err().message;
        let (local, stripe) = (message(BillingProvider::Local), message(BillingProvider::Stripe));
        assert!(local.contains("auricle accounts unlimited") && !local.contains("/v2/billing/checkout"), "{local}");
        assert!(stripe.contains("/v2/billing/checkout") && !stripe.contains("unlimited"), "{stripe}");
        require_credit(Allowance { subscribed: true, ..allowance }, 1, BillingProvider::Local).unwrap();
    }

    #[test]
    fn only_a_bearer_key_is_accepted() {
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        for good in ["Bearer svc_a", "bearer  svc_a ", "BEARER svc_a"] {
            assert_eq!(api_key(&with(good)).unwrap(), "svc_a");
        }
        for bad in ["svc_a", "Basic svc_a", "Bearer", "Bearer a", &format!("Bearer svc_{}", "a".repeat(300))] {
            assert_eq!(api_key(&with(bad)).unwrap_err().status, 401, "{bad:.30}");
        }
        assert_eq!(api_key(&HeaderMap::new()).unwrap_err().status, 401);
    }

    #[test]
    fn a_subprotocol_may_hold_a_secret() {
        let with = |value: &str| HeaderMap::from_iter([(SEC_WEBSOCKET_PROTOCOL, value.parse().unwrap())]);
        for held in ["realtime, openai-insecure-api-key.ek_a.b", "openai-insecure-api-key.ek_a.b"] {
            assert_eq!(subprotocol_secret(&with(held)), Some("ek_a.b"));
        }
        assert_eq!(subprotocol_secret(&with("realtime, openai-beta.realtime-v1")), None);
        assert_eq!(subprotocol_secret(&HeaderMap::new()), None);
    }
}
