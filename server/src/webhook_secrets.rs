//! Secrets that sign an account's webhooks as Standard Webhooks 1.0 specifies (<https://www.standardwebhooks.com>). They are encrypted in the
//! database, and shown once.

use std::io;
use std::sync::Arc;

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::clock;
use crate::ids::{AccountId, DeliveryId, random};
use crate::sealing::Sealer;
use crate::store::{Store, WebhookSecret};

/// Random bytes of a secret. Their base64 has no padding, so its end tells secrets apart.
const SECRET_BYTES: usize = 24;

/// Characters of a secret that stay visible.
const SHOWN_CHARS: usize = 4;

/// The time for which the secret before a rotation signs, too.
const OVERLAP_MS: i64 = 24 * 3_600_000;

/// Makes secrets, and signs with them.
pub struct WebhookSecrets {
    store: Store,
    sealer: Sealer,
}

impl WebhookSecrets {
    /// `key` is the secret that these secrets are encrypted with.
    pub fn new(store: Store, key: &str) -> Arc<Self> {
        Arc::new(Self { store, sealer: Sealer::new(key, "webhook secrets") })
    }

    /// Gives an account a secret, `whsec_` and base64. The one that it had signs, too, for a day.
    ///
    /// # Errors
    /// If it cannot be encrypted or stored.
    pub async fn rotate(&self, account: &AccountId) -> io::Result<(String, WebhookSecret)> {
        let bytes = random::<SECRET_BYTES>();
        let encoded = BASE64.encode(&bytes);
        let ending = encoded.get(encoded.len() - SHOWN_CHARS..).unwrap_or_default();
        let sealed = self.sealer.seal(account.as_str(), &bytes).map_err(io::Error::other)?;
        let now = clock::now_ms();
        let rotated = self.store.rotate_webhook_secret(account, &sealed, ending, now, now + OVERLAP_MS).await;
        Ok((format!("whsec_{encoded}"), rotated.map_err(io::Error::other)?))
    }

    /// The keys that sign the webhooks of an account now. None if it has no secret.
    ///
    /// # Errors
    /// If the secret cannot be read.
    pub async fn signer(&self, account: &AccountId) -> io::Result<Option<Signer>> {
        let Some(secret) = self.store.webhook_secret(account).await.map_err(io::Error::other)? else {
            return Ok(None);
        };
        let now = clock::now_ms();
        let previous = secret.previous.filter(|(_, until)| now < *until).map(|(sealed, _)| sealed);
        let open = |sealed: String| {
            let opened = self.sealer.open(account.as_str(), &sealed);
            opened.ok_or_else(|| io::Error::other("another key has encrypted it"))
        };
        let keys = [secret.sealed].into_iter().chain(previous).map(open).collect::<io::Result<_>>()?;
        Ok(Some(Signer { keys }))
    }
}

/// The keys that sign a webhook, the newest first.
pub struct Signer {
    keys: Vec<Vec<u8>>,
}

impl Signer {
    /// The headers of an attempt at this time.
    pub fn headers(&self, id: &DeliveryId, now_ms: i64, body: &str) -> [(&'static str, String); 3] {
        let timestamp = now_ms / 1000;
        let signature = |key: &Vec<u8>| {
            let mac = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!("keys have any length"));
            let mac = mac.chain_update(format!("{id}.{timestamp}.{body}"));
            format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
        };
        let signatures: Vec<String> = self.keys.iter().map(signature).collect();
        [
            ("webhook-id", id.to_string()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signatures.join(" ")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the libraries of Standard Webhooks.
    #[test]
    fn the_signature_is_that_of_the_standard() {
        let key = BASE64.decode(b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let id = DeliveryId::from("msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned());
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let signer = Signer { keys: vec![key.clone(), key] };
        let headers = signer.headers(&id, 1_614_265_330_999, "{\"test\": 2432232314}");
        let expected = [
            ("webhook-id", id.to_string()),
            ("webhook-timestamp", "1614265330".into()),
            ("webhook-signature", format!("{signature} {signature}")),
        ];
        assert_eq!(headers, expected);
    }
}
