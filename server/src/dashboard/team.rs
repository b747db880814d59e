//! The team: who is in it, invitations by a link, and the end of a membership.

use std::sync::Arc;

use askama::Template;

use super::DashboardState;
use super::form::Form;
use super::frame::{Frame, Section, page, private};
use super::shown::Time;
use super::words::EN;
use crate::auth::visitor::{hash_of, new_secret};
use crate::config::url_below;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, see_other};
use crate::ids::{InvitationId, UserId};
use crate::store::{Invited, Letter, Role, SEATS, SignIn, email_address};

#[derive(Template)]
#[template(path = "team.html")]
struct TeamPage {
    frame: Frame,
    is_owner: bool,
    people: Vec<ListedPerson>,
    invitations: Vec<ListedInvitation>,
    seats: i64,
    /// The address that was just invited, with its link.
    new: Option<(String, String)>,
    problem: &'static str,
    sends_mail: bool,
}

struct ListedPerson {
    id: String,
    email: String,
    role: &'static str,
    joined: Time,
    is_owner: bool,
    /// The reader.
    is_self: bool,
}

struct ListedInvitation {
    id: String,
    email: String,
    expires: Time,
}

impl TeamPage {
    async fn new(state: &DashboardState, frame: Frame, sign_in: &SignIn) -> Result<Self> {
        let account = &sign_in.account;
        let people = state.store.people(&account.id).await?.into_iter().map(|person| ListedPerson {
            is_self: person.id == sign_in.user,
            id: person.id.to_string(),
            email: person.email,
            role: if person.role == Role::Owner { EN.role_owner } else { EN.role_member },
            joined: Time::new(person.joined_at),
            is_owner: person.role == Role::Owner,
        });
        // Members do not see whom the owner invites.
        let invitations = if account.by_owner { state.store.invitations(&account.id).await? } else { Vec::new() };
        let invitations = invitations.into_iter().map(|invitation| ListedInvitation {
            id: invitation.id.to_string(),
            email: invitation.email,
            expires: Time::new(invitation.expires_at),
        });
        Ok(Self {
            frame,
            is_owner: account.by_owner,
            people: people.collect(),
            invitations: invitations.collect(),
            seats: SEATS,
            new: None,
            problem: "",
            sends_mail: state.sends_mail,
        })
    }
}

/// `GET /team`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Team, EN.team).await?;
    page(&TeamPage::new(&state, frame, request.visitor()?.signed_in()?).await?)
}

/// `POST /team/invitations`
pub async fn invite(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    request.owned_account()?;
    let frame = Frame::new(&state, &request, Section::Team, EN.team).await?;
    let (sign_in, address) = (request.visitor()?.signed_in()?.clone(), request.address().clone());
    let form = Form::read(request).await?;
    let (mut new, mut problem) = (None, "");
    match email_address(form.text("email")) {
        None => problem = EN.email_wrong,
        Some(email) => {
            // The answer tells whether an address has an account, as that of a sign-up does.
            state.attempts.sign_up(&address)?;
            let secret = new_secret();
            let letter = Letter::Invitation { owner: sign_in.account.email.clone(), secret: secret.clone() };
            if state.sends_mail {
                state.attempts.letter(&address, &email)?;
            }
            let letter = state.sends_mail.then_some(&letter);
            match state.store.invite(&sign_in.account.id, &email, &hash_of(&secret), letter).await? {
                Invited::Yes => {
                    state.notifiers.mails.notify_one();
                    let link = url_below(&state.dashboard_url, &format!("/join/{secret}"));
                    new = Some((email, link.to_string()));
                }
                Invited::Present => problem = EN.invite_present,
                Invited::Taken => problem = EN.invite_taken,
                Invited::TooMany => problem = EN.invite_too_many,
            }
        }
    }
    page(&TeamPage { new, problem, ..TeamPage::new(&state, frame, &sign_in).await? })
}

/// `POST /team/invitations/{invitation_id}/withdraw`
pub async fn withdraw(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.owned_account()?.id.clone();
    let invitation = InvitationId::from(request.param("invitation_id"));
    Form::read(request).await?;
    if !state.store.withdraw_invitation(&account, &invitation).await? {
        return Err(ApiError::not_found(EN.invitation_gone));
    }
    Ok(private(see_other("/team")))
}

/// `POST /team/{user_id}/remove`. The owner removes members, and a member may leave.
pub async fn remove(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (sign_in, user) = (request.visitor()?.signed_in()?.clone(), UserId::from(request.param("user_id")));
    let leaves = user == sign_in.user;
    if !leaves {
        request.owned_account()?;
    }
    Form::read(request).await?;
    if !state.store.remove_member(&sign_in.account.id, &user).await? {
        return Err(ApiError::not_found(EN.member_gone));
    }
    Ok(private(see_other(if leaves { "/login" } else { "/team" })))
}
