//! Parameters of a query. What remains unread and asks for something is refused by its name.

use std::ops::RangeInclusive;

use hyper::Uri;

use crate::http::query;
use crate::http::response::{ApiError, Result};

/// The most parameters of a query.
const MOST: usize = 1_200;

/// The parameters that are not read yet.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// # Errors
    /// 400 for too many.
    pub fn of(uri: &Uri) -> Result<Self> {
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let pairs = pairs.filter(|(_, value)| !value.is_empty()).take(MOST + 1).map(|(name, value)| {
            // Some packages number the values of a list, or mark it with brackets.
            let name = name.split_once('[').map_or(&*name, |(name, _)| name).to_owned();
            (name, value.into_owned())
        });
        let pairs: Vec<_> = pairs.collect();
        if pairs.len() > MOST {
            return Err(ApiError::invalid(format!("The query has more than {MOST} parameters.")));
        }
        Ok(Self(pairs))
    }

    /// All values of a parameter.
    pub fn texts(&mut self, name: &str) -> Vec<String> {
        self.0.extract_if(.., |(known, _)| known == name).map(|(_, value)| value).collect()
    }

    /// The last value of a parameter.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.texts(name).pop()
    }

    /// A flag, which is off if it is left out.
    ///
    /// # Errors
    /// 422 for a value that is neither true nor false.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        let Some(text) = self.text(name) else { return Ok(false) };
        query::truth(&text)
            .ok_or_else(|| ApiError::validation(format!("`{name}` must be true or false; it is {text:?}.")))
    }

    /// A number in a range.
    ///
    /// # Errors
    /// 422 for any other value.
    pub fn number<N>(&mut self, name: &str, range: &RangeInclusive<N>) -> Result<Option<N>>
    where
        N: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse::<N>() {
            Ok(value) if range.contains(&value) => Ok(Some(value)),
            _ => Err(ApiError::validation(format!(
                "`{name}` must be a number, {} to {}; it is {text:?}.",
                range.start(),
                range.end()
            ))),
        }
    }

    /// One of these values.
    ///
    /// # Errors
    /// 422 for any other.
    pub fn choice<T: Copy>(&mut self, name: &str, values: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = values.iter().find(|(known, _)| *known == text).map(|(_, value)| Some(*value));
        found.ok_or_else(|| {
            let names: Vec<&str> = values.iter().map(|(known, _)| *known).collect();
            ApiError::validation(format!("`{name}` must be {}; it is {text:?}.", names.join(" or ")))
        })
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// 400 for a parameter that was not read, unless it is false: nothing is missing then.
    pub fn finish(self) -> Result<()> {
        match self.0.into_iter().find(|(_, value)| query::truth(value) != Some(false)) {
            None => Ok(()),
            Some((name, value)) => Err(ApiError::unsupported_option(format!(
                "`{name}` is not served here, and it is {value:?}: leave it out."
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(query: &str) -> Parameters {
        Parameters::of(&format!("/v1/listen?{query}").parse().unwrap()).unwrap()
    }

    #[test]
    fn values_are_read_by_name() {
        let mut read = parameters("keyterm=a%20b&keyterm[]=c&keyterm[1]=d&diarize=True&utt_split=0.5&model=");
        assert_eq!(read.texts("keyterm"), ["a b", "c", "d"]);
        assert!(read.flag("diarize").unwrap() && !read.flag("diarize").unwrap());
        assert_eq!(read.number("utt_split", &(0.1..=5.0)).unwrap(), Some(0.5));
        assert_eq!(read.text("model"), None);
        read.finish().unwrap();
        parameters("diarize=perhaps").flag("diarize").unwrap_err();
        parameters("utt_split=NaN").number("utt_split", &(0.1..=5.0)).unwrap_err();
        parameters("version=old").choice("version", &[("latest", ())]).unwrap_err();
        assert!(Parameters::of(&format!("/?{}", "a=1&".repeat(2_000)).parse().unwrap()).is_err());
    }

    #[test]
    fn what_is_not_read_is_refused_unless_it_is_off() {
        parameters("topics=false&intents=0").finish().unwrap();
        let refused = parameters("topics=false&intents=true").finish().unwrap_err();
        assert!(refused.message.contains("`intents`") && refused.code == "unsupported_option", "{refused:?}");
    }
}
