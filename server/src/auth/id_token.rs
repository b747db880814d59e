//! ID tokens of OpenID Connect: JSON Web Tokens that a provider signs (OpenID Connect Core, section 3.1.3.7).

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use ring::{digest, hmac};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Why an ID token is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    /// New keys of the provider may verify it.
    #[error("no key and no algorithm of the provider verifies the signature of the ID token")]
    Signature,
    #[error("the ID token {0}")]
    Claims(&'static str),
}

/// A public key of the provider: a JSON Web Key (RFC 7517).
#[derive(Clone, Debug, Deserialize)]
pub struct Key {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The requirements of a sign-in on its token.
pub struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    /// The key of a token that is signed symmetrically.
    pub client_secret: Option<&'a str>,
    /// The algorithms of signatures that the provider names.
    pub algorithms: &'a [String],
    pub nonce: &'a str,
    /// The access token that came with it.
    pub access_token: &'a str,
    /// Seconds since 1970.
    pub now: i64,
}

/// The person, as an ID token or the provider's description of a person names them.
#[derive(Debug, Deserialize)]
pub struct Person {
    pub sub: String,
    pub email: Option<String>,
    email_verified: Option<Flag>,
}

impl Person {
    /// If the provider has verified the address. None if it does not say so.
    pub fn email_verified(&self) -> Option<bool> {
        match self.email_verified.as_ref()? {
            Flag::Bool(verified) => Some(*verified),
            Flag::Text(text) => text.parse().ok(),
        }
    }
}

/// A truth value, which some providers write as text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Flag {
    Bool(bool),
    Text(String),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Audience,
    exp: f64,
    nonce: Option<String>,
    at_hash: Option<String>,
    #[serde(flatten)]
    person: Person,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn is(&self, client: &str) -> bool {
        match self {
            Self::One(audience) => audience == client,
            Self::Many(audiences) => !audiences.is_empty() && audiences.iter().all(|audience| audience == client),
        }
    }
}

/// The person whom a token names, checked: signature, issuer, client, lifetime, nonce and the access token that came with it.
///
/// # Errors
/// For a token that does not meet all of it.
pub fn verify(token: &str, keys: &[Key], expected: &Expected<'_>) -> Result<Person, IdTokenError> {
    let form = IdTokenError::Claims("is no signed JSON Web Token");
    let (message, signature) = token.rsplit_once('.').ok_or(form)?;
    let (header, payload) = message.split_once('.').ok_or(IdTokenError::Claims("is no signed JSON Web Token"))?;
    let header: Header = decoded(header)?;
    let signature = bytes(signature)?;
    let named = expected.algorithms.contains(&header.alg);
    if !named || !is_signed(&header, keys, expected.client_secret, message.as_bytes(), &signature) {
        return Err(IdTokenError::Signature);
    }
    // RFC 7515, section 4.1.11: extensions that must be understood.
    if header.crit.is_some() {
        return Err(IdTokenError::Claims("has extensions"));
    }
    // An access token may be one as well, signed with the same key.
    if header.typ.is_some_and(|typ| !["jwt", "application/jwt", "jose"].contains(&typ.to_lowercase().as_str())) {
        return Err(IdTokenError::Claims("is of another type"));
    }
    let claims: Claims = decoded(payload)?;
    for (holds, fault) in [
        (claims.iss == expected.issuer, "is of another issuer"),
        (claims.aud.is(expected.client_id), "is for another client"),
        (claims.exp > expected.now as f64, "has expired"),
        (claims.nonce.as_deref() == Some(expected.nonce), "belongs to another sign-in"),
        (
            claims.at_hash.is_none_or(|hash| access_token_hash(&header.alg, expected.access_token) == Some(hash)),
            "belongs to another access token",
        ),
    ] {
        if !holds {
            return Err(IdTokenError::Claims(fault));
        }
    }
    Ok(claims.person)
}

fn bytes(part: &str) -> Result<Vec<u8>, IdTokenError> {
    BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| IdTokenError::Claims("is not in Base64"))
}

fn decoded<T: DeserializeOwned>(part: &str) -> Result<T, IdTokenError> {
    serde_json::from_slice(&bytes(part)?).map_err(|_| IdTokenError::Claims("lacks a claim, or has one of another type"))
}

