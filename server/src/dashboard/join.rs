//! The link of an invitation: who is invited sets a password and is a member.

use std::sync::Arc;

use askama::Template;

use super::DashboardState;
use super::form::Form;
use super::frame::{Frame, page, refused};
use super::passwords::weakness;
use super::provider_button::ProviderButton;
use super::words::EN;
use crate::auth::visitor::hash_of;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result};
use crate::store::{InvitedTo, Joined};

#[derive(Template)]
#[template(path = "join.html")]
struct JoinPage<'a> {
    frame: Frame,
    invitation: &'a InvitedTo,
    problem: &'a str,
    provider: Option<ProviderButton<'a>>,
}

fn join_page<'a>(
    state: &'a DashboardState,
    token: &str,
    secret: &str,
    invitation: &'a InvitedTo,
    problem: &'a str,
) -> JoinPage<'a> {
    JoinPage {
        frame: Frame::plain(EN.join, token),
        invitation,
        problem,
        provider: ProviderButton::new(state, &format!("/join/{secret}")),
    }
}

/// The invitation that the path names, with the hash of its secret.
async fn invitation(state: &DashboardState, request: &RequestContext) -> Result<(String, InvitedTo)> {
    state.attempts.link(request.address())?;
    let hash = hash_of(&request.param("secret"));
    let invitation = state.store.invitation(&hash).await?.ok_or_else(gone)?;
    state.attempts.right_link(request.address());
    Ok((hash, invitation))
}

fn gone() -> ApiError {
    ApiError::not_found(EN.join_gone)
}

/// `GET /join/{secret}`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (_, invitation) = invitation(&state, &request).await?;
    let token = &request.visitor()?.form_token;
    page(&join_page(&state, token, &request.param("secret"), &invitation, ""))
}

/// `POST /join/{secret}`
pub async fn join(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (hash, invitation) = invitation(&state, &request).await?;
    let token = request.visitor()?.form_token.clone();
    let secret = request.param("secret");
    let form = Form::read(request).await?;
    let again = |problem: &str| refused(&join_page(&state, &token, &secret, &invitation, problem));
    let password = form.text("password");
    if let Some(problem) = weakness(password, &invitation.email) {
        return again(problem);
    }
    let password_hash = state.passwords.hash(password.to_owned()).await?;
    match state.store.join(&hash, &password_hash).await? {
        Joined::Yes(user) => state.begin(&user, "/transcripts").await,
        Joined::Gone => Err(gone()),
        Joined::Taken => again(EN.join_taken),
        Joined::Full => again(EN.join_full),
    }
}
