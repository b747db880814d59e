//! Session tokens: the options of a session, signed. Any node can verify a token, and no node stores one.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::Sha256;

use crate::ids::{AccountId, KeyId, TranscriptId};

/// The claims of one kind of session. A token of one kind does not verify as one of another.
pub trait Claims: Serialize + DeserializeOwned {
    /// The prefix of its tokens.
    const PREFIX: &'static str;
    /// The kind of session, which is signed too.
    const KIND: &'static str;

    /// End of validity, ms since 1970.
    fn expires_at(&self) -> i64;

    /// The signed token: `PREFIX`, claims, a dot, the signature.
    fn sign(&self, secret: &str) -> String {
        let claims = BASE64URL_NOPAD.encode(serde_json::to_string(self).unwrap_or_default().as_bytes());
        let signature = BASE64URL_NOPAD.encode(&mac(secret, Self::KIND, &claims).finalize().into_bytes());
        format!("{}{claims}.{signature}", Self::PREFIX)
    }

    /// The claims of a token; none if the signature is wrong or the token has expired.
    fn verify(token: &str, secret: &str, now_ms: i64) -> Option<Self> {
        let (claims, signature) = token.strip_prefix(Self::PREFIX)?.split_once('.')?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
        mac(secret, Self::KIND, claims).verify_slice(&signature).ok()?;
        let found: Self = serde_json::from_slice(&BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?).ok()?;
        (now_ms < found.expires_at()).then_some(found)
    }
}

/// The sender of a session: what is metered, and whose credit pays for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payer {
    pub account: AccountId,
    /// The key that the token was created with. The token is valid no longer than it.
    pub key: KeyId,
    /// The estimated cost of a session.
    pub estimated_cents: i64,
    pub model: String,
}

/// The claims of a voice agent's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentClaims {
    #[serde(flatten)]
    pub payer: Payer,
    /// The longest duration of the session.
    pub max_session_duration_sec: u32,
    /// End of validity, ms since 1970.
    pub expires_at: i64,
}

impl Claims for AgentClaims {
    const PREFIX: &'static str = "va_";
    const KIND: &'static str = "voice-agent";

    fn expires_at(&self) -> i64 {
        self.expires_at
    }
}

/// The claims of a telephone call's address, whose plan is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallClaims {
    /// Those of its session.
    #[serde(flatten)]
    pub session: AgentClaims,
    /// The transcript that it is to have.
    pub transcript: TranscriptId,
}

impl Claims for CallClaims {
    const PREFIX: &'static str = "tc_";
    const KIND: &'static str = "telephony";

    fn expires_at(&self) -> i64 {
        self.session.expires_at
    }
}

/// The claims of a realtime session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClaims {
    #[serde(flatten)]
    pub payer: Payer,
    pub sample_rate: u32,
    pub language_code: Option<String>,
    pub medical_mode: bool,
    /// None leaves it to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_numbers: Option<bool>,
    /// The words to expect and those to hide, by the names of the API.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// End of validity, ms since 1970.
    pub expires_at: i64,
}

impl Claims for SessionClaims {
    const PREFIX: &'static str = "rt_";
    const KIND: &'static str = "realtime";

    fn expires_at(&self) -> i64 {
        self.expires_at
    }
}

/// The claims of a client secret of `/v1/realtime`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecretClaims {
    #[serde(flatten)]
    pub payer: Payer,
    /// The settings that its sessions begin with, in the shape of the protocol.
    pub session: Value,
    /// End of validity, ms since 1970.
    pub expires_at: i64,
}

impl Claims for SecretClaims {
    const PREFIX: &'static str = "ek_";
    const KIND: &'static str = "openai-realtime";

    fn expires_at(&self) -> i64 {
        self.expires_at
    }
}

/// The claims of a temporary token of `/v3/ws`, whose sessions name their model when they begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamClaims {
    #[serde(flatten)]
    pub payer: Payer,
    /// The longest duration of the session, as the token's request has it.
    pub max_session_duration_sec: Option<u32>,
    /// End of validity, ms since 1970.
    pub expires_at: i64,
}

impl Claims for StreamClaims {
    const PREFIX: &'static str = "st_";
    const KIND: &'static str = "assemblyai-streaming";

    fn expires_at(&self) -> i64 {
        self.expires_at
    }
}

/// Signs the kind of session with the claims.
fn mac(secret: &str, kind: &str, claims: &str) -> Hmac<Sha256> {
    let mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap_or_else(|_| unreachable!("keys have any length"));
    mac.chain_update(format!("{kind}\n{claims}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payer(model: &str) -> Payer {
        Payer { account: AccountId::new(), key: KeyId::new(), estimated_cents: 1, model: model.into() }
    }

    #[test]
    fn a_token_of_one_kind_is_none_of_another() {
        let claims = AgentClaims { payer: payer("svc-agent"), max_session_duration_sec: 60, expires_at: 1_000 };
        let token = claims.sign("a");
        assert_eq!(AgentClaims::verify(&token, "a", 999), Some(claims));
        assert_eq!(SessionClaims::verify(&token, "a", 999), None);
        let renamed = token.replacen("va_", "rt_", 1);
        assert_eq!(SessionClaims::verify(&renamed, "a", 999), None, "the kind is signed");
        let stream = StreamClaims { payer: payer(""), max_session_duration_sec: None, expires_at: 1_000 };
        let renamed = stream.sign("a").replacen("st_", "rt_", 1);
        assert_eq!(StreamClaims::verify(&stream.sign("a"), "a", 999), Some(stream));
        assert_eq!(SessionClaims::verify(&renamed, "a", 999), None);
    }

    #[test]
    fn a_token_is_valid_until_it_expires_and_cannot_be_forged() {
        let claims = SessionClaims {
            payer: payer("svc-realtime"),
            sample_rate: 8000,
            language_code: Some("en_us".into()),
            medical_mode: false,
            format_numbers: Some(false),
            options: Map::new(),
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
