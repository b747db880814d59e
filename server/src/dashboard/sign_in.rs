//! Getting in and out: sign-in, sign-up, sign-out.

use std::sync::Arc;

use askama::Template;
use hyper::header::SET_COOKIE;

use super::DashboardState;
use super::forgot::{self, check_sign_up};
use super::form::Form;
use super::frame::{Frame, page, private, refused};
use super::passwords::{MAX_BYTES, weakness};
use super::provider_button::ProviderButton;
use super::words::EN;
use crate::auth::visitor::{hash_of, new_secret};
use crate::billing::dollars;
use crate::context::RequestContext;
use crate::http::response::{Response, Result, see_other};
use crate::ids::UserId;
use crate::store::{SignUp, email_address};

/// The field of an identity that a right password connects.
const CONNECT: &str = "connect";

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage<'a> {
    frame: Frame,
    email: &'a str,
    next: &'a str,
    problem: &'a str,
    sign_up: bool,
    sends_mail: bool,
    provider: Option<ProviderButton<'a>>,
    /// The identity with which a right password connects the account; empty for none.
    pub connect: &'a str,
}

/// The page for a visitor with this token.
pub(super) async fn sign_in_page<'a>(
    state: &'a DashboardState,
    token: &str,
    email: &'a str,
    next: &'a str,
    problem: &'a str,
) -> Result<SignInPage<'a>> {
    Ok(SignInPage {
        frame: Frame::plain(EN.sign_in, token),
        email,
        next: own_path(next),
        problem,
        sign_up: state.store.may_sign_up(state.sign_up).await?,
        sends_mail: state.sends_mail,
        provider: ProviderButton::new(state, own_path(next)),
        connect: "",
    })
}

#[derive(Template)]
#[template(path = "sign_up.html")]
struct SignUpPage<'a> {
    frame: Frame,
    email: &'a str,
    problem: &'a str,
    credit: String,
    /// The account operates the service, and no other is created here.
    is_first: bool,
    /// The address comes first, and the password with the link of a letter.
    sends_mail: bool,
    provider: Option<ProviderButton<'a>>,
}

/// A path of this dashboard that a sign-in may lead to; the list of transcripts for anything else. A path with two slashes or a
/// backslash would be another host's.
pub(super) fn own_path(next: &str) -> &str {
    let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if next.starts_with('/') && !next.starts_with("//") && plain { next } else { "/transcripts" }
}

impl DashboardState {
    /// Begins a sign-in with a fresh secret, whatever cookie the browser had, and leads to a page.
    pub(super) async fn begin(&self, user: &UserId, next: &str) -> Result<Response> {
        let secret = new_secret();
        self.store.begin_sign_in(user, &hash_of(&secret)).await?;
        let mut response = private(see_other(own_path(next)));
        response.headers_mut().append(SET_COOKIE, self.cookies.of_sign_in(&secret));
        Ok(response)
    }
}

/// `GET /login`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let next = request.query("next").unwrap_or_default();
    let visitor = request.visitor()?;
    if visitor.sign_in.is_some() {
        return Ok(private(see_other(own_path(&next))));
    }
    page(&sign_in_page(&state, &visitor.form_token, "", &next, "").await?)
}

/// `POST /login`
pub async fn sign_in(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (token, address) = (request.visitor()?.form_token.clone(), request.address().clone());
    let form = Form::read(request).await?;
    let email = email_address(form.text("email")).unwrap_or_default();
    state.attempts.sign_in(&address, &email)?;
    let password = form.text("password").to_owned();
    let user = if password.len() > MAX_BYTES { None } else { state.store.user(&email).await? };
    let (id, hash) = user.map(|user| (user.id, user.password_hash)).unzip();
    let is_right = state.passwords.is_right(password.chars().take(MAX_BYTES).collect(), hash).await?;
    match id.filter(|_| is_right) {
        Some(id) => {
            state.attempts.succeeded(&address, &email);
            let connected = state.openid.as_ref().and_then(|provider| provider.connected(form.text(CONNECT), &email));
            if let Some(identity) = connected {
                state.store.connect(&id, &identity).await?;
            }
            state.begin(&id, form.text("next")).await
        }
        // The answer is the same for an unknown address and a wrong password.
        None => {
            let (email, next) = (form.text("email"), form.text("next"));
            let mut again = sign_in_page(&state, &token, email, next, EN.sign_in_wrong).await?;
            again.connect = form.text(CONNECT);
            refused(&again)
        }
    }
}

/// `GET /signup`
pub async fn show_sign_up(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let visitor = request.visitor()?;
    if visitor.sign_in.is_some() {
        return Ok(private(see_other("/transcripts")));
    }
    check_sign_up(&state).await?;
    page(&sign_up_page(&state, &visitor.form_token, "", ""))
}

fn sign_up_page<'a>(state: &'a DashboardState, token: &str, email: &'a str, problem: &'a str) -> SignUpPage<'a> {
    SignUpPage {
        frame: Frame::plain(EN.sign_up, token),
        email,
        problem,
        credit: dollars(state.free_credit_cents),
        is_first: state.sign_up == SignUp::First && state.operation.operators.is_empty(),
        sends_mail: state.sends_mail,
        provider: ProviderButton::new(state, "/transcripts"),
    }
}

/// `POST /signup`
pub async fn sign_up(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    check_sign_up(&state).await?;
    let (token, address) = (request.visitor()?.form_token.clone(), request.address().clone());
    let form = Form::read(request).await?;
    let again = |problem: &'static str| refused(&sign_up_page(&state, &token, form.text("email"), problem));
    let Some(email) = email_address(form.text("email")) else { return again(EN.email_wrong) };
    if state.sends_mail {
        return forgot::send_sign_up(&state, &address, &email).await;
    }
    let password = form.text("password");
    if let Some(problem) = weakness(password, &email) {
        return again(problem);
    }
    state.attempts.sign_up(&address)?;
    let hash = state.passwords.hash(password.to_owned()).await?;
    // Without a letter nothing shows that the address is the visitor's, and this one opens the operator's page.
    if state.operation.is_named(&email) {
        return again(EN.sign_up_taken);
    }
    match state.store.sign_up(state.sign_up, &email, &hash, state.free_credit_cents).await? {
        Some(user) => state.begin(&user, "/transcripts").await,
        None => {
            // Somebody else may have been the first meanwhile.
            check_sign_up(&state).await?;
            again(EN.sign_up_taken)
        }
    }
}

fn signed_out(state: &DashboardState) -> Response {
    let mut response = private(see_other("/login"));
    response.headers_mut().append(SET_COOKIE, state.cookies.without_sign_in());
    response
}

/// `POST /logout`
pub async fn sign_out(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let secret_hash = request.visitor()?.secret_hash.clone();
    Form::read(request).await?;
    state.store.end_sign_in(&secret_hash).await?;
    Ok(signed_out(&state))
}

/// `POST /logout-everywhere`
pub async fn sign_out_everywhere(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let user = request.visitor()?.signed_in()?.user.clone();
    Form::read(request).await?;
    state.store.end_sign_ins(&user).await?;
    Ok(signed_out(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_leads_to_this_dashboard_alone() {
        for own in ["/keys", "/transcripts?q=a%20b&status=error", "/"] {
            assert_eq!(own_path(own), own);
        }
        for other in ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nb", "javascript:1", "/ä"]
        {
            assert_eq!(own_path(other), "/transcripts", "{other}");
        }
    }
}
