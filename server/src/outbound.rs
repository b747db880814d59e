//! Outbound requests to URLs of users. They reach public addresses alone: every address is checked before each connection,
//! after each redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::LOCATION;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use url::{Host, Url};

/// Names that only private networks have, and all names below them.
const PRIVATE_NAMES: [&str; 6] = ["internal", "local", "localhost", "lan", "localdomain", "home.arpa"];

/// The most redirects that are followed.
pub const MAX_REDIRECTS: usize = 5;

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout between parts of a response.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The beginning of a receiver's answer that is kept, and how long it is waited for.
const ANSWER_BYTES: usize = 2048;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// An error of an outbound request.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("{0} is not an address on the public internet")]
    Private(String),
    #[error("{0}")]
    Url(String),
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    #[error("the server answered {0}")]
    Status(StatusCode),
    #[error("{0}")]
    Failed(String),
}

/// Installs the TLS provider of this process, which all libraries use.
pub fn install_tls_provider() {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The HTTP client for URLs of users.
#[derive(Clone)]
pub struct Outbound {
    client: Client,
    allowed: Arc<[String]>,
}

impl Outbound {
    /// `allowed` lists private hosts that are exempt from the check.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn new(allowed: &[String]) -> Result<Self, OutboundError> {
        let allowed: Arc<[String]> = allowed.iter().map(|host| host.to_lowercase()).collect();
        let client = Client::builder()
            .user_agent(concat!("auricle/", env!("CARGO_PKG_VERSION")))
            // A proxy would connect to addresses that are not checked here.
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(STALL_TIMEOUT)
            .dns_resolver(Arc::new(PublicResolver { allowed: allowed.clone() }))
            .build()
            .map_err(request_error)?;
        Ok(Self { client, allowed })
    }

    /// Checks the scheme of a URL, and that its host is not private by name or address. Names are resolved and checked when
    /// the connection is made.
    ///
    /// # Errors
    /// The fault of the URL.
    pub fn check(&self, text: &str) -> Result<Url, OutboundError> {
        let url = Url::parse(text).map_err(|error| OutboundError::Url(format!("it is no URL: {error}")))?;
        self.check_url(&url)?;
        Ok(url)
    }

    fn check_url(&self, url: &Url) -> Result<(), OutboundError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(OutboundError::Url(format!("its scheme is {}, not http or https", url.scheme())));
        }
        let Some(host) = url.host() else { return Err(OutboundError::Url("it names no host".into())) };
        let name = host.to_string().trim_start_matches('[').trim_end_matches([']', '.']).to_lowercase();
        if self.allowed.contains(&name) {
            return Ok(());
        }
        let private = match host {
            Host::Ipv4(address) => !is_public(address.into()),
            Host::Ipv6(address) => !is_public(address.into()),
            Host::Domain(_) => {
                let is_below = |suffix: &&str| {
                    name.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                !name.contains('.') || PRIVATE_NAMES.iter().any(is_below)
            }
        };
        if private { Err(OutboundError::Private(name)) } else { Ok(()) }
    }

    /// Gets a URL and follows redirects.
    ///
    /// # Errors
    /// For a private address, and for any response but 2xx.
    pub async fn get(&self, text: &str) -> Result<Response, OutboundError> {
        let mut url = self.check(text)?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.client.get(url.clone()).send().await.map_err(request_error)?;
            let status = response.status();
            if !status.is_redirection() {
                return if status.is_success() { Ok(response) } else { Err(OutboundError::Status(status)) };
            }
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(target) = target else { return Err(OutboundError::Status(status)) };
            url =
                url.join(target).map_err(|error| OutboundError::Url(format!("it redirects to {target:?}: {error}")))?;
            self.check_url(&url)?;
        }
        Err(OutboundError::Redirects)
    }

    /// Posts JSON with a header, and follows no redirect.
    ///
    /// # Errors
    /// For a private address, and if there is no response within `timeout`.
    pub async fn post_json(
        &self,
        text: &str,
        body: String,
        headers: &[(&'static str, String)],
        timeout: Duration,
    ) -> Result<Response, OutboundError> {
        let url = self.check(text)?;
        let request = self.client.post(url).timeout(timeout).header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        request.body(body).send().await.map_err(request_error)
    }
}

/// The beginning of a body as text, without control characters: what comes soon, up to 2 KiB.
pub async fn beginning_of(mut response: Response) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < ANSWER_BYTES
            && let Ok(Some(part)) = response.chunk().await
        {
            let room = ANSWER_BYTES - bytes.len();
            bytes.extend_from_slice(part.get(..room).unwrap_or(&part));
        }
    };
    // Too late is as good as no more.
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, read).await;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if bytes.len() == ANSWER_BYTES {
        // The last character may be cut.
        text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
    }
    text.retain(|character| matches!(character, '\n' | '\t') || !character.is_control());
    text
}

