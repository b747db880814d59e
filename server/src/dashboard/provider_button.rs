//! The button that leads to the provider of OpenID Connect.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::DashboardState;

/// The button of `provider.html`.
pub struct ProviderButton<'a> {
    pub name: &'a str,
    pub address: String,
}

impl<'a> ProviderButton<'a> {
    /// Leads to the provider and from there to a page. None without a provider.
    pub fn new(state: &'a DashboardState, next: &str) -> Option<Self> {
        let address = format!("/login/openid?next={}", utf8_percent_encode(next, NON_ALPHANUMERIC));
        state.openid.as_ref().map(|provider| Self { name: &provider.name, address })
    }
}
