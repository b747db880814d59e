//! A visitor of the dashboard, as a browser without a script: cookies, forms and their tokens.

use std::collections::BTreeMap;

use reqwest::{Method, RequestBuilder};

use crate::client::{Answer, http};
use crate::service::{Service, unique};

/// The password of visitors.
pub const PASSWORD: &str = "a long sentence";

/// A visitor with cookies.
#[derive(Clone, Debug)]
pub struct Visitor {
    base: String,
    /// The address that the visitor has signed up with.
    pub email: String,
    cookies: BTreeMap<String, String>,
    /// The token of the last page.
    pub token: String,
}

/// The text between two others.
pub(crate) fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

impl Visitor {
    /// Somebody who has not been here before.
    pub fn new(service: &Service) -> Self {
        let email = format!("{}@example.org", unique("visitor"));
        Self { email, ..Self::at(&service.dashboard()) }
    }

    /// A visitor of another site.
    pub(crate) fn at(base: &str) -> Self {
        Self { base: base.to_owned(), email: String::new(), cookies: BTreeMap::new(), token: String::new() }
    }

    /// Somebody with a new account.
    pub fn signed_up(service: &Service) -> Self {
        let mut visitor = Self::new(service);
        visitor.get("/signup");
        let email = visitor.email.clone();
        let answer = visitor.post("/signup", &[("email", &email), ("password", PASSWORD)]);
        assert_eq!(answer.status, 303, "{:?}", answer.body);
        visitor.get("/keys");
        visitor
    }

    /// Signs in as the user of an address.
    pub fn sign_in(&mut self, email: &str, password: &str) -> Answer {
        self.get("/login");
        self.post("/login", &[("email", email), ("password", password)])
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.get(name).map(String::as_str)
    }

    /// Puts a cookie into the browser.
    pub fn set_cookie(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }

    /// A request with the visitor's cookies.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = http().request(method, format!("{}{path}", self.base));
        if cookies.is_empty() { request } else { request.header("cookie", cookies.join("; ")) }
    }

    /// Sends a request and keeps the cookies and the token that come back.
    pub fn send(&mut self, request: RequestBuilder) -> Answer {
        let answer = Answer::of(request);
        for cookie in answer.headers.get_all("set-cookie") {
            let pair = cookie.to_str().expect("a cookie").split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').expect("a name and a value");
            if value.is_empty() {
                self.cookies.remove(name)
            } else {
                self.cookies.insert(name.into(), value.into())
            };
        }
        let page = String::from_utf8_lossy(&answer.body);
        // Pages without a form have none.
        let token = between(&page, "<meta name=\"form-token\" content=\"", "\"");
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            self.token = token.to_owned();
        }
        answer
    }

    /// Opens a page.
    pub fn get(&mut self, path: &str) -> Answer {
        let request = self.request(Method::GET, path).header("accept", "text/html");
        self.send(request)
    }

    /// Sends a form with the token of the last page.
    pub fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.token.clone();
        self.post_with(&token, path, fields)
    }

    /// Sends a form with this token.
    pub fn post_with(&mut self, token: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut form = vec![("form_token", token)];
        form.extend_from_slice(fields);
        let pairs: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let request = self.request(Method::POST, path).header("accept", "text/html");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(pairs.join("&")))
    }

    /// Sends what a script of a page would send.
    pub fn ask(&mut self, path: &str, body: &serde_json::Value) -> Answer {
        let request = self.request(Method::POST, path).header("x-form-token", self.token.clone());
        self.send(request.header("content-type", "application/json").body(body.to_string()))
    }

    /// Invites an address to the visitor's team, and returns the path of the link.
    pub fn invite(&mut self, email: &str) -> String {
        self.get("/team");
        let page = self.post("/team/invitations", &[("email", email)]);
        let link = between(page.text(), "<code id=\"link\" tabindex=\"0\">", "</code>");
        let link = link.unwrap_or_else(|| panic!("no link: {}", page.text()));
        link.strip_prefix(&self.base).expect("a link to the dashboard").to_owned()
    }

    /// A new member of the visitor's team.
    pub fn member(&mut self, service: &Service) -> Self {
        let mut member = Self::new(service);
        let link = self.invite(&member.email.clone());
        member.get(&link);
        assert_eq!(member.post(&link, &[("password", PASSWORD)]).status, 303);
        member.get("/keys");
        member
    }

    /// Creates a key on the page and returns its secret.
    pub fn key(&mut self, name: &str) -> String {
        self.get("/keys");
        let page = self.post("/keys", &[("name", name)]);
        assert_eq!(page.status, 200, "{:?}", page.body);
        between(page.text(), "<code id=\"secret\" tabindex=\"0\">", "</code>").expect("the secret").to_owned()
    }
}

fn escape(value: &str) -> String {
    value
        .bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