fn is_signed(header: &Header, keys: &[Key], secret: Option<&str>, message: &[u8], signature: &[u8]) -> bool {
    let symmetric = match header.alg.as_str() {
        "HS256" => hmac::HMAC_SHA256,
        "HS384" => hmac::HMAC_SHA384,
        "HS512" => hmac::HMAC_SHA512,
        _ => {
            let fits = |key: &&Key| {
                (header.kid.is_none() || key.kid == header.kid)
                    && key.used_for.as_ref().is_none_or(|used_for| used_for == "sig")
                    && key.alg.as_ref().is_none_or(|alg| *alg == header.alg)
            };
            let verifies = |key: &Key| key.verify(&header.alg, message, signature).is_some();
            return keys.iter().filter(fits).any(verifies);
        }
    };
    secret.is_some_and(|secret| hmac::verify(&hmac::Key::new(symmetric, secret.as_bytes()), message, signature).is_ok())
}

impl Key {
    /// Some if the signature is one of this key, by an algorithm of RFC 7518 or RFC 8037.
    fn verify(&self, alg: &str, message: &[u8], signature: &[u8]) -> Option<()> {
        match alg {
            "RS256" => self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature),
            "RS384" => self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA384, message, signature),
            "RS512" => self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA512, message, signature),
            "PS256" => self.verify_rsa(&signature::RSA_PSS_2048_8192_SHA256, message, signature),
            "PS384" => self.verify_rsa(&signature::RSA_PSS_2048_8192_SHA384, message, signature),
            "PS512" => self.verify_rsa(&signature::RSA_PSS_2048_8192_SHA512, message, signature),
            "ES256" => self.verify_ec("P-256", &signature::ECDSA_P256_SHA256_FIXED, message, signature),
            "ES384" => self.verify_ec("P-384", &signature::ECDSA_P384_SHA384_FIXED, message, signature),
            "EdDSA" if self.kty == "OKP" && self.crv.as_deref() == Some("Ed25519") => {
                let key = UnparsedPublicKey::new(&signature::ED25519, member(&self.x)?);
                key.verify(message, signature).ok()
            }
            _ => None,
        }
    }

    fn verify_rsa(&self, by: &RsaParameters, message: &[u8], signature: &[u8]) -> Option<()> {
        if self.kty != "RSA" {
            return None;
        }
        // Some providers write a leading zero.
        let number = |member: Vec<u8>| member.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
        let key = RsaPublicKeyComponents { n: number(member(&self.n)?), e: number(member(&self.e)?) };
        key.verify(by, message, signature).ok()
    }

    fn verify_ec(
        &self,
        curve: &str,
        by: &'static dyn VerificationAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Option<()> {
        if self.kty != "EC" || self.crv.as_deref() != Some(curve) {
            return None;
        }
        // An uncompressed point.
        let point = [vec![4], member(&self.x)?, member(&self.y)?].concat();
        UnparsedPublicKey::new(by, point).verify(message, signature).ok()
    }
}

fn member(text: &Option<String>) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.as_ref()?.as_bytes()).ok()
}

