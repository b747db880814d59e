//! Sign-in by a provider of OpenID Connect: the authorization code flow with PKCE.
//!
//! Nothing is stored between the two halves of a sign-in. The state that the provider hands back is signed with the service's key
//! and the token of the browser's forms, and the nonce and the verifier are derived from it, so any node can finish what
//! another began.

use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreIdTokenClaims, CoreProviderMetadata,
    CoreTokenResponse, CoreUserInfoClaims,
};
use openidconnect::{
    AccessTokenHash, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken,
    HttpRequest, HttpResponse, IssuerUrl, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier,
    RedirectUrl, Scope, TokenResponse as _,
};
use reqwest::Client;
use reqwest::redirect::Policy;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use tokio::sync::Mutex;
use url::Url;

use super::session_token::Claims;
use super::visitor::check_token;
use crate::clock;
use crate::config::{Config, url_below};
use crate::ids::random;
use crate::store::{ProviderIdentity, email_address};

/// The path of the dashboard to which the provider leads back.
pub const CALLBACK: &str = "/login/openid/callback";

/// The longest wait for a response of the provider.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The size limit of its responses.
const MAX_BYTES: usize = 1 << 20;

/// Its description and its keys are read anew after this time.
const METADATA_AGE: Duration = Duration::from_secs(3600);

/// A token that its keys do not fit makes them be read anew, at most so often: the provider may have changed its keys.
const METADATA_MIN_AGE: Duration = Duration::from_secs(5);

/// A failure to read them is the answer for this time, so that those who wait for a provider that hangs wait together.
const FAILURE_AGE: Duration = Duration::from_secs(1);

/// How long a known person has to give the password of the account that the provider's address belongs to.
const CONNECT_MS: i64 = 10 * 60_000;

/// Why somebody is not signed in.
#[derive(Debug, thiserror::Error)]
pub enum OpenIdError {
    /// The provider cannot be reached, or does not say what it should.
    #[error("{0}")]
    Provider(String),
    /// The answer belongs to no sign-in that this browser began.
    #[error("the state is not this browser's")]
    State,
}

/// The provider, as the settings name it.
pub struct OpenId {
    /// Its name on the pages.
    pub name: String,
    issuer: IssuerUrl,
    client_id: ClientId,
    client_secret: Option<ClientSecret>,
    callback: RedirectUrl,
    /// Its addresses count as verified where it does not say so.
    trusts_addresses: bool,
    http: Client,
    signing_key: Arc<str>,
    metadata: Mutex<Option<Discovery>>,
}

/// A person whom the provider has identified, and who is to show the password of an account with the same address.
#[derive(Serialize, Deserialize)]
pub struct ConnectClaims {
    issuer: String,
    subject: String,
    email: String,
    expires_at: i64,
}

impl Claims for ConnectClaims {
    const PREFIX: &'static str = "oc_";
    const KIND: &'static str = "openid-connect";

    fn expires_at(&self) -> i64 {
        self.expires_at
    }
}

/// The provider's description with its keys, or why there is none, and when that was found.
struct Discovery {
    at: Instant,
    found: Result<CoreProviderMetadata, String>,
}

/// The state of a sign-in that has begun.
struct Flow {
    /// The random part of the state.
    id: String,
    /// The page that the sign-in leads to.
    next: String,
}

