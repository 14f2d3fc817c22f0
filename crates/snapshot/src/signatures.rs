//! Digests and signatures of requests to clouds, by OpenSSL.

use object_store::client::{
    CryptoProvider, DigestAlgorithm, DigestContext, HmacContext, Signer, SigningAlgorithm,
};
use object_store::{Error, Result};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::sha::Sha256;
use openssl::sign;

/// The library that the program's TLS is from.
#[derive(Debug, Clone, Copy)]
pub struct OpenSsl;

impl CryptoProvider for OpenSsl {
    fn digest(&self, algorithm: DigestAlgorithm) -> Result<Box<dyn DigestContext>> {
        require_sha256(&algorithm)?;
        Ok(Box::new(Digest { state: Sha256::new(), digest: [0; 32] }))
    }

    fn hmac(&self, algorithm: DigestAlgorithm, secret: &[u8]) -> Result<Box<dyn HmacContext>> {
        require_sha256(&algorithm)?;
        let key = PKey::hmac(secret).map_err(failed)?;
        Ok(Box::new(Hmac { key, message: Vec::new(), code: Vec::new() }))
    }

    fn sign(&self, algorithm: SigningAlgorithm, pem: &[u8]) -> Result<Box<dyn Signer>> {
        if algorithm != SigningAlgorithm::RS256 {
            return Err(unknown(format!("{algorithm:?}")));
        }
        let key = PKey::private_key_from_pem(pem).map_err(failed)?;
        key.rsa().map_err(failed)?;
        Ok(Box::new(RsaKey(key)))
    }
}

/// Goes on with the one digest there is today.
fn require_sha256(algorithm: &DigestAlgorithm) -> Result<()> {
    if *algorithm == DigestAlgorithm::Sha256 { Ok(()) } else { Err(unknown(format!("{algorithm:?}"))) }
}

fn unknown(algorithm: String) -> Error {
    Error::NotSupported { source: format!("no algorithm {algorithm} here").into() }
}

fn failed(error: ErrorStack) -> Error {
    Error::Generic { store: "OpenSSL", source: error.into() }
}

struct Digest {
    state: Sha256,
    digest: [u8; 32],
}

impl DigestContext for Digest {
    fn update(&mut self, data: &[u8]) {
        self.state.update(data);
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.digest = self.state.clone().finish();
        Ok(&self.digest)
    }
}

/// What is signed this way is a text of a few lines, so it is gathered and signed at once.
struct Hmac {
    key: PKey<Private>,
    message: Vec<u8>,
    code: Vec<u8>,
}

impl HmacContext for Hmac {
    fn update(&mut self, data: &[u8]) {
        self.message.extend_from_slice(data);
    }

    fn finish(&mut self) -> Result<&[u8]> {
        self.code = signature(&self.key, &self.message)?;
        Ok(&self.code)
    }
}

struct RsaKey(PKey<Private>);

impl Signer for RsaKey {
    fn sign(&self, string_to_sign: &[u8]) -> Result<Vec<u8>> {
        signature(&self.0, string_to_sign)
    }
}

/// The signature with SHA-256: an HMAC where the key is a shared secret, PKCS #1 v1.5 where it is RSA's.
fn signature(key: &PKey<Private>, message: &[u8]) -> Result<Vec<u8>> {
    let mut signer = sign::Signer::new(MessageDigest::sha256(), key).map_err(failed)?;
    signer.sign_oneshot_to_vec(message).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::rsa::Rsa;
    use std::fmt::Write as _;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string");
            text
        })
    }

    /// FIPS 180-2, appendix B.2: a message of two blocks.
    #[test]
    fn a_digest_is_sha_256_of_all_parts() {
        let mut digest = OpenSsl.digest(DigestAlgorithm::Sha256).expect("a digest");
        digest.update(b"abcdbcdecdefdefgefghfghighij");
        digest.update(b"hijkijkljklmklmnlmnomnopnopq");
        assert_eq!(
            hex(digest.finish().expect("a digest")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
    }

    /// RFC 4231, test case 2.
    #[test]
    fn a_code_is_the_rfcs() {
        let mut hmac = OpenSsl.hmac(DigestAlgorithm::Sha256, b"Jefe").expect("a key");
        hmac.update(b"what do ya want ");
        hmac.update(b"for nothing?");
        assert_eq!(
            hex(hmac.finish().expect("a code")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_signature_verifies_with_the_public_key_and_no_other_key_is_taken() {
        let key = PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key");
        let pem = key.private_key_to_pem_pkcs8().expect("PEM");
        let signer = OpenSsl.sign(SigningAlgorithm::RS256, &pem).expect("a signer");
        let signature = signer.sign(b"header.claims").expect("a signature");
        let mut verifier = sign::Verifier::new(MessageDigest::sha256(), &key).expect("a verifier");
        assert!(verifier.verify_oneshot(&signature, b"header.claims").expect("checked"));
        let elliptic = PKey::generate_ed25519().expect("a key").private_key_to_pem_pkcs8().expect("PEM");
        assert!(OpenSsl.sign(SigningAlgorithm::RS256, &elliptic).is_err());
        assert!(OpenSsl.sign(SigningAlgorithm::RS256, b"no key").is_err());
    }
}
