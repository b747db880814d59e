//! Session tokens: what was asked for when one was minted, signed, so that any node can take it and none has to remember it.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::ids::AccountId;

/// What tokens of ours begin with.
const PREFIX: &str = "rt_";

/// What a token stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaims {
    pub account: AccountId,
    pub model: String,
    pub sample_rate: u32,
    pub language_code: Option<String>,
    pub medical_mode: bool,
    /// It can be redeemed until then, ms since 1970.
    pub expires_at: i64,
}

impl SessionClaims {
    /// `rt_CLAIMS.SIGNATURE`
    pub fn mint(&self, secret: &str) -> String {
        let claims = BASE64URL_NOPAD.encode(serde_json::to_string(self).unwrap_or_default().as_bytes());
        let signature = BASE64URL_NOPAD.encode(&mac(secret, &claims).finalize().into_bytes());
        format!("{PREFIX}{claims}.{signature}")
    }

    /// What a token stands for, if it is one of ours and has not expired.
    pub fn redeem(token: &str, secret: &str, now_ms: i64) -> Option<Self> {
        let (claims, signature) = token.strip_prefix(PREFIX)?.split_once('.')?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
        mac(secret, claims).verify_slice(&signature).ok()?;
        let grant: Self = serde_json::from_slice(&BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?).ok()?;
        (now_ms < grant.expires_at).then_some(grant)
    }
}

/// The kind of session is signed with the claims: a token of another kind is none.
fn mac(secret: &str, claims: &str) -> Hmac<Sha256> {
    let mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap_or_else(|_| unreachable!("keys have any length"));
    mac.chain_update(format!("realtime\n{claims}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_it_expires_and_cannot_be_made_up() {
        let grant = SessionClaims {
            account: AccountId::new(),
            model: "svc-realtime".into(),
            sample_rate: 8000,
            language_code: Some("en_us".into()),
            medical_mode: false,
            expires_at: 1_000,
        };
        let token = grant.mint("a");
        assert_eq!(SessionClaims::redeem(&token, "a", 999), Some(grant.clone()));
        assert_eq!(SessionClaims::redeem(&token, "a", 1_000), None);
        assert_eq!(SessionClaims::redeem(&token, "b", 0), None);
        let other = SessionClaims { sample_rate: 16_000, ..grant }.mint("b");
        let (claims, _) = other.split_once('.').unwrap();
        let (_, signature) = token.split_once('.').unwrap();
        for bad in ["", "rt_", "rt_.", ".", &token[3..], &token[..token.len() - 1], &format!("{claims}.{signature}")] {
            assert_eq!(SessionClaims::redeem(bad, "a", 0), None, "{bad}");
        }
    }
}