/// The left half of the hash of an access token, by the hash of the signature's algorithm.
fn access_token_hash(alg: &str, access_token: &str) -> Option<String> {
    let by = match alg.get(2..)? {
        "256" => &digest::SHA256,
        "384" => &digest::SHA384,
        "512" | "DSA" => &digest::SHA512,
        _ => return None,
    };
    let hash = digest::digest(by, access_token.as_bytes());
    hash.as_ref().get(..hash.as_ref().len() / 2).map(|half| BASE64URL_NOPAD.encode(half))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Keys, and by algorithm a token that Node.js has signed with one of them, with the claims that [`expected`] accepts.
    const SIGNED: &str = include_str!("id_tokens.json");

    const SECRET: &str = "the secret of the client";

    struct Signed {
        keys: Vec<Key>,
        tokens: Vec<(String, String)>,
    }

    fn signed() -> Signed {
        let all: Value = serde_json::from_str(SIGNED).unwrap();
        let tokens = all["tokens"].as_object().unwrap();
        let tokens = tokens.iter().map(|(name, token)| (name.clone(), token.as_str().unwrap().to_owned()));
        Signed { keys: serde_json::from_value(all["keys"].clone()).unwrap(), tokens: tokens.collect() }
    }

    fn expected(algorithms: &[String]) -> Expected<'_> {
        Expected {
            issuer: "https://id.example.com/",
            client_id: "auricle",
            client_secret: Some(SECRET),
            algorithms,
            nonce: "the nonce",
            access_token: "the access token",
            now: 1_999_999_999,
        }
    }

    /// The algorithm of a token's name: what follows a hyphen says what is wrong with it.
    fn algorithm(name: &str) -> Vec<String> {
        vec![name.split('-').next().unwrap().to_owned()]
    }

    #[test]
    fn signatures_of_every_algorithm_are_verified() {
        let Signed { keys, tokens } = signed();
        let mut count = 0;
        for (name, token) in tokens.iter().filter(|(name, _)| !name.contains('-')) {
            let algorithms = algorithm(name);
            let person = verify(token, &keys, &expected(&algorithms)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((person.sub.as_str(), person.email.as_deref()), ("42", Some("ada@example.com")), "{name}");
            assert_eq!(person.email_verified(), Some(true), "{name}");
            count += 1;

            // The provider does not name the algorithm.
            assert_eq!(verify(token, &keys, &expected(&[])).unwrap_err(), IdTokenError::Signature, "{name}");
            // The keys of another provider, and another secret.
            let other = Expected { client_secret: Some("another"), ..expected(&algorithms) };
            assert_eq!(verify(token, &[], &other).unwrap_err(), IdTokenError::Signature, "{name}");
            // A claim that was changed.
            let parts: Vec<&str> = token.split('.').collect();
            let changed = String::from_utf8(bytes(parts[1]).unwrap()).unwrap().replace("\"42\"", "\"43\"");
            let changed = BASE64URL_NOPAD.encode(changed.as_bytes());
            let changed = format!("{}.{changed}.{}", parts[0], parts[2]);
            assert_eq!(verify(&changed, &keys, &expected(&algorithms)).unwrap_err(), IdTokenError::Signature, "{name}");
        }
        assert_eq!(count, 12);
    }

    #[test]
    fn a_token_without_a_signature_is_refused() {
        let Signed { keys, .. } = signed();
        let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let all = ["none".to_owned()];
        let none = format!("{}.{}.", part("{\"alg\":\"none\"}"), part("{}"));
        assert_eq!(verify(&none, &keys, &expected(&all)).unwrap_err(), IdTokenError::Signature);
        for bad in ["", ".", "..", "a.b", "a.b.c", "a.b.c.d.e"] {
            assert!(verify(bad, &keys, &expected(&all)).is_err(), "{bad}");
        }
    }

    /// A token that is signed symmetrically needs the secret of the client: the keys of the provider are public.
    #[test]
    fn a_public_key_is_no_secret_of_a_client() {
        let Signed { keys, tokens } = signed();
        let (name, token) = tokens.iter().find(|(name, _)| name == "HS256").unwrap();
        let algorithms = algorithm(name);
        let without = Expected { client_secret: None, ..expected(&algorithms) };
        assert_eq!(verify(token, &keys, &without).unwrap_err(), IdTokenError::Signature);
    }

    #[test]
    fn claims_of_others_are_refused() {
        let Signed { keys, tokens } = signed();
        for (name, token) in tokens.iter().filter(|(name, _)| name.contains('-')) {
            let fault = match name.as_str() {
                "ES256-typ" => "is of another type",
                "ES256-crit" => "has extensions",
                "ES256-aud" => "is for another client",
                "ES256-at_hash" => "belongs to another access token",
                "ES256-nonce" => "belongs to another sign-in",
                other => panic!("{other}"),
            };
            let algorithms = algorithm(name);
            assert_eq!(verify(token, &keys, &expected(&algorithms)).unwrap_err(), IdTokenError::Claims(fault));
        }
        let algorithms = vec!["RS256".to_owned()];
        let (_, token) = tokens.iter().find(|(name, _)| name == "RS256").unwrap();
        let fault = |expected: Expected<'_>| verify(token, &keys, &expected).unwrap_err().to_string();
        let is = || expected(&algorithms);
        assert_eq!(fault(Expected { issuer: "https://id.example.com", ..is() }), "the ID token is of another issuer");
        assert_eq!(fault(Expected { client_id: "other", ..is() }), "the ID token is for another client");
        assert_eq!(fault(Expected { now: 2_000_000_000, ..is() }), "the ID token has expired");
    }
}
