//! A request on its way to a handler: the HTTP request, the parameters of its path, and the sender's identity.

use std::ops::RangeInclusive;

use hyper::header::ACCEPT_ENCODING;
use hyper::{HeaderMap, Request, Uri};

use crate::auth::session_token::{AgentClaims, CallClaims, SecretClaims, SessionClaims, StreamClaims};
use crate::auth::visitor::Visitor;
use crate::auth::{Checkout, Identity, UploadUrl};
use crate::http::query;
use crate::http::rate_limits::Client;
use crate::http::request_body::RequestBody;
use crate::http::response::{ApiError, Result};
use crate::store::Account;

/// The most entries of a list page, and how many are sent by default.
const MAX_PAGE: i64 = 100;
const DEFAULT_PAGE: i64 = 20;

/// The decoded parameters of a path, by their names in the route.
pub type PathParams = Vec<(String, String)>;

/// The value of a path parameter; empty if the route has no such parameter.
pub fn path_param(params: &PathParams, name: &str) -> String {
    params.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap_or_default()
}

/// A request that passed authentication and rate limits.
pub struct RequestContext {
    address: Client,
    identity: Identity,
    params: PathParams,
    request: Request<RequestBody>,
}

impl RequestContext {
    /// `address` is the client as its address tells it.
    pub fn new(address: Client, identity: Identity, params: PathParams, request: Request<RequestBody>) -> Self {
        Self { address, identity, params, request }
    }

    /// The client, as its address tells it.
    pub fn address(&self) -> &Client {
        &self.address
    }

    /// The account whose API key or sign-in the request carries.
    ///
    /// # Errors
    /// 401 on other routes.
    pub fn account(&self) -> Result<&Account> {
        match &self.identity {
            Identity::Account(account) => Ok(account),
            Identity::Visitor(visitor) => Ok(&visitor.signed_in()?.account),
            _ => Err(ApiError::unauthorized("This needs an API key.")),
        }
    }

    /// The same, for what is the owner's alone: billing and the team.
    ///
    /// # Errors
    /// 401 as above, and 403 for a member and the key of one.
    pub fn owned_account(&self) -> Result<&Account> {
        let account = self.account()?;
        match account.by_owner {
            true => Ok(account),
            false => Err(ApiError::forbidden("owner_only", format!("{} alone may do this.", account.email))),
        }
    }

    /// The upload that the signed URL names; none if there is no such upload.
    ///
    /// # Errors
    /// If the store could not be read.
    pub fn upload_url(&mut self) -> Result<Option<UploadUrl>> {
        match std::mem::replace(&mut self.identity, Identity::Anonymous) {
            Identity::Upload(upload) => upload,
            _ => Ok(None),
        }
    }

    /// The claims of a valid session token.
    pub fn session_claims(&mut self) -> Option<SessionClaims> {
        match std::mem::replace(&mut self.identity, Identity::Anonymous) {
            Identity::Session(claims) => claims,
            _ => None,
        }
    }

    /// The claims of a valid token of a voice agent.
    pub fn agent_claims(&mut self) -> Option<AgentClaims> {
        match std::mem::replace(&mut self.identity, Identity::Anonymous) {
            Identity::Agent(claims) => claims,
            _ => None,
        }
    }

    /// The claims of a valid address of a telephone call.
    pub fn call_claims(&mut self) -> Option<CallClaims> {
        match std::mem::replace(&mut self.identity, Identity::Anonymous) {
            Identity::Call(claims) => claims,
            _ => None,
        }
    }

    /// The claims of a session of `/v3/ws`.
    ///
    /// # Errors
    /// 401 for a missing, wrong or expired credential.
    pub fn stream_claims(&mut self) -> Result<StreamClaims> {
        match std::mem::replace(&mut self.identity, Identity::Anonymous) {
            Identity::Stream(claims) => claims,
            _ => Err(ApiError::unauthorized("This needs an API key or a token.")),
        }
    }

    /// The claims of a valid client secret.
    pub fn secret_claims(&self) -> Option<&SecretClaims> {
        match &self.identity {
            Identity::Secret(claims) => Some(claims),
            _ => None,
        }
    }

    /// The visitor of a page of the dashboard.
    ///
    /// # Errors
    /// 401 on other routes.
    pub fn visitor(&self) -> Result<&Visitor> {
        match &self.identity {
            Identity::Visitor(visitor) => Ok(visitor),
            _ => Err(ApiError::unauthorized("This is a page of the dashboard.")),
        }
    }

    /// The checkout that the signed URL names.
    ///
    /// # Errors
    /// 404 if it is unknown or expired.
    pub fn checkout(&mut self) -> Result<Checkout> {
        match std::mem::replace(&mut self.identity, Identity::Anonymous) {
            Identity::Checkout(checkout) => checkout,
            _ => Err(ApiError::no_such_path()),
        }
    }

    /// The path parameter that the route calls `name`.
    pub fn param(&self, name: &str) -> String {
        path_param(&self.params, name)
    }

    pub fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    pub fn uri(&self) -> &Uri {
        self.request.uri()
    }

    /// True if the client takes a body that is compressed with gzip.
    pub fn accepts_gzip(&self) -> bool {
        let accepted = self.headers().get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
        accepted.split(',').any(|coding| coding.trim() == "gzip")
    }

    /// The last value of a query parameter that is not empty.
    pub fn query(&self, name: &str) -> Option<String> {
        query::value(self.request.uri(), name)
    }

    /// An integer of the query.
    ///
    /// # Errors
    /// 422 for a value that is not an integer or is out of range.
    pub fn query_integer(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
        query::integer(self.request.uri(), name, range)
    }

    /// A flag of the query.
    ///
    /// # Errors
    /// 422 for a value that is neither true nor false.
    pub fn query_flag(&self, name: &str) -> Result<Option<bool>> {
        query::flag(self.request.uri(), name)
    }

    /// `limit` and `offset` of a list.
    ///
    /// # Errors
    /// As [`Self::query_integer`].
    pub fn page(&self) -> Result<(i64, i64)> {
        let limit = self.query_integer("limit", 1..=MAX_PAGE)?.unwrap_or(DEFAULT_PAGE);
        let offset = self.query_integer("offset", 0..=i64::MAX)?.unwrap_or(0);
        Ok((limit, offset))
    }

    pub fn into_body(self) -> RequestBody {
        self.request.into_body()
    }

    pub fn into_request(self) -> Request<RequestBody> {
        self.request
    }
}