/// Keeps the innermost cause alone. The outer messages contain the URL, which may contain a token.
pub fn request_error(error: reqwest::Error) -> OutboundError {
    if error.is_timeout() {
        return OutboundError::Failed("it took too long".into());
    }
    let mut inner: &dyn std::error::Error = &error;
    while let Some(source) = inner.source() {
        if source.downcast_ref::<RefusedAddress>().is_some() {
            return OutboundError::Private(source.to_string());
        }
        inner = source;
    }
    OutboundError::Failed(inner.to_string())
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RefusedAddress(String);

/// A resolver that refuses names with private addresses.
struct PublicResolver {
    allowed: Arc<[String]>,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.allowed.clone();
        Box::pin(async move {
            let host = name.as_str().trim_end_matches('.').to_lowercase();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            if allowed.contains(&host) {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            // A private address among public ones indicates DNS rebinding.
            if found.is_empty() || found.iter().any(|address| !is_public(address.ip())) {
                return Err(RefusedAddress(host).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Networks outside the public internet, from IANA's special-purpose registries.
struct ReservedNetworks {
    v4: Vec<Ipv4Net>,
    v6: Vec<Ipv6Net>,
}

fn reserved() -> &'static ReservedNetworks {
    static RESERVED: OnceLock<ReservedNetworks> = OnceLock::new();
    RESERVED.get_or_init(|| {
        let v4 = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 \
                  192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 \
                  198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4";
        // Only 2000::/3 of IPv6 is allocated. Special parts of it: Teredo, ORCHID, documentation, 6to4 and others.
        let v6 = "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20";
        ReservedNetworks {
            v4: v4.split(' ').filter_map(|net| net.parse().ok()).collect(),
            v6: v6.split(' ').filter_map(|net| net.parse().ok()).collect(),
        }
    })
}

/// Tells if an address is on the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !reserved().v4.iter().any(|net| net.contains(&address))
}

/// IPv4-mapped, NAT64 and similar addresses lie outside 2000::/3 or in a reserved part of it, so they are refused.
fn is_public_v6(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xe000 == 0x2000 && !reserved().v6.iter().any(|net| net.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_addresses_are_not_public() {
        assert_eq!((reserved().v4.len(), reserved().v6.len()), (18, 5));
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "3fff::1",
            "100::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700:4700::1111"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn urls_of_private_hosts_are_refused() {
        install_tls_provider();
        let outbound =
            Outbound { client: Client::new(), allowed: Arc::from(["10.0.0.5".into(), "store.internal".into()]) };
        for bad in [
            "",
            "talk.mp3",
            "ftp://example.com/a",
            "file:///etc/passwd",
            "http://",
            "http://localhost/a",
            "http://LOCALHOST./a",
            "http://a.localhost",
            "http://intranet/a",
            "http://x.internal",
            "http://x.local.",
            "http://nas.lan",
            "http://a.b.LAN.",
            "http://printer.home.arpa/a",
            "http://home.arpa",
            "http://db.localdomain",
            "http://127.0.0.1",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://0177.0.0.1",
            "http://[::1]/",
            "http://[::ffff:10.0.0.5]/",
            "http://user@169.254.169.254/",
            "http://10.0.0.6",
        ] {
            assert!(outbound.check(bad).is_err(), "{bad}");
        }
        for good in [
            "http://example.com/a.mp3",
            "https://EXAMPLE.com:8443/",
            "http://8.8.8.8/x",
            "http://10.0.0.5/a",
            "http://store.internal/a",
            "http://example.arpa/",
            "http://lan.example.com/",
            "http://xlocal.xlan.com/",
        ] {
            assert!(outbound.check(good).is_ok(), "{good}");
        }
    }
}
