//! Encryption of small secrets in the database: ChaCha20-Poly1305 (RFC 8439) with a random nonce each.

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;

use crate::ids::random;

/// The key of one use.
pub struct Sealer([u8; 32]);

/// A secret cannot be encrypted.
#[derive(Debug, thiserror::Error)]
#[error("a secret cannot be encrypted")]
pub struct SealError;

impl Sealer {
    /// Derives the key of a use from a secret.
    pub fn new(secret: &str, of: &str) -> Self {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap_or_else(|_| unreachable!("keys have any length"));
        mac.update(of.as_bytes());
        Self(mac.finalize().into_bytes().into())
    }

    /// Encrypts a secret for a place: text that [`Sealer::open`] reads for the same place alone.
    ///
    /// # Errors
    /// If the cipher fails, which it does for secrets of gigabytes alone.
    pub fn seal(&self, place: &str, secret: &[u8]) -> Result<String, SealError> {
        let nonce = random::<NONCE_LEN>();
        let mut bytes = secret.to_vec();
        let place = Aad::from(place.as_bytes());
        let sealing = Nonce::assume_unique_for_key(nonce);
        self.cipher().ok_or(SealError)?.seal_in_place_append_tag(sealing, place, &mut bytes).map_err(|_| SealError)?;
        Ok(BASE64.encode(&[nonce.as_slice(), &bytes].concat()))
    }

    /// Decrypts a secret. None with another key, for another place, and for text that was changed.
    pub fn open(&self, place: &str, sealed: &str) -> Option<Vec<u8>> {
        let mut bytes = BASE64.decode(sealed.as_bytes()).ok()?;
        let (nonce, secret) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.cipher()?.open_in_place(nonce, Aad::from(place.as_bytes()), secret).ok().map(|bytes| bytes.to_vec())
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.0).ok().map(LessSafeKey::new)
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;

    /// The example of RFC 8439, section 2.8.2.
    #[test]
    fn the_cipher_is_that_of_the_standard() {
        let key: Vec<u8> = (0x80..=0x9f).collect();
        let hex = |text: &str| HEXLOWER.decode(text.as_bytes()).unwrap();
        let nonce: [u8; NONCE_LEN] = hex("070000004041424344454647").try_into().unwrap();
        let mut text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                         sunscreen would be it."
            .to_vec();
        let cipher = Sealer(key.try_into().unwrap()).cipher().unwrap();
        let (nonce, place) = (Nonce::assume_unique_for_key(nonce), Aad::from(hex("50515253c0c1c2c3c4c5c6c7")));
        let tag = cipher.seal_in_place_separate_tag(nonce, place, &mut text).unwrap();
        assert_eq!(text[..16], hex("d31a8d34648e60db7b86afbc53ef7ec2"));
        assert_eq!(tag.as_ref(), hex("1ae10b594f09e26a7e902ecbd0600691"));
    }

    #[test]
    fn a_secret_opens_with_its_key_at_its_place() {
        let sealer = Sealer::new("the service's key", "tests");
        let sealed = sealer.seal("here", b"a voice").unwrap();
        assert_eq!(sealer.open("here", &sealed).unwrap(), b"a voice");
        assert_ne!(sealed, sealer.seal("here", b"a voice").unwrap(), "each has a nonce of its own");
        assert_eq!(sealer.open("there", &sealed), None);
        assert_eq!(Sealer::new("another key", "tests").open("here", &sealed), None);
        assert_eq!(Sealer::new("the service's key", "another use").open("here", &sealed), None);
        let changed = sealed.replacen(&sealed[20..21], if &sealed[20..21] == "A" { "B" } else { "A" }, 1);
        for wrong in [changed.as_str(), "", "AAAA", &sealed[..16], "no base64"] {
            assert_eq!(sealer.open("here", wrong), None, "{wrong}");
        }
    }
}
