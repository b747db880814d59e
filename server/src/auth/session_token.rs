//! Session tokens: the options of a live session, signed. Any node can verify a token, and no node stores one.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::ids::{AccountId, KeyId};

/// The prefix of every token.
const PREFIX: &str = "rt_";

/// The options that a token was created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaims {
    pub account: AccountId,
    /// The key that the token was created with. The token is valid no longer than it.
    pub key: KeyId,
    /// The estimated cost of a session.
    pub estimated_cents: i64,
    pub model: String,
    pub sample_rate: u32,
    pub language_code: Option<String>,
    pub medical_mode: bool,
    /// End of validity, ms since 1970.
    pub expires_at: i64,
}

impl SessionClaims {
    /// The signed token: `rt_CLAIMS.SIGNATURE`.
    pub fn sign(&self, secret: &str) -> String {
        let claims = BASE64URL_NOPAD.encode(serde_json::to_string(self).unwrap_or_default().as_bytes());
        let signature = BASE64URL_NOPAD.encode(&mac(secret, &claims).finalize().into_bytes());
        format!("{PREFIX}{claims}.{signature}")
    }

    /// The claims of a token; none if the signature is wrong or the token has expired.
    pub fn verify(token: &str, secret: &str, now_ms: i64) -> Option<Self> {
        let (claims, signature) = token.strip_prefix(PREFIX)?.split_once('.')?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
        mac(secret, claims).verify_slice(&signature).ok()?;
        let found: Self = serde_json::from_slice(&BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?).ok()?;
        (now_ms < found.expires_at).then_some(found)
    }
}

/// Signs the session type with the claims, so that a token of another type does not verify.
fn mac(secret: &str, claims: &str) -> Hmac<Sha256> {
    let mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap_or_else(|_| unreachable!("keys have any length"));
    mac.chain_update(format!("realtime\n{claims}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_until_it_expires_and_cannot_be_forged() {
        let claims = SessionClaims {
            account: AccountId::new(),
            key: KeyId::new(),
            estimated_cents: 1,
            model: "svc-realtime".into(),
            sample_rate: 8000,
            language_code: Some("en_us".into()),
            medical_mode: false,
            expires_at: 1_000,
        };
        let token = claims.sign("a");
        assert_eq!(SessionClaims::verify(&token, "a", 999), Some(claims.clone()));
        assert_eq!(SessionClaims::verify(&token, "a", 1_000), None);
        assert_eq!(SessionClaims::verify(&token, "b", 0), None);
        let other = SessionClaims { sample_rate: 16_000, ..claims }.sign("b");
        let (forged, _) = other.split_once('.').unwrap();
        let (_, signature) = token.split_once('.').unwrap();
        for bad in ["", "rt_", "rt_.", ".", &token[3..], &token[..token.len() - 1], &format!("{forged}.{signature}")] {
            assert_eq!(SessionClaims::verify(bad, "a", 0), None, "{bad}");
        }
    }
}
