//! Sign-in by a provider of OpenID Connect: the authorization code flow with PKCE.
//!
//! Nothing is stored between the two halves of a sign-in. The state that the provider hands back is signed with the service's key
//! and the token of the browser's forms, and the nonce and the verifier are derived from it, so any node can finish what
//! another began.

use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use url::{Url, form_urlencoded};

use super::id_token::{Expected, IdTokenError, Key, Person, verify};
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
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    callback: Url,
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
    found: Result<Arc<Metadata>, String>,
}

/// The provider's description (OpenID Connect Discovery, section 3).
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    userinfo_endpoint: Option<String>,
    jwks_uri: String,
    id_token_signing_alg_values_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// What is at `jwks_uri`.
    #[serde(skip)]
    keys: Vec<Key>,
}

impl Metadata {
    /// True if the provider takes a client's secret in the form, and not in a header.
    fn posts_secret(&self) -> bool {
        let takes = |method: &str| {
            self.token_endpoint_auth_methods_supported
                .as_ref()
                .is_some_and(|methods| methods.iter().any(|known| known == method))
        };
        takes("client_secret_post") && !takes("client_secret_basic")
    }
}

/// What is at the address of a provider's keys.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Key>,
}

/// The provider's answer to a code.
#[derive(Deserialize)]
struct Tokens {
    access_token: String,
    id_token: String,
}

/// Its answer to a code that it refuses (RFC 6749, section 5.2).
#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
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

/// The answer to a request, of a limited size.
async fn send(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), OpenIdError> {
    let mut response = request.send().await.map_err(provider)?;
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(provider)? {
        if body.len() + part.len() > MAX_BYTES {
            return Err(OpenIdError::Provider(format!("the answer has more than {MAX_BYTES} bytes")));
        }
        body.extend_from_slice(&part);
    }
    Ok((response.status(), body))
}

/// The JSON document that answers a request.
async fn document<T: DeserializeOwned>(what: &str, request: RequestBuilder) -> Result<T, OpenIdError> {
    let (status, body) = send(request).await?;
    if status != StatusCode::OK {
        return Err(OpenIdError::Provider(format!("{what}: the status is {status}")));
    }
    serde_json::from_slice(&body).map_err(|error| OpenIdError::Provider(format!("{what}: {error}")))
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
        let url = Url::parse(issuer).map_err(|error| format!("openid_issuer: {error}"))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let http = Client::builder()
            .user_agent(concat!("auricle/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| format!("openid_issuer: {error}"))?;
        Ok(Some(Self {
            name: config.openid_name.clone().unwrap_or(host),
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            client_secret: config.openid_client_secret.clone(),
            callback: url_below(dashboard, CALLBACK),
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
        let mut url = Url::parse(&metadata.authorization_endpoint).map_err(provider)?;
        let verifier = self.derived("verifier", browser, &flow);
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", self.callback.as_str())
            .append_pair("scope", "openid email")
            .append_pair("state", &self.state(browser, &flow))
            .append_pair("nonce", &self.derived("nonce", browser, &flow))
            .append_pair("code_challenge", &BASE64URL_NOPAD.encode(&Sha256::digest(verifier)))
            .append_pair("code_challenge_method", "S256");
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
        let tokens = self.exchange(&metadata, code, &self.derived("verifier", browser, &flow)).await?;
        let nonce = self.derived("nonce", browser, &flow);
        let person = match self.person(&metadata, &tokens, &nonce) {
            Err(IdTokenError::Signature) => {
                let metadata = self.metadata(METADATA_MIN_AGE).await?;
                self.person(&metadata, &tokens, &nonce)
            }
            checked => checked,
        }
        .map_err(provider)?;
        let mut email = person.email.clone().map(|email| (email, person.email_verified()));
        // Many providers name the address only when they are asked.
        if email.is_none()
            && let Some(endpoint) = &metadata.userinfo_endpoint
        {
            let request = self.http.get(endpoint).bearer_auth(&tokens.access_token);
            let more: Person = document("the description of the person", request).await?;
            if more.sub != person.sub {
                return Err(OpenIdError::Provider("the description is of another person".into()));
            }
            email = more.email.clone().map(|email| (email, more.email_verified()));
        }
        let verified = email.filter(|(_, verified)| verified.unwrap_or(self.trusts_addresses));
        Ok(ProviderIdentity {
            issuer: self.issuer.clone(),
            subject: person.sub,
            email: verified.and_then(|(email, _)| email_address(&email)),
        })
    }

    /// The request for the tokens for a code.
    fn token_request(&self, metadata: &Metadata, code: &str, verifier: &str) -> RequestBuilder {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", self.callback.as_str())
            .append_pair("code_verifier", verifier);
        let mut request = self.http.post(&metadata.token_endpoint);
        match &self.client_secret {
            Some(secret) if !metadata.posts_secret() => {
                // RFC 6749, section 2.3.1: both are encoded as in a form.
                let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                request = request.basic_auth(encoded(&self.client_id), Some(encoded(secret)));
            }
            secret => {
                form.append_pair("client_id", &self.client_id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret);
                }
            }
        }
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.finish())
    }

    /// The tokens for a code.
    async fn exchange(&self, metadata: &Metadata, code: &str, verifier: &str) -> Result<Tokens, OpenIdError> {
        let (status, body) = send(self.token_request(metadata, code, verifier)).await?;
        if status == StatusCode::OK {
            return serde_json::from_slice(&body)
                .map_err(|error| OpenIdError::Provider(format!("the answer to the code: {error}")));
        }
        let refusal = serde_json::from_slice(&body).map_or_else(
            |_| format!("the status is {status}"),
            |Refusal { error, error_description }| match error_description {
                Some(description) => format!("{error}: {description}"),
                None => error,
            },
        );
        Err(OpenIdError::Provider(format!("the code is refused: {refusal}")))
    }

    /// The person of the ID token, which is checked.
    fn person(&self, metadata: &Metadata, tokens: &Tokens, nonce: &str) -> Result<Person, IdTokenError> {
        let expected = Expected {
            issuer: &self.issuer,
            client_id: &self.client_id,
            client_secret: self.client_secret.as_deref(),
            algorithms: &metadata.id_token_signing_alg_values_supported,
            nonce,
            access_token: &tokens.access_token,
            now: clock::now_ms() / 1000,
        };
        verify(&tokens.id_token, &metadata.keys, &expected)
    }

    /// The provider's description with its keys, no older than this.
    async fn metadata(&self, age: Duration) -> Result<Arc<Metadata>, OpenIdError> {
        let mut known = self.metadata.lock().await;
        if let Some(Discovery { at, found }) = &*known
            && at.elapsed() < if found.is_ok() { age } else { FAILURE_AGE }
        {
            return found.clone().map_err(OpenIdError::Provider);
        }
        let found = self.discover().await.map(Arc::new).map_err(|error| error.to_string());
        *known = Some(Discovery { at: Instant::now(), found: found.clone() });
        found.map_err(OpenIdError::Provider)
    }

    async fn discover(&self) -> Result<Metadata, OpenIdError> {
        let address = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let mut metadata: Metadata = document("the provider's description", self.http.get(address)).await?;
        if metadata.issuer != self.issuer {
            let named = &metadata.issuer;
            return Err(OpenIdError::Provider(format!("the description is of {named}: set openid_issuer to it")));
        }
        let keys: KeySet = document("the provider's keys", self.http.get(&metadata.jwks_uri)).await?;
        metadata.keys = keys.keys;
        Ok(metadata)
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