fn provider(error: impl std::error::Error) -> OpenIdError {
    OpenIdError::Provider(with_causes(&error))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// A failure of a request to the provider.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("{0}")]
    Client(#[from] reqwest::Error),
    #[error("the answer has more than {MAX_BYTES} bytes")]
    Large,
    #[error("{0}")]
    Form(#[from] hyper::http::Error),
}

/// Sends a request, without following redirects.
async fn send(http: Client, request: HttpRequest) -> Result<HttpResponse, RequestError> {
    let mut response = http.execute(request.try_into()?).await?;
    let mut answer = hyper::http::Response::builder().status(response.status());
    if let Some(headers) = answer.headers_mut() {
        *headers = response.headers().clone();
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await? {
        if body.len() + part.len() > MAX_BYTES {
            return Err(RequestError::Large);
        }
        body.extend_from_slice(&part);
    }
    Ok(answer.body(body)?)
}

impl OpenId {
    /// None if the settings name no provider. `dashboard` is the dashboard's URL, to which the provider leads back.
    ///
    /// # Errors
    /// One line for a setting that cannot be used.
    pub fn new(config: &Config, dashboard: &Url, signing_key: Arc<str>) -> Result<Option<Self>, String> {
        let (Some(issuer), Some(client_id)) = (&config.openid_issuer, &config.openid_client_id) else {
            return Ok(None);
        };
        let issuer = IssuerUrl::new(issuer.clone()).map_err(|error| format!("openid_issuer: {error}"))?;
        let host = issuer.url().host_str().unwrap_or_default().to_owned();
        let http = Client::builder()
            .user_agent(concat!("auricle/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| format!("openid_issuer: {error}"))?;
        Ok(Some(Self {
            name: config.openid_name.clone().unwrap_or(host),
            issuer,
            client_id: ClientId::new(client_id.clone()),
            client_secret: config.openid_client_secret.clone().map(ClientSecret::new),
            callback: RedirectUrl::from_url(url_below(dashboard, CALLBACK)),
            trusts_addresses: config.openid_trust_addresses,
            http,
            signing_key,
            metadata: Mutex::default(),
        }))
    }

    /// The address of the provider at which a browser begins. `browser` is the token of the browser's forms, and `next` the page
    /// that the sign-in leads to.
    ///
    /// # Errors
    /// If the provider cannot be reached.
    pub async fn begin(&self, browser: &str, next: &str) -> Result<Url, OpenIdError> {
        let flow = Flow { id: BASE64URL_NOPAD.encode(&random::<16>()), next: next.to_owned() };
        let metadata = self.metadata(METADATA_AGE).await?;
        let client = CoreClient::from_provider_metadata(metadata, self.client_id.clone(), self.client_secret.clone())
            .set_redirect_uri(self.callback.clone());
        let (state, nonce) = (self.state(browser, &flow), self.derived("nonce", browser, &flow));
        let verifier = PkceCodeVerifier::new(self.derived("verifier", browser, &flow));
        let (url, ..) = client
            .authorize_url(CoreAuthenticationFlow::AuthorizationCode, || CsrfToken::new(state), || Nonce::new(nonce))
            .add_scope(Scope::new("email".into()))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier))
            .url();
        Ok(url)
    }

    /// The page to which a sign-in leads that this browser began.
    ///
    /// # Errors
    /// For another browser's state.
    pub fn next(&self, browser: &str, state: &str) -> Result<String, OpenIdError> {
        Ok(self.flow(browser, state)?.next)
    }

    /// The person whom the provider means by a code.
    ///
    /// # Errors
    /// For another browser's state, and for what the provider does not confirm.
    pub async fn identify(&self, browser: &str, state: &str, code: &str) -> Result<ProviderIdentity, OpenIdError> {
        let flow = self.flow(browser, state)?;
        let metadata = self.metadata(METADATA_AGE).await?;
        let posts_secret = metadata.token_endpoint_auth_methods_supported().is_some_and(|methods| {
            methods.contains(&CoreClientAuthMethod::ClientSecretPost)
                && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic)
        });
        let client =
            CoreClient::from_provider_metadata(metadata.clone(), self.client_id.clone(), self.client_secret.clone())
                .set_redirect_uri(self.callback.clone())
                .set_auth_type(if posts_secret { AuthType::RequestBody } else { AuthType::BasicAuth });
        let http = |request| send(self.http.clone(), request);
        let answer = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .map_err(provider)?
            .set_pkce_verifier(PkceCodeVerifier::new(self.derived("verifier", browser, &flow)))
            .request_async(&http)
            .await
            .map_err(provider)?;
        let nonce = Nonce::new(self.derived("nonce", browser, &flow));
        let claims = match self.claims(&metadata, &answer, &nonce) {
            Err(ClaimsVerificationError::SignatureVerification(_)) => {
                let metadata = self.metadata(METADATA_MIN_AGE).await?;
                self.claims(&metadata, &answer, &nonce)
            }
            checked => checked,
        }
        .map_err(provider)?;
        let subject = claims.subject().clone();
        let mut email = claims.email().map(|email| (email.to_string(), claims.email_verified()));
        // Many providers name the address only when they are asked.
        if email.is_none() && metadata.userinfo_endpoint().is_some() {
            let request = client.user_info(answer.access_token().clone(), Some(subject.clone())).map_err(provider)?;
            let more: CoreUserInfoClaims = request.request_async(&http).await.map_err(provider)?;
            email = more.email().map(|email| (email.to_string(), more.email_verified()));
        }
        let verified = email.filter(|(_, verified)| verified.unwrap_or(self.trusts_addresses));
        Ok(ProviderIdentity {
            issuer: self.issuer.to_string(),
            subject: subject.to_string(),
            email: verified.and_then(|(email, _)| email_address(&email)),
        })
    }

    /// The claims of the ID token, checked: signature, issuer, client, lifetime, nonce and the access token that came with it.
    fn claims(
        &self,
        metadata: &CoreProviderMetadata,
        answer: &CoreTokenResponse,
        nonce: &Nonce,
    ) -> Result<CoreIdTokenClaims, ClaimsVerificationError> {
        let other = |text: &str| ClaimsVerificationError::Other(text.to_owned());
        let client =
            CoreClient::from_provider_metadata(metadata.clone(), self.client_id.clone(), self.client_secret.clone());
        let verifier = client.id_token_verifier();
        let token = answer.id_token().ok_or_else(|| other("the answer has no ID token"))?;
        let claims = token.claims(&verifier, nonce)?;
        if let Some(expected) = claims.access_token_hash() {
            let found = token.signing_alg().ok().zip(token.signing_key(&verifier).ok());
            let found = found.and_then(|(alg, key)| AccessTokenHash::from_token(answer.access_token(), alg, key).ok());
            if found.as_ref() != Some(expected) {
                return Err(other("the access token is not the one of the ID token"));
            }
        }
        Ok(claims.clone())
    }

    /// The provider's description with its keys, no older than this.
    async fn metadata(&self, age: Duration) -> Result<CoreProviderMetadata, OpenIdError> {
        let mut known = self.metadata.lock().await;
        if let Some(Discovery { at, found }) = &*known
            && at.elapsed() < if found.is_ok() { age } else { FAILURE_AGE }
        {
            return found.clone().map_err(OpenIdError::Provider);
        }
        let http = |request| send(self.http.clone(), request);
        let found = CoreProviderMetadata::discover_async(self.issuer.clone(), &http).await;
        let found = found.map_err(|error| with_causes(&error));
        *known = Some(Discovery { at: Instant::now(), found: found.clone() });
        found.map_err(OpenIdError::Provider)
    }

    /// The form field by which somebody who gives a password connects an account with this identity. None without an address.
    pub fn connection(&self, identity: &ProviderIdentity) -> Option<String> {
        let ProviderIdentity { issuer, subject, email } = identity.clone();
        let expires_at = clock::now_ms() + CONNECT_MS;
        Some(ConnectClaims { issuer, subject, email: email?, expires_at }.sign(&self.signing_key))
    }

    /// The identity of such a field, for the account of this address.
    pub fn connected(&self, field: &str, email: &str) -> Option<ProviderIdentity> {
        let claims = ConnectClaims::verify(field, &self.signing_key, clock::now_ms())?;
        let ConnectClaims { issuer, subject, email: of, .. } = claims;
        (of == email).then_some(ProviderIdentity { issuer, subject, email: Some(of) })
    }

    fn state(&self, browser: &str, flow: &Flow) -> String {
        let next = BASE64URL_NOPAD.encode(flow.next.as_bytes());
        format!("{}.{next}.{}", flow.id, self.derived("state", browser, flow))
    }

    fn flow(&self, browser: &str, state: &str) -> Result<Flow, OpenIdError> {
        let mut parts = state.split('.');
        let (Some(id), Some(next), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(OpenIdError::State);
        };
        let next = BASE64URL_NOPAD.decode(next.as_bytes()).ok().and_then(|next| String::from_utf8(next).ok());
        let flow = Flow { id: id.to_owned(), next: next.ok_or(OpenIdError::State)? };
        check_token(signature, &self.derived("state", browser, &flow)).map_err(|_| OpenIdError::State)?;
        Ok(flow)
    }

    /// A secret of 256 bits for one purpose of a sign-in.
    fn derived(&self, purpose: &str, browser: &str, Flow { id, next }: &Flow) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(self.signing_key.as_bytes())
            .unwrap_or_else(|_| unreachable!("keys have any length"));
        let text = format!("openid {purpose}\n{browser}\n{id}\n{next}");
        BASE64URL_NOPAD.encode(&mac.chain_update(text).finalize().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(key: &str) -> OpenId {
        crate::outbound::install_tls_provider();
        let config = Config {
            openid_issuer: Some("https://id.example.com/".into()),
            openid_client_id: Some("auricle".into()),
            ..Config::default()
        };
        OpenId::new(&config, &Url::parse("https://example.com/console").unwrap(), key.into()).unwrap().unwrap()
    }

    #[test]
    fn a_state_belongs_to_the_browser_that_began() {
        let (here, elsewhere) = (provider("a"), provider("b"));
        let flow = Flow { id: "1".into(), next: "/keys?a=b".into() };
        let state = here.state("browser", &flow);
        assert_eq!(here.next("browser", &state).unwrap(), "/keys?a=b");
        assert!(here.next("another", &state).is_err());
        assert!(elsewhere.next("browser", &state).is_err());
        let (_, rest) = state.split_once('.').unwrap();
        for bad in ["", "..", "1.2", &format!("2.{rest}"), &format!("{state}.x"), &state[..state.len() - 1]] {
            assert!(here.next("browser", bad).is_err(), "{bad}");
        }
        let secrets = ["state", "nonce", "verifier"].map(|purpose| here.derived(purpose, "browser", &flow));
        assert!(secrets[0] != secrets[1] && secrets[1] != secrets[2]);
        // The least length of a verifier.
        assert_eq!(secrets[2].len(), 43);
    }

    #[test]
    fn a_connection_is_for_its_address() {
        let provider = provider("a");
        let email = Some("a@example.com".to_owned());
        let identity = ProviderIdentity { issuer: "i".into(), subject: "s".into(), email };
        let field = provider.connection(&identity).unwrap();
        assert_eq!(provider.connected(&field, "a@example.com"), Some(identity.clone()));
        assert_eq!(provider.connected(&field, "b@example.com"), None);
        assert_eq!(provider.connected("oc_x.y", "a@example.com"), None);
        assert_eq!(provider.connection(&ProviderIdentity { email: None, ..identity }), None);
    }

    #[test]
    fn the_host_names_a_provider_without_a_name() {
        let provider = provider("a");
        assert_eq!(provider.name, "id.example.com");
        assert_eq!(provider.callback.as_str(), "https://example.com/console/login/openid/callback");
    }
}
