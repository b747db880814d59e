//! Sign-in by the provider of OpenID Connect that the settings name.

use std::sync::Arc;

use super::DashboardState;
use super::frame::{page, private, refused};
use super::sign_in::{own_path, sign_in_page};
use super::words::EN;
use crate::auth::openid::{OpenId, OpenIdError};
use crate::auth::visitor::hash_of;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, see_other};
use crate::store::{Identified, Joined, SignUp};

/// The path of an invitation, before its secret.
const INVITATION: &str = "/join/";

/// The provider.
fn provider(state: &DashboardState) -> Result<&OpenId> {
    state.openid.as_ref().ok_or_else(|| ApiError::not_found(EN.openid_none))
}

/// The sign-in with a problem of the provider, which goes to the log.
async fn failed(state: &DashboardState, request: &RequestContext, error: &OpenIdError) -> Result<Response> {
    let problem = match error {
        OpenIdError::State => EN.openid_state,
        OpenIdError::Provider(_) => {
            tracing::warn!(%error, "sign-in by OpenID Connect");
            EN.openid_failed
        }
    };
    let token = &request.visitor()?.form_token;
    refused(&sign_in_page(state, token, "", "", problem).await?)
}

/// `GET /login/openid`
pub async fn begin(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let provider = provider(&state)?;
    let next = request.query("next").unwrap_or_default();
    let next = own_path(&next);
    let visitor = request.visitor()?;
    if visitor.sign_in.is_some() {
        return Ok(private(see_other(next)));
    }
    match provider.begin(&visitor.form_token, next).await {
        Ok(url) => Ok(private(see_other(url.as_str()))),
        Err(error) => failed(&state, &request, &error).await,
    }
}

/// `GET /login/openid/callback`
pub async fn callback(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let provider = provider(&state)?;
    let visitor = request.visitor()?;
    if visitor.sign_in.is_some() {
        return Ok(private(see_other("/transcripts")));
    }
    let browser = visitor.form_token.as_str();
    let sent = request.query("state").unwrap_or_default();
    let next = match provider.next(browser, &sent) {
        Ok(next) => next,
        Err(error) => return failed(&state, &request, &error).await,
    };
    let refuse = async |problem: &str| refused(&sign_in_page(&state, browser, "", &next, problem).await?);
    if let Some(error) = request.query("error") {
        // The person has declined, or the provider does not let them in.
        tracing::info!(error, "sign-in by OpenID Connect");
        return refuse(EN.openid_declined).await;
    }
    let identity = match provider.identify(browser, &sent, &request.query("code").unwrap_or_default()).await {
        Ok(identity) => identity,
        Err(error) => return failed(&state, &request, &error).await,
    };
    let invitation = next.strip_prefix(INVITATION).map(hash_of);
    // The provider decides who comes in, unless sign-up is closed.
    let free_credit = (state.sign_up != SignUp::Closed).then_some(state.free_credit_cents);
    match state.store.identify(&identity, invitation.as_deref(), free_credit).await? {
        Identified::User(user) if invitation.is_some() => state.begin(&user, "/transcripts").await,
        Identified::User(user) => state.begin(&user, &next).await,
        Identified::HasPassword => {
            let email = identity.email.clone().unwrap_or_default();
            let connect = provider.connection(&identity).unwrap_or_default();
            let mut shown = sign_in_page(&state, browser, &email, &next, EN.openid_password).await?;
            shown.connect = &connect;
            page(&shown)
        }
        Identified::NoAddress => refuse(EN.openid_address).await,
        Identified::Closed => refuse(EN.openid_closed).await,
        Identified::OtherAddress => refuse(EN.openid_other).await,
        Identified::NotJoined(Joined::Full) => refuse(EN.join_full).await,
        Identified::NotJoined(Joined::Taken) => refuse(EN.join_taken).await,
        Identified::NotJoined(_) => Err(ApiError::not_found(EN.join_gone)),
    }
}
