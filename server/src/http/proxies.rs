//! Reverse proxies that tell a client's address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName};
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Networks of the reverse proxies in front of the service.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    pub fn new(networks: &[IpNet]) -> Self {
        Self(networks.into())
    }

    /// True for the address of a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client's address: the connection's own, unless that is a trusted proxy's. Each proxy appends the address that it
    /// was reached from to `X-Forwarded-For`, so the last entry that is no trusted proxy's is the client. Entries before it may
    /// be made up.
    pub fn client(&self, connection: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.contains(connection) {
            return connection;
        }
        let lists = headers.get_all(FORWARDED_FOR).iter().rev().map(|list| list.to_str().unwrap_or_default());
        let mut client = connection;
        for entry in lists.flat_map(|list| list.rsplit(',')) {
            // The proxy that wrote an entry without an address is the nearest known client.
            let Some(address) = parse(entry.trim()) else { return client };
            client = address;
            if !self.contains(address) {
                return client;
            }
        }
        client
    }
}

/// An address, with or without a port.
fn parse(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')).unwrap_or(entry);
    bare.parse().ok().or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn client(connection: &str, lists: &[&'static str]) -> String {
        let networks = ["10.0.0.0/8", "2001:db8::1/128"].map(|text| text.parse().unwrap());
        let mut headers = HeaderMap::new();
        for list in lists {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(list));
        }
        TrustedProxies::new(&networks).client(connection.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_tells_the_client_s_address() {
        assert_eq!(client("192.0.2.7", &["198.51.100.1"]), "192.0.2.7");
        assert_eq!(client("10.1.2.3", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(client("::ffff:10.1.2.3", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(client("2001:db8::1", &["2001:db8::2"]), "2001:db8::2");
        assert_eq!(client("10.1.2.3", &[]), "10.1.2.3");
    }

    #[test]
    fn entries_that_the_client_made_up_are_ignored() {
        assert_eq!(client("10.1.2.3", &["203.0.113.9, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(client("10.1.2.3", &["203.0.113.9", "198.51.100.1, 10.9.9.9"]), "198.51.100.1");
        assert_eq!(client("10.1.2.3", &["203.0.113.9, unknown"]), "10.1.2.3");
        assert_eq!(client("10.1.2.3", &["unknown, 10.9.9.9"]), "10.9.9.9");
    }

    #[test]
    fn entries_may_have_a_port() {
        assert_eq!(client("10.1.2.3", &["198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(client("10.1.2.3", &["[2001:db8::5]:4711"]), "2001:db8::5");
        assert_eq!(client("10.1.2.3", &["[2001:db8::5]"]), "2001:db8::5");
    }
}
