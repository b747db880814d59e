//! One-time links that set a password.

use std::sync::Arc;

use askama::Template;

use super::DashboardState;
use super::form::Form;
use super::frame::{Frame, page, refused};
use super::passwords::weakness;
use super::words::EN;
use crate::auth::visitor::hash_of;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result};
use crate::store::PasswordLink;

#[derive(Template)]
#[template(path = "welcome.html")]
pub(super) struct WelcomePage<'a> {
    pub frame: Frame,
    pub email: &'a str,
    pub problem: &'a str,
}

/// The link that the path names.
async fn link(state: &DashboardState, request: &RequestContext) -> Result<(String, PasswordLink)> {
    state.attempts.link(request.address())?;
    let hash = hash_of(&request.param("secret"));
    let link = state.store.password_link(&hash).await?.ok_or_else(|| ApiError::not_found(EN.welcome_gone))?;
    state.attempts.right_link(request.address());
    Ok((hash, link))
}

/// `GET /welcome/{secret}`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (_, link) = link(&state, &request).await?;
    let frame = Frame::plain(EN.welcome, &request.visitor()?.form_token);
    page(&WelcomePage { frame, email: &link.email, problem: "" })
}

/// `POST /welcome/{secret}`
pub async fn set_password(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (hash, link) = link(&state, &request).await?;
    let token = request.visitor()?.form_token.clone();
    let form = Form::read(request).await?;
    let password = form.text("password");
    if let Some(problem) = weakness(password, &link.email) {
        return refused(&WelcomePage { frame: Frame::plain(EN.welcome, &token), email: &link.email, problem });
    }
    let password_hash = state.passwords.hash(password.to_owned()).await?;
    match state.store.set_password(&hash, &password_hash).await? {
        Some(user) => state.begin(&user, "/transcripts").await,
        None => Err(ApiError::not_found(EN.welcome_gone)),
    }
}
